"""Overestimation: Q beside the return that followed, and the β that adaptive EBU chose, in MinAtar

The paper's questions of Figures 5 and 6 where runs are short: with β = 1 recursive maxima should overestimate, with β = 0.5
Q should stay near the return, and adaptive EBU should begin with a large β and lower it.

The runs are those of the item ``minatar``. Q is the mean over the states of the evaluation's episodes, the return is the
discounted one that really followed from them, and a Q above it is overestimation.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from ebu.experiments import atari, output, plots
from ebu.experiments.item import Item
from ebu.experiments.items import minatar
from ebu.experiments.suites.item import note, trials_of
from ebu.experiments.suites.tasks import ADAPTIVE, DQN, EBU_HALF, EBU_ONE, LOOK, Task
from ebu.experiments.sweeps.trials import Trial
from ebu.report.rows import Run, read_run

THOUSANDS = 1 / 1000, "thousand steps"
METHODS = (EBU_HALF, EBU_ONE, DQN, ADAPTIVE)
SETTINGS: dict[str, dict[str, Any]] = {
    budget: settings | {"methods": METHODS} for budget, settings in minatar.SETTINGS.items()
}


def trials(budget: str, seed: int = 0) -> list[Trial]:
    return trials_of(ITEM.at(budget), seed)


def analyse(budget: str, trials: Sequence[Trial], folders: Sequence[Path], out: Path) -> list[dict[str, Any]]:
    tasks, methods = ITEM.at(budget)["tasks"], ITEM.at(budget)["methods"]
    names = {task.env: task.name for task in tasks}
    runs = [(one, read_run(folder)) for one, folder in zip(trials, folders)]
    done = [(one, run) for one, run in runs if run.state == "finished" and run.points("eval", "mean_q")]
    rows = [_run_row(names[one.env], one, run) for one, run in done]
    for task in tasks:
        for method in methods:
            mine = [run for one, run in done if (one.env, one.label) == (task.env, method)]
            rows += [atari.curve_row(task.name, method, mine)] if mine else []
    _draw(out, rows, tasks, ITEM.at(budget)["scale"]["steps"])
    return output.write_trained(ITEM, out, rows, [_table(rows, tasks, methods)], budget, trials, folders)


def _run_row(game: str, one: Trial, run: Run) -> dict[str, Any]:
    ends = atari.last_values(run)
    return {
        "part": "run",
        "trial": one.id,
        "game": game,
        "method": one.label,
        "seed": one.seed,
        "score": ends["score"],
        "q": ends["q"],
        "return": ends["return"],
        "beta": ends["beta"],
    }


def _table(rows: Sequence[dict[str, Any]], tasks: Sequence[Task], methods: Sequence[str]) -> output.Table:
    lines = []
    for task in tasks:
        for method in methods:
            mine = [row for row in rows if (row["part"], row["game"], row["method"]) == ("run", task.name, method)]
            if not mine:
                continue
            q, came = atari.average(mine, "q"), atari.average(mine, "return")
            gap, factor = (None, None) if q is None or came is None else (q - came, q / came if came > 0 else None)
            lines.append([
                task.name, method, str(len(mine)), output.cell(q), output.cell(came), output.cell(gap), output.cell(factor),
                output.cell(atari.average(mine, "beta")),
            ])  # fmt: skip
    header = ("game", "method", "seeds", "Q at the end", "return that followed", "Q − return", "Q / return", "β at the end")
    return output.Table("Overestimation at the last evaluation (means over seeds)", header, lines)


def _draw(out: Path, rows: Sequence[dict[str, Any]], tasks: Sequence[Task], steps: int) -> None:
    figure, axes = plots.canvas(len(tasks), rows=2, width=3.1 * len(tasks) + 0.6, height=6.2)
    for i, task in enumerate(tasks):
        above, below = axes[i], axes[len(tasks) + i]
        mine = [row for row in rows if row["part"] == "curve" and row["game"] == task.name]
        _draw_values(above, mine, steps)
        plots.title(above, task.name)
        atari.draw_beta(below, mine, THOUSANDS)
    axes[0].set_ylabel("Q; dotted: the return that followed", fontsize=9)
    axes[len(tasks)].set_ylabel("β chosen by adaptive EBU", fontsize=9)
    shown = dict.fromkeys(row["method"] for row in rows if row["part"] == "curve")
    handles = [axes[0].plot([], [], color=LOOK[m][0], ls="-", lw=2, label=m)[0] for m in shown]
    if handles:
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=9)
    plots.save(figure, out, ITEM.name)


def _draw_values(ax: Axes, curves: Sequence[dict[str, Any]], steps: int) -> None:
    for row in curves:
        colour = LOOK[row["method"]][0]
        for column, line in (("q", "-"), ("return", ":")):
            ax.plot(np.array(row[f"{column}_steps"]) * THOUSANDS[0], row[f"{column}_mean"], line, color=colour, lw=1.7)
    if not curves:
        ax.text(0.5, 0.5, "not run", transform=ax.transAxes, ha="center", color=plots.GREY, fontsize=9)
    ax.set_xlim(0, steps * THOUSANDS[0])
    ax.set_xlabel(THOUSANDS[1])


ALT = (
    "Above, one panel for each game: the mean Q of each method along the training, and dotted the discounted return that "
    "followed. Below: the β that adaptive EBU chose at each synchronisation."
)
ITEM = Item.of(__name__, __doc__, ALT, SETTINGS, trials=trials, analyse=analyse, note=lambda budget: note(budget, SETTINGS))
