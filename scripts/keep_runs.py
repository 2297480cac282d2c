"""Finished runs of experiments → results/: ``python -m scripts.keep_runs FOLDER...``

Each finished trial below the folders is copied once, to the first item whose budget ``laptop`` has it: settings, rows, summary
and versions, of the timing the last line. Then all items that have one of them are made again from what is finished.
``make results`` does the rest.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from ebu.cli import main as ebu
from ebu.experiments.items import find_item
from ebu.storage.finished import is_finished

RESULTS = Path(__file__).parent.parent / "results"
BUDGET = "laptop"
# Items that are alike share trials: each is stored with the first of these.
TRAINED = ("table1", "figure2", "minatar", "delay", "values", "minigrid", "overestimation", "beyond", "beyond-judging")
KEPT = ("config.json", "metrics.jsonl", "summary.json", "versions.json")
TIMING = "timing.jsonl"


def homes(items: Sequence[str] = TRAINED) -> dict[str, list[str]]:
    """Trial → the items that have it."""
    found: dict[str, list[str]] = {}
    for name in items:
        trials = find_item(name).trials
        assert trials is not None  # these items train
        for one in dict.fromkeys(trial.id for trial in trials(BUDGET)):
            found.setdefault(one, []).append(name)
    return found


def finished_below(folders: Iterable[Path]) -> list[Path]:
    return sorted(path.parent for folder in folders for path in folder.rglob("summary.json") if is_finished(path.parent))


def keep(run: Path, target: Path) -> None:
    """Copy of a finished run what its rows are made from: all of it or nothing, since what is there is never copied again."""
    half = target.with_name(f"{target.name}.part")
    half.mkdir(parents=True, exist_ok=True)
    for name in KEPT:
        shutil.copyfile(run / name, half / name)
    last = (run / TIMING).read_text(encoding="utf-8").splitlines()[-1:]
    (half / TIMING).write_text("".join(f"{line}\n" for line in last), encoding="utf-8")
    half.rename(target)


def keep_all(runs: Iterable[Path], results: Path, items: dict[str, list[str]]) -> tuple[list[str], list[str]]:
    """The items that have one of the runs, new here; and the runs that belong to no item."""
    kept = {path.name for path in results.glob("*/trials/*")}
    changed: dict[str, None] = {}
    strangers = []
    for run in runs:
        if run.name not in items:
            strangers.append(run.name)
        elif run.name not in kept:
            keep(run, results / items[run.name][0] / "trials" / run.name)
            kept.add(run.name)
            changed |= dict.fromkeys(items[run.name])
    return list(changed), strangers


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path)
    changed, strangers = keep_all(finished_below(parser.parse_args().folders), RESULTS, homes())
    for name in strangers:
        print(f"{name} is no trial of {', '.join(TRAINED)} with budget {BUDGET}: left out")
    commands = [["reproduce", item, "--budget", BUDGET, "--partial", "--out", str(RESULTS / item)] for item in changed]
    failed = [shlex.join(["ebu", *command]) for command in commands if ebu(command) != 0]
    if failed:
        sys.exit("\n".join(("the runs are kept, but these items were not made again; run", *failed)))


if __name__ == "__main__":
    main()
