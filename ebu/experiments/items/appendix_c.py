"""Appendix C: learning curves and adaptive β, game by game

The paper: test scores of adaptive EBU over 20M frames, mean and standard deviation of 4 seeds, beside Nature DQN's score
after 200M frames; below each the β that was chosen. Fixed β = 0.5 and 1 are added here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ebu.experiments import atari, output, plots
from ebu.experiments.atari import ADAPTIVE, EBU_HALF, EBU_ONE

METHODS = (ADAPTIVE, EBU_HALF, EBU_ONE)
SETTINGS: dict[str, dict[str, Any]] = {
    "quick": {"games": ("Breakout", "Pong"), "seeds": 1, "scale": atari.QUICK},
    "laptop": {"games": ("Breakout", "Pong"), "seeds": 2, "scale": atari.LAPTOP},
    "full": {"games": atari.ALL_GAMES, "seeds": 4, "scale": atari.FULL_20M},
}

# game → scores of Table 3
EXPECTED = {
    name: {column: atari.game(name).paper[column] for column in ("adaptive_ebu_10M", "adaptive_ebu_20M", "nature_dqn_200M")}
    for name in atari.ALL_GAMES
}


def _table(rows: Sequence[dict[str, Any]], games: Sequence[str]) -> output.Table:
    """All 49 games, a dash where nothing was run."""

    def ours(name: str, method: str, column: str, steps: int = 0) -> str:
        mine = [row for row in rows if (row["part"], row["game"], row["method"]) == ("run", name, method)]
        return output.cell(atari.average((row for row in mine if row["steps"] >= steps), column))

    lines = [
        [
            name, output.cell(paper["nature_dqn_200M"]), output.cell(paper["adaptive_ebu_10M"]),
            ours(name, ADAPTIVE, "best_at_10M_frames"), output.cell(paper["adaptive_ebu_20M"]),
            ours(name, ADAPTIVE, "best_score", atari.STEPS_20M), ours(name, ADAPTIVE, "best_score"),
            ours(name, EBU_HALF, "best_score"), ours(name, EBU_ONE, "best_score"), ours(name, ADAPTIVE, "final_beta"),
        ]
        for name, paper in EXPECTED.items()
    ]  # fmt: skip
    header = (
        "game", "Nature DQN, 200M", "adaptive, 10M, paper", "adaptive, 10M, ours", "adaptive, 20M, paper",
        "adaptive, 20M, ours", "adaptive, all frames, ours", "β=0.5, ours", "β=1, ours", "last β, ours",
    )  # fmt: skip
    return output.Table("Best test score so far, mean over seeds", header, lines)


def _draw(out: Path, rows: Sequence[dict[str, Any]], games: Sequence[str]) -> None:
    """Pairs of panels, scores above β; up to seven games in a row."""
    small = len(games) > 6
    columns = min(7, len(games))
    bands = -(-len(games) // columns)
    width = 2.6 if small else 5.2
    ratios = [2.6, 1.0] * bands
    figure, axes = plots.canvas(
        columns, rows=2 * bands, width=width * columns, height=width * bands * (0.95 if small else 0.9), height_ratios=ratios
    )
    for i in range(bands * columns):
        above, below = (axes[(2 * (i // columns) + half) * columns + i % columns] for half in (0, 1))
        if i >= len(games):
            above.set_axis_off()
            below.set_axis_off()
            continue
        mine = [row for row in rows if row["part"] == "curve" and row["game"] == games[i]]
        atari.draw_curves(above, mine, "score", **({"lw": 1.0} if small else {}))
        atari.draw_nature(above, games[i], small)
        above.set_xlabel("")
        above.tick_params(labelbottom=False)
        plots.title(above, games[i])
        atari.draw_beta(below, mine)
        if i % columns == 0:
            above.set_ylabel("test score")
            below.set_ylabel("β")
        if i == 0:
            plots.legend(above, fontsize=6 if small else 8.5, loc="upper left")
    plots.save(figure, out, ITEM.name)


ALT = (
    "For each game a pair of charts: test scores of adaptive EBU and of EBU with β = 0.5 and 1 over frames, and below "
    "them the β that adaptive EBU chose; the table has the numbers."
)
ITEM = atari.curves_item(__name__, __doc__, ALT, SETTINGS, methods=METHODS, draw=_draw, table=_table)
