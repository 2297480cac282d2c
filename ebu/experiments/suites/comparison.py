"""One method against the better of EBU and Peng's Q(λ) over a whole suite, by the protocol of docs/beyond.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ebu.experiments import output, plots
from ebu.experiments.suites.columns import Estimate, Row, Runs, are_repeated, fields, split
from ebu.experiments.suites.rows import beats, by_task, scores_of
from ebu.experiments.suites.steps import RESAMPLES, Floats, over, steps_over
from ebu.experiments.suites.tasks import AS_THEY_ARE, DELAYED, DQN, RIVALS, Task, is_rival
from ebu.report.statistics import interquartile_mean, interval, score

AT_MOST_HALF, FASTER, NOT_SHOWN = "half the steps", "faster", "not shown to be faster"
SEEDS_OF_A_CLAIM = 10
WHOLE, BOTH_WAYS = "the whole suite", "the tasks that are there both ways"


def compare(tasks: Sequence[Task], methods: Sequence[str], runs: Sequence[Row], steps: int) -> list[Row]:
    """A row for each method, over the whole suite and over the tasks that are there as they are and delayed.

    A method that has no run of some task is compared with nothing. So where others are costly, the tasks that are there both
    ways are compared for themselves, too.
    """
    both_ways = [task for task in tasks if task.group in (AS_THEY_ARE, DELAYED)]
    found = compare_over(WHOLE, tasks, methods, runs, steps)
    return found + (compare_over(BOTH_WAYS, both_ways, methods, runs, steps) if 0 < len(both_ways) < len(tasks) else [])


def compare_over(scope: str, tasks: Sequence[Task], methods: Sequence[str], runs: Sequence[Row], steps: int) -> list[Row]:
    """Each method's area, and its steps and scores over those of the rival and of DQN."""
    limits = {task.name: task.steps(steps) for task in tasks}
    by_method = {method: by_task(tasks, method, runs) for method in methods}
    complete = {method: mine for method, mine in by_method.items() if all(mine.values())}
    rival = _rival(complete, limits)
    rows = []
    for method, mine in by_method.items():
        has_all = method in complete
        row: Row = {
            "part": "comparison",
            "over": scope,
            "method": method,
            "rival": rival,
            "tasks": sum(map(bool, mine.values())),
            "runs": sum(map(len, mine.values())),
            **fields("area_iqm", _area_interval(mine) if has_all else None),
        }
        for name, other in (("rival", rival), ("dqn", DQN)):
            theirs = complete.get(other) if other is not None and other != method and has_all else None
            row |= steps_over(f"steps_over_{name}", mine, theirs, limits)
            row |= fields(f"beats_{name}", beats(mine, theirs))
        row |= fields("delayed_share", _delayed_share(mine) if has_all else None)
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
        ratio = over(complete[value], complete[DQN], limits)
        return np.inf if ratio is None else ratio

    return min(found, key=lambda value: (over_dqn(value), -area(complete[value])))


def area(mine: Runs) -> float:
    """By which the best value of a method is chosen."""
    return score(scores_of(mine, "area"))


def _area_interval(mine: Runs) -> Estimate:
    if not are_repeated(mine):
        return area(mine), None, None
    found = interval(scores_of(mine, "area"), rng=np.random.default_rng(0))
    return found.estimate, found.low, found.high


# ---------------------------------------------------------------------- in words


def verdict(row: Row) -> str:
    """The protocol's words for a ratio of steps, by the end of its interval that is worse for the method.

    With fewer seeds than a claim needs, a gain is said to be preliminary.
    """
    high = row["steps_over_rival_high"]
    if high is None:
        return output.NOT_RUN
    if high >= 1:
        return NOT_SHOWN
    seeds = row["runs"] // row["tasks"]
    note = "" if seeds >= SEEDS_OF_A_CLAIM else f" (preliminary: {output.several(seeds, 'seed')})"
    return (AT_MOST_HALF if high <= 0.5 else FASTER) + note


# ---------------------------------------------------------------------- rewards at the episode's end


def _delayed_share(mine: Runs) -> Estimate | None:
    """The last score with rewards at the episode's end over the one as they are, of interquartile means."""
    delayed = {task: runs for task, runs in mine.items() if task.endswith(f", {DELAYED}")}
    as_they_are = {name: mine[name] for name in (task.removesuffix(f", {DELAYED}") for task in delayed) if name in mine}
    if not delayed or len(as_they_are) != len(delayed):
        return None
    late, soon = (list(map(np.array, scores_of(which, "final").values())) for which in (delayed, as_they_are))

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


def comparison_tables(rows: Sequence[Row]) -> list[output.Table]:
    scopes = dict.fromkeys(row["over"] for row in rows)
    return [comparison_table([row for row in rows if row["over"] == scope]) for scope in scopes]


def comparison_table(rows: Sequence[Row]) -> output.Table:
    rival = rows[0]["rival"]
    estimate = output.row_with_interval
    shown, others = split(rows, lambda row: row["area_iqm"] is not None, "Not compared, without a run of each task")
    lines = [
        [
            row["method"], str(row["tasks"]), str(row["runs"]), estimate(row, "area_iqm"), estimate(row, "steps_over_rival"),
            _counts(row), verdict(row), estimate(row, "steps_over_dqn"), estimate(row, "beats_rival"),
            estimate(row, "delayed_share"), output.cell(row["seconds"] and row["seconds"] / 60, 1),
        ]
        for row in shown
    ]  # fmt: skip
    header = (
        "method", "tasks", "runs", "area under the curve", f"steps over those of {rival or 'the rival'}",
        "thresholds, of which neither reaches", "in the protocol's words", "steps over DQN's", "P(run beats one of the rival)",
        "score with rewards at the end / as they are", "minutes of a run",
    )  # fmt: skip
    title = f"Over {rows[0]['over']}, against the best of EBU and Peng's Q(λ) (95 % bootstrap intervals over seeds)"
    return output.Table(title, header, lines, others)


def _counts(row: Row) -> str:
    known, left_out = row["steps_over_rival_thresholds"], row["steps_over_rival_left_out"]
    return output.NOT_RUN if known is None else f"{known + left_out}, {left_out}"
