"""The report page: run folders → one HTML file that opens anywhere, without a network.

Order of the page: results, learning curves, predicted values, settings of the runs, how to reproduce them.
"""

from __future__ import annotations

import platform
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from ebu.envs.atari_games import PAPER_COLUMNS, paper_scores
from ebu.errors import UserError
from ebu.report import figures, html, scores
from ebu.report.figures import INTERVAL, Panel, Spread, by_env
from ebu.report.groups import Group, command, group, slots
from ebu.report.headline import headline, number
from ebu.report.rows import Run, find_runs, read_run
from ebu.report.settings import settings

SOFTWARE = ("episodic-backward-update", "torch", "numpy", "scipy", "gymnasium", "ale-py")
MAX_PICTURES = 60


@dataclass(frozen=True)
class Section:
    """One part of a page. ``body`` is HTML; see :mod:`ebu.report.html` for tables and pictures."""

    id: str
    title: str
    body: str


def build_page(
    runs: Sequence[Path],
    out: Path,
    title: str = "Report",
    *,
    note: str = "",
    before: Sequence[Section] = (),
    paper: bool = False,
    made_by: str = "",
    spread: Spread = INTERVAL,
    reload_seconds: int = 0,
) -> Path:
    """Write the page over these run folders (or folders of them).

    Args:
      note: shown at the top, for what a reader must know before any number: a reduced budget, an open question.
      before: sections of the caller, shown first: a table with published numbers, a picture.
      paper: compare with the paper's Atari scores; also without any run.
      made_by: the command that makes this page again; by default `ebu report` over the same folders.
      spread: what the bands of the charts are; the paper draws standard deviations.
      reload_seconds: seconds after which the page reloads itself, for runs that are in progress; 0 for never.
    """
    read = [read_run(path) for path in find_runs(runs)]
    if not (read or paper or before):
        raise UserError("there is nothing to report: name at least one run folder")
    groups = group(read)
    looks = slots(groups)
    panels: dict[str, Any] = {}
    parts = list(before)
    if groups:
        parts.append(Section("results", "Results", headline(groups, looks)))
    for make, heading, words in PANELS:
        if panel := make(groups, spread, paper):
            panels[panel.id] = panel.data()
            parts.append(_charts(panel, heading, words(groups, spread)))
    parts += _mazes(groups)
    if bars := figures.game_bars(ours := figures.atari_scores(groups), paper):
        panels["games"] = bars
        parts.append(_games(bars, ours, paper))
    if groups:
        parts.append(Section("settings", "Settings", settings(groups)))
    again = made_by or shlex.join(["ebu", "report", *map(str, runs), "--out", str(out)])
    parts.append(Section("again", "Reproduce", _again(read, groups, again)))
    page = html.document(
        title,
        _top(title, read, groups, note) + _navigation(parts) + _main(parts),
        styles=["base.css", "report.css"],
        scripts=["chart.js", "report.js"],
        data={"slots": looks, "panels": panels, "reload": reload_seconds},
    )
    return html.write(out, page)


# ---------------------------------------------------------------------- the frame


def _top(title: str, runs: Sequence[Run], groups: Sequence[Group], note: str) -> str:
    facts = []
    if runs:
        states = [run.state for run in runs]
        presets = list(dict.fromkeys(str(run.settings.get("preset", "quick")) for run in runs))
        facts = [
            _many(len(runs), "run"),
            _many(len({member.method for member in groups}), "method"),
            _many(len({member.env for member in groups}), "environment"),
            f"preset{'s' * (len(presets) > 1)} {', '.join(presets)}",
            f"{states.count('finished')} finished",
        ]
        facts += [f"{states.count('unfinished')} not finished"] * ("unfinished" in states)
        facts += [f"{states.count('failed')} failed"] * ("failed" in states)
        facts.append(f"{sum(run.step for run in runs):,} agent steps")
    listed = "".join(f"<li>{escape(fact)}</li>" for fact in facts)
    warning = f'<p class="note">{escape(note)}</p>' if note else ""
    return (
        f'<header class="top"><div class="wrap"><h1>{escape(title)}</h1>{warning}'
        + (f'<ul class="facts">{listed}</ul>' if facts else "")
        + "</div></header>"
    )


def _navigation(parts: Sequence[Section]) -> str:
    links = "".join(f'<li><a href="#{part.id}">{escape(part.title)}</a></li>' for part in parts)
    return f'<nav class="bar" aria-label="Sections"><div class="wrap"><ul>{links}</ul></div></nav>'


def _main(parts: Sequence[Section]) -> str:
    cards = "".join(
        f'<section class="card" id="{part.id}" aria-labelledby="{part.id}-title">'
        f'<h2 id="{part.id}-title">{escape(part.title)}</h2>{part.body}</section>'
        for part in parts
    )
    words = f"Made by ebu {escape(html.version('episodic-backward-update'))}. This file is complete: it loads nothing."
    return f'<main id="main" class="wrap">{cards}</main><footer class="wrap">{words}</footer>'


# ---------------------------------------------------------------------- how it was learned


def _charts(panel: Panel, heading: str, words: str) -> Section:
    """The place the script draws into; without scripts, the charts in words."""
    spoken = "".join(f"<li>{escape(chart.alt)}</li>" for chart in panel.charts)
    body = f"<p class='soft small'>{escape(words)}</p><div data-panel='{panel.id}'><ul>{spoken}</ul></div>"
    return Section(panel.id, heading, body)


def _beliefs(groups: Sequence[Group], spread: Spread) -> str:
    clipped = sorted({m.env for m in groups for run in m.runs if run.settings.get("reward_clip")})
    where = "Both" if len(clipped) == len(by_env(groups)) else f"In {' and '.join(clipped)} both"
    care = f" {where} are of clipped rewards, as used for learning; scores are raw."
    return (
        "What the agent predicted, the mean Q of the actions it took in evaluation, and the discounted return that actually "
        "followed. Thick lines: Q; thin lines of the same colour and dashes: the return. Q above the return is overestimation."
    ) + care * bool(clipped)


Maker = Callable[[Sequence[Group], Spread, bool], Panel | None]
Words = Callable[[Sequence[Group], Spread], str]

PANELS: tuple[tuple[Maker, str, Words], ...] = (
    (
        figures.learning_curves,
        "Learning curves",
        lambda groups, spread: (
            f"Mean over runs; the band is {spread.words}. Hover, touch or use the arrow keys to read values; "
            "drag, or press + and −, to zoom, double-click or press 0 for the full range; click a name to hide or show it."
        ),
    ),
    (
        figures.relative_lengths,
        "Path length",
        lambda groups, spread: (
            "Steps taken over steps needed, median over runs: 1 is a shortest path. A path that never arrives counts as "
            "the step limit."
        ),
    ),
    (
        figures.diffusion,
        "β over time",
        lambda groups, spread: (
            "The diffusion factor whose learner had scored best and was copied to all. Discs: how many runs chose it; "
            "line: the mean over runs."
        ),
    ),
    (figures.overestimation, "Q against return", _beliefs),
)


def _mazes(groups: Sequence[Group]) -> list[Section]:
    shown = [(member, run) for member in groups for run in member.runs if run.picture]
    if not shown:
        return []
    pictures = [html.picture(run.picture, *_maze_words(member, run)) for member, run in shown[:MAX_PICTURES] if run.picture]
    left_out = len(shown) - len(pictures)
    words = (
        "Shade: the value of the best move in each cell. Arrows: that move, hollow where it leaves the shortest path. "
        "Orange: the path the greedy agent walked."
    )
    words += f" {left_out} more are not shown." if left_out else ""
    return [Section("mazes", "Mazes", f'<p class="soft small">{words}</p><div class="gallery">{"".join(pictures)}</div>')]


def _maze_words(member: Group, run: Run) -> tuple[str, str]:
    lengths = run.points("eval", "relative_lengths")
    ratio = f", path {lengths[-1][1]:.3g} × the shortest" if lengths else ""
    caption = f"{member.method}, {figures.name(run)}{ratio}"
    return f"Maze with learned values, best moves and the greedy path: {caption}", caption


def _games(bars: dict[str, Any], ours: dict[str, dict[str, float]], paper: bool) -> Section:
    words = (
        "Relative score: the gain over the baseline as a share of what separates the better of human and baseline from "
        "random play. Scores are means over seeds of the best evaluation."
    )
    rows = [[view, game, *map(number, values)] for view, found in bars["views"].items() for game, *values in found["rows"]]
    listed = html.table(["comparison", "game", "relative score %", "score", "baseline"], rows)
    aggregates = html.table(
        ["", "games", "mean %", "median %", "interquartile mean %"],
        _aggregates(ours, paper),
        "Human-normalised: 0 is random play, 100 the human tester. Compare rows over the same games.",
    )
    body = f'<p class="soft small">{words}</p><div data-panel="games"></div>'
    table = f"<details><summary>As a table</summary>{listed}</details>"
    return Section("games", "Games", f"{body}{table}<h3>Over all games</h3>{aggregates}")


def _aggregates(ours: dict[str, dict[str, float]], paper: bool) -> list[list[str]]:
    """Ours, and the paper's columns over the games that we have played, or over all 49."""
    played = {game for raw in ours.values() for game in raw}
    rows = dict(ours)
    for column in PAPER_COLUMNS if paper else ():
        rows[f"paper: {column}"] = {game: raw for game, raw in paper_scores(column).items() if game in played or not played}
    found = {name: scores.aggregate(scores.human_normalised_scores(raw).values()) for name, raw in rows.items()}
    return [[name, str(a.games), *(f"{x:.1f}" for x in (a.mean, a.median, a.interquartile_mean))] for name, a in found.items()]


# ---------------------------------------------------------------------- what the runs were


def _again(runs: Sequence[Run], groups: Sequence[Group], again: str) -> str:
    parts = ["<h3>This page</h3>", html.command(again)]
    if runs:
        rows = [_run_row(member, run) for member in groups for run in member.runs]
        listed = html.table(["run", "environment", "method", "seed", "state", "steps", "minutes"], rows)
        commands = "".join(html.command(command(run)) for member in groups for run in member.runs)
        parts += [
            f"<h3>The runs</h3><details><summary>All {len(runs)}, with their state</summary>{listed}</details>",
            f"<details><summary>The commands that reproduce them</summary>{commands}</details>",
        ]
    return "".join(parts) + _versions(runs)


def _versions(runs: Sequence[Run]) -> str:
    recorded = [run.versions for run in runs if run.versions]
    names = dict.fromkeys(name for found in recorded for name in found)
    then = [[name, ", ".join(sorted({str(found.get(name, "?")) for found in recorded}))] for name in names]
    caption = f"Software of the runs ({len(recorded)} of {len(runs)} recorded it)"
    now = [["python", platform.python_version()], *([name, html.version(name)] for name in SOFTWARE)]
    made_with = html.table(["software", "version"], now, "Software that made this page")
    listed = (html.table(["software", "version"], then, caption) if then else "") + made_with
    return f"<details><summary>Software versions</summary>{listed}</details>"


def _run_row(member: Group, run: Run) -> list[str]:
    state: str = run.state
    if run.state == "unfinished":
        state = f"not finished: {run.step:,} of {run.planned_steps:,} steps"
        if run.written is not None:
            state += f", newest row {time.strftime('%Y-%m-%d %H:%M', time.localtime(run.written))}"
    if run.state == "failed":
        state = f"failed: {run.error}"
    if run.unreadable:
        state += f" ({_many(run.unreadable, 'unreadable line')} left out)"
    minutes = "–" if run.seconds is None else f"{run.seconds / 60:.1f}"
    return [str(run.path), member.env, member.method, figures.name(run), state, f"{run.step:,}", minutes]


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + "s" * (count != 1)
