"""DQN with rank-based prioritised replay (Schaul et al., 2016). Changes from DQN:

- steps are replayed by the rank of their last error, a preference that fades over the run;
- the learning rate is scaled by ``priority_lr_scale``.
"""

from __future__ import annotations

from typing import Any

from ebu.agent import Agent
from ebu.algorithms.dqn import rule
from ebu.config import Config
from ebu.memory.priorities import PrioritySampler
from ebu.memory.samplers import Sampler
from ebu.registry import Method
from ebu.search_space import Range, SearchSpace, usual_space


def sampler(config: Config) -> Sampler:
    memory = config.memory
    return PrioritySampler(memory.priority_alpha, memory.priority_beta, memory.priority_sort_interval)


def scaled_learning_rate(config: Config) -> dict[str, Any]:
    return {"learning_rate": config.learner.learning_rate * config.memory.priority_lr_scale}


def search(config: Config) -> SearchSpace:
    return usual_space(config) | {"priority_alpha": Range(0.2, 1.0)}


class PrioritizedDQN(Agent):
    """DQN with rank-based prioritised replay (Schaul et al., 2016)."""

    method = Method(
        "per",
        "DQN with rank-based prioritised replay",
        sampler,
        rule,
        settings=("priority_alpha",),
        uses=("priority_alpha", "priority_beta", "priority_lr_scale", "priority_sort_interval", "double_q"),
        overrides=scaled_learning_rate,
        search=search,
        cost=1.1,
    )
