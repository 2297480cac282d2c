"""Products of a linear layer by oneDNN, where it is the faster of PyTorch's libraries.

With AVX-512 it takes half to two thirds of the time of the library behind `torch.mm`, which on AMD's processors keeps to AVX2;
without AVX-512 it is no faster. Each gives the same bits every time, and which one is taken follows from the processor.
"""

from __future__ import annotations

import torch
from torch import Tensor


def has_onednn() -> bool:
    """Whether this PyTorch has its operation."""
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def prefers_onednn(weights: Tensor) -> bool:
    """Whether products with such weights, by their device and precision, are for oneDNN."""
    is_plain = weights.device.type == "cpu" and weights.dtype == torch.float32
    return is_plain and has_onednn() and torch.backends.cpu.get_cpu_capability() == "AVX512"


def product(inputs: Tensor, weight: Tensor) -> Tensor:
    """x Wᵀ, in new memory."""
    return _linear(inputs, weight, None, "none", [], "")


def rectified(inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """max(x Wᵀ + b, 0), in new memory."""
    return _linear(inputs, weight, bias, "relu", [], "")


def _linear(*arguments: object) -> Tensor:
    """x Wᵀ + b and what follows; not a public name, so it is looked up where it is known to exist."""
    return torch.ops.mkldnn._linear_pointwise.default(*arguments)
