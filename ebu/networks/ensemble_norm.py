"""The fast paths with layer normalisation between each hidden layer and its ReLU, the chain rule written out here, too.

All K networks are normalised in one call; each has its own gains and offsets. Tests hold this equal to the general path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from ebu.networks.ensemble import Pullback
from ebu.networks.ensemble_convolution import NUMPY_UP_TO_ELEMENTS, EnsembleConvolution, is_plain_convolution
from ebu.networks.ensemble_mlp import EnsembleMLP, Weights, behind, layers_without_weights
from ebu.networks.modules import Scale, SparseLinear
from ebu.types import Array

Passed = tuple[Tensor, Tensor, Tensor, Tensor]  # input, normalised input, its mean, 1 / its deviation


class Norm:
    """The normalisation of one hidden layer in K networks: gain [K, F] and offset [K, F], and where their gradients go."""

    def __init__(self, weights: tuple[Tensor, Tensor], gradients: tuple[Tensor, Tensor], eps: float, batch_axis: int) -> None:
        gain, offset = (view.flatten(1) for view in weights)  # of a convolution: one for each filter at each place
        self._gain, self._offset = gain.unsqueeze(batch_axis), offset.unsqueeze(batch_axis)
        self._gradients = [view.flatten(1) for view in gradients]
        self._features = [gain.shape[1]]
        self._eps = eps
        self._axis = batch_axis

    def forward(self, x: Tensor) -> tuple[Tensor, Passed]:
        """x [K, B, F], or [B, K, F] where the batch is the first axis, normalised and rectified."""
        normal, mean, inverse = torch.native_layer_norm(x, self._features, None, None, self._eps)
        return torch.addcmul(self._offset, normal, self._gain).relu_(), (x, normal, mean, inverse)

    def backward(self, slope: Tensor, passed: Passed) -> Tensor:
        """Write the gradients from the slope at the output before its ReLU; returns the slope at the input."""
        x, normal, mean, inverse = passed
        gain_gradient, offset_gradient = self._gradients
        torch.sum(slope * normal, dim=self._axis, out=gain_gradient)
        torch.sum(slope, dim=self._axis, out=offset_gradient)
        return torch.ops.aten.native_layer_norm_backward(
            slope * self._gain, x, self._features, mean, inverse, None, None, [True, False, False]
        )[0]


class EnsembleNormMLP(EnsembleMLP):
    """K networks of linear layers with LayerNorm and ReLU between them, after any layers without parameters."""

    @staticmethod
    def fits(skeleton: nn.Module) -> bool:
        if not isinstance(skeleton, nn.Sequential) or any(isinstance(layer, SparseLinear) for layer in skeleton):
            return False
        return is_normalised_chain(list(skeleton)[layers_without_weights(skeleton) :])

    def _layers(self, block: Tensor) -> Weights:
        return super()._layers(block)[0::2]

    @cached_property
    def _eps(self) -> list[float]:
        return [layer.eps for layer in self.skeleton.modules() if isinstance(layer, nn.LayerNorm)]

    @cached_property
    def _norms(self) -> list[Norm]:
        weights, gradients = (EnsembleMLP._layers(self, block)[1::2] for block in (self.parameters, self.gradient))
        return [Norm(*views, batch_axis=1) for views in zip(weights, gradients, self._eps)]

    # ------------------------------------------------------------------ values and their gradient

    def _linear(self, inputs: Tensor, first: int = 0) -> tuple[list[Tensor], list[Passed]]:
        """The input of each linear layer from number ``first`` on and last the output; what each normalisation was given."""
        layers, passed = [inputs], []
        for (weight, bias), norm in zip(self._factors[first:-1], self._norms[first:]):
            output, given = norm.forward(torch.baddbmm(bias, layers[-1], weight))
            layers.append(output)
            passed.append(given)
        weight, bias = self._factors[-1]
        return [*layers, torch.baddbmm(bias, layers[-1], weight)], passed

    def _linear_backward(self, slope: Tensor, inputs: list[Tensor], passed: list[Passed], first: int = 0) -> Tensor:
        """Write the gradients of these layers; returns the slope at the output of layer ``first``."""
        for i in range(len(inputs) - 1, -1, -1):
            weight_gradient, bias_gradient = self._gradients[first + i]
            torch.bmm(slope.transpose(1, 2), inputs[i], out=weight_gradient)
            torch.sum(slope, dim=1, out=bias_gradient)
            if i:
                slope = behind(slope, self._weights[first + i][0], inputs[i])
                slope = self._norms[first + i - 1].backward(slope, passed[i - 1])
        return slope

    def _prepared(self, states: Tensor) -> Tensor:
        inputs = self._prepare(states) if len(self._prepare) else states
        return inputs.expand(self.learners, *inputs.shape)

    def _forward(self, states: Tensor) -> list[Tensor]:
        return self._linear(self._prepared(states))[0]

    def differentiate(self, states: Tensor) -> tuple[Tensor, Pullback]:
        (*inputs, values), passed = self._linear(self._prepared(states))

        def pullback(slope: Tensor) -> None:
            self._linear_backward(slope, inputs, passed)

        return values, pullback

    # ------------------------------------------------------------------ one state

    def state_values(self, learner: int) -> Callable[[Array], Array]:
        if self.device.type != "cpu" or len(self._prepare):
            return self._state_values_by_tensors(learner)
        return self._values_of_one(learner, 0)

    def batch_values(self, learner: int) -> Callable[[Array], Array]:
        return self._batch_values_by_tensors(learner)

    def _norms_of_one(self, learner: int) -> list[Callable[[Array], Array]]:
        pairs = EnsembleMLP._layers(self, self.parameters)[1::2]
        return [
            normalise_one(gain[learner].flatten().numpy(), offset[learner].flatten().numpy(), eps)  # views
            for (gain, offset), eps in zip(pairs, self._eps)
        ]

    def _values_of_one(self, learner: int, first: int) -> Callable[[Array], Array]:
        """From the input [in] of linear layer ``first`` to the output."""
        *hidden, (last_weight, last_bias) = [(w[learner].numpy(), b[learner].numpy()) for w, b in self._weights[first:]]
        steps = [(weight, bias, norm) for (weight, bias), norm in zip(hidden, self._norms_of_one(learner)[first:])]

        def values(state: Array) -> Array:
            for weight, bias, norm in steps:
                state = weight.dot(state)
                state += bias
                state = norm(state)
            return last_weight.dot(state) + last_bias

        return values


class EnsembleNormConvolution(EnsembleConvolution, EnsembleNormMLP):
    """K networks of one convolution and linear layers, each but the last with LayerNorm and ReLU."""

    @staticmethod
    def fits(skeleton: nn.Module) -> bool:
        if not isinstance(skeleton, nn.Sequential):
            return False
        layers = list(skeleton)
        if [type(layer) for layer in layers[:5]] != [Scale, nn.Conv2d, nn.LayerNorm, nn.ReLU, nn.Flatten]:
            return False
        first, norm = cast(nn.Conv2d, layers[1]), cast(nn.LayerNorm, layers[2])
        whole = len(norm.normalized_shape) == 3 and norm.elementwise_affine and norm.bias is not None
        return is_plain_convolution(first) and whole and is_normalised_chain(layers[5:])

    @cached_property
    def _norms(self) -> list[Norm]:
        """The convolution's has the batch first, as its maps come out."""
        weights, gradients = (EnsembleMLP._layers(self, block)[1::2] for block in (self.parameters, self.gradient))
        return [Norm(*views, batch_axis=0 if i == 0 else 1) for i, views in enumerate(zip(weights, gradients, self._eps))]

    def _features(self, states: Tensor) -> tuple[Tensor, Tensor, Passed]:
        """The patches [B, patch, places], the rectified features [B, K, filters·places], and what was normalised."""
        patches, maps = self._maps(states)
        features, passed = self._norms[0].forward(maps.view(len(states), self.learners, -1))
        return patches, features, passed

    def _forward(self, states: Tensor) -> list[Tensor]:
        return self._linear(self._features(states)[1].transpose(0, 1), first=1)[0]

    def differentiate(self, states: Tensor) -> tuple[Tensor, Pullback]:
        patches, features, given = self._features(states)
        (*inputs, values), passed = self._linear(features.transpose(0, 1), first=1)

        def pullback(slope: Tensor) -> None:
            slope = self._linear_backward(slope, inputs, passed, first=1)
            slope = behind(slope, self._weights[1][0], inputs[0]).transpose(0, 1).contiguous()
            self._backward(self._norms[0].backward(slope, given).transpose(0, 1), patches)

        return values, pullback

    def state_values(self, learner: int) -> Callable[[Array], Array]:
        if self.device.type != "cpu" or self.parameters.shape[1] > NUMPY_UP_TO_ELEMENTS:
            return self._state_values_by_tensors(learner)
        maps_of, norm, values_of = self._maps_of_one(learner), self._norms_of_one(learner)[0], self._values_of_one(learner, 1)
        return lambda state: values_of(norm(maps_of(state).reshape(-1)))


def normalise_one(gain: Array, offset: Array, eps: float) -> Callable[[Array], Array]:
    """A function that normalises and rectifies one vector in place; sums as products, which are NumPy's fastest calls."""
    count = len(gain)
    ones = np.ones(count, gain.dtype)

    def normalise(x: Array) -> Array:
        x -= ones.dot(x) / count
        x *= (x.dot(x) / count + eps) ** -0.5
        x *= gain
        x += offset
        return np.maximum(x, 0.0, out=x)

    return normalise


def is_normalised_chain(layers: Sequence[nn.Module]) -> bool:
    """Linear, LayerNorm, ReLU, …, Linear, with at least one hidden layer."""
    hidden = [layers[i : i + 3] for i in range(0, len(layers) - 1, 3)]
    return (
        len(layers) > 1
        and len(layers) % 3 == 1
        and type(layers[-1]) is nn.Linear
        and all([type(layer) for layer in triple] == [nn.Linear, nn.LayerNorm, nn.ReLU] for triple in hidden)
        and all(layer.elementwise_affine and layer.bias is not None for layer in layers if isinstance(layer, nn.LayerNorm))
        and all(layer.bias is not None for layer in layers if isinstance(layer, nn.Linear))
    )
