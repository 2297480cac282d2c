"""MiniGrid: five mazes with one reward at the end, 200,000 steps, EBU beside eight other methods (not in the paper)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ebu.experiments import suites
from ebu.experiments.item import Item
from ebu.experiments.suites import Task
from ebu.experiments.sweeps.trials import Trial

# An episode pays 1 − 0.9 · (share of its steps used) when the goal is reached, else 0: a scale that needs no other.
TASKS = tuple(
    Task(name, f"MiniGrid-{name}-v0", floor=0.0, ceiling=1.0)
    for name in ("Empty-8x8", "DoorKey-5x5", "DoorKey-6x6", "SimpleCrossingS9N1", "FourRooms")
)
EXPECTED = {"published": "none with this budget; a reward at the end only is where the paper expects EBU ahead"}

SCALE: dict[str, Any] = {"steps": 200_000, "train_freq": 1, "eval_every": 10_000, "eval_episodes": 20}
QUICK: dict[str, Any] = SCALE | {
    "steps": 4_000,
    "learning_starts": 500,
    "sync_interval": 1_000,
    "eval_every": 1_000,
    "eval_episodes": 3,
    "log_every": 500,
}
SETTINGS: dict[str, dict[str, Any]] = {
    "quick": {"tasks": TASKS[:2], "methods": suites.QUICK_METHODS, "seeds": 1, "adaptive_seeds": 0, "scale": QUICK},
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
    name="minigrid",
    title="MiniGrid: five mazes with one reward at the end, 200,000 steps",
    claim=(
        "The paper's claim where it was not tried: with the same network, steps, updates and exploration, does EBU learn in "
        "fewer steps when the only reward comes last? Scores are of the last evaluation, between 0 and 1 as they are."
    ),
    alt="Learning curves of all methods, one panel for each maze, and their scores over all mazes; the table has the numbers.",
    settings=SETTINGS,
    expected=EXPECTED,
    trials=trials,
    analyse=analyse,
    note=note,
)
