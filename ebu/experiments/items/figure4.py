"""Figure 4: adaptive EBU against Nature DQN, game by game

The paper: relative to the better of human and DQN, adaptive EBU gains most in Video Pinball, Breakout and Atlantis, and
loses little elsewhere; it is ahead in 39 games of 49, EBU (β = 0.5) in 33. Its own raw scores give 38 and 29.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from ebu.envs.atari_games import paper_scores
from ebu.experiments import atari, output, plots
from ebu.experiments import own_scores as own
from ebu.experiments.atari import ADAPTIVE, DQN, EBU_HALF
from ebu.experiments.item import Item
from ebu.experiments.own_scores import Column
from ebu.experiments.sweeps.trials import Trial
from ebu.report.rows import read_run
from ebu.report.scores import count_wins, relative_scores

LAPTOP = ("Breakout", "Pong", "Gopher", "Space Invaders")
SETTINGS: dict[str, dict[str, Any]] = {
    "quick": {"games": (), "seeds": {}, "scale": atari.QUICK},  # the paper's raw scores need no training
    "laptop": {"games": LAPTOP, "seeds": {ADAPTIVE: 1, DQN: 1}, "scale": atari.LAPTOP},
    "full": {"games": atari.ALL_GAMES, "seeds": {ADAPTIVE: 4, DQN: 8}, "scale": atari.FULL_10M},
}
EXPECTED: dict[str, Any] = {
    "wins_in_the_text": {ADAPTIVE: 39, EBU_HALF: 33},
    "wins_by_the_raw_scores": {ADAPTIVE: 38, EBU_HALF: 29},
    "largest": {"Video Pinball": 3918.15, "Breakout": 788.24, "Atlantis": 415.86},  # derived from Table 3
    "smallest": {"Krull": -68.22},
}


def trials(budget: str, seed: int = 0) -> list[Trial]:
    settings = ITEM.at(budget)
    return [
        one
        for method, seeds in settings["seeds"].items()
        for one in atari.trials_of(settings["games"], [method], seeds, seed, settings["scale"])
    ]


def analyse(budget: str, trials: Sequence[Trial], folders: Sequence[Path], out: Path) -> list[dict[str, Any]]:
    ITEM.at(budget)
    runs = own.own_runs(out, folders)
    ours = own.columns(map(read_run, runs))
    gains = {
        label: relative_scores(paper_scores(atari.PUBLISHED[label]), paper_scores("dqn_10M")) for label in (ADAPTIVE, EBU_HALF)
    }
    rows = [_row(name, gains) for name in gains[ADAPTIVE]]
    rows += [_wins_row(label) for label in gains]
    compared = [(column, against_own_dqn(column, ours)) for column in ours if column.method != DQN]
    rows += [{"part": "ours", "column": column.name, "relative": _rounded(found)} for column, found in compared if found]
    out.mkdir(parents=True, exist_ok=True)
    _draw(out, gains[ADAPTIVE], [(column, found) for column, found in compared if found])
    tables = [_wins_table(rows), _table(gains, compared)]
    return own.write(ITEM, out, rows, tables, budget, trials, runs, ours)


def against_own_dqn(column: Column, ours: Sequence[Column]) -> dict[str, float]:
    """Relative to our own DQN of the same length and preset, on the games that both have played."""
    rival = next((o for o in ours if (o.method, o.steps, o.preset) == (DQN, column.steps, column.preset)), None)
    if rival is None:
        return {}
    both = {name: score for name, score in column.scores.items() if name in rival.scores}
    return relative_scores(both, {name: rival.scores[name] for name in both})


def _rounded(found: dict[str, float]) -> dict[str, float | None]:
    return {name: plots.number(value, 2) for name, value in found.items()}


def _row(name: str, gains: dict[str, dict[str, float]]) -> dict[str, Any]:
    scores = {label: paper_scores(column)[name] for label, column in atari.PUBLISHED.items() if label in (*gains, DQN)}
    return {
        "part": "game",
        "game": name,
        "paper_scores": scores,
        "relative": {label: plots.number(found[name], 2) for label, found in gains.items()},
    }


def _wins_row(label: str) -> dict[str, Any]:
    won = count_wins(paper_scores(atari.PUBLISHED[label]), paper_scores("dqn_10M"))
    words = EXPECTED["wins_in_the_text"][label]
    return {
        "part": "wins",
        "method": label,
        "wins": won.wins,
        "losses": won.losses,
        "ties": won.ties,
        "wins_in_the_text": words,
    }


def _wins_table(rows: Sequence[dict[str, Any]]) -> output.Table:
    lines = [[row["method"], str(row["wins_in_the_text"]), str(row["wins"])] for row in rows if row["part"] == "wins"]
    return output.Table("Games of 49 in which EBU is ahead of DQN", ("method", "paper's text", "from its raw scores"), lines)


def _table(gains: dict[str, dict[str, float]], compared: Sequence[tuple[Column, dict[str, float]]]) -> output.Table:
    lines = []
    adaptive, dqn = paper_scores("adaptive_ebu_10M"), paper_scores("dqn_10M")
    for name in gains[ADAPTIVE]:
        lines.append([
            name, output.cell(adaptive[name]), output.cell(dqn[name]), *(output.cell(gains[m][name], 1) for m in gains),
            *(output.cell(found.get(name), 1) for _, found in compared),
        ])  # fmt: skip
    header = (
        "game", "adaptive EBU, 10M", "DQN, 10M", "relative, adaptive %", "relative, β=0.5 %",
        *(f"{column.name}, relative to our DQN %" for column, _ in compared),
    )  # fmt: skip
    return output.Table("Relative scores from the paper's raw scores", header, lines)


def _draw(out: Path, gains: dict[str, float], compared: Sequence[tuple[Column, dict[str, float]]]) -> None:
    """Signed logarithm, straight within ±10 %, so that 3,918 and 4 fit on one axis."""
    figure, (ax,) = plots.canvas(1, width=13.0, height=5.6)
    values = list(gains.values())
    colours = [plots.BLUE if value > 0 else plots.VERMILION for value in values]
    ax.bar(range(len(values)), [bent(value) for value in values], color=colours, width=0.72)
    for x, value in enumerate(values):
        above, side = (0.08, "bottom") if value > 0 else (-0.08, "top")
        ax.text(x, bent(value) + above, f"{round(value):,}", ha="center", va=side, fontsize=6.8, color=plots.INK)
    hollow: dict[str, Any] = {"ms": 6, "mfc": "white", "mec": plots.INK, "mew": 1.4, "ls": ""}
    for (column, found), marker in zip(compared, "ovs^Dp*"):
        places = [list(gains).index(name) for name in found]
        ax.plot(places, [bent(value) for value in found.values()], marker, label=column.name, **hollow)
    _axis(ax, list(gains))
    if compared:
        plots.legend(ax, loc="upper right", title="against our own DQN", title_fontsize=8.5)
    plots.title(
        ax, "Relative score of adaptive EBU over Nature DQN after 10M frames, in percent (from the paper's raw scores)"
    )
    plots.save(figure, out, ITEM.name)


def _axis(ax: Axes, names: Sequence[str]) -> None:
    ticks = [-100, -10, 0, 10, 100, 1000]
    ax.set_yticks([bent(tick) for tick in ticks], labels=[f"{tick:,} %" for tick in ticks])
    ax.axhline(0, color=plots.INK, lw=0.8)
    ax.set_xticks(range(len(names)), labels=names, rotation=90, fontsize=7.6)
    ax.set_xlim(-0.8, len(names) - 0.2)
    ax.grid(False, axis="x")
    ax.margins(y=0.08)


def bent(value: float) -> float:
    return math.asinh(value / 10)


ALT = (
    "Bars of the relative score of adaptive EBU over DQN in 49 games, from Video Pinball with +3,918 % down to Krull with "
    "−68 %; marks where we have runs of our own."
)
ITEM = Item.of(__name__, __doc__, ALT, SETTINGS, trials=trials, analyse=analyse)
