"""Table 2: training time and human-normalised scores

The paper: EBU (β = 0.5) reaches Nature DQN's mean after 10M frames instead of 200M, adaptive EBU (nearly) its median after
20M, at about the training time of DQN.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ebu.envs.atari_games import paper_scores
from ebu.experiments import atari, output, plots
from ebu.experiments import own_scores as own
from ebu.experiments.atari import ADAPTIVE, DQN, EBU_HALF, PER, RETRACE, TIGHTENING
from ebu.experiments.item import Item
from ebu.experiments.own_scores import Column
from ebu.experiments.sweeps.trials import Trial
from ebu.report.rows import read_run
from ebu.report.scores import aggregate, human_normalised_scores, paper_table_2

SEEDS = {EBU_HALF: 8, ADAPTIVE: 4, DQN: 8, PER: 8, RETRACE: 8, TIGHTENING: 8}
SETTINGS: dict[str, dict[str, Any]] = {
    "quick": {"games": (), "seeds": {}, "scale": atari.QUICK},  # the paper's raw scores need no training
    "laptop": {"games": ("Breakout", "Pong"), "seeds": dict.fromkeys(SEEDS, 1), "scale": atari.LAPTOP},
    "full": {"games": atari.ALL_GAMES, "seeds": SEEDS, "scale": atari.FULL_10M},
}
# Training hours of 49 games on one TITAN Xp, mean %, median %.
EXPECTED: dict[str, tuple[int | None, float, float]] = {
    "ebu_0.5_10M": (152, 253.55, 51.55),
    "adaptive_ebu_10M": (203, 275.78, 63.80),
    "dqn_10M": (138, 133.95, 40.42),
    "per_10M": (146, 156.57, 40.86),
    "retrace_10M": (154, 93.77, 41.99),
    "ot_10M": (407, 162.66, 49.42),
    "adaptive_ebu_20M": (450, 347.99, 92.50),
    "nature_dqn_200M": (None, 241.06, 93.52),
}
NAMES = {
    **{column: f"{label} (10M)" for label, column in atari.PUBLISHED.items()},
    "adaptive_ebu_20M": f"{ADAPTIVE} (20M)",
    "nature_dqn_200M": "Nature DQN (200M)",
}


def trials(budget: str, seed: int = 0) -> list[Trial]:
    """In ``full`` adaptive EBU plays 20M frames: its first half is the 10M-frame run."""
    settings = ITEM.at(budget)
    found = []
    for method, seeds in settings["seeds"].items():
        scale = atari.FULL_20M if budget == "full" and method == ADAPTIVE else settings["scale"]
        found += atari.trials_of(settings["games"], [method], seeds, seed, scale)
    return found


def analyse(budget: str, trials: Sequence[Trial], folders: Sequence[Path], out: Path) -> list[dict[str, Any]]:
    ITEM.at(budget)
    runs = own.own_runs(out, folders)
    ours = own.columns(map(read_run, runs))
    rows = [_published_row(column) for column in EXPECTED]
    rows += [_own_row(column) for column in ours]
    out.mkdir(parents=True, exist_ok=True)
    _draw(out, rows)
    tables = [_published_table(rows), *([_own_table(rows)] if ours else [])]
    return own.write(ITEM, out, rows, tables, budget, trials, runs, ours)


def _published_row(column: str) -> dict[str, Any]:
    hours, mean, median = EXPECTED[column]
    found = paper_table_2()[column]
    return {
        "part": "paper",
        "method": NAMES[column],
        "hours": hours,
        "printed_mean": mean,
        "printed_median": median,
        "mean": plots.number(found.mean, 2),
        "median": plots.number(found.median, 2),
        "interquartile_mean": plots.number(found.interquartile_mean, 2),
    }


def _own_row(column: Column) -> dict[str, Any]:
    """Ours, and the paper's same method over the same games."""
    found = column.normalised()
    row: dict[str, Any] = {
        "part": "ours",
        "method": column.name,
        "games": list(column.scores),
        "mean": plots.number(found.mean, 2),
        "median": plots.number(found.median, 2),
        "hours_for_49_games_of_10M_frames": _hours(column.hours_for_the_paper()),
    }
    if column.published:
        paper = {name: score for name, score in paper_scores(column.published).items() if name in column.scores}
        theirs = aggregate(human_normalised_scores(paper).values())
        row |= {"paper_mean": plots.number(theirs.mean, 2), "paper_median": plots.number(theirs.median, 2)}
        row["paper_hours"] = EXPECTED[column.published][0]
    return row


def _hours(value: float | None) -> float | None:
    return None if value is None else plots.number(value, 1)


def _published_table(rows: Sequence[dict[str, Any]]) -> output.Table:
    lines = [
        [
            row["method"], output.cell(row["hours"], 0), output.cell(row["printed_mean"]), output.cell(row["mean"]),
            output.cell(row["printed_median"]), output.cell(row["median"]), output.cell(row["interquartile_mean"]),
        ]
        for row in rows
        if row["part"] == "paper"
    ]  # fmt: skip
    header = (
        "method (frames)", "training time, hours", "mean %, printed", "mean %, recomputed", "median %, printed",
        "median %, recomputed", "interquartile mean %",
    )  # fmt: skip
    return output.Table("49 games: as printed, and recomputed from the raw scores of Table 3", header, lines)


def _own_table(rows: Sequence[dict[str, Any]]) -> output.Table:
    lines = [
        [
            row["method"], ", ".join(row["games"]) if len(row["games"]) < 5 else str(len(row["games"])),
            output.cell(row.get("paper_mean"), 1), output.cell(row["mean"], 1), output.cell(row.get("paper_median"), 1),
            output.cell(row["median"], 1), output.cell(row.get("paper_hours"), 0),
            output.cell(row["hours_for_49_games_of_10M_frames"], 0),
        ]
        for row in rows
        if row["part"] == "ours"
    ]  # fmt: skip
    header = (
        "method", "games", "mean %, paper (10M)", "mean %, ours", "median %, paper (10M)", "median %, ours",
        "hours for 49 games of 10M frames, paper (one TITAN Xp)", "hours at our measured speed",
    )  # fmt: skip
    return output.Table("Our runs, and the paper's same method over the same games", header, lines)


def _draw(out: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Printed as bars, recomputed as marks on them: they should sit on the ends."""
    paper = [row for row in rows if row["part"] == "paper"]
    figure, axes = plots.canvas(3, width=14.0, height=4.4, sharey=True)
    at = np.arange(len(paper))[::-1]
    for ax, (which, words) in zip(axes, (("mean", "mean %"), ("median", "median %"), ("hours", "training time, hours"))):
        values = np.array([row["hours" if which == "hours" else f"printed_{which}"] or np.nan for row in paper], dtype=float)
        colours = [plots.BLUE if "EBU" in row["method"] else plots.GREY for row in paper]
        ax.barh(at, values, color=colours, height=0.62, alpha=0.85)
        if which != "hours":
            ax.plot([row[which] for row in paper], at, "D", ms=5.5, mfc="white", mec=plots.INK, ls="", label="recomputed")
        digits = 0 if which == "hours" else 2
        for y, value in zip(at, values):
            end, text = (0, output.NOT_RUN) if np.isnan(value) else (value, output.cell(value, digits))
            beside: dict[str, Any] = {"textcoords": "offset points", "va": "center", "fontsize": 8.5, "color": plots.INK}
            ax.annotate(text, (end, y), (8, 0), **beside)
        ax.set_yticks(at, labels=[row["method"] for row in paper])
        ax.margins(x=0.2)
        ax.grid(False, axis="y")
        plots.title(ax, words)
    plots.legend(axes[0], loc="lower right")
    plots.save(figure, out, ITEM.name)


ALT = "Mean and median human-normalised score of each method over 49 games: as printed, and recomputed from the raw scores."
ITEM = Item.of(__name__, __doc__, ALT, SETTINGS, trials=trials, analyse=analyse)
