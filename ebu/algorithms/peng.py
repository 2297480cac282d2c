"""Peng's Q(λ) (Peng and Williams, 1996). Changes from DQN:

- replays whole episodes;
- λ-returns along the episode, whatever its actions: y_t = r_t + γ [(1−λ) max_a Q̂(s_{t+1}, a) + λ y_{t+1}];
- λ = 0.7 by default: λ = 1 would be the plain Monte-Carlo return.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ebu.agent import Agent
from ebu.algorithms.dqn import best_next
from ebu.algorithms.ebu import sampler
from ebu.config import Config
from ebu.registry import Method
from ebu.search_space import Range, SearchSpace, usual_space
from ebu.types import Targets

if TYPE_CHECKING:
    from ebu.registry import Rule


def rule(config: Config) -> Rule:
    from ebu.targets.retrace import peng

    trace = config.target.trace_lambda
    return lambda span: Targets(peng(span.rewards, span.discounts, best_next(span, config), trace, span.continues))


def search(config: Config) -> SearchSpace:
    return usual_space(config) | {"trace_lambda": Range(0.0, 1.0)}


class PengQ(Agent):
    """Peng's Q(λ) on whole episodes (Peng and Williams, 1996)."""

    method = Method(
        "peng",
        "Peng's Q(λ)",
        sampler,
        rule,
        settings=("trace_lambda",),
        uses=("trace_lambda", "double_q"),
        defaults={"trace_lambda": 0.7},
        search=search,
        cost=0.9,
    )
