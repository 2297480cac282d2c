"""``ebu report``, ``ebu explain`` and ``ebu reproduce``: pages and the paper's items."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from ebu.commands.parsing import parse
from ebu.errors import UserError
from ebu.experiments.item import Item
from ebu.experiments.items import find_item, item_names


@dataclass(frozen=True)
class ReportArguments:
    """One page about one or more runs, finished or not."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Run folders, or folders of run folders."""
    out: Path = Path("report.html")
    """The page to write."""
    title: str = "Report"
    """The page's heading."""
    watch: bool = False
    """Rewrite the page while runs are in progress, until all are finished or Ctrl-C; an open page reloads itself."""
    every: float = 15.0
    """With --watch: seconds between updates of the page."""


@dataclass(frozen=True)
class ExplainArguments:
    """A page that plays one episode backward, with numbers computed by the package's target rules."""

    out: Path = Path("explain.html")


@dataclass(frozen=True)
class ReproduceArguments:
    """One of the paper's items: rows, a picture, a table with the published numbers beside ours, a page."""

    item: Annotated[
        str, tyro.conf.Positional, tyro.conf.arg(metavar="ITEM", help=f"{', '.join(item_names())}, or module:ITEM")
    ]
    budget: Literal["quick", "laptop", "full"] = "quick"
    """Minutes, a night on two cores, or the paper's own numbers of games, seeds and steps."""
    out: Path | None = None
    """Folder to write; by default results/ITEM. Trials are in its subfolder trials; the same command again resumes them."""
    seed: int = 0
    partial: bool = False
    """Train nothing: make the item from the trials finished so far, here or in a sibling folder; others may still run."""
    engine: Literal["local", "ray"] = "local"
    """Where trials run: processes on this machine, or a Ray cluster."""
    workers: int = 0
    """Trials in parallel; 0: one for each core, on a cluster as many as it has room for."""
    address: str = ""
    """Address of a Ray cluster ("auto", "host:6379", "ray://host:10001"); without it, --engine ray starts one here."""
    cpus_per_trial: float = 1.0
    """CPUs for each trial on a Ray cluster."""
    gpus_per_trial: float = 0.0
    """GPUs for each trial on a Ray cluster; may be a fraction."""
    store: str = ""
    """Object store that keeps a copy of all results (s3://bucket/path, gs://…, file:///…)."""


def report(arguments: list[str]) -> int:
    from ebu.report.page import build_page

    args = parse(ReportArguments, arguments, "ebu report")
    if not args.runs:
        raise UserError("ebu report needs one or more run folders")
    if args.every < 1:
        raise UserError(f"--every must be at least 1 second, got {args.every:g}")
    if args.watch:
        watch(lambda seconds: build_page(list(args.runs), args.out, args.title, reload_seconds=seconds), args.runs, args.every)
    path = build_page(list(args.runs), args.out, args.title)
    print(f"wrote {path}")
    return 0


def watch(write: Callable[[int], Path], runs: Sequence[Path], every: float) -> None:
    """Write a page that reloads itself while a run is in progress, or until Ctrl-C; the caller writes the last one."""
    from ebu.report.rows import find_runs
    from ebu.storage.finished import is_finished

    with suppress(KeyboardInterrupt):
        while going := [path for path in find_runs(runs) if not is_finished(path)]:
            path = write(math.ceil(every))
            many = f"{len(going)} run{'s' * (len(going) > 1)}"
            print(f"{time.strftime('%H:%M:%S')} wrote {path}: {many} not finished (Ctrl-C to stop)", flush=True)
            time.sleep(every)


def explain(arguments: list[str]) -> int:
    from ebu.experiments.explain_data import scenes
    from ebu.report.explain import build_explainer

    args = parse(ExplainArguments, arguments, "ebu explain")
    print(f"wrote {build_explainer(args.out, scenes())}")
    return 0


def reproduce(arguments: list[str]) -> int:
    from ebu.experiments.sweeps.store import Store
    from ebu.training.progress import duration

    args = parse(ReproduceArguments, arguments, "ebu reproduce")
    item = find_item(args.item)
    out = args.out or Path("results") / item.name
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write to {out}: {error.strerror}; choose another --out folder") from error
    if item.run is None:
        rows = _train_and_analyse(item, args, out)
    elif args.partial:
        raise UserError(f"{item.name} trains nothing, so --partial does not apply; leave it out")
    else:
        print(f"{item.name}, budget {args.budget}: about {duration(item.seconds[args.budget])}", flush=True)
        rows = item.run(args.budget, out, args.seed)
    files = sorted(path for path in out.iterdir() if path.is_file())
    if args.store:
        store = Store(f"{args.store.rstrip('/')}/{item.name}")
        for path in files:
            store.put(path)
    print(f"{item.name}: {len(rows)} rows in {out} ({', '.join(path.name for path in files)})")
    return 0


def _train_and_analyse(item: Item, args: ReproduceArguments, out: Path) -> list[dict[str, Any]]:
    from ebu.experiments.sweeps.adoption import adopt_finished
    from ebu.experiments.sweeps.engine import make_engine, run_trials

    assert item.trials is not None and item.analyse is not None  # an item without run has both
    trials = item.trials(args.budget, args.seed)
    if args.partial:
        return _analyse_finished(item, args, trials, out)
    resources = {"cpus_per_trial": args.cpus_per_trial, "gpus_per_trial": args.gpus_per_trial}
    engine = make_engine(args.engine, args.workers, args.address, args.store, **resources)
    adopt_finished(trials, out)
    print(f"{item.name}, budget {args.budget}: {_plan(trials, out, args)}", flush=True)
    folders = run_trials(trials, out, engine)
    return list(item.analyse(args.budget, trials, folders, out))


def _analyse_finished(item: Item, args: ReproduceArguments, trials: list[Any], out: Path) -> list[dict[str, Any]]:
    """The item from what there is of its trials."""
    from ebu.experiments.sweeps.adoption import finished_folders

    assert item.analyse is not None
    folders = finished_folders(trials, out)
    there = [one for one in trials if one.id in folders]
    if trials and not there:
        raise UserError(
            f"none of the {len(trials)} trials of {item.name} is finished in {out / 'trials'} or beside it; "
            "run the command without --partial to train them"
        )
    print(f"{item.name}, budget {args.budget}: {len(there)} of {len(trials)} trials are finished", flush=True)
    return list(item.analyse(args.budget, there, [folders[one.id] for one in there], out))


def _plan(trials: list[Any], out: Path, args: ReproduceArguments) -> str:
    """How many trials there are, how many are left, and how long they will take."""
    from ebu.experiments.sweeps.local_engine import cores
    from ebu.experiments.sweeps.sweep import Sweep
    from ebu.training.progress import duration

    if not trials:
        return "nothing to train"
    jobs = Sweep.of(trials, out).jobs
    missing = [job for job in jobs if job.state == "waiting"]
    words = f"{len(jobs)} trials, {len(jobs) - len(missing)} of them finished"
    if not missing:
        return words
    seconds = sum(job.left() for job in missing)
    if args.address and not args.workers:
        return f"{words}; the others take about {duration(seconds)} on one core"
    workers = min(args.workers or cores(), len(missing))
    longest = max(job.left() for job in missing)
    return f"{words}; the others take about {duration(max(seconds / workers, longest))}, {workers} at a time"
