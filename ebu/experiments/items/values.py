"""The values of β, λ and n in the suites: three of each, on two games

Each method that has a number to choose is run with three values of it on MinAtar's Breakout and Space Invaders; the one with
the largest area under the curve is what it is compared with elsewhere. EBU is compared with β = 0.5 and 1 in any case.

Chosen once, on rewards as they are, and then used in all tasks of ``minatar``, ``delay`` and ``minigrid``. The runs are those
of ``minatar`` where the values are.
"""

from __future__ import annotations

from typing import Any

from ebu.experiments.items.minatar import QUICK, SCALE, TASKS
from ebu.experiments.suites.choice import choosing
from ebu.experiments.suites.item import suite
from ebu.experiments.suites.tasks import (
    EBU_HALF,
    EBU_MORE,
    EBU_ONE,
    N_STEP,
    N_STEP_5,
    N_STEP_10,
    PENG,
    PENG_7,
    PENG_9,
    RETRACE,
    RETRACE_1,
    RETRACE_9,
)

VALUES = {
    "β of EBU": (EBU_HALF, EBU_MORE, EBU_ONE),
    "λ of Peng's Q(λ)": (PENG, PENG_7, PENG_9),
    "n of n-step DQN": (N_STEP, N_STEP_5, N_STEP_10),
    "λ of Retrace": (RETRACE, RETRACE_9, RETRACE_1),
}
METHODS = tuple(label for labels in VALUES.values() for label in labels)
GAMES = TASKS[:2]

SETTINGS: dict[str, dict[str, Any]] = {
    "quick": {"tasks": GAMES, "methods": METHODS, "seeds": 1, "scale": SCALE | QUICK},
    "laptop": {"tasks": GAMES, "methods": METHODS, "seeds": 2, "scale": SCALE},
    "full": {"tasks": GAMES, "methods": METHODS, "seeds": 5, "scale": SCALE},
}

ALT = "Learning curves with every value that was tried, one panel for each game, and their normalised scores; see the table."
ITEM = suite(__name__, __doc__, ALT, SETTINGS, choosing(VALUES))
