"""Delayed rewards: MinAtar paid at the episode's end, beside MinAtar as it is

The paper's argument is that values travel back along a whole episode at once. If so, methods that do it should lose less
when all rewards come at the episode's end than methods with one-step targets. Normalised, 0 is random play and 1 the best
mean of a method, delayed or not.

The undelayed runs are those of the item ``minatar``. Tasks and returns are the same; what changes is how far a reward is from
the actions that earned it, which is what the paper's argument is about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ebu.experiments.items import minatar
from ebu.experiments.suites.item import suite
from ebu.experiments.suites.tasks import ADAPTIVE, AS_THEY_ARE, DQN, EBU_ONE, Task, delayed


def both(tasks: Sequence[Task]) -> tuple[Task, ...]:
    """Each task as it is, and delayed."""
    pairs = ((replace(task, group=AS_THEY_ARE), delayed(task)) for task in tasks)
    return tuple(variant for pair in pairs for variant in pair)


SETTINGS: dict[str, dict[str, Any]] = {
    budget: settings | {"tasks": both(settings["tasks"])} for budget, settings in minatar.SETTINGS.items()
}
SETTINGS["laptop"] |= {"own_seeds": {EBU_ONE: 10, DQN: 10, ADAPTIVE: 3}}  # the claim is about the first two

ALT = (
    "Learning curves of all methods, one panel for each game, above as they are and below with delayed rewards, and "
    "normalised scores over all games; the table has the numbers."
)
ITEM = suite(__name__, __doc__, ALT, SETTINGS)
