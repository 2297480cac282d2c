"""MiniGrid: five mazes with one reward at the end, 200,000 steps

The paper's claim where it was not tried: with the same network, steps, updates and exploration, does EBU learn in fewer
steps when the only reward comes last? Scores are of the last evaluation, between 0 and 1 as they are.
"""

from __future__ import annotations

from typing import Any

from ebu.experiments.suites.item import budgets, suite
from ebu.experiments.suites.tasks import Task

# An episode pays 1 − 0.9 · (share of its steps used) when the goal is reached, else 0: a scale that needs no other.
TASKS = tuple(
    Task(name, f"MiniGrid-{name}-v0", floor=0.0, ceiling=1.0)
    for name in ("Empty-8x8", "DoorKey-5x5", "DoorKey-6x6", "SimpleCrossingS9N1", "FourRooms")
)

SCALE: dict[str, Any] = {
    "steps": 200_000,
    "train_freq": 1,
    "sync_interval": 10_000,
    "eval_every": 10_000,
    "eval_episodes": 20,
    "log_every": 10_000,
}
QUICK: dict[str, Any] = {
    "steps": 4_000,
    "learning_starts": 500,
    "sync_interval": 1_000,
    "eval_every": 1_000,
    "eval_episodes": 3,
    "log_every": 500,
}

ALT = "Learning curves of all methods, one panel for each maze, and their scores over all mazes; the table has the numbers."
ITEM = suite(__name__, __doc__, ALT, budgets(TASKS, SCALE, TASKS[:2], QUICK))
