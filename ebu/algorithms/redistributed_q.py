"""Q(λ) with redistributed rewards. Changes from Peng's Q(λ):

- rewards that are paid only at an episode's end are redistributed over its steps by a learned model
  (``redistribute_rewards``): a late reward is then learned from as if it had come when it was earned;
- λ = 0.5, and a recipe that learns faster per update: layer normalisation, learning rate 5e-4 falling to 0, gradients of norm
  at most 10, and a target network that moves by the share τ = 0.005 at every update.
"""

from __future__ import annotations

from typing import Any

from ebu.agent import Agent
from ebu.algorithms.ebu import sampler
from ebu.algorithms.peng import rule, search
from ebu.config import Config
from ebu.registry import Method

FAST_RECIPE: dict[str, Any] = {
    "layer_norm": True,
    "learning_rate": 5e-4,
    "learning_rate_schedule": "linear",
    "max_grad_norm": 10.0,
    "tau": 0.005,
}


def target_moves_at_every_update(config: Config) -> dict[str, Any]:
    """τ is the share of the updates of one step, however many steps lie between them; hard copies keep their interval."""
    return {} if config.learner.tau == 1 else {"target_update_interval": config.learner.train_freq}


class RedistributedQ(Agent):
    """Q(λ) on whole episodes with redistributed rewards: for rewards that are paid late."""

    method = Method(
        "redistributed-q",
        "Q(λ) with redistributed rewards",
        sampler,
        rule,
        settings=("trace_lambda",),
        uses=("trace_lambda", "double_q"),
        defaults={"redistribute_rewards": True, "trace_lambda": 0.5, **FAST_RECIPE},
        overrides=target_moves_at_every_update,
        search=search,
        cost=2.7,
    )
