"""Episodic Backward Update (Lee, Choi and Chung, 2019). Changes from DQN:

- replays whole episodes, each equally likely, handed out from their ends backward;
- targets are computed from the episode's end, Algorithm 2 with diffusion factor β:
  y_t = r_t + γ max(max_{a ≠ A} Q̂(s_{t+1}, a), β y_{t+1} + (1−β) Q̂(s_{t+1}, A)), where A = A_{t+1} is the action taken there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ebu.agent import Agent
from ebu.config import Config
from ebu.memory.episode_choice import ErrorEpisodeSampler, NewestEpisodeSampler
from ebu.memory.samplers import EpisodeSampler, Sampler
from ebu.registry import Method
from ebu.search_space import Range, SearchSpace, usual_space
from ebu.types import Targets

if TYPE_CHECKING:
    from ebu.learning.span_values import SpanValues
    from ebu.registry import Rule


def sampler(config: Config) -> Sampler:
    """Whole episodes, chosen as ``episode_choice`` says."""
    memory = config.memory
    if memory.episode_choice == "errors":
        return ErrorEpisodeSampler(memory.priority_alpha)
    return NewestEpisodeSampler() if memory.episode_choice == "newest" else EpisodeSampler()


def backward_rule(config: Config, betas: Sequence[float]) -> Rule:
    """The backward target with one diffusion factor for each learner."""
    import torch

    from ebu.targets.backward import backward
    from ebu.targets.double import double_backward

    beta = torch.tensor(betas)

    def make_targets(span: SpanValues) -> Targets:
        if config.target.double_q:
            tables = (span.target_next, span.online_next)
            y = double_backward(span.rewards, span.discounts, span.actions, *tables, beta, span.continues)
        else:
            y = backward(span.rewards, span.discounts, span.actions, span.target_next, beta, span.continues)
        return Targets(y)

    return make_targets


def rule(config: Config) -> Rule:
    return backward_rule(config, (config.target.beta,))


def search(config: Config) -> SearchSpace:
    return usual_space(config) | {"beta": Range(0.0, 1.0)}


class EBU(Agent):
    """Episodic Backward Update with diffusion factor ``beta`` (Lee, Choi and Chung, 2019)."""

    method = Method(
        "ebu",
        "Episodic Backward Update",
        sampler,
        rule,
        search=search,
        settings=("beta",),
        uses=("beta", "double_q"),
        cost=0.9,
    )
