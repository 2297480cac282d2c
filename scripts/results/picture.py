"""The README's picture: a learned maze, EBU beside its rivals on the paper's mazes, and the Atari runs there are."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from PIL import Image, PngImagePlugin

from ebu.envs.atari_games import find_game
from ebu.experiments import atari, mazes, plots
from ebu.report.rows import Run
from scripts.results.claims import is_of_the_paper, short
from scripts.results.tree import Tree, preset_of, several

COLOURS = {"ebu": plots.BLUE, "dqn": plots.VERMILION, "adaptive-ebu": plots.GREEN, "n-step": plots.ORANGE, "per": plots.PINK}
NAMES = {"ebu": "EBU", "dqn": "DQN"}
DELAY_TITLE = "MinAtar, rewards at the end"
GAMES_SHOWN = 1
COLUMNS = 2  # of panels: four side by side cannot be read on a page


def shown(tree: Tree) -> dict[str, Any]:
    """Everything the picture draws, as plain numbers."""
    return {"mazes": maze_panel(tree), "delay": delay_panel(tree), "atari": atari_panels(tree)}


def maze_panel(tree: Tree) -> dict[str, Any]:
    """Method → median path over the shortest along the training, with its interval over mazes."""
    rows = tree.item_rows("figure2", "pooled")
    if not is_of_the_paper(tree.item_rows("table1", "cell")) or not all(row["mazes"] for row in rows):
        return {}
    names = ("mazes", *(f"latest_ten_{name}" for name in ("steps", "median", "median_low", "median_high")))
    return {row["method"]: {name: row[name] for name in names} for row in rows}


def delay_panel(tree: Tree) -> dict[str, Any]:
    """Method → normalised area under the curve of the games as they are and with all reward at the end, with intervals."""
    found: dict[str, Any] = {}
    for row in tree.item_rows("delay", "aggregate"):
        if row["area_iqm"] is not None:
            numbers = [row["area_iqm"], row["area_iqm_low"], row["area_iqm_high"], row["runs"]]
            found.setdefault(row["method"], {})[row["group"]] = numbers
    return {method: groups for method, groups in found.items() if len(groups) == 2}


def atari_panels(tree: Tree) -> dict[str, Any]:
    """The games with the longest runs: test scores by method, mean over seeds at the steps that all have."""
    found: dict[str, dict[str, list[Run]]] = {}
    for run in tree.atari_runs():
        if (game := find_game(run.env)) and run.points("eval", "mean_reward"):
            found.setdefault(f"{game.name} ({preset_of(run)} preset)", {}).setdefault(run.algo, []).append(run)

    def weight(name: str) -> tuple[int, int]:  # the longest, then the most runs
        runs = [run for group in found[name].values() for run in group]
        return max(run.step for run in runs), len(runs)

    chosen = sorted(found, key=weight, reverse=True)[:GAMES_SHOWN]
    return {name: {algo: _mean_points(_longest(runs)) for algo, runs in sorted(found[name].items())} for name in chosen}


def _longest(runs: Sequence[Run]) -> list[Run]:
    """Of runs of one method, game and preset, those with the most planned steps."""
    most = max((run.planned_steps for run in runs), default=0)
    return [run for run in runs if run.planned_steps == most]


def _mean_points(runs: Sequence[Run]) -> dict[str, Any]:
    curves = [dict(run.points("eval", "mean_reward")) for run in runs]
    common = sorted(set.intersection(*(set(curve) for curve in curves)))
    values = [[curve[step] for curve in curves] for step in common]
    return {
        "seeds": len(runs),
        "frames": [round(step * atari.FRAMES_PER_STEP / 1e6, 6) for step in common],
        "mean": [round(float(np.mean(column)), 4) for column in values],
        "each": [[round(float(value), 4) for value in column] for column in values],
    }


# ---------------------------------------------------------------------- the digest


def digest(tree: Tree) -> str:
    """Of what the picture shows. It is written into the picture, as pixels may differ between versions of libraries."""
    text = json.dumps(shown(tree), sort_keys=True) + hashlib.sha256(tree.maze.read_bytes()).hexdigest()
    return hashlib.sha256(text.encode()).hexdigest()


def digest_in_picture(tree: Tree) -> str:
    if not tree.picture.exists():
        return ""
    with Image.open(tree.picture) as image:
        return str(image.info.get("Rows", ""))


# ---------------------------------------------------------------------- the drawing


def draw(tree: Tree) -> None:
    panels = shown(tree)
    count = 1 + bool(panels["mazes"]) + bool(panels["delay"]) + len(panels["atari"])
    figure, axes = plots.canvas(COLUMNS, rows=-(-count // COLUMNS), width=9.2, height=3.9 * -(-count // COLUMNS))
    axes[0].imshow(Image.open(tree.maze), interpolation="antialiased")
    axes[0].set_axis_off()
    plots.title(axes[0], "A maze learned by EBU")
    free = iter(axes[1:])
    if panels["mazes"]:
        _draw_mazes(next(free), panels["mazes"])
    if panels["delay"]:
        _draw_delay(next(free), panels["delay"])
    for title, curves in panels["atari"].items():
        _draw_game(next(free), title, curves)
    for unused in free:
        unused.set_axis_off()
    plots.save(figure, tree.picture.parent, tree.picture.stem)
    with Image.open(tree.picture) as image:
        notes = PngImagePlugin.PngInfo()
        notes.add_text("Rows", digest(tree))
        image.save(tree.picture, pnginfo=notes, optimize=True, dpi=(plots.DPI, plots.DPI))


def _draw_mazes(ax: Axes, curves: dict[str, Any]) -> None:
    for method, row in curves.items():
        colour, line = mazes.LOOK[method]
        x = np.array(row["latest_ten_steps"]) / 1000
        low, median, high = (np.array(row[f"latest_ten_median{end}"], dtype=float) for end in ("_low", "", "_high"))
        ax.fill_between(x, low, high, color=colour, alpha=0.13, lw=0)
        ax.plot(x, median, line, color=colour, lw=2, label=short(method))
    ax.set_yscale("log")
    ax.set_yticks([1, 2, 5, 10, 20, 50], labels=["1", "2", "5", "10", "20", "50"])
    ax.minorticks_off()
    ax.set_ylim(0.85, 70)
    ax.set_xlim(0, 200)
    ax.set_xlabel("thousand steps")
    ax.set_ylabel("path / shortest")
    count = min(row["mazes"] for row in curves.values())
    plots.title(ax, f"The paper's maze, median of {count}")
    plots.legend(ax, loc="lower left")


def _draw_delay(ax: Axes, methods: dict[str, Any]) -> None:
    for i, groups in enumerate(methods.values()):
        for (value, low, high, _), offset, face in zip(groups.values(), (-0.16, 0.16), (plots.GREY, plots.BLUE)):
            if low is not None:
                ax.hlines(i + offset, low, high, color=face, lw=1.6, alpha=0.7)
            ax.plot(value, i + offset, "o", ms=6, color=face)
    ax.set_yticks(range(len(methods)), labels=list(methods), fontsize=8)
    ax.set_ylim(len(methods) - 0.4, -0.6)
    ax.set_xlim(left=0.0)
    fewest = min(numbers[-1] for groups in methods.values() for numbers in groups.values())
    ax.set_xlabel(f"area under the normalised curve ({fewest} runs);\ngrey: rewards as they are", fontsize=8.5)
    plots.title(ax, DELAY_TITLE)


def _draw_game(ax: Axes, title: str, curves: dict[str, Any]) -> None:
    for algo, row in curves.items():
        colour = COLOURS.get(algo, plots.GREY)
        for single in zip(*row["each"]) if row["seeds"] > 1 else ():
            ax.plot(row["frames"], single, color=colour, lw=0.8, alpha=0.4)
        label = f"{NAMES.get(algo, algo)}, {several(row['seeds'], 'seed')}"
        ax.plot(row["frames"], row["mean"], color=colour, lw=2, label=label, marker="o", ms=3)
    ax.set_xlabel("million frames")
    ax.set_ylabel("test score")
    plots.title(ax, title)
    plots.legend(ax, loc="best")
