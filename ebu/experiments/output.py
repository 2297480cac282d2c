"""What every item writes: rows, a table with the published numbers beside ours, a page around its picture."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from ebu.experiments import plots
from ebu.experiments.item import Item
from ebu.experiments.sweeps.trials import Trial
from ebu.report import html
from ebu.report.figures import INTERVAL, Spread
from ebu.report.page import Section, build_page
from ebu.report.rows import find_runs
from ebu.storage.finished import is_finished

NOT_RUN = "–"


@dataclass(frozen=True)
class Table:
    title: str
    header: Sequence[str]
    lines: Sequence[Sequence[str]]
    note: str = ""

    def markdown(self) -> str:
        table = plots.markdown(self.header, self.lines)
        return f"{table}\n\n{self.note}" if self.note else table


def write(
    item: Item,
    out: Path,
    rows: list[dict[str, Any]],
    tables: Sequence[Table],
    *,
    budget: str,
    seed: int,
    note: str | None = None,
    runs: Sequence[Path] = (),
    paper: bool = False,
    spread: Spread = INTERVAL,
) -> list[dict[str, Any]]:
    """rows.jsonl, table.md and the page; the picture must be there already. Without a note, the item's own."""
    is_partial = False
    if note is None:
        note, is_partial = _so_far(item, budget, seed, runs)
    plots.write_rows(out, rows)
    parts = [f"# {item.title}", item.claim, note, *(f"## {table.title}\n\n{table.markdown()}" for table in tables)]
    (out / "table.md").write_text("\n\n".join(part for part in parts if part) + "\n", encoding="utf-8")
    picture = html.picture(out / f"{item.name}.png", item.alt)
    body = f'<p>{escape(item.claim)}</p><div class="picture" tabindex="0" role="group" aria-label="Picture">{picture}</div>'
    before = [Section("picture", "Picture", body)]
    before.append(Section("table", "Published and ours", "".join(_as_html(table) for table in tables)))
    build_page(
        list(runs),
        out / f"{item.name}.html",
        item.title,
        note=note,
        before=before,
        paper=paper,
        made_by=again(item, budget, seed) + " --partial" * is_partial,
        spread=spread,
    )
    return rows


def write_trained(
    item: Item,
    out: Path,
    rows: list[dict[str, Any]],
    tables: Sequence[Table],
    budget: str,
    trials: Sequence[Trial],
    runs: Sequence[Path],
    **options: Any,
) -> list[dict[str, Any]]:
    """The same for an item that is made from run folders."""
    seed = min((one.seed for one in trials), default=0)
    return write(item, out, rows, tables, budget=budget, seed=seed, runs=runs, **options)


def _so_far(item: Item, budget: str, seed: int, runs: Sequence[Path]) -> tuple[str, bool]:
    """The item's own note, with how much of its training the numbers rest on, and whether there is more to come."""
    note = item.left_out(budget)
    if item.trials is None or not runs:
        return note, False
    planned = len({one.id for one in item.trials(budget, seed)})
    finished = sum(map(is_finished, runs))
    if finished >= planned:
        return note, False
    words = f"o far {finished} of {planned} trials are finished; every number is of the runs counted beside it."
    return f"{note} S{words}" if note else f"Budget {budget}: s{words}", True


def again(item: Item, budget: str, seed: int) -> str:
    """The command that makes the item again."""
    name = item.address or item.name
    return shlex.join(["ebu", "reproduce", name, "--budget", budget, *(["--seed", str(seed)] if seed else [])])


def _as_html(table: Table) -> str:
    note = f"<p>{escape(table.note)}</p>" if table.note else ""
    return f"<h3>{escape(table.title)}</h3>{html.table(table.header, table.lines)}{note}"


def runs_below(*places: Path) -> list[Path]:
    """All run folders below these places, those that exist."""
    return [folder for place in places if place.is_dir() and any(place.rglob("config.json")) for folder in find_runs([place])]


def cell(value: float | None, digits: int = 2) -> str:
    """A number of a table; a dash for what was not run."""
    return NOT_RUN if value is None else f"{value:,.{digits}f}"


def with_interval(value: float | None, low: float | None, high: float | None, digits: int = 2) -> str:
    """A number with its confidence interval, which one run alone does not have."""
    if value is None or low is None or high is None:
        return cell(value, digits)
    return f"{cell(value, digits)} ({cell(low, digits)} to {cell(high, digits)})"


def row_with_interval(row: dict[str, Any], name: str) -> str:
    """The same of a row's field and of its ends, ``name_low`` and ``name_high``."""
    return with_interval(row[name], row[f"{name}_low"], row[f"{name}_high"])


def median_steps(steps: Sequence[float | None]) -> str:
    """The median over runs of the steps until something is reached; a run that never does counts last."""
    if not steps:
        return NOT_RUN
    known = sorted(step for step in steps if step is not None)
    place = len(steps) // 2
    words = f"{known[place]:,.0f}" if place < len(known) else "not reached"
    return words if len(known) == len(steps) else f"{words} ({len(known)} of {len(steps)})"


def several(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + "s" * (count != 1)
