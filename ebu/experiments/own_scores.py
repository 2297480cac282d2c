"""Our own Atari runs as columns beside the paper's: mean over seeds of the best test so far, by game.

Runs are taken from results/atari below the working folder and from the item's own trials. A run of more than 10M frames
also gives a column at 10M, since it is the same run up to there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ebu.envs.atari_games import find_game
from ebu.experiments import atari, output
from ebu.experiments.item import Item
from ebu.experiments.sweeps.trials import Trial
from ebu.report.groups import order_of
from ebu.report.rows import Run
from ebu.report.scores import Aggregate, aggregate, human_normalised_scores

COMMITTED = Path("results/atari")
ALGORITHMS = {algo: label for label, (algo, _) in atari.METHODS.items() if algo != "ebu"}


@dataclass(frozen=True)
class Column:
    """One of our methods after so many steps."""

    method: str  # as the paper calls it
    algo: str
    preset: str
    steps: int
    runs: Mapping[str, Sequence[float]]  # best score so far of each seed, by game
    seconds_per_step: float | None = field(compare=False)

    @property
    def name(self) -> str:
        seeds = {len(runs) for runs in self.runs.values()}
        many = str(min(seeds)) if len(seeds) == 1 else f"{min(seeds)} to {max(seeds)}"
        preset = "" if self.preset == "paper" else f", {self.preset} preset"
        return f"ours: {self.method}, {atari.frames(self.steps)} frames, {many} seed{'s' * (many != '1')}{preset}"

    @property
    def scores(self) -> dict[str, float]:
        return {name: float(np.mean(found)) for name, found in self.runs.items()}

    def normalised(self) -> Aggregate:
        return aggregate(human_normalised_scores(self.scores).values())

    @property
    def published(self) -> str | None:
        """The paper's column to compare with."""
        if self.method == atari.ADAPTIVE and self.steps >= atari.STEPS_20M:
            return "adaptive_ebu_20M"
        return atari.PUBLISHED.get(self.method)

    def hours_for_the_paper(self) -> float | None:
        """49 games of 10M frames at the speed that was measured."""
        return None if self.seconds_per_step is None else 49 * atari.STEPS_10M * self.seconds_per_step / 3600


def own_runs(out: Path, folders: Sequence[Path] = ()) -> list[Path]:
    """The trials of this call, those of earlier ones, and the committed runs."""
    return list(dict.fromkeys([*folders, *output.runs_below(out / "trials", COMMITTED)]))


def columns(runs: Iterable[Run]) -> list[Column]:
    """By method and length, in the order in which reports show methods."""
    found: dict[tuple[str, str, str, int], dict[str, list[Run]]] = {}
    for run in runs:
        game = find_game(run.env)
        if game is None or run.state != "finished" or not run.points("eval", "mean_reward"):
            continue
        ends = {run.step} | ({atari.STEPS_10M} if run.step > atari.STEPS_10M else set())
        for end in ends:
            key = (method_of(run), run.algo, str(run.settings.get("preset")), end)
            found.setdefault(key, {}).setdefault(game.name, []).append(run)
    made = [_column(*key, by_game) for key, by_game in found.items()]
    return sorted(made, key=lambda column: (-column.steps, column.preset, order_of(column.algo), column.method))


def _column(method: str, algo: str, preset: str, steps: int, by_game: dict[str, list[Run]]) -> Column:
    best = {
        name: [score for run in by_game[name] if (score := atari.best_until(run, steps)) is not None]
        for name in sorted(by_game)
    }
    speeds = [run.seconds / run.step for runs in by_game.values() for run in runs if run.seconds is not None]
    return Column(method, algo, preset, steps, best, float(np.mean(speeds)) if speeds else None)


def method_of(run: Run) -> str:
    if run.algo == "ebu":
        return f"EBU (β={float(run.settings.get('beta', 0.5)):g})"
    return ALGORITHMS.get(run.algo, run.algo)


def note(folders: Sequence[Path], ours: Sequence[Column]) -> str:
    """Which runs our columns come from."""
    if not ours:
        return (
            "The published columns are the paper's raw scores; nothing was trained for this page. The budgets laptop and full "
            "train, and runs under results/atari are added as they are found."
        )
    shortest = min(column.steps for column in ours)
    few = f" Ours are as short as {atari.frames(shortest)} frames: compare with care." if shortest < atari.STEPS_10M else ""
    return f"The published columns are the paper's raw scores; ours come from {output.several(len(folders), 'run')}.{few}"


def write(
    item: Item,
    out: Path,
    rows: list[dict[str, Any]],
    tables: Sequence[output.Table],
    budget: str,
    trials: Sequence[Trial],
    runs: Sequence[Path],
    ours: Sequence[Column],
) -> list[dict[str, Any]]:
    """An item of the paper's scores beside our columns, which are of these runs; returns the rows."""
    words = note(runs, ours)
    return output.write_trained(item, out, rows, tables, budget, trials, runs, note=words, paper=True)
