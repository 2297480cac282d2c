"""Losses with their slopes. A loss is the sum over K learners, so that no learner's gradient depends on another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from ebu.config import Loss

# errors = target − value, [K, B] → (loss per entry, ∂loss/∂value per entry), both [K, B]; of tensors or of arrays
LossFunction = Callable[[Any], tuple[Any, Any]]


def huber_sum(errors: Any) -> tuple[Any, Any]:
    """Σ Huber(target − value), threshold 1: its slope is the error clipped to ±1, as the Nature code sums it."""
    clipped = errors.clip(-1.0, 1.0)
    return clipped * (errors - 0.5 * clipped), -clipped


def huber_mean(errors: Any) -> tuple[Any, Any]:
    """The same, averaged over the minibatch."""
    loss, slope = huber_sum(errors)
    return loss / errors.shape[-1], slope / errors.shape[-1]


def mse(errors: Any) -> tuple[Any, Any]:
    """Mean squared error over the minibatch: the loss the paper writes."""
    scaled = errors * (2.0 / errors.shape[-1])
    return 0.5 * scaled * errors, -scaled


def cross_entropy(logits: Tensor, histograms: Tensor) -> tuple[Tensor, Tensor]:
    """−Σ h log softmax(logits) averaged over the minibatch, [K, B], and its slope by the logits, both of [K, B, bins]."""
    shares = logits.log_softmax(-1)
    count = logits.shape[1]
    return -(histograms * shares).sum(-1) / count, (shares.exp() - histograms) / count


LOSSES: dict[Loss, LossFunction] = {"huber-sum": huber_sum, "huber-mean": huber_mean, "mse": mse}
