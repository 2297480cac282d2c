"""Optimality Tightening (He, Liu, Schwing and Peng, 2017). Changes from DQN:

- each sampled step comes with its neighbours in the episode, which give a lower and an upper bound of its value;
- a bound that the current value violates pulls the target towards it, with weight ``tightening_weight``. This depends on
  the value at the moment of the update, so the bounds travel with the targets and the learner applies the correction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ebu.agent import Agent
from ebu.config import Config
from ebu.memory.samplers import Sampler, WindowSampler
from ebu.registry import Method
from ebu.search_space import Range, SearchSpace, usual_space
from ebu.types import Targets

if TYPE_CHECKING:
    from torch import Tensor

    from ebu.learning.span_values import SpanValues
    from ebu.registry import Correction, Rule


def sampler(config: Config) -> Sampler:
    neighbours = config.target.tightening_neighbours
    return WindowSampler(before=neighbours, after=neighbours - 1)


def rule(config: Config) -> Rule:
    from ebu.targets.double import chosen_by
    from ebu.targets.tightening import tightening

    def make_targets(span: SpanValues) -> Targets:
        taken, beyond = span.target_taken_and_next
        if config.target.double_q:
            beyond = chosen_by(beyond, span.online_next)
        returns = span.tensor(span.span.returns)
        neighbours = config.target.tightening_neighbours
        y, lower, upper = tightening(span.rewards, span.discounts, taken, beyond, returns, span.continues, neighbours)
        return Targets(y, {"lower": lower, "upper": upper})

    return make_targets


def correction(config: Config) -> Correction:
    from ebu.targets.tightening import combine

    weight = config.target.tightening_weight

    def correct(targets: Tensor, values: Tensor, columns: Mapping[str, Tensor]) -> Tensor:
        return combine(targets, columns["lower"], columns["upper"], values, weight)

    return correct


def search(config: Config) -> SearchSpace:
    return usual_space(config) | {"tightening_weight": Range(0.05, 0.9), "tightening_neighbours": Range(2, 8, whole=True)}


class OptimalityTightening(Agent):
    """DQN with bounds from neighbouring steps (He et al., 2017)."""

    method = Method(
        "optimality-tightening",
        "Optimality Tightening",
        sampler,
        rule,
        settings=("tightening_weight",),
        uses=("tightening_weight", "tightening_neighbours", "double_q"),
        correction=correction,
        search=search,
        cost=1.9,
    )
