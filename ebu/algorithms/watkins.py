"""Watkins' Q(λ) (Watkins, 1989). Changes from DQN:

- replays whole episodes;
- λ-returns along the episode that are cut where the action taken is not the greedy one.
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
    from ebu.targets.retrace import watkins

    def make_targets(span: SpanValues) -> Targets:
        online = span.online_next if config.target.double_q else None
        trace, known = config.target.trace_lambda, (span.rewards, span.discounts, span.actions)
        return Targets(watkins(*known, span.target_next, trace, span.continues, online))

    return make_targets


class WatkinsQ(Agent):
    """Watkins' Q(λ) on whole episodes (Watkins, 1989)."""

    method = Method(
        "watkins",
        "Watkins' Q(λ)",
        sampler,
        rule,
        search=search,
        settings=("trace_lambda",),
        uses=("trace_lambda", "double_q"),
        cost=0.9,
    )
