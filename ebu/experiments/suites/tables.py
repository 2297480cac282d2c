"""The tables of a suite: every method over all tasks of a group, then task by task. What has no run yet is named below."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ebu.experiments import output
from ebu.experiments.suites.choice import choice_table
from ebu.experiments.suites.columns import Row, split
from ebu.experiments.suites.comparison import comparison_tables
from ebu.experiments.suites.rows import LEVELS
from ebu.experiments.suites.tasks import DQN, Task
from ebu.report.figures import estimate
from ebu.report.statistics import mean

TASKS_FOR_AN_INTERVAL = 5  # an interval over fewer tasks is little more than their smallest and largest score


def tables(rows: Sequence[Row], tasks: Sequence[Task], methods: Sequence[str]) -> list[output.Table]:
    groups = list(dict.fromkeys(task.group for task in tasks))
    compared, tried, aggregates, runs = (
        [row for row in rows if row["part"] == part] for part in ("comparison", "choice", "aggregate", "run")
    )
    made = [
        *comparison_tables(compared),
        *([choice_table(tried)] if tried else []),
        *(_aggregate_table(group, [row for row in aggregates if row["group"] == group]) for group in groups),
        _task_table(runs, tasks, methods),
    ]
    return [table for table in made if table.lines]


def _aggregate_table(group: str, rows: Sequence[Row]) -> output.Table:
    with_interval = output.row_with_interval
    shown, others = split(rows, lambda row: row["runs"] > 0, "No run yet")
    lines = [
        [
            row["method"], str(row["tasks"]), str(row["runs"]), with_interval(row, "final_iqm"),
            _over_tasks(row),
            with_interval(row, "area_iqm"), with_interval(row, "beats_dqn"), with_interval(row, "steps_over_dqn"),
            *(output.cell(row["share_reached"].get(f"{level:g}")) for level in LEVELS),
        ]
        for row in shown
    ]  # fmt: skip
    header = (
        "method", "tasks", "runs", "final score, interval over seeds", "its interval over tasks",
        "area under the curve", "P(run beats a run of DQN)", "steps to the thresholds over DQN's",
        *(f"share of runs that reach {level:g}" for level in LEVELS),
    )  # fmt: skip
    which = f", {group}" if group else ""
    title = f"Interquartile means of normalised scores over tasks{which} (95 % bootstrap intervals)"
    return output.Table(title, header, lines, others)


def _over_tasks(row: Row) -> str:
    low, high = row["final_iqm_other_tasks_low"], row["final_iqm_other_tasks_high"]
    known = row["tasks"] >= TASKS_FOR_AN_INTERVAL and low is not None and high is not None
    return f"{output.cell(low)} to {output.cell(high)}" if known else output.NOT_RUN


def _task_table(runs: Sequence[Row], tasks: Sequence[Task], methods: Sequence[str]) -> output.Table:
    has_anchors = any(task.anchor is not None for task in tasks)
    lines = []
    for task in tasks:
        for method in methods:
            mine = [run for run in runs if (run["task"], run["method"]) == (task.name, method)]
            if not mine:
                continue
            published = [output.cell(task.anchor if method == DQN else None)] if has_anchors else []
            lines.append([
                task.name, method, str(len(mine)), _mean(mine, "final"), _mean(mine, "area"), _mean(mine, "training"),
                *published, _reached(mine), _mean(mine, "seconds", 1 / 3600),
            ])  # fmt: skip
    header = (
        "task", "method", "seeds", "final score", "area under the curve", "training episodes at the end",
        *(["MinAtar's own DQN, training episodes"] if has_anchors else []), "steps to half of the normalised score", "hours",
    )  # fmt: skip
    return output.Table("Means over seeds by task (95 % bootstrap intervals)", header, lines)


def _mean(runs: Sequence[Row], name: str, factor: float = 1.0) -> str:
    known = [run[name] * factor for run in runs if run[name] is not None]
    return output.with_interval(*estimate(known, mean, np.random.default_rng(0))) if known else output.NOT_RUN


def _reached(runs: Sequence[Row]) -> str:
    """The first evaluation at half of the normalised score."""
    return output.median_steps([run["steps_to"]["0.5"] for run in runs])
