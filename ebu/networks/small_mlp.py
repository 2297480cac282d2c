"""The fast path for one small perceptron on the CPU: forward and backward pass in NumPy, on the memory of its block.

A product of 32 × 64 × 64 takes 3 µs; a tensor operation takes about as long to be called, and several times that where the
rest of a training loop has meanwhile filled the caches. NumPy's calls cost a fraction. Tests hold this equal to the
general path.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from ebu.networks.ensemble import Pullback
from ebu.networks.ensemble_mlp import EnsembleMLP
from ebu.networks.modules import SparseLinear
from ebu.types import Array

# Up to these sizes the BLAS in NumPy's wheels computes in the calling thread, however many it has: the same bits with any.
PRODUCT_UP_TO = 2**18  # rows × inputs × outputs of matrix times matrix
VECTOR_PRODUCT_UP_TO = 2**13  # rows × columns of vector times matrix


class SmallMLP(EnsembleMLP):
    """One network of linear layers with ReLU between them. ``forward`` and ``backward`` take and give arrays."""

    @staticmethod
    def fits_rows(skeleton: nn.Module, rows: int) -> bool:
        """Whether the network is such a chain, and its passes of so many states are small."""
        if not EnsembleMLP.fits(skeleton) or any(isinstance(layer, SparseLinear) for layer in skeleton.modules()):
            return False
        layers = [layer for layer in skeleton.modules() if isinstance(layer, nn.Linear)]
        widest = max(layer.out_features for layer in layers)
        return rows * _largest(layers) <= PRODUCT_UP_TO and rows * widest <= VECTOR_PRODUCT_UP_TO

    @cached_property
    def _arrays(self) -> list[tuple[Array, Array, Array]]:
        """Of each layer the weight [out, in], the same [in, out], and the bias [out]: views of the block."""
        return [(weight[0].numpy(), weight[0].numpy().T, bias[0].numpy()) for weight, bias in self._weights]

    @cached_property
    def _gradient_arrays(self) -> list[tuple[Array, Array]]:
        return [(weight[0].numpy(), bias[0].numpy()) for weight, bias in self._gradients]

    def inputs(self, states: Tensor) -> Array:
        """What the first linear layer reads, [B, in]."""
        return (self._prepare(states) if len(self._prepare) else states).numpy()

    def forward(self, inputs: Array) -> list[Array]:
        """The input of each layer, [B, in], and last the output, [B, A]."""
        layers = [inputs]
        *hidden, (_, weight, bias) = self._arrays
        for _, hidden_weight, hidden_bias in hidden:
            output = product(layers[-1], hidden_weight)
            output += hidden_bias
            layers.append(np.maximum(output, 0.0, out=output))
        output = product(layers[-1], weight)
        output += bias
        layers.append(output)
        return layers

    def backward(self, slope: Array, inputs: list[Array]) -> None:
        """Write the gradient from ∂loss/∂output [B, A] and the inputs of each layer."""
        ones = np.ones(len(slope), slope.dtype)
        for layer in range(len(inputs) - 1, -1, -1):
            weight_gradient, bias_gradient = self._gradient_arrays[layer]
            slope.T.dot(inputs[layer], weight_gradient)
            ones.dot(slope, bias_gradient)
            if layer:
                slope = slope.dot(self._arrays[layer][0])
                slope *= inputs[layer] > 0.0  # behind the ReLU

    def values(self, states: Tensor) -> Tensor:
        return torch.from_numpy(self.forward(self.inputs(states))[-1][None])

    def differentiate(self, states: Tensor) -> tuple[Tensor, Pullback]:
        *inputs, values = self.forward(self.inputs(states))
        return torch.from_numpy(values[None]), lambda slope: self.backward(slope[0].numpy(), inputs)


def product(rows: Array, weight: Array) -> Array:
    """[B, in] × [in, out], of many rows in blocks."""
    at_once = PRODUCT_UP_TO // weight.size
    if len(rows) <= at_once:
        return rows.dot(weight)
    output = np.empty((len(rows), weight.shape[1]), weight.dtype)
    for start in range(0, len(rows), at_once):
        rows[start : start + at_once].dot(weight, output[start : start + at_once])
    return output


def _largest(layers: list[nn.Linear]) -> int:
    """Weights of the largest layer."""
    return max(layer.in_features * layer.out_features for layer in layers)
