"""The columns of a suite's rows: numbers, and estimates with their intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ebu.experiments import plots

Row = dict[str, Any]
Runs = Mapping[str, Sequence[Row]]  # by task
Estimate = tuple[float | None, float | None, float | None]  # with the ends of its interval, where there are seeds enough


def number(value: Any) -> float | None:
    return None if value is None else plots.number(value, 4)


def fields(name: str, found: Estimate | None) -> Row:
    """The columns of an estimate and of its interval."""
    values = (None, None, None) if found is None else found
    return {key: number(value) for key, value in zip((name, f"{name}_low", f"{name}_high"), values)}


def are_repeated(scores: Mapping[str, Sequence[Any]]) -> bool:
    """Whether every task has the two runs that an interval over seeds needs."""
    return bool(scores) and min(map(len, scores.values())) > 1


def split(rows: Sequence[Row], is_shown: Callable[[Row], bool], others: str) -> tuple[list[Row], str]:
    """The rows that a table has a line for, and the methods of the others in one sentence in place of lines of dashes."""
    missing = [row["method"] for row in rows if not is_shown(row)]
    return list(filter(is_shown, rows)), f"{others}: {'; '.join(missing)}." if missing else ""
