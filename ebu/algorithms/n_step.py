"""DQN with n-step returns. Changes from DQN:

- y_t = r_t + γ r_{t+1} + … + γⁿ max_a Q̂(s_{t+n}, a), uncorrected; shorter where the episode ends before;
- with ``n_steps="episode"``, the return to the episode's end on whole episodes, as the paper's maze uses it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ebu.agent import Agent
from ebu.algorithms.dqn import best_next, minibatches_ahead
from ebu.algorithms.ebu import sampler as episode_sampler
from ebu.config import Config
from ebu.memory.samplers import Sampler, TransitionSampler
from ebu.registry import Method
from ebu.search_space import Choice, SearchSpace, usual_space
from ebu.types import Targets

if TYPE_CHECKING:
    from ebu.registry import Rule


def sampler(config: Config) -> Sampler:
    n = config.target.n_steps
    return episode_sampler(config) if n == "episode" else TransitionSampler(n, minibatches_ahead(config))


def rule(config: Config) -> Rule:
    from ebu.targets.bootstrap import n_step

    n = config.target.n_steps
    return lambda span: Targets(n_step(span.rewards, span.discounts, best_next(span, config), n, span.continues))


def search(config: Config) -> SearchSpace:
    return usual_space(config) | {"n_steps": Choice((2, 3, 5, 10, "episode"))}


class NStepDQN(Agent):
    """Uncorrected ``n_steps``-step returns, or with "episode" returns to the episode's end."""

    method = Method(
        "n-step",
        "DQN with n-step returns",
        sampler,
        rule,
        search=search,
        settings=("n_steps",),
        uses=("n_steps", "double_q"),
    )
