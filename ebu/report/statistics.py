"""Statistics over tasks and runs, after "Deep RL at the edge of the statistical precipice" (Agarwal et al., 2021).

Scores are given by task: ``{"Pong": [run, run, …], …}``, normalised where tasks are to be averaged. Intervals are
percentile bootstraps stratified by task: runs are drawn again within each task, so they say what other seeds would give
on the same tasks. Every function is pure; chance comes from the generator passed in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from ebu.errors import UserError

Floats = NDArray[np.float64]
RunScores = Mapping[str, Sequence[float]]
Statistic = Callable[[Sequence[Floats]], Floats]  # one array [..., runs] per task → [...]


@dataclass(frozen=True)
class Interval:
    """An estimate with its confidence interval."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True)
class Band:
    """The same along an axis: one estimate and interval for each entry of ``at``."""

    at: Floats  # [P]
    estimate: Floats  # [P]
    low: Floats  # [P]
    high: Floats  # [P]


# ---------------------------------------------------------------------- statistics of runs by task


def mean(samples: Sequence[Floats]) -> Floats:
    """Mean over tasks of the mean over runs."""
    return np.mean([sample.mean(-1) for sample in samples], axis=0)


def median(samples: Sequence[Floats]) -> Floats:
    """Median over tasks of the mean over runs, the field's traditional summary."""
    return np.median([sample.mean(-1) for sample in samples], axis=0)


def interquartile_mean(samples: Sequence[Floats]) -> Floats:
    """Mean of the middle half of all runs of all tasks: neither one task nor one lucky run decides it."""
    return np.asarray(stats.trim_mean(np.concatenate(samples, axis=-1), 0.25, axis=-1))


def score(scores: RunScores, statistic: Statistic = interquartile_mean) -> float:
    return float(statistic(_samples(scores)))


def interval(
    scores: RunScores,
    statistic: Statistic = interquartile_mean,
    *,
    rng: np.random.Generator,
    level: float = 0.95,
    resamples: int = 2_000,
) -> Interval:
    """The statistic with its stratified bootstrap interval."""
    samples = _samples(scores)
    low, high = _bootstrap(samples, statistic, rng, level, resamples)
    return Interval(float(statistic(samples)), float(low), float(high))


def interval_over_tasks(
    values: Sequence[float],
    statistic: Statistic = interquartile_mean,
    *,
    rng: np.random.Generator,
    level: float = 0.95,
    resamples: int = 2_000,
) -> Interval:
    """For one value per task (a published table): tasks are drawn again, so it says what other tasks would give."""

    def of_tasks(drawn: Sequence[Floats]) -> Floats:
        return statistic([drawn[0][..., task, None] for task in range(drawn[0].shape[-1])])

    samples = _samples({"tasks": values})
    low, high = _bootstrap(samples, of_tasks, rng, level, resamples)
    return Interval(float(of_tasks(samples)), float(low), float(high))


# ---------------------------------------------------------------------- comparisons


def probability_of_improvement(
    scores: RunScores, baseline: RunScores, *, rng: np.random.Generator, level: float = 0.95, resamples: int = 2_000
) -> Interval:
    """How likely a run beats a run of the baseline on a task drawn at random; ties count half."""
    if set(scores) != set(baseline):
        raise UserError(f"only one of the two has the tasks {', '.join(sorted(set(scores) ^ set(baseline)))}")
    tasks = len(scores)

    def beats(drawn: Sequence[Floats]) -> Floats:
        wins = []
        for ours, theirs in zip(drawn[:tasks], drawn[tasks:]):
            difference = ours[..., :, None] - theirs[..., None, :]
            wins.append(((difference > 0) + 0.5 * (difference == 0)).mean((-2, -1)))
        return np.mean(wins, axis=0)

    samples = _samples(scores) + _samples({task: baseline[task] for task in scores})
    low, high = _bootstrap(samples, beats, rng, level, resamples)
    return Interval(float(beats(samples)), float(low), float(high))


def performance_profile(
    scores: RunScores,
    thresholds: ArrayLike,
    *,
    rng: np.random.Generator,
    level: float = 0.95,
    resamples: int = 2_000,
) -> Band:
    """For each threshold τ the share of runs above it, averaged over tasks."""
    taus = np.asarray(thresholds, np.float64)

    def share_above(drawn: Sequence[Floats]) -> Floats:
        return np.stack([np.mean([(sample > tau).mean(-1) for sample in drawn], axis=0) for tau in taus])

    samples = _samples(scores)
    low, high = _bootstrap(samples, share_above, rng, level, resamples)
    return Band(taus, share_above(samples), low, high)


# ---------------------------------------------------------------------- sample efficiency


def curve(
    steps: Sequence[float],
    scores: Mapping[str, ArrayLike],
    statistic: Statistic = interquartile_mean,
    *,
    rng: np.random.Generator,
    level: float = 0.95,
    resamples: int = 2_000,
) -> Band:
    """The statistic at each step, from curves [runs, P] by task that were evaluated at the same P steps."""
    curves = {task: np.asarray(values, np.float64) for task, values in scores.items()}
    for task, values in curves.items():
        if values.ndim != 2 or values.shape[1] != len(steps):
            raise UserError(f"the curves of {task} have shape {values.shape}, not [runs, {len(steps)}]")
    points = [
        interval(
            {task: values[:, point].tolist() for task, values in curves.items()},
            statistic,
            rng=rng,
            level=level,
            resamples=resamples,
        )
        for point in range(len(steps))
    ]
    estimate, low, high = np.array([[p.estimate, p.low, p.high] for p in points]).reshape(-1, 3).T
    return Band(np.asarray(steps, np.float64), estimate, low, high)


def best_so_far(values: ArrayLike) -> Floats:
    """[..., P] → [..., P]: the best evaluation up to each point; the paper reports the mean over seeds of this."""
    return np.maximum.accumulate(np.asarray(values, np.float64), axis=-1)


def value_at(steps: Sequence[float], values: Sequence[float], at: ArrayLike) -> Floats:
    """The latest value known at each step in ``at`` (NaN before the first), to bring runs to common steps."""
    place = np.searchsorted(np.asarray(steps, np.float64), np.asarray(at, np.float64), side="right") - 1
    return np.where(place >= 0, np.asarray(values, np.float64)[place], np.nan)


def steps_to_reach(steps: Sequence[float], values: Sequence[float], threshold: float) -> float | None:
    """The first step at which a curve is at or above the threshold; None if it never is."""
    return next((float(step) for step, value in zip(steps, values) if value >= threshold), None)


def area_under_curve(steps: Sequence[float], values: Sequence[float]) -> float:
    """Average height of a curve over its steps (trapezoids), so that runs of different length can be compared."""
    if len(steps) < 2:
        raise UserError(f"a curve needs at least two points, not {len(steps)}")
    x, y = np.asarray(steps, np.float64), np.asarray(values, np.float64)
    return float(((y[1:] + y[:-1]) / 2 * np.diff(x)).sum() / (x[-1] - x[0]))


# ---------------------------------------------------------------------- the bootstrap


def _samples(scores: RunScores) -> list[Floats]:
    samples = [np.asarray(runs, np.float64) for runs in scores.values()]
    for task, sample in zip(scores, samples):
        if sample.ndim != 1 or not sample.size or not np.isfinite(sample).all():
            raise UserError(f"the scores of {task} must be a list of finite numbers, one per run, not {scores[task]!r}")
    if not samples:
        raise UserError("there are no scores")
    return samples


def _bootstrap(
    samples: Sequence[Floats], statistic: Statistic, rng: np.random.Generator, level: float, resamples: int
) -> tuple[Floats, Floats]:
    """Percentile interval; each sample is a stratum, drawn again on its own."""
    if min(len(sample) for sample in samples) < 2:
        raise UserError("an interval needs at least two runs of every task; add a seed, or report the estimate alone")

    def of_drawn(*drawn: Floats, axis: int) -> Any:
        return statistic([np.moveaxis(sample, axis, -1) for sample in drawn])

    found = stats.bootstrap(
        tuple(samples),
        of_drawn,
        n_resamples=resamples,
        confidence_level=level,
        method="percentile",
        vectorized=True,
        random_state=rng,
    ).confidence_interval
    return np.asarray(found.low), np.asarray(found.high)
