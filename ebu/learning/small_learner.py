"""One learner with a small perceptron on the CPU: a gradient step in NumPy.

The same step as `LocalLearner`'s in a third of the time, which on networks this small goes into calling tensor operations.
Networks, optimiser state and checkpoints are the same; the last digits of the weights are not.
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
from ebu.networks.small_mlp import SmallMLP
from ebu.types import Array, Batch

if TYPE_CHECKING:
    from ebu.registry import Correction


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
    """One learner; ``online`` and ``target`` are ``SmallMLP``."""

    online: SmallMLP
    target: SmallMLP

    def __init__(self, skeleton: nn.Module, config: LearnerConfig, correction: Correction | None = None) -> None:
        super().__init__(skeleton, 1, config, torch.device("cpu"), correction, SmallMLP)
        if config.optimizer == "adam":
            self._optimiser = FusedAdam(self.online.parameters, self.online.gradient, config)
        self._rows = np.arange(config.batch_size)

    @staticmethod
    def fits(skeleton: nn.Module, config: LearnerConfig) -> bool:
        """Whether a minibatch is small enough for the network's passes to be."""
        return not config.whole_episode and SmallMLP.fits_rows(skeleton, config.batch_size)

    @np.errstate(over="ignore", invalid="ignore")  # a loss that is no longer a number is reported when a row is written
    def update(self, batch: Batch) -> Update:
        *inputs, every = self.online.forward(self.online.inputs(batch.states))  # [B, A]
        taken = (self._rows[: len(every)], batch.actions.numpy())
        values: Array = every[taken]
        errors = self._targets(batch, torch.from_numpy(values[None])).numpy()[0] - values
        loss, slope = self._loss(errors)
        if batch.weights is not None:
            weights = batch.weights.numpy()
            loss, slope = loss * weights, slope * weights
        slopes = np.zeros_like(every)
        slopes[taken] = slope
        self.online.backward(slopes, inputs)
        self._descend()
        return SmallUpdate(loss[None], values[None], errors[None])
