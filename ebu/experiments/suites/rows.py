"""From run folders to rows: runs, curves, and a method over all tasks of a group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ebu.experiments import plots
from ebu.experiments.suites.columns import Estimate, Row, Runs, are_repeated, fields, number
from ebu.experiments.suites.steps import steps_over
from ebu.experiments.suites.tasks import DQN, Task
from ebu.experiments.sweeps.trials import Trial
from ebu.report.figures import Points, estimate, side_by_side
from ebu.report.rows import Run
from ebu.report.statistics import (
    area_under_curve,
    interval,
    interval_over_tasks,
    mean,
    performance_profile,
    probability_of_improvement,
    score,
    steps_to_reach,
)

Comparing = Callable[[Sequence[Task], Sequence[str], Sequence[Row], int], list[Row]]
"""Tasks, methods, rows of runs and the steps of a run → rows of a comparison over the whole suite."""

LEVELS = (0.25, 0.5, 0.75)  # of the normalised score, to be reached
PROFILE = tuple(round(0.1 * i, 1) for i in range(13))
CURVE_POINTS = 20


def evaluations(run: Run) -> Points:
    return run.points("eval", "mean_reward")


def ceilings_of(tasks: Sequence[Task], found: Sequence[tuple[Task, Trial, Run]]) -> dict[str, float]:
    """Task → the score that counts as 1."""
    scores: dict[str, dict[tuple[str, str], list[float]]] = {}
    for task, one, run in found:
        scores.setdefault(task.env, {}).setdefault((task.name, one.label), []).append(evaluations(run)[-1][1])
    best = {env: max(float(np.mean(values)) for values in methods.values()) for env, methods in scores.items()}
    return {task.name: best.get(task.env, 1.0) if task.ceiling is None else task.ceiling for task in tasks}


def normalised(task: Task, ceiling: float, value: float) -> float:
    """0 for random play, 1 for the ceiling; where no method is above random play there is nothing to divide by."""
    return (value - task.floor) / (ceiling - task.floor) if ceiling > task.floor else 0.0


def run_row(task: Task, one: Trial, run: Run, ceiling: float) -> Row:
    steps, values = (list(column) for column in zip(*evaluations(run)))
    area = area_under_curve(steps, values) if len(steps) > 1 else values[-1]
    levels = [task.floor + level * (ceiling - task.floor) for level in LEVELS]
    # An untrained network may be above a threshold (MinAtar's Freeway is played well by always going up): no method's merit.
    first = sum(step <= one.config().learner.learning_starts for step in steps)
    training = run.points("train", "ep_rew_mean")
    at, table = side_by_side([evaluations(run)])
    kept = _thinned(len(at))
    return {
        "part": "run",
        "trial": one.id,
        "task": task.name,
        "method": one.label,
        "seed": one.seed,
        "final": plots.number(values[-1], 4),
        "area": plots.number(area, 4),
        "final_normalised": plots.number(normalised(task, ceiling, values[-1]), 4),
        "area_normalised": plots.number(normalised(task, ceiling, area), 4),
        "training": plots.number(training[-1][1], 4) if training else None,
        "steps_to": {
            f"{level:g}": steps_to_reach(steps[first:], values[first:], height) for level, height in zip(LEVELS, levels)
        },
        "curve_steps": at[kept].astype(int).tolist(),
        "curve": [plots.number(value, 4) for value in table[0, kept]],
        "seconds": None if run.seconds is None else plots.number(run.seconds, 1),
    }


def curve_rows(tasks: Sequence[Task], methods: Sequence[str], found: Sequence[tuple[Task, Trial, Run]]) -> list[Row]:
    """Mean over seeds with its interval, along the training."""
    rows = []
    for task in tasks:
        for method in methods:
            curves = [evaluations(run) for where, one, run in found if (where, one.label) == (task, method)]
            if not curves:
                continue
            at, table = side_by_side(curves)
            kept = _thinned(len(at))
            places = [estimate(known[np.isfinite(known)], mean, np.random.default_rng(0)) for known in table.T[kept]]
            row: Row = {"part": "curve", "task": task.name, "method": method, "seeds": len(curves)}
            row["steps"] = at[kept].astype(int).tolist()
            for name, values in zip(("mean", "low", "high"), zip(*places)):
                row[name] = [None if value is None else plots.number(value, 4) for value in values]
            rows.append(row)
    return rows


def _thinned(count: int) -> np.ndarray:
    return np.unique(np.linspace(0, count - 1, min(CURVE_POINTS, count)).round().astype(int))


# ---------------------------------------------------------------------- over tasks


def aggregate_row(group: str, tasks: Sequence[Task], method: str, runs: Sequence[Row], steps: int) -> Row:
    """A method over all tasks of a group. Until it has a run of each, it is not compared with those that have."""
    mine = by_task(tasks, method, runs)
    row: Row = {
        "part": "aggregate",
        "group": group,
        "method": method,
        "steps": steps,
        "runs": sum(map(len, mine.values())),
        "tasks": sum(map(bool, mine.values())),
    }
    complete = all(mine.values())
    for name in ("final", "area"):
        row |= _interquartile_mean(name, scores_of(mine, name) if complete else {})
    rivals = by_task(tasks, DQN, runs)
    others = rivals if method != DQN and complete and all(rivals.values()) else None
    row |= fields("beats_dqn", beats(mine, others))
    row |= steps_over("steps_over_dqn", mine, others, {task.name: task.steps(steps) for task in tasks})
    row |= _profile(scores_of(mine, "final") if complete else {})
    everything = [run for found in mine.values() for run in found]
    row["share_reached"] = {
        f"{level:g}": plots.number(np.mean([run["steps_to"][f"{level:g}"] is not None for run in everything]), 4)
        for level in LEVELS
        if everything
    }
    return row


def by_task(tasks: Sequence[Task], method: str, runs: Sequence[Row]) -> dict[str, list[Row]]:
    """Task → the method's runs there. Once every task has some: of the seeds that all tasks have, so that all count alike."""
    mine = {task.name: [run for run in runs if (run["task"], run["method"]) == (task.name, method)] for task in tasks}
    common = set.intersection(*({run["seed"] for run in found} for found in mine.values())) if mine else set()
    return {task: [run for run in found if run["seed"] in common] for task, found in mine.items()} if common else mine


def scores_of(mine: Runs, name: str) -> dict[str, list[float]]:
    """Task → the normalised last scores ("final") or areas ("area") of its runs."""
    return {task: [run[f"{name}_normalised"] for run in found] for task, found in mine.items()}


def _interquartile_mean(name: str, scores: Mapping[str, Sequence[float]]) -> Row:
    """With the interval over seeds (stratified by task) and the one over tasks, which needs no second seed."""
    value = score(scores) if scores else None
    seeds = _over_seeds(scores)
    means = [float(np.mean(found)) for found in scores.values()]
    tasks = interval_over_tasks(means, rng=np.random.default_rng(0)) if len(means) > 1 else None
    return {
        f"{name}_iqm": number(value),
        f"{name}_iqm_low": number(seeds and seeds[0]),
        f"{name}_iqm_high": number(seeds and seeds[1]),
        f"{name}_iqm_other_tasks_low": number(tasks and tasks.low),
        f"{name}_iqm_other_tasks_high": number(tasks and tasks.high),
    }


def _over_seeds(scores: Mapping[str, Sequence[float]]) -> tuple[float, float] | None:
    if not are_repeated(scores):
        return None
    found = interval(scores, rng=np.random.default_rng(0))
    return found.low, found.high


def beats(mine: Runs, theirs: Runs | None) -> Estimate | None:
    """The probability that a run's last score is above one of theirs; known where both have several seeds."""
    if theirs is None or not are_repeated(mine) or not are_repeated(theirs):
        return None
    found = probability_of_improvement(scores_of(mine, "final"), scores_of(theirs, "final"), rng=np.random.default_rng(0))
    return found.estimate, found.low, found.high


def _profile(scores: Mapping[str, Sequence[float]]) -> Row:
    """The share of runs above each of PROFILE, averaged over tasks."""
    if not are_repeated(scores):
        return {"profile": None, "profile_low": None, "profile_high": None}
    band = performance_profile(scores, PROFILE, rng=np.random.default_rng(0), resamples=500)
    names = ("profile", "profile_low", "profile_high")
    return {name: [number(v) for v in values] for name, values in zip(names, (band.estimate, band.low, band.high))}
