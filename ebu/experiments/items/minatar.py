"""MinAtar: five small games in 100,000 steps, EBU beside eight other methods (not in the paper).

One update per step, as MinAtar's own DQN (Young and Tian, 2019), whose public training averages stand beside ours. Its
exploration and optimiser are not ours: the numbers say whether our DQN is a fair rival, not which code is better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ebu.experiments import suites
from ebu.experiments.item import Item
from ebu.experiments.suites import Task
from ebu.experiments.sweeps.trials import Trial

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
    "eval_every": 10_000,
    "eval_episodes": 20,
}
QUICK: dict[str, Any] = SCALE | {
    "steps": 3_000,
    "learning_starts": 500,
    "target_update_interval": 250,
    "sync_interval": 1_000,
    "eval_every": 500,
    "eval_episodes": 5,
    "log_every": 500,
}
SETTINGS: dict[str, dict[str, Any]] = {
    "quick": {"tasks": QUICK_TASKS, "methods": suites.QUICK_METHODS, "seeds": 1, "adaptive_seeds": 0, "scale": QUICK},
    "laptop": {"tasks": TASKS, "methods": tuple(suites.METHODS), "seeds": 5, "adaptive_seeds": 3, "scale": SCALE},
    "full": {"tasks": TASKS, "methods": tuple(suites.METHODS), "seeds": 10, "adaptive_seeds": 10, "scale": SCALE},
}


def trials(budget: str, seed: int = 0) -> list[Trial]:
    return suites.trials_of(ITEM.at(budget), seed)


def analyse(budget: str, trials: Sequence[Trial], folders: Sequence[Path], out: Path) -> list[dict[str, Any]]:
    return suites.analyse(ITEM, budget, trials, folders, out)


def note(budget: str) -> str:
    return suites.note(budget, SETTINGS)


ITEM = Item(
    name="minatar",
    title="MinAtar: five small games in 100,000 steps",
    claim=(
        "The paper's claim where it was not tried: with the same network, steps, updates and exploration, does EBU learn in "
        "fewer steps? Scores are of the last evaluation; normalised, 0 is random play and 1 the best mean of a method. "
        "MinAtar's own DQN is a mean of 30 runs of training episodes, to be compared with that column of ours."
    ),
    alt="Learning curves of all methods, one panel for each game, and their normalised scores over all games; see the table.",
    settings=SETTINGS,
    expected=EXPECTED,
    trials=trials,
    analyse=analyse,
    note=note,
)
