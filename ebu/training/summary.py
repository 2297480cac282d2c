"""How a run ended: a few facts, a curve in the terminal, the same curve as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ebu.training.runs import RunFolder, evaluations

BARS = "▁▂▃▄▅▆▇█"
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#666666"


def summarise(folder: RunFolder) -> dict[str, Any]:
    """The facts of a finished run, from its rows."""
    config, rows = folder.config(), folder.rows()
    tests = evaluations(rows)
    summary: dict[str, Any] = {
        "algo": config.algo,
        "env": config.environment.env,
        "seed": config.run.seed,
        "steps": max((row["step"] for row in rows), default=0),
    }
    if tests:
        summary["final_mean_reward"] = tests[-1]["mean_reward"]
        summary["best_mean_reward"] = max(test["mean_reward"] for test in tests)
        if "relative_lengths" in tests[-1]:
            summary["greedy_relative_length"] = _mean(tests[-1]["relative_lengths"])
    latest = [row["relative_length"] for row in rows if "relative_length" in row]
    if latest:
        summary["training_relative_length"] = latest[-1]
    return summary


def sparkline(values: list[float], width: int = 60) -> str:
    """A curve in one line of text."""
    if len(values) > width:
        values = [values[round(i * (len(values) - 1) / (width - 1))] for i in range(width)]
    low, high = min(values), max(values)
    if high == low:
        return BARS[3] * len(values)
    return "".join(BARS[round((v - low) / (high - low) * (len(BARS) - 1))] for v in values)


def draw_curve(folder: RunFolder, path: Path) -> None:
    """Greedy score over steps, with the training score behind it."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    config, rows = folder.config(), folder.rows()
    figure = Figure(figsize=(7, 4), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    train = [(row["step"], row["ep_rew_mean"]) for row in rows if "ep_rew_mean" in row]
    tests = [(row["step"], row["mean_reward"]) for row in evaluations(rows)]
    if train:
        axes.plot(*zip(*train), color=GREY, lw=1.2, label="training episodes (mean of the last 100)")
    if tests:
        axes.plot(*zip(*tests), color=BLUE, lw=2, marker="o", ms=4, label="greedy evaluation")
    axes.set(xlabel="agent steps", ylabel="score", title=f"{config.algo} on {config.environment.env}, seed {config.run.seed}")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    if train or tests:
        axes.legend(frameon=False)
    figure.savefig(path)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
