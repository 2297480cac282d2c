"""Which of a method's values the suites use: the one with the largest area under the curve over the tasks for choosing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ebu.experiments import output
from ebu.experiments.suites.columns import Row, number
from ebu.experiments.suites.comparison import area
from ebu.experiments.suites.rows import Comparing, by_task
from ebu.experiments.suites.tasks import Task

Values = Mapping[str, Sequence[str]]
"""Setting, such as "β of EBU" → the labels of a method with each value that is tried."""


def choosing(values: Values) -> Comparing:
    """Rows of a choice among these values."""

    def choose(tasks: Sequence[Task], methods: Sequence[str], runs: Sequence[Row], steps: int) -> list[Row]:
        return [row for setting, labels in values.items() for row in _choice(setting, labels, tasks, runs)]

    return choose


def _choice(setting: str, labels: Sequence[str], tasks: Sequence[Task], runs: Sequence[Row]) -> list[Row]:
    """A row for each value. None is chosen before every value has as many runs of every task as the others."""
    found = {label: by_task(tasks, label, runs) for label in labels}
    areas = {label: area(mine) if all(mine.values()) else None for label, mine in found.items()}
    counts = {len(of_task) for mine in found.values() for of_task in mine.values()}
    known = {label: value for label, value in areas.items() if value is not None}
    chosen = max(known, key=lambda label: known[label]) if len(counts) == 1 and known else None
    return [
        {
            "part": "choice",
            "setting": setting,
            "method": label,
            "tasks": sum(map(bool, mine.values())),
            "runs": sum(map(len, mine.values())),
            "area_iqm": number(areas[label]),
            "is_chosen": label == chosen,
        }
        for label, mine in found.items()
    ]


def choice_table(rows: Sequence[Row]) -> output.Table:
    lines = [
        [row["setting"], row["method"], str(row["tasks"]), str(row["runs"]), output.cell(row["area_iqm"], 3),
         "chosen" if row["is_chosen"] else ""]
        for row in rows
    ]  # fmt: skip
    header = ("setting", "value", "tasks", "runs", "area under the curve", "")
    return output.Table("The choice: the largest interquartile mean of the normalised area under the curve", header, lines)
