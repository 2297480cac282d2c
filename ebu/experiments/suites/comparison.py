"""One method against the better of EBU and Peng's Q(λ) over a whole suite, by the protocol of docs/beyond.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ebu.experiments import output, plots
from ebu.experiments.suites.rows import Row, are_repeated, by_task, number
from ebu.experiments.suites.tasks import DELAYED, DQN, RIVALS, Task, is_rival
from ebu.report.statistics import interquartile_mean, interval, probability_of_improvement, score

Floats = NDArray[np.float64]
Runs = Mapping[str, Sequence[Row]]  # by task
Pair = tuple[Floats, Floats, float]  # of a task: our steps to the thresholds, theirs, and the steps of a run

RESAMPLES = 1_000
AT_MOST_HALF, FASTER, NOT_SHOWN = "half the steps", "faster", "not shown to be faster"


def compare(tasks: Sequence[Task], methods: Sequence[str], runs: Sequence[Row], steps: int) -> list[Row]:
    """A row for each method that has a run: its area, and its steps and scores over those of the rival and of DQN."""
    limits = {task.name: task.settings.get("steps", steps) for task in tasks}
    by_method = {method: by_task(tasks, method, runs) for method in methods}
    complete = {method: mine for method, mine in by_method.items() if all(mine.values())}
    rival = _rival(complete, limits)
    rows = []
    for method, mine in by_method.items():
        has_all = method in complete
        row: Row = {
            "part": "comparison",
            "method": method,
            "rival": rival,
            "tasks": sum(map(bool, mine.values())),
            "runs": sum(map(len, mine.values())),
            **_fields("area_iqm", _area_interval(mine) if has_all else None),
        }
        for name, other in (("rival", rival), ("dqn", DQN)):
            theirs = complete.get(other) if other is not None and other != method and has_all else None
            row |= _steps_over(f"steps_over_{name}", mine, theirs, limits)
            row |= _fields(f"beats_{name}", _beats(mine, theirs))
        row |= _fields("delayed_share", _delayed_share(mine) if has_all else None)
        seconds = [run["seconds"] for found in mine.values() for run in found if run["seconds"] is not None]
        row["seconds"] = plots.number(np.mean(seconds), 1) if seconds else None
        rows.append(row)
    return rows


def _rival(complete: Mapping[str, Runs], limits: Mapping[str, int]) -> str | None:
    """EBU or Peng's Q(λ), each with the value of the largest area: the one that needs fewer of DQN's steps."""
    best = [
        max((value for value in complete if is_rival(value, values)), key=lambda value: area(complete[value]), default=None)
        for values in RIVALS
    ]
    found = [value for value in best if value is not None]
    if len(found) < 2 or DQN not in complete:
        return max(found, key=lambda value: area(complete[value]), default=None)

    def over_dqn(value: str) -> float:
        ratio = _geometric(_ratios(_pairs(complete[value], complete[DQN], limits)))
        return np.inf if ratio is None else ratio

    return min(found, key=lambda value: (over_dqn(value), -area(complete[value])))


def area(mine: Runs) -> float:
    """By which the best value of a method is chosen."""
    return score(_scores(mine, "area_normalised"))


Estimate = tuple[float | None, float | None, float | None]  # with the ends of its interval, where there are seeds enough


def _fields(name: str, found: Estimate | None) -> Row:
    values = (None, None, None) if found is None else found
    return {key: number(value) for key, value in zip((name, f"{name}_low", f"{name}_high"), values)}


def _scores(mine: Runs, name: str) -> dict[str, list[float]]:
    return {task: [run[name] for run in found] for task, found in mine.items()}


def _area_interval(mine: Runs) -> Estimate:
    if not are_repeated(mine):
        return area(mine), None, None
    found = interval(_scores(mine, "area_normalised"), rng=np.random.default_rng(0))
    return found.estimate, found.low, found.high


def _beats(mine: Runs, theirs: Runs | None) -> Estimate | None:
    if theirs is None or not are_repeated(mine) or not are_repeated(theirs):
        return None
    ours, others = (_scores(who, "final_normalised") for who in (mine, theirs))
    found = probability_of_improvement(ours, others, rng=np.random.default_rng(0))
    return found.estimate, found.low, found.high


# ---------------------------------------------------------------------- steps to the thresholds


def _steps_over(name: str, mine: Runs, theirs: Runs | None, limits: Mapping[str, int]) -> Row:
    """The geometric mean over tasks and thresholds of our steps over theirs, and how many thresholds nobody reached."""
    if theirs is None:
        return {**_fields(name, None), f"{name}_thresholds": None, f"{name}_left_out": None}
    pairs = _pairs(mine, theirs, limits)
    ratios = _ratios(pairs)
    low, high = _interval_of_ratio(pairs) if are_repeated(mine) and are_repeated(theirs) else (None, None)
    counts = {f"{name}_thresholds": int(np.isfinite(ratios).sum()), f"{name}_left_out": int(np.isnan(ratios).sum())}
    return {**_fields(name, (_geometric(ratios), low, high)), **counts}


def _pairs(mine: Runs, theirs: Runs, limits: Mapping[str, int]) -> list[Pair]:
    return [(reached(mine[task]), reached(theirs[task]), limit) for task, limit in limits.items()]


def _ratios(pairs: Sequence[Pair]) -> Floats:
    return np.concatenate([steps_ratios(ours, theirs, limit) for ours, theirs, limit in pairs])


def reached(runs: Sequence[Row]) -> Floats:
    """Steps to each threshold by run, [runs, thresholds]; infinite where it is not reached."""
    return np.array([[np.inf if step is None else step for step in run["steps_to"].values()] for run in runs])


def steps_ratios(ours: Floats, theirs: Floats, limit: float) -> Floats:
    """Median steps of ours over theirs, by threshold; NaN where neither reaches it.

    Who does not reach it counts with the least it can need, all steps of the run, where it is the rival; with twice that,
    where it is us.
    """
    us, them = np.median(ours, axis=0), np.median(theirs, axis=0)
    neither = np.isinf(us) & np.isinf(them)
    ratio = np.where(np.isinf(us), 2.0 * limit, us) / np.where(np.isinf(them), limit, them)
    return np.where(neither, np.nan, ratio)


def _geometric(ratios: Floats) -> float | None:
    known = ratios[np.isfinite(ratios)]
    return float(np.exp(np.log(known).mean())) if known.size else None


def _interval_of_ratio(pairs: Sequence[Pair]) -> tuple[float | None, float | None]:
    """The 95 % percentile interval over seeds, drawn again within each task and for each of the two methods."""
    rng = np.random.default_rng(0)

    def drawn(runs: Floats) -> Floats:
        return runs[rng.integers(len(runs), size=len(runs))]

    samples = (_geometric(_ratios([(drawn(us), drawn(them), limit) for us, them, limit in pairs])) for _ in range(RESAMPLES))
    known = [sample for sample in samples if sample is not None]
    if not known:
        return None, None
    low, high = np.quantile(known, (0.025, 0.975))
    return float(low), float(high)


def verdict(row: Row) -> str:
    """The protocol's words for a ratio of steps, by the end of its interval that is worse for the method."""
    high = row["steps_over_rival_high"]
    if high is None:
        return output.NOT_RUN
    return AT_MOST_HALF if high <= 0.5 else FASTER if high < 1 else NOT_SHOWN


# ---------------------------------------------------------------------- rewards at the episode's end


def _delayed_share(mine: Runs) -> Estimate | None:
    """The last score with rewards at the episode's end over the one as they are, of interquartile means."""
    delayed = {task: runs for task, runs in mine.items() if task.endswith(f", {DELAYED}")}
    as_they_are = {name: mine[name] for name in (task.removesuffix(f", {DELAYED}") for task in delayed) if name in mine}
    if not delayed or len(as_they_are) != len(delayed):
        return None
    late, soon = (list(map(np.array, _scores(which, "final_normalised").values())) for which in (delayed, as_they_are))

    def share(samples: Sequence[Floats], others: Sequence[Floats]) -> float:
        below = float(interquartile_mean(others))
        return float(interquartile_mean(samples)) / below if below > 0 else np.nan

    if not are_repeated(delayed) or not are_repeated(as_they_are):
        return share(late, soon), None, None
    rng = np.random.default_rng(0)

    def drawn(samples: Sequence[Floats]) -> list[Floats]:
        return [rng.choice(sample, len(sample)) for sample in samples]

    found = [share(drawn(late), drawn(soon)) for _ in range(RESAMPLES)]
    low, high = np.nanquantile(found, (0.025, 0.975))
    return share(late, soon), float(low), float(high)


# ---------------------------------------------------------------------- the table


def comparison_table(rows: Sequence[Row]) -> output.Table:
    rival = rows[0]["rival"]
    shown = output.row_with_interval
    lines = [
        [
            row["method"], str(row["tasks"]), str(row["runs"]), shown(row, "area_iqm"), shown(row, "steps_over_rival"),
            _counts(row), verdict(row), shown(row, "steps_over_dqn"), shown(row, "beats_rival"),
            shown(row, "delayed_share"), output.cell(row["seconds"] and row["seconds"] / 60, 1),
        ]
        for row in rows
    ]  # fmt: skip
    header = (
        "method", "tasks", "runs", "area under the curve", f"steps over those of {rival or 'the rival'}",
        "thresholds, of which nobody reaches", "in the protocol's words", "steps over DQN's", "P(run beats one of the rival)",
        "score with rewards at the end / as they are", "minutes of a run",
    )  # fmt: skip
    title = "Over the whole suite, against the best of EBU and Peng's Q(λ) (95 % bootstrap intervals over seeds)"
    return output.Table(title, header, lines)


def _counts(row: Row) -> str:
    known, left_out = row["steps_over_rival_thresholds"], row["steps_over_rival_left_out"]
    return output.NOT_RUN if known is None else f"{known + left_out}, {left_out}"
