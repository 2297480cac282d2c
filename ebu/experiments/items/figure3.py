"""Figure 3: the 2D MNIST maze

The paper: 10 by 10 cells with random walls, from (0, 0) to (9, 9); a cell is shown as its two coordinates in MNIST digits.

The paper shows one picture and gives the rules in words. The rules are read off the environment itself by playing; how
long the shortest ways are, and how long a walk at random takes, comes from many mazes of each density.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase, SubFigure

from ebu.envs.maze_layout import MOVES, UNREACHABLE, Maze, random_walls
from ebu.envs.mnist_maze import MNISTMaze
from ebu.experiments import output, plots
from ebu.experiments.item import Item

DENSITIES = (0.2, 0.3, 0.4, 0.5)
SHOWN = 0.3  # the density of the large picture
VIEWS = ((0, 0), (0, 0), (0, 0), "middle", "middle", "middle")  # cells whose observation is shown: redrawn each time
SETTINGS: dict[str, dict[str, int]] = {
    "quick": {"draws": 4_000, "walks": 20},
    "laptop": {"draws": 40_000, "walks": 200},
    "full": {"draws": 40_000, "walks": 1_000},
}
SECONDS = {"quick": 5, "laptop": 14, "full": 40}  # on one core
EXPECTED: dict[str, Any] = {
    "cells": "10 × 10",
    "start": "(0, 0)",
    "goal": "(9, 9)",
    "reward at the goal": "1000",
    "reward for a bump": "-1",
    "steps until an episode is cut": "1000",
    "actions": "4",
}


def run(budget: str, out: Path, seed: int = 0) -> list[dict[str, Any]]:
    settings = ITEM.at(budget)
    env = MNISTMaze(wall_density=SHOWN, maze_seed=seed)
    rules = {"part": "rules", "layout": env.maze.lines(), **_rules(env)}
    rng = np.random.default_rng(seed)
    rows = [rules, *(_statistics(density, settings, rng) for density in DENSITIES)]
    out.mkdir(parents=True, exist_ok=True)
    _draw(out, env, seed)
    return output.write(ITEM, out, rows, tables(rows), budget=budget, seed=seed)


def note(budget: str) -> str:
    chosen, full = SETTINGS[budget], SETTINGS["full"]
    return (
        f"Budget {budget}: statistics of {chosen['draws']:,} layouts and {chosen['walks']:,} random walks for each density "
        f"instead of {full['draws']:,} and {full['walks']:,}. The maze is the same."
    )


def _rules(env: MNISTMaze) -> dict[str, Any]:
    """What playing shows: along the shortest path to the goal, into a wall, and into the step limit."""
    _, info = env.reset(seed=0)
    start, reward, over = info["position"], 0.0, False
    while not over:
        _, reward, over, _, info = env.step(towards_goal(env.maze, info["position"]))
    goal, steps = info["position"], info["steps"]
    env.reset(seed=0)
    bump, cut = 0.0, False
    for action in range(len(MOVES)):
        _, cost, _, _, info = env.step(action)
        bump = min(bump, float(cost))
        if not info["bumped"]:
            env.reset(seed=0)
    env.reset(seed=0)
    while not cut:
        _, _, _, cut, info = env.step(0)  # up, against the border
    return {
        "cells": f"{env.maze.size} × {env.maze.size}",
        "start": str(start),
        "goal": str(goal),
        "shortest_path": steps,
        "reward at the goal": f"{reward:g}",
        "reward for a bump": f"{bump:g}",
        "steps until an episode is cut": str(info["steps"]),
        "actions": str(len(MOVES)),
        "observation": " × ".join(map(str, env.observation_space.shape or ())),
    }


def towards_goal(maze: Maze, position: tuple[int, int]) -> int:
    """The first action that leads nearer to the goal."""
    after = [(position[0] + down, position[1] + right) for down, right in MOVES]
    return next(a for a, cell in enumerate(after) if maze.free(cell) and maze.distances[cell] < maze.distances[position])


def _statistics(density: float, settings: dict[str, int], rng: np.random.Generator) -> dict[str, Any]:
    lengths, kept = [], 0
    while kept < settings["draws"]:
        kept += 1
        maze = Maze.from_walls(random_walls(rng, 10, density))
        if maze.shortest_path != UNREACHABLE:
            lengths.append(maze.shortest_path)
    walks = [_random_walk(MNISTMaze(wall_density=density, maze_seed=k), rng) for k in range(settings["walks"])]
    return {
        "part": "density",
        "wall_density": density,
        "layouts": settings["draws"],
        "solvable_share": plots.number(len(lengths) / settings["draws"], 4),
        "shortest_path_mean": plots.number(np.mean(lengths), 3),
        "shortest_path_largest": int(max(lengths)),
        "random_walks": settings["walks"],
        "random_walk_relative_length": plots.number(np.mean(walks), 3),
    }


def _random_walk(env: MNISTMaze, rng: np.random.Generator) -> float:
    env.reset(seed=int(rng.integers(2**31)))
    over = False
    while not over:
        _, _, terminated, truncated, info = env.step(int(rng.integers(len(MOVES))))
        over = terminated or truncated
    return float(info["steps"] / info["shortest_path"])


def tables(rows: list[dict[str, Any]]) -> list[output.Table]:
    found = [[name, value, rows[0][name]] for name, value in EXPECTED.items()]
    rules = output.Table("The rules", ("", "paper", "ours"), found)
    lines = [
        [
            f"{100 * row['wall_density']:.0f} %", f"{row['solvable_share']:.3f}", f"{row['shortest_path_mean']:.1f}",
            str(row["shortest_path_largest"]), f"{row['random_walk_relative_length']:.1f}",
        ]
        for row in rows[1:]
    ]  # fmt: skip
    header = ("walls", "solvable share", "shortest path, mean", "largest", "random walk / shortest")
    return [rules, output.Table("Mazes of each density (ours; the paper prints none of this)", header, lines)]


def _draw(out: Path, env: MNISTMaze, seed: int) -> None:
    figure = plots.sheet(width=11.5, height=5.6)
    left, right = _split(figure, 1, 2, width_ratios=[1.05, 1])
    ax = left.subplots()
    _, info = env.reset(seed=seed)
    over = False
    while not over:
        _, _, over, _, info = env.step(towards_goal(env.maze, info["position"]))
    _picture(ax, env.render_picture(), f"Wall density {100 * SHOWN:.0f} %, a shortest path")
    above, below = _split(right, 2, 1, height_ratios=[1.35, 1])
    cells = env.all_positions()
    middle = cells[len(cells) // 2]
    rng = np.random.default_rng(seed)
    above.suptitle(
        "What the agent sees: the digits are drawn anew at each visit", fontsize=10.5, color=plots.INK, fontweight="bold"
    )
    for ax, view in zip(above.subplots(2, 3).flat, VIEWS):
        position = middle if view == "middle" else (0, 0)
        _picture(ax, np.hstack(list(env.state_observation(position, rng))), f"cell {position}", small=True)
    below.suptitle("One maze of each density", fontsize=10.5, color=plots.INK, fontweight="bold")
    for ax, density in zip(below.subplots(1, len(DENSITIES)), DENSITIES):
        walls = MNISTMaze(wall_density=density, maze_seed=seed).maze.walls
        _picture(ax, np.where(walls, 60, 235).astype(np.uint8), f"{100 * density:.0f} %", small=True)
    plots.save(figure, out, ITEM.name)


def _split(figure: FigureBase, rows: int, columns: int, **ratios: Any) -> list[SubFigure]:
    return list(np.ravel(np.asarray(figure.subfigures(rows, columns, **ratios))))


def _picture(ax: Axes, image: np.ndarray, words: str, small: bool = False) -> None:
    ax.imshow(image, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    ax.set_axis_off()
    ax.set_title(
        words,
        fontsize=8.5 if small else 10.5,
        color=plots.INK,
        loc="center" if small else "left",
        fontweight=None if small else "bold",
    )


ALT = (
    "A maze of ten by ten cells with its walls and a shortest path from the top left to the bottom right corner, pairs of "
    "handwritten digits as the agent sees them, and one maze for each wall density."
)
ITEM = Item.of(__name__, __doc__, ALT, SETTINGS, run=run, seconds=SECONDS, note=note, tables=tables)
