"""Losses with their slopes. A loss is the sum over K learners, so that no learner's gradient depends on another."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from ebu.config import Loss

# errors = target − value, [K, B] → (loss per entry, ∂loss/∂value per entry), both [K, B]
LossFunction = Callable[[Tensor], tuple[Tensor, Tensor]]


def huber_sum(errors: Tensor) -> tuple[Tensor, Tensor]:
    """Σ Huber(target − value), threshold 1: its slope is the error clipped to ±1, as the Nature code sums it."""
    clipped = errors.clamp(-1.0, 1.0)
    return clipped * errors.sub(clipped, alpha=0.5), -clipped


def huber_mean(errors: Tensor) -> tuple[Tensor, Tensor]:
    """The same, averaged over the minibatch."""
    loss, slope = huber_sum(errors)
    return loss / errors.shape[-1], slope / errors.shape[-1]


def mse(errors: Tensor) -> tuple[Tensor, Tensor]:
    """Mean squared error over the minibatch: the loss the paper writes."""
    scaled = errors * (2.0 / errors.shape[-1])
    return 0.5 * scaled * errors, -scaled


LOSSES: dict[Loss, LossFunction] = {"huber-sum": huber_sum, "huber-mean": huber_mean, "mse": mse}
