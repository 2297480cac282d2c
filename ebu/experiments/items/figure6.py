"""Figure 6: adaptive β in Breakout

The paper: adaptive EBU follows EBU (β = 1) up to about 5M frames, then lowers β to about 0.5 and passes both.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ebu.experiments import atari, output, plots
from ebu.experiments.atari import ADAPTIVE, EBU_HALF, EBU_ONE

GAME = "Breakout"
METHODS = (ADAPTIVE, EBU_HALF, EBU_ONE)
SETTINGS: dict[str, dict[str, Any]] = {
    "quick": {"games": (GAME,), "seeds": 2, "scale": atari.QUICK},
    "laptop": {"games": (GAME,), "seeds": 4, "scale": atari.LAPTOP},
    "full": {"games": (GAME,), "seeds": 4, "scale": atari.FULL_20M},
}

# Table 3 and the text; β = 1 is drawn and not printed.
EXPECTED: dict[str, Any] = {
    "score_at_10M_frames": {ADAPTIVE: 265.62, EBU_HALF: 174.76, EBU_ONE: None},
    "score_at_20M_frames": {ADAPTIVE: 443.34, EBU_HALF: None, EBU_ONE: None},
    "nature_dqn_200M": 401.2,
    "beta_at_the_end": 0.5,
}


def _table(rows: Sequence[dict[str, Any]], games: Sequence[str]) -> output.Table:
    lines = []
    for method in METHODS:
        mine = [row for row in rows if row["part"] == "run" and row["method"] == method]
        whole = [row for row in mine if row["steps"] >= atari.STEPS_20M]
        lines.append([
            method, str(len(mine)), output.cell(EXPECTED["score_at_10M_frames"][method]),
            output.cell(atari.average(mine, "best_at_10M_frames")), output.cell(EXPECTED["score_at_20M_frames"][method]),
            output.cell(atari.average(whole, "best_score")), output.cell(atari.average(mine, "best_score")),
            output.cell(EXPECTED["beta_at_the_end"] if method == ADAPTIVE else None),
            output.cell(atari.average(mine, "final_beta")),
        ])  # fmt: skip
    nature = output.cell(EXPECTED["nature_dqn_200M"])
    lines.append(["Nature DQN, 200M frames", output.NOT_RUN, nature, output.NOT_RUN, nature, *[output.NOT_RUN] * 4])
    header = (
        "Breakout", "seeds", "paper, 10M frames", "ours, 10M frames", "paper, 20M frames", "ours, 20M frames",
        "ours, all frames", "β at the end, paper", "β at the end, ours",
    )  # fmt: skip
    return output.Table("Best test score so far (mean over seeds) and β", header, lines)


def _draw(out: Path, rows: Sequence[dict[str, Any]], games: Sequence[str]) -> None:
    figure, (left, right) = plots.canvas(2, width=11.5, height=4.4)
    curves = [row for row in rows if row["part"] == "curve"]
    atari.draw_curves(left, curves, "score")
    atari.draw_nature(left, GAME)
    left.set_ylabel("test score")
    plots.legend(left, loc="upper left")
    plots.title(left, f"(a) Test scores in {GAME}")
    atari.draw_beta(right, curves)
    right.set_ylabel("β chosen, mean over seeds")
    plots.title(right, "(b) The diffusion factor of adaptive EBU")
    plots.save(figure, out, ITEM.name)


ALT = (
    "Left: test scores in Breakout of adaptive EBU and of EBU with β = 0.5 and 1, mean and standard deviation over seeds, "
    "with Nature DQN's score after 200M frames. Right: the β that adaptive EBU chose at each synchronisation."
)
ITEM = atari.curves_item(__name__, __doc__, ALT, SETTINGS, methods=METHODS, draw=_draw, table=_table)
