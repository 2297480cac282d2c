"""Delayed rewards: MinAtar with every reward paid at the episode's end, beside MinAtar as it is (not in the paper).

The undelayed runs are those of the item ``minatar``. Tasks and returns are the same; what changes is how far a reward is from
the actions that earned it, which is what the paper's argument is about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ebu.experiments import suites
from ebu.experiments.item import Item
from ebu.experiments.items import minatar
from ebu.experiments.suites import Task
from ebu.experiments.sweeps.trials import Trial

AS_THEY_ARE, DELAYED = "as they are", "delayed"


def both(tasks: Sequence[Task]) -> tuple[Task, ...]:
    """Each task as it is, and delayed."""
    delayed: dict[str, Any] = {"group": DELAYED, "env_args": ("reward_delay=episode",), "anchor": None}
    pairs = ((replace(task, group=AS_THEY_ARE), replace(task, name=f"{task.name}, delayed", **delayed)) for task in tasks)
    return tuple(variant for pair in pairs for variant in pair)


EXPECTED = {"follows": "one-step targets lose the most: a reward at the end is T steps from the first action of an episode"}
SETTINGS: dict[str, dict[str, Any]] = {
    budget: settings | {"tasks": both(settings["tasks"])} for budget, settings in minatar.SETTINGS.items()
}


def trials(budget: str, seed: int = 0) -> list[Trial]:
    return suites.trials_of(ITEM.at(budget), seed)


def analyse(budget: str, trials: Sequence[Trial], folders: Sequence[Path], out: Path) -> list[dict[str, Any]]:
    return suites.analyse(ITEM, budget, trials, folders, out)


def note(budget: str) -> str:
    return suites.note(budget, SETTINGS)


ITEM = Item(
    name="delay",
    title="Delayed rewards: MinAtar paid at the episode's end, beside MinAtar as it is",
    claim=(
        "The paper's argument is that values travel back along a whole episode at once. If so, methods that do it should lose "
        "less when all rewards come at the episode's end than methods with one-step targets. Normalised, 0 is random play and "
        "1 the best mean of a method, delayed or not."
    ),
    alt=(
        "Learning curves of all methods, one panel for each game, above as they are and below with delayed rewards, and "
        "normalised scores over all games; the table has the numbers."
    ),
    settings=SETTINGS,
    expected=EXPECTED,
    trials=trials,
    analyse=analyse,
    note=note,
)
