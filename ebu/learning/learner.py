"""K learners: online and target networks, one optimiser, one gradient step for all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ebu.config import LearnerConfig
from ebu.learning.losses import LOSSES
from ebu.learning.optimisers import OPTIMISERS
from ebu.networks.fastest import stacked
from ebu.targets import combine
from ebu.types import Batch


@dataclass(frozen=True)
class Update:
    """What one gradient step saw; tensors stay on the device until somebody reads them."""

    loss: Tensor  # [K, B], each entry's share of the loss
    values: Tensor  # [K, B] Q(s, a) before the step
    errors: Tensor  # [K, B] target − value


class Learner:
    def __init__(
        self,
        skeleton: nn.Module,
        learners: int,
        config: LearnerConfig,
        tightening_weight: float,
        device: torch.device,
    ) -> None:
        self.online = stacked(skeleton, learners, device)
        self.target = stacked(skeleton, learners, device)
        self._tau = config.tau
        self._optimiser = OPTIMISERS[config.optimizer](self.online.parameters, self.online.gradient, config)
        self._loss = LOSSES[config.loss]
        self._tightening_weight = tightening_weight

    def initialise(self, generator: torch.Generator, scheme: Literal["torch", "he"]) -> None:
        """Starting weights; the target network begins as a copy."""
        self.online.initialise(generator, scheme)
        self.target.move_towards(self.online, 1.0)

    def update(self, batch: Batch) -> Update:
        """One step towards the batch's targets, for every learner."""
        every, pullback = self.online.differentiate(batch.states)  # [K, B, A]
        taken = batch.actions.expand(every.shape[:-1]).unsqueeze(-1)
        values = every.gather(-1, taken).squeeze(-1)
        targets = batch.targets
        if batch.lower is not None and batch.upper is not None:
            targets = combine(targets, batch.lower, batch.upper, values, self._tightening_weight)
        errors = targets - values
        loss, slope = self._loss(errors)
        if batch.weights is not None:
            loss, slope = loss * batch.weights, slope * batch.weights
        pullback(torch.zeros_like(every).scatter_(-1, taken, slope.unsqueeze(-1)))
        self._optimiser.step()
        return Update(loss, values, errors)

    def update_target(self) -> None:
        """The target network moves to the online one: all the way, or by the share ``tau``."""
        self.target.move_towards(self.online, self._tau)

    @torch.no_grad()
    def copy_to_all(self, learner: int) -> None:
        """θ and θ⁻ of one learner to every learner; each keeps its optimiser's accumulators."""
        for network in (self.online, self.target):
            network.parameters.copy_(network.parameters[learner].clone().expand_as(network.parameters))

    def set_learning_rate(self, learning_rate: float) -> None:
        self._optimiser.learning_rate = learning_rate

    def state_dict(self) -> dict[str, Any]:
        return {
            "online": self.online.state_dict(),
            "target": self.target.state_dict(),
            "optimiser": self._optimiser.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.online.load_state_dict(state["online"])
        self.target.load_state_dict(state["target"])
        self._optimiser.load_state_dict(state["optimiser"])
