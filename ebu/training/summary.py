"""How a run ended: a few facts, a curve in the terminal, the same curve as a picture."""

from __future__ import annotations

from io import BytesIO
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal

from ebu.storage.files import write_atomically
from ebu.storage.run_folder import RunFolder, evaluations

BARS = "▁▂▃▄▅▆▇█"
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#666666"


def summarise(folder: RunFolder, steps: int = 0) -> dict[str, Any]:
    """The facts of a run that finished at this step, from its rows; the last of these may be of an earlier step."""
    config, rows = folder.config(), folder.rows()
    tests = evaluations(rows)
    summary: dict[str, Any] = {
        "algo": config.algo,
        "env": config.environment.env,
        "seed": config.run.seed,
        "steps": max([steps, *(row["step"] for row in rows)]),
    }
    if tests:
        scores = [test["mean_reward"] for test in tests]
        summary["score"] = aggregate(scores, config.evaluation.eval_aggregate)[-1]
        summary["score_is"] = config.evaluation.eval_aggregate
        summary["final_mean_reward"] = scores[-1]
        summary["best_mean_reward"] = max(scores)
        if "relative_lengths" in tests[-1]:
            summary["greedy_relative_length"] = _mean(tests[-1]["relative_lengths"])
    latest = [row["relative_length"] for row in rows if "relative_length" in row]
    if latest:
        summary["training_relative_length"] = latest[-1]
    return summary


def aggregate(scores: list[float], how: Literal["last", "best"]) -> list[float]:
    """The run's score after each evaluation: that evaluation, or the best so far."""
    return scores if how == "last" else list(accumulate(scores, max))


def sparkline(values: list[float], width: int = 60) -> str:
    """A curve in one line of text."""
    if len(values) > width:
        values = [values[round(i * (len(values) - 1) / (width - 1))] for i in range(width)]
    low, high = min(values), max(values)
    if high == low:
        return BARS[3] * len(values)
    return "".join(BARS[round((v - low) / (high - low) * (len(BARS) - 1))] for v in values)


def draw_curve(folder: RunFolder, path: Path) -> None:
    """Greedy score over steps, the best so far where that is the run's score, and the training score behind them."""
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
        if config.evaluation.eval_aggregate == "best":
            steps, scores = zip(*tests)
            axes.step(steps, aggregate(list(scores), "best"), color=ORANGE, lw=1.5, where="post", label="best so far")
    axes.set(xlabel="agent steps", ylabel="score", title=f"{config.algo} on {config.environment.env}, seed {config.run.seed}")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    if train or tests:
        axes.legend(frameon=False)
    drawn = BytesIO()
    figure.savefig(drawn, format="png")
    write_atomically(path, drawn.getvalue())


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
