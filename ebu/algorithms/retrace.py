"""Retrace(λ) (Munos et al., 2016). Changes from DQN:

- replays whole episodes;
- returns that follow the episode for as long as its actions are those of the current ε-greedy policy, by truncated
  importance weights; the policy comes from the online network and the values from the target network, with ``double_q``
  or without;
- the probability of each action is recorded while acting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ebu.agent import Agent
from ebu.algorithms.ebu import sampler
from ebu.algorithms.peng import search
from ebu.config import Config
from ebu.registry import Method
from ebu.types import Targets

if TYPE_CHECKING:
    from ebu.learning.span_values import SpanValues
    from ebu.registry import Rule


def rule(config: Config) -> Rule:
    from ebu.targets.retrace import epsilon_greedy, retrace

    def make_targets(span: SpanValues) -> Targets:
        policy = epsilon_greedy(span.online_next, span.epsilon)
        behaviour = span.tensor(span.span.behaviour)
        trace, known = config.target.trace_lambda, (span.rewards, span.discounts, span.actions)
        return Targets(retrace(*known, span.target_next, policy, behaviour, trace, span.continues))

    return make_targets


class Retrace(Agent):
    """Retrace(λ) on whole episodes (Munos et al., 2016)."""

    method = Method(
        "retrace",
        "Retrace(λ)",
        sampler,
        rule,
        search=search,
        settings=("trace_lambda",),
        uses=("trace_lambda",),
        needs_behaviour=True,
    )
