"""Values as histograms: HL-Gauss (Imani and White, 2018; Farebrother et al., 2024).

A network gives logits of ``BINS`` equal bins for each action instead of one number. The bins divide symlog(value), so that
rewards of 0.1 and of 1,000 need no other limits; the value is symexp of the expected bin. What is learned is a classification:
a target becomes the histogram of a normal distribution around it.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

BINS = 51
LIMIT = 8.0  # of symlog(value): values up to 2,980
DEVIATION = 0.75  # of the normal distribution, in bins


def symlog(x: Tensor) -> Tensor:
    """sign(x) log(1 + |x|)"""
    return x.sign() * x.abs().log1p()


def symexp(x: Tensor) -> Tensor:
    """sign(x) (exp |x| − 1)"""
    return x.sign() * (x.abs().exp() - 1.0)


def value_of(logits: Tensor) -> Tensor:
    """The value of each histogram: ``[..., BINS]`` → ``[...]``."""
    return symexp(_mean(logits.softmax(-1)))


def histogram_of(values: Tensor) -> Tensor:
    """The histogram of a normal distribution around each value (or the limit): ``[...]`` → ``[..., BINS]``."""
    centre = symlog(values).clamp(-LIMIT, LIMIT).unsqueeze(-1)
    edges = torch.linspace(-LIMIT, LIMIT, BINS + 1, dtype=values.dtype, device=values.device)
    below = torch.erf((edges - centre) / (DEVIATION * 2 * LIMIT / BINS * math.sqrt(2)))
    shares = below.diff(dim=-1)
    return shares / shares.sum(-1, keepdim=True)


def slope_of_logits(logits: Tensor, slope: Tensor) -> Tensor:
    """∂/∂logits ``[..., BINS]`` of something whose derivative by ``value_of(logits)`` is ``slope[...]``."""
    shares = logits.softmax(-1)
    mean = _mean(shares)
    steepness = slope * mean.abs().exp()
    return steepness.unsqueeze(-1) * shares * (_centres(logits) - mean.unsqueeze(-1))


def _mean(shares: Tensor) -> Tensor:
    return (shares * _centres(shares)).sum(-1)


def _centres(like: Tensor) -> Tensor:
    outermost = LIMIT - LIMIT / BINS
    return torch.linspace(-outermost, outermost, BINS, dtype=like.dtype, device=like.device)


def by_action(outputs: Tensor) -> Tensor:
    """Logits ``[..., A · BINS]`` → ``[..., A, BINS]``."""
    return outputs.unflatten(-1, (-1, BINS))


class Histogram(nn.Module):
    """Action values from a network that gives a histogram for each action."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        return value_of(by_action(self.network(x)))
