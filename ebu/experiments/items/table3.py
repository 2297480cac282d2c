"""Table 3: raw scores of 49 games

The paper: scores after 10M frames (mean of 8 seeds, 4 for adaptive EBU), adaptive EBU's after 20M, Nature DQN's after 200M.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ebu.envs.atari_games import GAMES, PAPER_COLUMNS
from ebu.experiments import output, plots
from ebu.experiments import own_scores as own
from ebu.experiments.item import Item
from ebu.experiments.items import table2
from ebu.experiments.own_scores import Column
from ebu.experiments.sweeps.trials import Trial
from ebu.report.rows import read_run
from ebu.report.scores import human_normalised

SETTINGS = table2.SETTINGS
# Bold in the paper is the best of these six, but for Tutankham: OT is bold, and PER has 255.74.
AT_10M = [column for column in PAPER_COLUMNS if column.endswith("_10M")]

trials = table2.trials


def analyse(budget: str, trials: Sequence[Trial], folders: Sequence[Path], out: Path) -> list[dict[str, Any]]:
    ITEM.at(budget)
    runs = own.own_runs(out, folders)
    ours = own.columns(map(read_run, runs))
    rows: list[dict[str, Any]] = [
        {
            "game": game.name,
            "random": game.random,
            "human": game.human,
            "paper": dict(game.paper),
            "best_at_10M_frames": max(AT_10M, key=lambda column: game.paper[column]),
            "ours": {c.name: plots.number(c.scores[game.name], 2) for c in ours if game.name in c.scores},
        }
        for game in GAMES
    ]
    out.mkdir(parents=True, exist_ok=True)
    _draw(out, rows, ours)
    return own.write(ITEM, out, rows, [_table(rows, ours)], budget, trials, runs, ours)


def _table(rows: Sequence[dict[str, Any]], ours: Sequence[Column]) -> output.Table:
    def published(row: dict[str, Any], column: str) -> str:
        text = output.cell(row["paper"][column])
        return f"**{text}**" if column == row["best_at_10M_frames"] else text

    lines = [
        [
            row["game"], output.cell(row["random"], 1), output.cell(row["human"], 1),
            *(published(row, column) for column in PAPER_COLUMNS),
            *(output.cell(row["ours"].get(column.name)) for column in ours),
        ]
        for row in rows
    ]  # fmt: skip
    header = ("game", "random", "human", *(table2.NAMES[column] for column in PAPER_COLUMNS), *(c.name for c in ours))
    return output.Table("Raw scores; bold: the best of the six after 10M frames", header, lines)


def _draw(out: Path, rows: Sequence[dict[str, Any]], ours: Sequence[Column]) -> None:
    """Human-normalised scores as colours, raw scores as numbers."""
    names = [*(table2.NAMES[column] for column in PAPER_COLUMNS), *(column.name.removeprefix("ours: ") for column in ours)]
    raw = np.array([
        [*row["paper"].values(), *(row["ours"].get(column.name, np.nan) for column in ours)] for row in rows
    ], dtype=float)  # fmt: skip
    shares = np.array([[human_normalised(x, row["random"], row["human"]) for x in line] for row, line in zip(rows, raw)])
    figure, (ax,) = plots.canvas(1, width=2.6 + 1.15 * len(names), height=13.0)
    ax.grid(False)
    shown = ax.imshow(np.arcsinh(shares / 20), cmap="cividis", aspect="auto", vmin=np.arcsinh(-1), vmax=np.arcsinh(25))
    for (i, j), value in np.ndenumerate(raw):
        words, ink = output.NOT_RUN, plots.GREY
        if np.isfinite(value):
            words = f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
            ink = "white" if shares[i, j] < 40 else "black"
        number = ax.text(j, i, words, ha="center", va="center", fontsize=7.5, color=ink)
        number.set_in_layout(False)  # hundreds of texts, all inside: measuring them would take most of the time
    ax.set_yticks(range(len(rows)), labels=[row["game"] for row in rows], fontsize=8)
    ax.set_xticks(range(len(names)), labels=names, rotation=40, ha="left", fontsize=8.5)
    ax.xaxis.tick_top()
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    ticks = [-20, 0, 20, 100, 500]
    bar = figure.colorbar(shown, ax=ax, ticks=[np.arcsinh(t / 20) for t in ticks], shrink=0.35, pad=0.02)
    bar.ax.set_yticklabels([f"{t} %" for t in ticks], fontsize=8)
    bar.set_label("human-normalised (0 random, 100 human)", fontsize=8.5)
    plots.save(figure, out, ITEM.name)


ALT = (
    "A table of colours, 49 games by method: how far above random play each score is, as a share of what separates the "
    "human tester from it; the table has the numbers."
)
ITEM = Item.of(__name__, __doc__, ALT, SETTINGS, trials=trials, analyse=analyse)
