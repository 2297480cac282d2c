"""Beyond the paper: the same comparison on the tasks for judging, to be run once

Nothing is chosen on these tasks: they are run once, at the end, with the settings that were chosen on those of ``beyond``.
Scores are normalised: 0 is random play, 1 a public anchor that was fixed before the first run.

The protocol is docs/beyond.md. Until the choice is made, the methods are those of the preliminary runs.
"""

from __future__ import annotations

from typing import Any

from ebu.experiments.items.beyond import JUDGED, QUICK, QUICK_METHODS, SCALE, both_ways, maze, minigrid
from ebu.experiments.suites.comparison import compare
from ebu.experiments.suites.item import suite
from ebu.experiments.suites.tasks import Task

CLASSIC = "Gymnasium's own"
TASKS = (
    *both_ways("Asterix", "Freeway", "Seaquest"),
    *minigrid("DoorKey-6x6", "FourRooms", "Empty-8x8"),
    maze(0.5),
    # 1 is the threshold in Gymnasium's registry, 0 uniform actions (LunarLander: a round number).
    Task("MountainCar", "MountainCar-v0", -200.0, -110.0, group=CLASSIC),
    Task("Acrobot", "Acrobot-v1", -495.0, -100.0, group=CLASSIC),
    Task("LunarLander", "LunarLander-v3", -200.0, 200.0, group=CLASSIC),
)
SETTINGS: dict[str, dict[str, Any]] = {
    "quick": {"tasks": (TASKS[0], TASKS[8]), "methods": QUICK_METHODS, "seeds": 1, "scale": SCALE | QUICK},
    "laptop": {"tasks": TASKS, "methods": JUDGED, "seeds": 3, "scale": SCALE},
    "full": {"tasks": TASKS, "methods": JUDGED, "seeds": 10, "scale": SCALE},
}

ALT = (
    "Learning curves of all methods, one panel for each task for judging, and their normalised scores over the tasks of each "
    "group; the tables have the numbers."
)
ITEM = suite(__name__, __doc__, ALT, SETTINGS, compare)
