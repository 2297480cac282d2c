"""Beyond the paper: one method against EBU and Peng's Q(λ), the tasks for choosing

Is there one method with one setting that learns in fewer steps than both, wherever whole episodes can be replayed? Everything
about it is chosen on these tasks; it is judged on others. Scores are normalised: 0 is random play, 1 a public anchor that was
fixed before the first run.

The protocol is docs/beyond.md: thresholds, tried values, statistics, and what counts as a win. The tasks for judging are the
item ``beyond-judging``.
"""

from __future__ import annotations

from typing import Any

from ebu.experiments.items.minatar import EXPECTED, RANDOM, SCALE
from ebu.experiments.suites.comparison import compare
from ebu.experiments.suites.item import suite
from ebu.experiments.suites.tasks import (
    ABLATIONS,
    AS_THEY_ARE,
    BASELINES,
    CANDIDATES,
    DQN,
    EBU_HALF,
    EBU_ONE,
    ENSEMBLE,
    FAST,
    FAST_LATE,
    INGREDIENTS,
    LATE,
    LONG,
    PENG,
    REDISTRIBUTED,
    RESETS,
    RETRACE,
    TRIED_CHANGES,
    TWICE,
    WIDE,
    Task,
    delayed,
    with_change,
)

ONE_REWARD = "one reward"
# The score that counts as 1: twice what MinAtar's own DQN scores after 100,000 steps; where that is not known, seven times
# random play, the smallest such ratio among the others.
ANCHORS = {game: 7 * RANDOM[game] if known is None else 2 * known for game, known in EXPECTED.items()}
MAZE: dict[str, Any] = {"preset": "paper", "steps": 200_000, "train_freq": 50, "eval_every": 10_000, "eval_episodes": 10}
RANDOM_MAZE = {0.4: 291.0, 0.5: 227.0}  # by wall density; uniform actions, 120 episodes of 40 mazes


def both_ways(*games: str) -> list[Task]:
    """MinAtar games as they are, and with all rewards at the episode's end."""
    plain = [Task(game, f"MinAtar/{game}-v1", RANDOM[game], ANCHORS[game], group=AS_THEY_ARE) for game in games]
    return [*plain, *map(delayed, plain)]


def minigrid(*names: str) -> list[Task]:
    return [Task(name, f"MiniGrid-{name}-v0", floor=0.0, ceiling=1.0, group=ONE_REWARD) for name in names]


def maze(density: float) -> Task:
    """The paper's maze with redrawn digits, another one for each seed."""
    name, walls = f"maze, {100 * density:.0f} % walls", (f"wall_density={density}",)
    return Task(name, "maze", RANDOM_MAZE[density], 1_000.0, walls, "maze_seed", MAZE, ONE_REWARD, hidden_units=512)


TASKS = (*both_ways("SpaceInvaders", "Breakout"), *minigrid("DoorKey-5x5", "SimpleCrossingS9N1"), maze(0.4))
# The best value of each method, which is tried with the changes, too. Until all are compared: those of the preliminary runs.
BEST_EBU, BEST_PENG, BEST_DQN, BEST_ENSEMBLE = EBU_HALF, PENG, DQN, ENSEMBLE
BEST = (BEST_EBU, BEST_PENG, BEST_DQN, BEST_ENSEMBLE)
TRIED = (
    *(with_change(label, change) for change in TRIED_CHANGES for label in BEST),
    with_change(REDISTRIBUTED, LONG),  # which has the fast recipe in any case
    *(with_change(label, FAST_LATE) for label in (RETRACE, BEST_EBU)),  # the candidate with another rule
)
# The candidate without redistributed rewards is Peng's Q(λ) with the fast recipe, which is among the tried values.
WITHOUT_RECIPE = with_change(BEST_PENG, LATE)
WITH_FOUR_LEARNERS = with_change(BEST_ENSEMBLE, FAST_LATE)
EXPLAINING = (
    WITHOUT_RECIPE,
    WITH_FOUR_LEARNERS,
    with_change(EBU_ONE, LONG),
    *(with_change(label, WIDE) for label in (BEST_EBU, BEST_DQN)),
    *(with_change(label, change) for label in (BEST_EBU, BEST_ENSEMBLE) for change in (TWICE, RESETS)),
)
METHODS = (*BASELINES, *CANDIDATES, *ABLATIONS, *INGREDIENTS, *TRIED, *EXPLAINING)
PRELIMINARY = (*BASELINES, *CANDIDATES, *TRIED, WITHOUT_RECIPE, WITH_FOUR_LEARNERS)
# The methods for the tasks that cost most, once MinAtar's have shown the best value of each.
FINALISTS = (
    EBU_HALF, EBU_ONE, BEST_PENG, BEST_DQN, REDISTRIBUTED, with_change(RETRACE, FAST_LATE),
    *(with_change(label, FAST) for label in (BEST_EBU, BEST_PENG, BEST_DQN)),
)  # fmt: skip
JUDGED = (DQN, BEST_EBU, EBU_ONE, BEST_PENG, *(with_change(label, FAST) for label in (BEST_EBU, BEST_PENG)), REDISTRIBUTED)

QUICK_METHODS = (EBU_HALF, PENG, DQN, REDISTRIBUTED)
QUICK: dict[str, Any] = {"steps": 3_000, "learning_starts": 500, "eval_every": 500, "eval_episodes": 3, "log_every": 500}
SETTINGS: dict[str, dict[str, Any]] = {
    "quick": {"tasks": (TASKS[0], TASKS[2]), "methods": QUICK_METHODS, "seeds": 1, "scale": SCALE | QUICK},
    "laptop": {
        "tasks": TASKS, "methods": PRELIMINARY, "own_methods": {ONE_REWARD: FINALISTS}, "seeds": 3, "scale": SCALE,
    },
    "full": {"tasks": TASKS, "methods": METHODS, "seeds": 10, "scale": SCALE},
}  # fmt: skip

ALT = (
    "Learning curves of all methods, one panel for each task for choosing, and their normalised scores over the tasks of each "
    "group; the tables have the numbers."
)
ITEM = suite(__name__, __doc__, ALT, SETTINGS, compare)
