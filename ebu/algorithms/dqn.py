"""DQN (Mnih et al., 2015), which every other method is described against:

- replays single steps, uniformly over all that are stored;
- y_t = r_t + γ max_a Q̂(s_{t+1}, a; θ⁻), with ``double_q`` the action chosen by the online network.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ebu.agent import Agent
from ebu.config import Config
from ebu.memory.samplers import Sampler, TransitionSampler
from ebu.registry import Method
from ebu.types import Targets

if TYPE_CHECKING:
    from torch import Tensor

    from ebu.learning.span_values import SpanValues
    from ebu.registry import Rule

MINIBATCHES_AHEAD = 8
FEW_UPDATES = 100  # between copies of the target network: samples drawn ahead would often be out of date


def minibatches_ahead(config: Config) -> int:
    """How many minibatches of single steps are drawn and given targets at once.

    Between two copies of the target network a target does not depend on when it is computed, and many states are read and
    pass through the network faster than a few. The original DQN draws 16 ahead. Where targets move with every update, one.
    """
    learner = config.learner
    updates_between_copies = learner.target_update_interval * learner.gradient_steps // learner.train_freq
    moves = learner.tau < 1.0 or config.target.double_q or updates_between_copies <= FEW_UPDATES
    return 1 if moves else MINIBATCHES_AHEAD


def best_next(span: SpanValues, config: Config) -> Tensor:
    """The table a rule takes the maximum of: all next values, or with double Q the one the online network chose."""
    from ebu.targets.double import chosen_by

    return chosen_by(span.target_next, span.online_next) if config.target.double_q else span.target_next


def sampler(config: Config) -> Sampler:
    return TransitionSampler(minibatches=minibatches_ahead(config))


def rule(config: Config) -> Rule:
    from ebu.targets.bootstrap import one_step

    return lambda span: Targets(one_step(span.rewards, span.discounts, best_next(span, config)))


class DQN(Agent):
    """One-step targets on uniformly sampled steps (Mnih et al., 2015)."""

    method = Method(name="dqn", title="DQN: one-step targets, uniform replay", sampler=sampler, rule=rule, uses=("double_q",))
