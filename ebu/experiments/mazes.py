"""The MNIST maze of section 5.1: its methods, its trials, and relative lengths out of run folders.

Every method is trained on the same mazes with the same network, steps, updates and settings; only sampler and target
rule differ. The paper does not say when a path is measured. By its numbers it is the latest training episode, ε and all
(see docs/deviations.md); the greedy path is kept beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ebu.experiments import output, plots
from ebu.experiments.sweeps.trials import Trial, in_rounds, trial
from ebu.presets import configure
from ebu.report.figures import Points, estimate, median_of_runs, side_by_side
from ebu.report.rows import Run, read_run
from ebu.report.statistics import Statistic, mean, value_at

CURVE_POINTS = 60  # of one row
WINDOW = 10  # training episodes, one on record for every 1,000 steps
STATISTICS: dict[str, Statistic] = {"mean": mean, "median": median_of_runs}

EBU, ONE_STEP, N_STEP = "EBU (β=1)", "One-step DQN", "N-step DQN"
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    EBU: ("ebu", {"beta": 1.0}),
    ONE_STEP: ("dqn", {}),
    N_STEP: ("n-step", {"n_steps": "episode"}),
}


def ebu(*betas: float) -> dict[str, tuple[str, dict[str, Any]]]:
    """EBU with these diffusion factors, as METHODS has it with β = 1."""
    return {f"EBU (β={beta:g})": ("ebu", {"beta": beta}) for beta in betas}


LOOK = {
    EBU: (plots.BLUE, "-"),
    "EBU (β=0.75)": (plots.GREEN, "-"),
    "EBU (β=0.5)": (plots.SKY, "-"),
    "EBU (β=0.25)": (plots.PINK, "-"),
    ONE_STEP: (plots.VERMILION, "--"),
    N_STEP: (plots.ORANGE, "-."),
}


@dataclass(frozen=True)
class MazeKind:
    """One kind of maze."""

    density: float
    slip: float = 0.0

    @property
    def title(self) -> str:
        return f"{100 * self.density:.0f} % walls" + f", each side move {100 * self.slip:.0f} %" * bool(self.slip)

    def arguments(self, maze: int) -> tuple[str, ...]:
        return (f"wall_density={self.density}", f"maze_seed={maze}", *([f"slip={self.slip}"] if self.slip else []))


def trials_in(kind: MazeKind, methods: Iterable[str], mazes: int, seed: int, **settings: Any) -> list[Trial]:
    """Each method on the same mazes, one agent each."""
    found = []
    for label in methods:
        algo, own = (METHODS | ebu(0.25, 0.5, 0.75))[label]
        for maze in range(seed, seed + mazes):
            found.append(trial(algo, "maze", maze, label, env_args=kind.arguments(maze), **own, **settings))
    return found


def by_maze(trials: Iterable[Trial]) -> list[Trial]:
    """A round for each maze: whatever is finished, every method and density has been tried on about as many mazes."""
    return in_rounds(trials, lambda one: one.seed)


def easier_task(settings: dict[str, Any], full: dict[str, Any]) -> str:
    """What the quick preset changes, in words."""
    quick = configure("ebu", "maze", settings["preset"])
    return (
        f"an easier task, the {settings['preset']} preset: digits fixed for each maze, a small network, the goal's reward "
        f"clipped to {quick.environment.reward_clip:g}, {settings['steps']:,} steps instead of {full['steps']:,}. The same "
        "for all methods; with fixed digits one-step DQN is about as fast as EBU, with redrawn digits it is not."
    )


def kind_of(one: Trial) -> MazeKind:
    arguments = dict(pair.split("=") for pair in dict(one.settings)["env_args"])
    return MazeKind(float(arguments["wall_density"]), float(arguments.get("slip", 0.0)))


def grouped(trials: Sequence[Trial], folders: Sequence[Path]) -> dict[tuple[MazeKind, str], list[tuple[Trial, Run]]]:
    """The finished runs by kind and method, in the order of the trials."""
    found: dict[tuple[MazeKind, str], list[tuple[Trial, Run]]] = {}
    for one, folder in zip(trials, folders):
        run = read_run(folder)
        if run.state == "finished":
            found.setdefault((kind_of(one), one.label), []).append((one, run))
    return found


def training_lengths(run: Run) -> Points:
    """(step, relative length of the latest finished training episode)."""
    return run.points("train", "relative_length")


def greedy_lengths(run: Run) -> Points:
    return run.points("eval", "relative_lengths")


def known_at(points: Points, step: float) -> float | None:
    """The latest value at a step, such as a relative length; None before the first one."""
    if not points:
        return None
    steps, values = zip(*points)
    value = float(value_at(steps, values, [step])[0])
    return None if np.isnan(value) else value


def steps_to_twice_the_shortest(points: Points) -> float | None:
    """The first step at which half of the latest ten training episodes on record take at most twice the shortest path."""
    return next((step for step, length in of_the_latest_ten(points) if length <= 2), None)


def of_the_latest_ten(points: Points) -> Points:
    """(step, median of the latest ten lengths): one episode alone says little, as exploration prolongs it by chance."""
    lengths = [value for _, value in points]
    return [(points[i - 1][0], float(np.median(lengths[i - WINDOW : i]))) for i in range(WINDOW, len(points) + 1)]


def over_mazes(name: str, values: Iterable[float | None]) -> dict[str, Any]:
    """Mean and median with their 95 % bootstrap intervals over mazes, as fields of a row; None where nothing is known."""
    known = [value for value in values if value is not None]
    row: dict[str, Any] = {}
    for which, statistic in STATISTICS.items():
        found = estimate(known, statistic, np.random.default_rng(0)) if known else (None, None, None)
        fields = (f"{name}_{which}", f"{name}_{which}_low", f"{name}_{which}_high")
        row |= {field: None if value is None else plots.number(value, 4) for field, value in zip(fields, found)}
    return row


def shown(row: dict[str, Any], field: str) -> str:
    """Such a number for a table, with its interval."""
    return output.with_interval(row[field], row[f"{field}_low"], row[f"{field}_high"])


def curve_row(kind: MazeKind, method: str, runs: Sequence[Run]) -> dict[str, Any]:
    """Curves of one kind of maze."""
    about = {"part": "curve", "wall_density": kind.density, "slip": kind.slip, "method": method, "mazes": len(runs)}
    training = over_the_training("training", [training_lengths(run) for run in runs])
    return about | training | over_the_training("greedy", [greedy_lengths(run) for run in runs])


def pooled_rows(
    cells: Mapping[tuple[MazeKind, str], Sequence[tuple[Trial, Run]]], methods: Sequence[str]
) -> list[dict[str, Any]]:
    """The deterministic mazes of all densities together, those that every one of these methods has finished."""
    found: dict[str, dict[tuple[MazeKind, int], Run]] = {method: {} for method in methods}
    for (kind, method), pairs in cells.items():
        if not kind.slip and method in found:
            found[method] |= {(kind, one.seed): run for one, run in pairs}
    common = set.intersection(*map(set, found.values()))
    rows = []
    for method, runs in found.items():
        chosen = [run for place, run in runs.items() if place in common]
        reached = [steps_to_twice_the_shortest(training_lengths(run)) for run in chosen]
        about = {"part": "pooled", "method": method, "mazes": len(chosen), "steps_to_twice_the_shortest": reached}
        rows.append(about | over_the_training("latest_ten", [of_the_latest_ten(training_lengths(run)) for run in chosen]))
    return rows


def over_the_training(name: str, curves: Sequence[Points]) -> dict[str, Any]:
    """Median and mean over mazes along the training, as fields of a row."""
    known = [curve for curve in curves if curve]
    at, table = side_by_side(known) if known else (np.empty(0), np.empty((0, 0)))
    kept = np.unique(np.linspace(0, len(at) - 1, min(CURVE_POINTS, len(at))).round().astype(int))
    places = [over_mazes(name, column[np.isfinite(column)]) for column in table.T[kept]] if known else []
    row: dict[str, Any] = {f"{name}_steps": at[kept].astype(int).tolist()}
    for field in (f"{name}_median", f"{name}_median_low", f"{name}_median_high", f"{name}_mean"):
        row[field] = [place[field] for place in places]
    return row
