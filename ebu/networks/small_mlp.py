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
from ebu.networks.ensemble_mlp import EnsembleMLP, Weights
from ebu.networks.modules import SparseLinear
from ebu.types import Array

# Up to these sizes the BLAS in NumPy's wheels computes in the calling thread, however many it has: the same bits with any.
PRODUCT_UP_TO = 2**18  # rows × inputs × outputs of matrix times matrix
VECTOR_PRODUCT_UP_TO = 2**13  # rows × columns of vector times matrix


Layers = list[tuple[Array, Array, Array]]  # of each the weight [out, in], the same [in, out], and the bias [out]


class SmallMLP(EnsembleMLP):
    """One network of linear layers with ReLU between them. ``forward`` gives arrays, ``backward`` takes them."""

    @staticmethod
    def fits_rows(skeleton: nn.Module, rows: int) -> bool:
        """Whether the network is such a chain, and its passes of so many states are small."""
        if not EnsembleMLP.fits(skeleton) or any(isinstance(layer, SparseLinear) for layer in skeleton.modules()):
            return False
        layers = [layer for layer in skeleton.modules() if isinstance(layer, nn.Linear)]
        return are_small(layers, rows)

    @cached_property
    def _arrays(self) -> Layers:
        """Views of the block."""
        return layers_of(self._weights)

    @cached_property
    def _gradient_arrays(self) -> list[tuple[Array, Array]]:
        return gradients_of(self._gradients)

    def forward(self, states: Tensor) -> list[Array]:
        """The input of each layer, [B, in], and last the output, [B, A]."""
        return forward((self._prepare(states) if len(self._prepare) else states).numpy(), self._arrays)

    def backward(self, slope: Array, inputs: list[Array]) -> None:
        """Write the gradient from ∂loss/∂output [B, A] and the inputs of each layer."""
        backward(slope, inputs, self._arrays, self._gradient_arrays)

    def values(self, states: Tensor) -> Tensor:
        return torch.from_numpy(self.forward(states)[-1][None])

    def differentiate(self, states: Tensor) -> tuple[Tensor, Pullback]:
        *inputs, values = self.forward(states)
        return torch.from_numpy(values[None]), lambda slope: self.backward(slope[0].numpy(), inputs)

    def gradient_parts(self) -> list[Tensor]:
        """The gradient after a backward pass, one part after another."""
        return self._parts

    @cached_property
    def _parts(self) -> list[Tensor]:
        return [self.gradient[0]]

    def collect_gradient(self) -> None:
        """Bring all of it to ``gradient``, where it is already."""


def forward(inputs: Array, layers: Layers) -> list[Array]:
    """The input of each layer, [B, in], and last the output, with ReLU between the layers."""
    passed = [inputs]
    *hidden, (_, weight, bias) = layers
    for _, hidden_weight, hidden_bias in hidden:
        output = product(passed[-1], hidden_weight)
        output += hidden_bias
        passed.append(np.maximum(output, 0.0, out=output))
    output = product(passed[-1], weight)
    output += bias
    passed.append(output)
    return passed


def backward(slope: Array, inputs: list[Array], layers: Layers, gradients: list[tuple[Array, Array]]) -> Array:
    """Write the gradients from ∂loss/∂output; returns the slope at the output of the first layer."""
    ones = np.ones(len(slope), slope.dtype)
    for layer in range(len(inputs) - 1, -1, -1):
        weight_gradient, bias_gradient = gradients[layer]
        slope.T.dot(inputs[layer], weight_gradient)
        ones.dot(slope, bias_gradient)
        if layer:
            slope = behind(slope, layers[layer], inputs[layer])
    return slope


def behind(slope: Array, layer: tuple[Array, Array, Array], rectified: Array) -> Array:
    """The slope at a layer's output taken back through it and through the ReLU that gave its input."""
    slope = slope.dot(layer[0])
    slope *= rectified > 0.0
    return slope


def product(rows: Array, weight: Array) -> Array:
    """[B, in] × [in, out], of many rows in blocks."""
    at_once = PRODUCT_UP_TO // weight.size
    if len(rows) <= at_once:
        return rows.dot(weight)
    output = np.empty((len(rows), weight.shape[1]), weight.dtype)
    for start in range(0, len(rows), at_once):
        rows[start : start + at_once].dot(weight, output[start : start + at_once])
    return output


def layers_of(weights: Weights) -> Layers:
    """Views of the first network's weights as arrays."""
    return [(weight[0].numpy(), weight[0].numpy().T, bias[0].numpy()) for weight, bias in weights]


def gradients_of(gradients: Weights) -> list[tuple[Array, Array]]:
    """The same of a gradient."""
    return [(weight[0].numpy(), bias[0].numpy()) for weight, bias in gradients]


def are_small(layers: list[nn.Linear], rows: int) -> bool:
    """Whether the passes of so many rows through these layers stay in the calling thread."""
    largest = max(layer.in_features * layer.out_features for layer in layers)
    widest = max(layer.out_features for layer in layers)
    return rows * largest <= PRODUCT_UP_TO and rows * widest <= VECTOR_PRODUCT_UP_TO
