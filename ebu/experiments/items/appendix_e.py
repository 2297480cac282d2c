"""Appendix E: target generation, step by step

The paper draws how a sampled episode's targets come out of the temporary table, from its end to its beginning; here with the
numbers of a real walk through a small maze.

The paper draws the procedure with symbols. Here an agent has walked through a small maze; Q̂ is the table that one-step
Q-learning had got from some earlier walks. Each column of the temporary table Q̃ belongs to a step of the episode; from
the last step back, the entry of the action that was taken next is mixed with the target just found, and the column's
maximum gives the target before it. The numbers are those of the shipped rule; Algorithm 2 as printed is shown beside them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, Rectangle

from ebu import targets
from ebu.envs.mnist_maze import MNISTMaze
from ebu.experiments import output, plots
from ebu.experiments.item import Item
from ebu.experiments.items.figure3 import towards_goal
from ebu.theory.toys import episode
from ebu.types import Array, Episode

GAMMA, BETA, ALPHA, EXPLORING = 0.9, 0.5, 0.5, 0.4
BETAS = (0.0, 0.5, 1.0)
SIZE, MAZE_SEED, WALK_SEED, EARLIER = 4, 4, 62, 2  # seven steps, one of them a bump, and a column where another action wins
ARROWS = "↑↓←→"

SETTINGS: dict[str, dict[str, Any]] = {budget: {"betas": BETAS} for budget in ("quick", "laptop", "full")}
SECONDS = {"quick": 4, "laptop": 4, "full": 4}  # on one core


def run(budget: str, out: Path, seed: int = 0) -> list[dict[str, Any]]:
    """The walk is fixed, so that the diagram stays the one that is described; ``seed`` is taken as every item does."""
    ITEM.at(budget)
    env, walk, q = walked()
    q_next = q[walk.observations[1:]]
    shipped = {beta: _shipped(walk, q_next, beta) for beta in BETAS}
    printed, mixed = algorithm_2(walk, q_next, BETA)
    rows = []
    for k in range(len(walk)):
        rows.append(
            {
                "step": k + 1,
                "state": _cell(walk.observations[k]),
                "action": ARROWS[walk.actions[k]],
                "reward": float(walk.rewards[k]),
                "next_state": _cell(walk.observations[k + 1]),
                "q_next": [plots.number(value, 6) for value in q_next[k]],
                "replaced": None if k == len(walk) - 1 else ARROWS[walk.actions[k + 1]],
                "replaced_by": None if k == len(walk) - 1 else plots.number(mixed[k], 6),
                "y_algorithm_2": plots.number(printed[k], 6),
                **{f"y_beta_{beta:g}": plots.number(shipped[beta][k], 6) for beta in BETAS},
            }
        )
    out.mkdir(parents=True, exist_ok=True)
    _draw(out, env, rows)
    return output.write(ITEM, out, rows, tables(rows), budget=budget, seed=0)


def walked() -> tuple[MNISTMaze, Episode, Array]:
    """The maze at the end of the walk, the walk over cell numbers, and the table learned before it."""
    env = MNISTMaze(size=SIZE, maze_seed=MAZE_SEED, goal_reward=10.0)
    rng = np.random.default_rng(WALK_SEED)
    q = np.zeros((SIZE * SIZE, 4))
    for _ in range(EARLIER):
        earlier = _walk(env, rng, exploring=1.0)
        for t in range(len(earlier)):
            s, a, following = earlier.observations[t], earlier.actions[t], earlier.observations[t + 1]
            end = earlier.terminated and t == len(earlier) - 1
            q[s, a] += ALPHA * (earlier.rewards[t] + (0.0 if end else GAMMA * q[following].max()) - q[s, a])
    return env, _walk(env, rng, EXPLORING), q


def _walk(env: MNISTMaze, rng: np.random.Generator, exploring: float) -> Episode:
    """An episode: at random with this chance, else along a shortest way."""
    _, info = env.reset(seed=0)
    states, actions, rewards, over = [_number(info["position"])], [], [], False
    while not over:
        action = int(rng.integers(4)) if rng.random() < exploring else towards_goal(env.maze, info["position"])
        _, reward, terminated, truncated, info = env.step(action)
        states.append(_number(info["position"]))
        actions.append(action)
        rewards.append(float(reward))
        over = terminated or truncated
    return episode(states, actions, rewards, terminated)


def _number(position: tuple[int, int]) -> int:
    return position[0] * SIZE + position[1]


def _cell(state: int) -> str:
    return "{},{}".format(*divmod(int(state), SIZE))


def _shipped(walk: Episode, q_next: Array, beta: float) -> Array:
    discounts = np.full(len(walk), GAMMA)
    discounts[-1] = 0.0
    rewards, actions, table = (torch.from_numpy(part) for part in (walk.rewards, walk.actions, q_next))
    return targets.backward(rewards, torch.from_numpy(discounts), actions, table, beta).numpy()


def algorithm_2(walk: Episode, q_next: Array, beta: float) -> tuple[Array, Array]:
    """The targets line by line as printed, and what was put into each column."""
    table, y = q_next.copy(), np.zeros(len(walk))
    put = np.full(len(walk), np.nan)
    y[-1] = walk.rewards[-1]
    for k in range(len(walk) - 2, -1, -1):
        taken = walk.actions[k + 1]
        table[k, taken] = put[k] = beta * y[k + 1] + (1 - beta) * table[k, taken]
        y[k] = walk.rewards[k] + GAMMA * table[k].max()
    return y, put


def tables(rows: list[dict[str, Any]]) -> list[output.Table]:
    lines = [
        [
            str(row["step"]), f"{row['state']} {row['action']} {row['next_state']}", f"{row['reward']:g}",
            "ends here" if row["replaced"] is None else f"Q̃[{row['replaced']}] ← {row['replaced_by']:.3f}",
            f"{row['y_algorithm_2']:.3f}", f"{row['y_beta_0.5']:.3f}", f"{row['y_beta_0']:.3f}", f"{row['y_beta_1']:.3f}",
        ]
        for row in rows
    ]  # fmt: skip
    header = ("k", "step", "R", f"replaced (β={BETA:g})", "y, Algorithm 2 as printed", "y, ours", "y, β=0", "y, β=1")
    return [output.Table(f"The episode's targets (γ = {GAMMA}, β = {BETA})", header, lines)]


def _draw(out: Path, env: MNISTMaze, rows: list[dict[str, Any]]) -> None:
    figure, (left, right) = plots.canvas(2, width=15.0, height=6.0, width_ratios=[1, 2.9])
    left.imshow(env.render_picture())
    left.set_axis_off()
    plots.title(left, "The sampled episode E")
    _draw_table(right, rows)
    plots.save(figure, out, ITEM.name)


def _draw_table(ax: Axes, rows: list[dict[str, Any]]) -> None:
    """Columns are steps; above the episode, in the middle Q̃, below the targets."""
    steps, actions = len(rows), len(ARROWS)
    ax.set_axis_off()
    ax.set_xlim(-1.15, steps + 0.05)
    ax.set_ylim(-2.75, actions + 4.4)
    heads = {"S": "state", "A": "action", "R": "reward", "S′": "next_state"}
    for i, (symbol, key) in enumerate(heads.items()):
        y = actions + 3.5 - 0.62 * i
        ax.text(-0.25, y, symbol, ha="right", va="center", fontsize=11, color=plots.INK, fontweight="bold")
        for k, row in enumerate(rows):
            text = f"{row[key]:g}" if key == "reward" else row[key]
            ax.text(k + 0.5, y, text, ha="center", va="center", fontsize=11, color=plots.INK)
    for k in range(steps):
        ax.text(k + 0.5, actions + 4.15, f"k = {k + 1}", ha="center", va="center", fontsize=9, color=plots.GREY)
    ax.text(-0.25, actions + 0.5, "Q̃", ha="right", va="center", fontsize=13, color=plots.INK, fontweight="bold")
    for a, arrow in enumerate(ARROWS):
        ax.text(-0.25, actions - a - 0.5, arrow, ha="right", va="center", fontsize=13, color=plots.INK)
    for k, row in enumerate(rows):
        _column(ax, k, row, ended=k == steps - 1)
    ax.text(-0.25, -0.9, "y", ha="right", va="center", fontsize=12, color=plots.INK, fontweight="bold")
    ax.text(
        -0.9, -2.0,
        f"blue: the entry of the action taken next, replaced by β·y of the next step + (1 − β)·Q̂ (β = {BETA:g});  "
        "old value struck out\n"
        f"frame: the column's maximum;  y = R + γ · maximum (γ = {GAMMA:g});  the last step ends the episode: y = R",
        fontsize=9.5, color=plots.INK, va="center", linespacing=1.6,
    )  # fmt: skip


def _column(ax: Axes, k: int, row: dict[str, Any], ended: bool) -> None:
    values = list(row["q_next"])
    replaced = None if ended else ARROWS.index(row["replaced"])
    if replaced is not None:
        values[replaced] = row["replaced_by"]
    best = int(np.argmax(values))
    for a, value in enumerate(values):
        low = len(ARROWS) - a - 1
        marked = a == replaced
        ax.add_patch(Rectangle((k + 0.03, low + 0.03), 0.94, 0.94, fc="#DCEBF7" if marked else "#F5F6F7", ec="white", lw=1))
        ink = plots.GREY if ended else plots.BLUE if marked else plots.INK
        weight = "bold" if a == best and not ended else "normal"
        ax.text(
            k + 0.5,
            low + (0.36 if marked else 0.5),
            f"{value:.2f}",
            ha="center",
            va="center",
            fontsize=11,
            color=ink,
            fontweight=weight,
        )
        if marked:
            old = f"{row['q_next'][a]:.2f}"
            ax.text(
                k + 0.5,
                low + 0.76,
                "".join(c + "\u0336" for c in old),
                ha="center",
                va="center",
                fontsize=8.5,
                color=plots.GREY,
            )
        if a == best and not ended:
            ax.add_patch(Rectangle((k + 0.05, low + 0.05), 0.9, 0.9, fill=False, ec=plots.VERMILION, lw=1.8))
    ax.add_patch(Rectangle((k + 0.03, -1.25), 0.94, 0.7, fc="#FCE9D9", ec="white", lw=1))
    ax.text(
        k + 0.5, -0.9, f"{row['y_beta_0.5']:.2f}", ha="center", va="center", fontsize=11.5, color=plots.INK, fontweight="bold"
    )
    if replaced is not None:  # from the target of the next step to the entry it is mixed into
        arrow: dict[str, Any] = {"arrowstyle": "-|>", "mutation_scale": 11, "lw": 1.3, "color": plots.BLUE, "alpha": 0.75}
        start, end = (k + 1.08, -0.72), (k + 0.93, len(ARROWS) - replaced - 0.62)
        ax.add_patch(FancyArrowPatch(start, end, connectionstyle="arc3,rad=0.12", zorder=4, **arrow))


ALT = (
    "A small maze with a walk through it, and the temporary table of that walk: one column for each step, one row for "
    "each action, the replaced entries and the maxima marked, arrows from each target to the column before it."
)
ITEM = Item.of(__name__, __doc__, ALT, SETTINGS, run=run, seconds=SECONDS, tables=tables)
