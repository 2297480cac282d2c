"""A wide linear layer and the ReLU behind it, of one network on the CPU, in products by the faster of PyTorch's libraries."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ebu.networks.products import prefers_onednn, product, rectified
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
        return rectified(inputs, self._weight, self._bias)

    def _backward(self, slope: Tensor, inputs: Tensor) -> Tensor:
        at_inputs = product(slope, self._transposed)
        self.weight_gradient = product(slope.t(), inputs.t())  # last: the optimiser reads it next
        return at_inputs

    def collect(self) -> None:
        self._own_place.copy_(self.weight_gradient)
        self.weight_gradient = self._own_place


def wide_layer(weights: tuple[Tensor, Tensor], gradients: tuple[Tensor, Tensor]) -> WideLayer:
    """By the library that is faster on this processor."""
    return (OneDNNLayer if prefers_onednn(weights[0]) else WideLayer)(weights, gradients)
