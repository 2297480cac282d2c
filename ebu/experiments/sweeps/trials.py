"""A trial: one method on one environment with one seed. Items of the paper are lists of trials and what follows from them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ebu.config import Config, flat
from ebu.envs.families import family
from ebu.presets import configure
from ebu.registry import find_method

START_SECONDS = 3.0  # a process comes up, the environment and the network are made, pictures and a summary are written


@dataclass(frozen=True)
class Trial:
    """What is to be trained. ``settings`` are flat names as ``ebu.presets.configure`` takes them, sorted."""

    algo: str
    env: str
    seed: int
    settings: tuple[tuple[str, Any], ...] = ()
    label: str = ""
    """The method's name in tables and legends, such as "EBU β=0.5"; not part of the id."""
    round: int = field(default=0, compare=False)
    """The round it belongs to: all trials of an earlier round are started before any of a later one."""

    @cached_property
    def id(self) -> str:
        """Stable and readable, ``ebu-Breakout-0-1a2b3c4d``: the same for the same configuration, whatever asked for it.

        Of the settings, those count that differ from the defaults in ``ebu.config``: a new setting changes no id.
        """
        defaults = flat(Config())
        own = {name: value for name, value in flat(self.config()).items() if value != defaults[name]}
        text = json.dumps(own, sort_keys=True, separators=(",", ":"))
        env = re.sub(r"-v\d+$", "", self.env.removeprefix("ALE/"))
        stem = re.sub(r"[^A-Za-z0-9.]+", "-", f"{self.algo}-{env}-{self.seed}")
        return f"{stem}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"

    def config(self) -> Config:
        """All its settings. One thread, so that trials side by side fill the cores and do not depend on their number."""
        return configure(self.algo, self.env, **{"threads": 1, **dict(self.settings), "seed": self.seed})

    def expected_seconds(self) -> float:
        """Roughly how long it takes on one core."""
        config = self.config()
        cost = family(self.env).cost(config.preset)
        learner, evaluation = config.learner, config.evaluation
        method = find_method(self.algo)
        learners = method.learners(config)
        relative = method.cost if learners == 1 else learners * cost.learner
        updates = max(config.steps - learner.learning_starts, 0) / learner.train_freq * learner.gradient_steps
        evaluations = -(-config.steps // evaluation.eval_every) if evaluation.eval_every else 1
        return (
            START_SECONDS
            + config.steps * cost.act
            + updates * cost.update * relative
            + evaluations * evaluation.eval_episodes * cost.episode * cost.evaluate
        )


def trial(algo: str, env: str, seed: int, label: str = "", **settings: Any) -> Trial:
    """A trial with its settings as keywords: ``trial("ebu", "maze", 0, preset="paper", beta=1.0)``."""
    frozen = ((name, tuple(value) if isinstance(value, list) else value) for name, value in settings.items())
    return Trial(algo, env, seed, tuple(sorted(frozen)), label)


def in_rounds(trials: Iterable[Trial], round_of: Callable[[Trial], int]) -> list[Trial]:
    """The same trials, each in its round, so that a sweep that is stopped early leaves whole comparisons behind."""
    return sorted((replace(one, round=round_of(one)) for one in trials), key=lambda one: one.round)
