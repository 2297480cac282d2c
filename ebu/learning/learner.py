"""K learners: online and target networks, one optimiser, one gradient step for all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import torch
from torch import Tensor, nn

from ebu.config import LearnerConfig
from ebu.learning.losses import LOSSES
from ebu.learning.optimisers import OPTIMISERS
from ebu.networks.ensemble import Ensemble
from ebu.networks.fastest import fastest_ensemble
from ebu.types import Array, Batch

if TYPE_CHECKING:
    from ebu.registry import Correction


@dataclass(frozen=True)
class Update:
    """What one gradient step saw; tensors stay on the device until they are read. In NumPy where the learner is."""

    loss: Any  # [K, B], each entry's share of the loss
    values: Any  # [K, B] Q(s, a) before the step
    errors: Any  # [K, B] target − value

    @property
    def total_loss(self) -> Tensor | float:
        """Summed over the minibatch and the learners."""
        return self.loss.sum()

    @property
    def mean_value(self) -> Tensor | float:
        return self.values.mean()

    @property
    def first_errors(self) -> Array:
        """Of the first learner, [B]."""
        return self.errors[0].numpy(force=True)


class Networks(Protocol):
    """K networks as the loop sees them, wherever they are kept."""

    images_at_once: int  # that one call of ``values`` should be given on the CPU at most

    @property
    def learners(self) -> int: ...

    @property
    def device(self) -> torch.device: ...

    def values(self, states: Tensor) -> Tensor:
        """Q(s, ·) of every learner: [K, B, A]."""

    def state_values(self, learner: int) -> Callable[[Array], Array]:
        """A function from one state to Q(s, ·)[A] of one learner, following its weights as they change."""

    def batch_values(self, learner: int) -> Callable[[Array], Array]:
        """The same for several states at once: [B, …] → [B, A]."""

    def named_tensors(self, learner: int = 0) -> dict[str, Tensor]: ...

    def load_named_tensors(self, tensors: dict[str, Tensor]) -> None: ...


class Learner(Protocol):
    """What the loop needs of K learners, in this process or divided among several."""

    @property
    def online(self) -> Networks: ...

    @property
    def target(self) -> Networks: ...

    def initialise(self, generator: torch.Generator, scheme: Literal["torch", "he"]) -> None: ...

    def update(self, batch: Batch) -> Update: ...

    def update_target(self) -> None: ...

    def copy_to_all(self, learner: int) -> None: ...

    def reset_outputs(self, generator: torch.Generator, scheme: Literal["torch", "he"]) -> None: ...

    def set_learning_rate(self, learning_rate: float) -> None: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class LocalLearner:
    """The learners of one process."""

    def __init__(
        self,
        skeleton: nn.Module,
        learners: int,
        config: LearnerConfig,
        device: torch.device,
        correction: Correction | None = None,
        form: Callable[[nn.Module, int, torch.device], Ensemble] = fastest_ensemble,
    ) -> None:
        self.online = form(skeleton, learners, device)
        self.target = form(skeleton, learners, device)
        self._tau = config.tau
        self._max_grad_norm = config.max_grad_norm
        self._optimiser = OPTIMISERS[config.optimizer](self.online.trained, self.online.gradient, config)
        self._loss = LOSSES[config.loss]
        self._correction = correction

    def initialise(self, generator: torch.Generator, scheme: Literal["torch", "he"]) -> None:
        """Starting weights; the target network begins as a copy."""
        self.online.initialise(generator, scheme)
        self.target.move_towards(self.online, 1.0)

    def update(self, batch: Batch) -> Update:
        """One step towards the batch's targets, for every learner."""
        every, pullback = self.online.differentiate(batch.states)  # [K, B, A]
        taken = batch.actions.expand(every.shape[:-1]).unsqueeze(-1)
        values = every.gather(-1, taken).squeeze(-1)
        errors = self._targets(batch, values) - values
        loss, slope = self._loss(errors)
        if batch.weights is not None:
            loss, slope = loss * batch.weights, slope * batch.weights
        pullback(torch.zeros_like(every).scatter_(-1, taken, slope.unsqueeze(-1)))
        self._descend()
        return Update(loss, values, errors)

    def _targets(self, batch: Batch, values: Tensor) -> Tensor:
        """What the values of the taken actions [K, B] are to become."""
        return batch.targets if self._correction is None else self._correction(batch.targets, values, batch.columns)

    def _descend(self) -> None:
        """A step along the gradient that was written."""
        if self._max_grad_norm:
            shorten(self.online.gradient, self._max_grad_norm)
        self._optimiser.step()

    def update_target(self) -> None:
        """The target network moves to the online one: all the way, or by the share ``tau``."""
        self.target.move_towards(self.online, self._tau)

    @torch.no_grad()
    def copy_to_all(self, learner: int) -> None:
        """θ and θ⁻ of one learner to every learner; each keeps its optimiser's accumulators."""
        for network in (self.online, self.target):
            network.parameters.copy_(network.parameters[learner].clone().expand_as(network.parameters))

    def reset_outputs(self, generator: torch.Generator, scheme: Literal["torch", "he"]) -> None:
        """The last layer of every learner starts anew, in both networks.

        The optimiser keeps its averages, as in `copy_to_all`: they follow within some tens of steps.
        """
        fresh = fastest_ensemble(self.online.skeleton, self.online.learners, torch.device("cpu"))
        fresh.initialise(generator, scheme)
        self.renew_outputs(fresh.parameters)

    def renew_outputs(self, fresh: Tensor) -> None:
        """The last layer of each learner from a block [K, P] of newly drawn weights."""
        for network in (self.online, self.target):
            network.renew_outputs(fresh)

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


@torch.no_grad()
def shorten(gradient: Tensor, longest: float) -> None:
    """Each learner's gradient, a row of [K, P], brought to the norm ``longest`` where it is longer."""
    norms = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
    gradient.mul_((longest / norms).clamp_max_(1.0))  # a norm of 0 gives ∞, and so 1
