"""One learner with a small network on the CPU: a gradient step in NumPy, except for its large products.

The same step as `LocalLearner`'s in a third of the time for a perceptron, two thirds for MinAtar's network; on networks this
small much of it goes into calling tensor operations. Networks, optimiser state and checkpoints are the same; the last digits
of the weights are not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from ebu.config import LearnerConfig
from ebu.learning.learner import LocalLearner, Update
from ebu.learning.optimisers import FusedAdam
from ebu.networks.small_convolution import SmallConvolution
from ebu.networks.small_mlp import SmallMLP
from ebu.types import Array, Batch

if TYPE_CHECKING:
    from ebu.registry import Correction


SmallNetwork = SmallMLP | SmallConvolution


@dataclass(frozen=True)
class SmallUpdate(Update):
    """Of arrays, summed in double precision."""

    @property
    def total_loss(self) -> float:
        return sum(self.loss[0].tolist())

    @property
    def mean_value(self) -> float:
        return sum(self.values[0].tolist()) / self.values.shape[1]

    @property
    def first_errors(self) -> Array:
        return self.errors[0]


class SmallLearner(LocalLearner):
    """One learner; ``online`` and ``target`` are of one of the small forms."""

    online: SmallNetwork
    target: SmallNetwork

    def __init__(self, skeleton: nn.Module, config: LearnerConfig, correction: Correction | None = None) -> None:
        form = SmallLearner._form(skeleton, config)
        assert form is not None, "ask first whether it fits"
        super().__init__(skeleton, 1, config, torch.device("cpu"), correction, form)
        if config.optimizer == "adam":
            self._optimiser = FusedAdam(self.online.parameters, self.online.gradient, config, self.online.gradient_parts)
        self._needs_whole_gradient = config.optimizer != "adam" or bool(config.max_grad_norm)
        self._rows = np.arange(config.batch_size)

    @staticmethod
    def fits(skeleton: nn.Module, config: LearnerConfig) -> bool:
        """Whether a minibatch is small enough for the network's passes to be."""
        return not config.whole_episode and SmallLearner._form(skeleton, config) is not None

    @staticmethod
    def _form(skeleton: nn.Module, config: LearnerConfig) -> type[SmallNetwork] | None:
        return next((form for form in (SmallMLP, SmallConvolution) if form.fits_rows(skeleton, config.batch_size)), None)

    @np.errstate(over="ignore", invalid="ignore")  # a loss that is no longer a number is reported when a row is written
    def update(self, batch: Batch) -> Update:
        *inputs, every = self.online.forward(batch.states)  # [B, A]
        taken = (self._rows[: len(every)], batch.actions.numpy())
        values: Array = every[taken]
        errors = self._targets(batch, torch.from_numpy(values[None])).numpy()[0] - values
        loss, slope = self._loss(errors)
        if batch.weights is not None:
            weights = batch.weights.numpy()
            loss, slope = loss * weights, slope * weights
        slopes = np.zeros(every.shape, every.dtype)
        slopes[taken] = slope
        self.online.backward(slopes, inputs)
        if self._needs_whole_gradient:
            self.online.collect_gradient()
        self._descend()
        return SmallUpdate(loss[None], values[None], errors[None])
