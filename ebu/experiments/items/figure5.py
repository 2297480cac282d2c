"""Figure 5: scores and Q values by β

The paper: with β = 1, Q is highly overestimated and the score suffers; with β = 0.5, Q stays near the return.

The paper's question is whether recursive maxima over correlated states overestimate. Beside Q we draw the discounted
return that really followed, of rewards as they are learned from: Q above it is overestimation.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ebu.experiments import atari, output, plots
from ebu.experiments.atari import DQN, EBU_HALF, EBU_ONE

GAMES = ("Gopher", "Breakout")
METHODS = (EBU_HALF, EBU_ONE, DQN)
SETTINGS: dict[str, dict[str, Any]] = {
    "quick": {"games": GAMES, "seeds": 1, "scale": atari.QUICK},
    "laptop": {"games": GAMES, "seeds": 3, "scale": atari.LAPTOP},
    "full": {"games": GAMES, "seeds": 4, "scale": atari.FULL_20M},  # 80 epochs; the first 40 are the 10M-frame setting
}

# Table 3 after 10M frames; of the figure itself no number is printed.
EXPECTED = {name: {m: atari.game(name).paper[atari.PUBLISHED[m]] for m in METHODS if m in atari.PUBLISHED} for name in GAMES}


def _table(rows: Sequence[dict[str, Any]], games: Sequence[str]) -> output.Table:
    lines = []
    for name in games:
        for method in METHODS:
            mine = [row for row in rows if (row["part"], row["game"], row["method"]) == ("run", name, method)]
            q, came = atari.average(mine, "final_q"), atari.average(mine, "final_return")
            gap = None if q is None or came is None else q - came
            lines.append([
                name, method, str(len(mine)), output.cell(EXPECTED[name].get(method)),
                output.cell(atari.average(mine, "best_at_10M_frames")), output.cell(atari.average(mine, "best_score")),
                output.cell(q, 3), output.cell(came, 3), output.cell(gap, 3),
            ])  # fmt: skip
        lines.append([name, "Nature DQN, 200M frames", output.NOT_RUN, output.cell(_nature(name)), *[output.NOT_RUN] * 5])
    header = (
        "game", "method", "seeds", "paper, 10M frames", "ours, 10M frames", "ours, all frames", "Q at the end",
        "return that followed", "Q − return",
    )  # fmt: skip
    return output.Table("Best test score so far (mean over seeds), and overestimation", header, lines)


def _nature(name: str) -> float:
    return atari.game(name).paper["nature_dqn_200M"]


def _draw(out: Path, rows: Sequence[dict[str, Any]], games: Sequence[str]) -> None:
    figure, axes = plots.canvas(len(games), rows=2, width=5.6 * len(games), height=7.0)
    for i, name in enumerate(games):
        above, below = axes[i], axes[len(games) + i]
        mine = [row for row in rows if row["part"] == "curve" and row["game"] == name]
        atari.draw_curves(above, mine, "score")
        atari.draw_nature(above, name)
        above.set_ylabel("test score")
        plots.title(above, name)
        atari.draw_curves(below, mine, "q")
        atari.draw_curves(below, mine, "return", ls=":", lw=1.5, label=None)
        below.axhline(0, color=plots.GREY, lw=0.8)
        below.set_ylabel("mean Q; dotted: return that followed")
        if i == 0:
            plots.legend(above, loc="upper left")
    plots.save(figure, out, ITEM.name)


ALT = (
    "Two games side by side: test scores above; below, the mean Q (solid) and the discounted return that followed "
    "(dotted), for EBU with β = 0.5 and 1 and for DQN, mean and standard deviation over seeds."
)
ITEM = atari.curves_item(__name__, __doc__, ALT, SETTINGS, methods=METHODS, draw=_draw, table=_table)
