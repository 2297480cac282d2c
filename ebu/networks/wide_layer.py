"""A wide linear layer and the ReLU behind it, of one network on the CPU, in products by the faster of PyTorch's libraries.

With AVX-512 oneDNN takes two thirds of the time of the library behind `torch.mm`, which on AMD's processors keeps to AVX2;
without AVX-512 it is no faster. Each gives the same bits every time, and which one is taken follows from the processor.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ebu.types import Array


class WideLayer:
    """Weight [out, in] and bias [out], and where their gradients go."""

    def __init__(self, weights: tuple[Tensor, Tensor], gradients: tuple[Tensor, Tensor]) -> None:
        self._weight, self._bias = weights
        self._transposed = self._weight.t()
        self._own_place, bias_gradient = gradients
        self.weight_gradient = self._own_place  # after a backward pass wherever the product was written
        self._bias_gradient = bias_gradient.numpy()

    def forward(self, inputs: Tensor) -> Tensor:
        """The rectified output [B, out] for [B, in]."""
        return torch.addmm(self._bias, inputs, self._transposed).relu_()

    def backward(self, slope: Array, inputs: Tensor) -> Tensor:
        """Write the gradients from the slope [B, out] before the ReLU; returns the slope [B, in] at the input."""
        np.add.reduce(slope, axis=0, out=self._bias_gradient)
        return self._backward(torch.from_numpy(slope), inputs)

    def _backward(self, slope: Tensor, inputs: Tensor) -> Tensor:
        torch.mm(slope.t(), inputs, out=self.weight_gradient)
        return torch.mm(slope, self._weight)

    def collect(self) -> None:
        """Bring the gradient to its own place."""


class OneDNNLayer(WideLayer):
    """The same by oneDNN, which writes each product into new memory: a copy of the gradient is made only where needed."""

    def forward(self, inputs: Tensor) -> Tensor:
        return _linear(inputs, self._weight, self._bias, "relu", [], "")

    def _backward(self, slope: Tensor, inputs: Tensor) -> Tensor:
        at_inputs = _linear(slope, self._transposed, None, "none", [], "")
        self.weight_gradient = _linear(slope.t(), inputs.t(), None, "none", [], "")  # last: the optimiser reads it next
        return at_inputs

    def collect(self) -> None:
        self._own_place.copy_(self.weight_gradient)
        self.weight_gradient = self._own_place


def wide_layer(weights: tuple[Tensor, Tensor], gradients: tuple[Tensor, Tensor]) -> WideLayer:
    """By the library that is faster on this processor."""
    is_single = weights[0].dtype == torch.float32
    return (OneDNNLayer if is_single and _prefers_onednn() else WideLayer)(weights, gradients)


def _prefers_onednn() -> bool:
    has_operation = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    return has_operation and torch.backends.cpu.get_cpu_capability() == "AVX512"


def _linear(*arguments: object) -> Tensor:
    """x Wᵀ + b and what follows; not a public name, so it is looked up where it is known to exist."""
    return torch.ops.mkldnn._linear_pointwise.default(*arguments)
