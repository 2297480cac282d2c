"""MinAtar: five small games in 100,000 steps

The paper's claim where it was not tried: with the same network, steps, updates and exploration, does EBU learn in fewer
steps? Scores are of the last evaluation; normalised, 0 is random play and 1 the best mean of a method. MinAtar's own DQN is
a mean of 30 runs of training episodes, to be compared with that column of ours.

One update per step, as MinAtar's own DQN (Young and Tian, 2019), whose public training averages are shown beside ours. Its
exploration and optimiser are not ours: the numbers say whether our DQN is a fair rival, not which code is better.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ebu.experiments.suites.item import budgets, suite
from ebu.experiments.suites.tasks import Task

# Training averages of MinAtar's own DQN after 100,000 steps, over 30 runs; we have no such number for Asterix.
EXPECTED: dict[str, float | None] = {
    "Breakout": 4.3,
    "SpaceInvaders": 14.4,
    "Asterix": None,
    "Freeway": 5.5,
    "Seaquest": 0.5,
}
# Uniform actions, 400 episodes (Freeway 15, whose episodes last 2,500 steps).
RANDOM = {"Breakout": 0.39, "SpaceInvaders": 4.16, "Asterix": 0.51, "Freeway": 0.20, "Seaquest": 0.11}
TASKS = tuple(Task(name, f"MinAtar/{name}-v1", RANDOM[name], anchor=anchor) for name, anchor in EXPECTED.items())

QUICK_TASKS = tuple(replace(task, anchor=None) for task in TASKS[:2])  # the public numbers are of 100,000 steps

SCALE: dict[str, Any] = {
    "steps": 100_000,
    "train_freq": 1,
    "sync_interval": 10_000,
    "eval_every": 5_000,
    "eval_episodes": 20,
    "log_every": 5_000,
}
QUICK: dict[str, Any] = {
    "steps": 3_000,
    "learning_starts": 500,
    "target_update_interval": 250,
    "sync_interval": 1_000,
    "eval_every": 500,
    "eval_episodes": 5,
    "log_every": 500,
}
SETTINGS = budgets(TASKS, SCALE, QUICK_TASKS, QUICK)

ALT = "Learning curves of all methods, one panel for each game, and their normalised scores over all games; see the table."
ITEM = suite(__name__, __doc__, ALT, SETTINGS)
