"""A trial: one method on one environment with one seed. Items of the paper are lists of trials and what follows from them."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ebu.config import Config, flat
from ebu.envs.make import family
from ebu.presets import configure

START_SECONDS = 4.0  # a process comes up, PyTorch is imported, summary and pictures are written


@dataclass(frozen=True)
class Cost:
    """Measured seconds on one core, and how many steps a typical evaluation episode lasts."""

    act: float  # one training step without learning
    update: float  # one minibatch of DQN's, of the preset's size
    evaluate: float  # one evaluation step
    episode: int  # steps


# (family, preset): measured on one core of a 2.0 GHz server.
COSTS: dict[tuple[str, str], Cost] = {
    ("maze", "quick"): Cost(act=0.0004, update=0.0025, evaluate=0.0004, episode=100),
    ("maze", "paper"): Cost(act=0.0005, update=0.05, evaluate=0.0005, episode=500),
    ("minatar", "quick"): Cost(act=0.0003, update=0.0025, evaluate=0.0004, episode=100),
    ("atari", "paper"): Cost(act=0.0025, update=0.028, evaluate=0.0025, episode=1_000),
    ("other", "quick"): Cost(act=0.0001, update=0.0008, evaluate=0.0001, episode=200),
}
SAME_COST = {
    ("atari", "released"): ("atari", "paper"),
    ("atari", "quick"): ("atari", "paper"),
    ("minigrid", "quick"): ("other", "quick"),
}

# A minibatch of each method over DQN's on the Nature network; adaptive EBU's is that of one learner.
RELATIVE_UPDATE = {
    "ebu": 1.0,
    "adaptive-ebu": 0.5,
    "dqn": 1.0,
    "n-step": 1.0,
    "per": 1.0,
    "retrace": 1.1,
    "peng": 1.0,
    "watkins": 1.0,
    "optimality-tightening": 1.9,
}


@dataclass(frozen=True)
class Trial:
    """What is to be trained. ``settings`` are flat names as ``ebu.presets.configure`` takes them, sorted."""

    algo: str
    env: str
    seed: int
    settings: tuple[tuple[str, Any], ...] = ()
    label: str = ""
    """How tables and legends call the method, such as "EBU β=0.5"; not part of the id."""

    @cached_property
    def id(self) -> str:
        """Stable and readable, ``ebu-Breakout-0-1a2b3c4d``: the same for the same configuration, whatever asked for it."""
        text = json.dumps(flat(self.config()), sort_keys=True, separators=(",", ":"))
        env = re.sub(r"-v\d+$", "", self.env.removeprefix("ALE/"))
        stem = re.sub(r"[^A-Za-z0-9.]+", "-", f"{self.algo}-{env}-{self.seed}")
        return f"{stem}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"

    def config(self) -> Config:
        """All its settings. One thread, so that trials side by side fill the cores and do not depend on their number."""
        return configure(self.algo, self.env, **{"threads": 1, **dict(self.settings), "seed": self.seed})

    def expected_seconds(self) -> float:
        """Roughly how long it takes on one core."""
        config = self.config()
        kind = (family(self.env), config.preset)
        cost = COSTS[SAME_COST.get(kind, kind)]
        learner, evaluation = config.learner, config.evaluation
        learners = len(config.target.betas) if self.algo == "adaptive-ebu" else 1
        updates = max(config.steps - learner.learning_starts, 0) / learner.train_freq * learner.gradient_steps
        evaluations = -(-config.steps // evaluation.eval_every) if evaluation.eval_every else 1
        return (
            START_SECONDS
            + config.steps * cost.act
            + updates * cost.update * learners * RELATIVE_UPDATE[self.algo]
            + evaluations * evaluation.eval_episodes * cost.episode * cost.evaluate
        )


def trial(algo: str, env: str, seed: int, label: str = "", **settings: Any) -> Trial:
    """A trial with its settings as keywords: ``trial("ebu", "maze", 0, preset="paper", beta=1.0)``."""
    frozen = ((name, tuple(value) if isinstance(value, list) else value) for name, value in settings.items())
    return Trial(algo, env, seed, tuple(sorted(frozen)), label)
