"""The picture of a suite: curves of every task, and scores over all tasks of a group."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from ebu.experiments import plots
from ebu.experiments.suites.columns import Row
from ebu.experiments.suites.tasks import EVERY_METHOD, Task, look_of, without_change

MOST_CURVES = 10  # that can be told apart in one panel
LETTER, LINE = 0.068, 0.6  # inches of the legend: a letter, and the line before the text with what separates two columns


def draw(name: str, out: Path, rows: Sequence[Row], tasks: Sequence[Task], methods: Sequence[str], steps: int) -> None:
    """Curves of every task in a panel of its own, and the aggregate of each group in the last panel of its row."""
    curves = [row for row in rows if row["part"] == "curve"]
    aggregates = [row for row in rows if row["part"] == "aggregate"]
    known = {row["method"] for row in curves}
    shown = best_values([method for method in methods if method in known], aggregates)
    scored = [row for row in aggregates if row["final_iqm"] is not None]
    groups = list(dict.fromkeys(task.group for task in tasks))
    most = max(sum(task.group == group for task in tasks) for group in groups) + 1
    columns = most if len(groups) > 1 else -(-most // 2) if most > 4 else most
    bands = len(groups) if len(groups) > 1 else -(-most // columns)
    band = max(2.9, 0.17 * len({row["method"] for row in scored}) + 0.7)  # room for all names
    width = 3.1 * columns + 0.6
    figure, axes = plots.canvas(columns, rows=bands, width=width, height=band * bands + 0.9)
    free = list(axes)
    heights: dict[str, list[Axes]] = {}  # panels of one environment have one scale
    for i, group in enumerate(groups):
        members = [task for task in tasks if task.group == group]
        panels = axes[i * columns : (i + 1) * columns] if len(groups) > 1 else axes
        for ax, task in zip(panels, members):
            _draw_curves(ax, [row for row in curves if row["task"] == task.name and row["method"] in shown], task, steps)
            heights.setdefault(task.env, []).append(ax)
            free.remove(ax)
        last = panels[-1] if len(groups) > 1 else panels[len(members)]
        _draw_aggregate(last, [row for row in scored if row["group"] == group], group)
        free.remove(last)
    for ax in free:
        ax.set_axis_off()
    for same in heights.values():
        limits = [ax.get_ylim() for ax in same]
        for ax in same:
            ax.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))
    looks = {method: look_of(method) for method in shown}
    handles = [axes[0].plot([], [], color=c, ls=line, lw=w, label=method)[0] for method, (c, line, w) in looks.items()]
    if handles:
        fitting = int(width / (LINE + LETTER * max(map(len, shown))))
        figure.legend(
            handles=handles, loc="outside lower center", ncols=max(min(len(handles), fitting), 1), frameon=False, fontsize=9,
            labelcolor=plots.INK, title="of each method the value with the largest area" if known - set(shown) else None,
            title_fontsize=8,
        )  # fmt: skip
    plots.save(figure, out, name)


def best_values(methods: Sequence[str], aggregates: Sequence[Row]) -> list[str]:
    """The methods whose curves are drawn: all, or where these are too many, the value of each with the largest area."""
    if len(methods) <= MOST_CURVES:
        return list(methods)
    best: dict[str, tuple[int, float, str]] = {}  # one with scores of more groups comes first
    for method in methods:
        algo, _ = EVERY_METHOD[without_change(method)[0]]
        areas = [row["area_iqm"] for row in aggregates if row["method"] == method and row["area_iqm"] is not None]
        if areas:
            best[algo] = max(best.get(algo, (0, 0.0, method)), (len(areas), float(np.mean(areas)), method))
    chosen = {method for *_, method in best.values()}
    return [method for method in methods if method in chosen]


def _draw_curves(ax: Axes, curves: Sequence[Row], task: Task, steps: int) -> None:
    for row in curves:
        colour, line, width = look_of(row["method"])
        x = np.array(row["steps"]) / 1000
        low, high = (np.array(row[end], dtype=float) for end in ("low", "high"))
        ax.fill_between(x, low, high, color=colour, alpha=0.10, lw=0)
        ax.plot(x, row["mean"], ls=line, color=colour, lw=width)
    ax.axhline(task.floor, color=plots.GREY, lw=0.8, ls=":")
    counts = {row["seeds"] for row in curves}
    if counts:
        many = " to ".join(dict.fromkeys(map(str, (min(counts), max(counts)))))
        ax.text(0.02, 0.98, f"{many} seed{'s' * (max(counts) > 1)}", transform=ax.transAxes, va="top", fontsize=7.5,
                color=plots.GREY)  # fmt: skip
    else:
        ax.text(0.5, 0.5, "not run", transform=ax.transAxes, ha="center", color=plots.GREY, fontsize=9)
    ax.set_xlim(0, task.steps(steps) / 1000)
    ax.set_xlabel("thousand steps", fontsize=8.5)
    plots.title(ax, task.name)


def _draw_aggregate(ax: Axes, rows: Sequence[Row], group: str) -> None:
    """Interquartile means of the normalised final scores (filled) and areas (hollow) with their intervals over seeds."""
    for i, row in enumerate(rows):
        colour = look_of(row["method"])[0]
        for name, offset, face in (("final", -0.16, colour), ("area", 0.16, "white")):
            value = row[f"{name}_iqm"]
            if value is None:
                continue
            low, high = row[f"{name}_iqm_low"], row[f"{name}_iqm_high"]
            if low is not None:
                ax.hlines(i + offset, low, high, color=colour, lw=1.6, alpha=0.7)
            ax.plot(value, i + offset, "o", ms=5.5, mfc=face, mec=colour, ls="")
    ax.set_yticks(range(len(rows)), labels=[row["method"] for row in rows], fontsize=7.5)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    low, high = ax.get_xlim()
    ax.set_xlim(min(low, 0.0), max(high, 1.05))
    ax.set_xlabel("normalised score;\nhollow: area under the curve", fontsize=8)
    if not rows:
        ax.text(0.5, 0.5, "no method has a run\nof every task yet", transform=ax.transAxes, ha="center", color=plots.GREY,
                fontsize=9)  # fmt: skip
    plots.title(ax, f"all tasks, {group}" if group else "all tasks")
