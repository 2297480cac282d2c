"""The steps a method needs compared with another: the ratio of steps to the thresholds, by the protocol of docs/beyond.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ebu.experiments.suites.columns import Row, Runs, are_repeated, fields

Floats = NDArray[np.float64]
Pair = tuple[Floats, Floats, float]  # of a task: our steps to the thresholds, theirs, and the steps of a run

RESAMPLES = 1_000


def over(mine: Runs, theirs: Runs, limits: Mapping[str, int]) -> float | None:
    """The geometric mean over tasks and thresholds of our steps over theirs."""
    return _geometric_mean(_ratios(_pairs(mine, theirs, limits)))


def steps_over(name: str, mine: Runs, theirs: Runs | None, limits: Mapping[str, int]) -> Row:
    """The geometric mean over tasks and thresholds of our steps over theirs, and how many thresholds neither reached."""
    if theirs is None:
        return {**fields(name, None), f"{name}_thresholds": None, f"{name}_left_out": None}
    pairs = _pairs(mine, theirs, limits)
    ratios = _ratios(pairs)
    low, high = _interval_of_ratio(pairs) if are_repeated(mine) and are_repeated(theirs) else (None, None)
    counts = {f"{name}_thresholds": int(np.isfinite(ratios).sum()), f"{name}_left_out": int(np.isnan(ratios).sum())}
    return {**fields(name, (_geometric_mean(ratios), low, high)), **counts}


def _pairs(mine: Runs, theirs: Runs, limits: Mapping[str, int]) -> list[Pair]:
    return [(_reached(mine[task]), _reached(theirs[task]), limit) for task, limit in limits.items()]


def _ratios(pairs: Sequence[Pair]) -> Floats:
    return np.concatenate([steps_ratios(ours, theirs, limit) for ours, theirs, limit in pairs])


def _reached(runs: Sequence[Row]) -> Floats:
    """Steps to each threshold by run, [runs, thresholds]; infinite where it is not reached."""
    return np.array([[np.inf if step is None else step for step in run["steps_to"].values()] for run in runs])


def steps_ratios(ours: Floats, theirs: Floats, limit: float) -> Floats:
    """Median steps of ours over theirs, by threshold; NaN where neither reaches it.

    If the rival does not reach it, it counts as needing all steps of the run, the least it can need; if our method does not,
    as needing twice that.
    """
    us, them = np.median(ours, axis=0), np.median(theirs, axis=0)
    neither = np.isinf(us) & np.isinf(them)
    ratio = np.where(np.isinf(us), 2.0 * limit, us) / np.where(np.isinf(them), limit, them)
    return np.where(neither, np.nan, ratio)


def _geometric_mean(ratios: Floats) -> float | None:
    known = ratios[np.isfinite(ratios)]
    return float(np.exp(np.log(known).mean())) if known.size else None


def _interval_of_ratio(pairs: Sequence[Pair]) -> tuple[float | None, float | None]:
    """The 95 % percentile interval over seeds, drawn again within each task and for each of the two methods."""
    rng = np.random.default_rng(0)

    def drawn(runs: Floats) -> Floats:
        return runs[rng.integers(len(runs), size=len(runs))]

    samples = (
        _geometric_mean(_ratios([(drawn(us), drawn(them), limit) for us, them, limit in pairs])) for _ in range(RESAMPLES)
    )
    known = [sample for sample in samples if sample is not None]
    if not known:
        return None, None
    low, high = np.quantile(known, (0.025, 0.975))
    return float(low), float(high)
