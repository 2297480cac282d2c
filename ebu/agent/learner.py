"""K learners: online and target networks, one optimiser, one gradient step for all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ebu.agent.optimisers import OPTIMISERS
from ebu.agent.stacked import StackedNetwork
from ebu.config import LearnerConfig, Loss
from ebu.types import Batch


@dataclass(frozen=True)
class Update:
    """What one gradient step saw; tensors stay on the device until somebody reads them."""

    loss: Tensor  # [] summed over learners
    values: Tensor  # [K, B] Q(s, a) before the step
    errors: Tensor  # [K, B] target − value


class Learner:
    def __init__(
        self, skeleton: nn.Module, learners: int, config: LearnerConfig, device: torch.device, generator: torch.Generator
    ) -> None:
        self.online = StackedNetwork(skeleton, learners, device)
        self.target = StackedNetwork(skeleton, learners, device)
        self.online.initialise(generator)
        self.target.copy_from(self.online)
        self._optimiser = OPTIMISERS[config.optimizer](self.online.parameters, config)
        self._loss = LOSSES[config.loss]

    def update(self, batch: Batch) -> Update:
        """One step towards the batch's targets, for every learner."""
        every = self.online.values(batch.states)  # [K, B, A]
        values = every.gather(-1, batch.actions.expand(every.shape[:-1]).unsqueeze(-1)).squeeze(-1)
        loss = self._loss(values, batch.targets, batch.weights)
        self.online.gradient(loss, out=self._optimiser.gradient)
        self._optimiser.step()
        values = values.detach()
        return Update(loss.detach(), values, batch.targets - values)

    def synchronise_target(self) -> None:
        self.target.copy_from(self.online)

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


def huber_sum(values: Tensor, targets: Tensor, weights: Tensor | None) -> Tensor:
    """Σ Huber(target − value), threshold 1: its gradient is the error clipped to ±1, as the Nature code sums it."""
    if weights is None:
        return F.huber_loss(values, targets, reduction="sum")
    return (weights * F.huber_loss(values, targets, reduction="none")).sum()


def huber_mean(values: Tensor, targets: Tensor, weights: Tensor | None) -> Tensor:
    """The same, averaged over the minibatch."""
    return huber_sum(values, targets, weights) / values.shape[-1]


def mse(values: Tensor, targets: Tensor, weights: Tensor | None) -> Tensor:
    """Mean squared error over the minibatch: the loss the paper writes."""
    squares = (targets - values).square()
    return (squares if weights is None else weights * squares).sum() / values.shape[-1]


LOSSES: dict[Loss, Callable[[Tensor, Tensor, Tensor | None], Tensor]] = {
    "huber-sum": huber_sum,
    "huber-mean": huber_mean,
    "mse": mse,
}
