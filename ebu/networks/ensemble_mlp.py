"""The fast path for multilayer perceptrons: K networks at once, the gradient written out, a single state in NumPy.

On networks this small the time goes into calling operations, not into arithmetic. Writing out the chain rule takes a
third of autograd's calls; NumPy's calls cost a fraction of a tensor's. Tests hold this equal to the general path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from ebu.networks.ensemble import Ensemble, Pullback
from ebu.networks.modules import Places, SparseLinear
from ebu.types import Array

Weights = list[tuple[Tensor, Tensor]]  # per layer: [K, out, in], [K, out]
Factors = list[tuple[Tensor, Tensor]]  # the same as a product takes them: [K, in, out], [K, 1, out]


class EnsembleMLP(Ensemble):
    """K networks of linear layers with ReLU between them, after any layers without parameters."""

    @staticmethod
    def fits(skeleton: nn.Module) -> bool:
        """Whether the network is such a chain."""
        if not isinstance(skeleton, nn.Sequential):
            return False
        return is_linear_chain(list(skeleton)[layers_without_weights(skeleton) :])

    @cached_property
    def _prepare(self) -> nn.Sequential:
        """The layers before the first one with weights: scaling, one-hot coding, flattening."""
        assert isinstance(self.skeleton, nn.Sequential)
        return nn.Sequential(*list(self.skeleton)[: layers_without_weights(self.skeleton)])

    def _layers(self, block: Tensor) -> Weights:
        views = self.views(block)
        return list(zip(views[0::2], views[1::2]))

    @cached_property
    def _weights(self) -> Weights:
        return self._layers(self.parameters)

    @cached_property
    def _factors(self) -> Factors:
        """Views of the weights, made once: a view costs as much as a small product. None of this asks for autograd."""
        return [(weight.transpose(1, -1), bias.unsqueeze(1)) for weight, bias in self._weights]

    @cached_property
    def _gradients(self) -> Weights:
        return self._layers(self.gradient)

    def _forward(self, states: Tensor) -> list[Tensor]:
        """The input of each layer, [K, B, in], and last the output, [K, B, A]."""
        inputs = self._prepare(states) if len(self._prepare) else states
        if self._is_sparse:
            return self._forward_places(inputs)
        return forward(inputs.expand(self.learners, *inputs.shape), self._factors)

    def values(self, states: Tensor) -> Tensor:
        return self._forward(states)[-1]

    def differentiate(self, states: Tensor) -> tuple[Tensor, Pullback]:
        *inputs, values = self._forward(states)

        def pullback(slope: Tensor) -> None:
            if self._is_sparse:
                self._backward_places(slope, inputs)
            else:
                backward(slope, inputs, self._weights, self._gradients)

        return values, pullback

    # The first layer on a long one-hot vector: only the columns of its ones are read, and only their gradient is written.

    @cached_property
    def _is_sparse(self) -> bool:
        return any(isinstance(layer, SparseLinear) for layer in self.skeleton.modules())

    def _forward_places(self, places: Tensor) -> list[Tensor]:
        """As ``forward``, with the places of the ones [B, n] for the first input."""
        weight, bias = self._weights[0]
        columns = weight.index_select(2, places.flatten()).unflatten(2, places.shape)  # [K, out, B, n]
        output = columns.sum(-1).transpose(1, 2) + bias.unsqueeze(1)
        return [places, output] if len(self._factors) == 1 else [places, *forward(output.relu_(), self._factors[1:])]

    def _backward_places(self, slope: Tensor, inputs: list[Tensor]) -> None:
        places, *inputs = inputs
        if inputs:
            slope = backward(slope, inputs, self._weights[1:], self._gradients[1:])
            slope = behind(slope, self._weights[1][0], inputs[0])
        weight_gradient, bias_gradient = self._gradients[0]
        weight_gradient.index_fill_(2, self._written, 0.0)  # all others are 0 already
        self._written = places.flatten()
        weight_gradient.index_add_(2, self._written, slope.transpose(1, 2).repeat_interleave(places.shape[1], 2))
        torch.sum(slope, dim=1, out=bias_gradient)

    @cached_property
    def _written(self) -> Tensor:
        """Columns of the first layer's gradient that may not be 0."""
        return torch.zeros(0, dtype=torch.int64, device=self.device)

    def _values_of_places(self, learner: int) -> Callable[[Array], Array]:
        (weight, bias), *rest = [(weight[learner].numpy(), bias[learner].numpy()) for weight, bias in self._weights]
        offsets = np.array(next(layer for layer in self._prepare if isinstance(layer, Places)).offsets)
        behind_first = one_by_one(rest) if rest else None

        def values(state: Array) -> Array:
            output = weight[:, state + offsets].sum(1) + bias
            return output if behind_first is None else behind_first(np.maximum(output, 0.0))

        return values

    # ------------------------------------------------------------------ one state

    def state_values(self, learner: int) -> Callable[[Array], Array]:
        if self._is_sparse and self.device.type == "cpu":
            return self._values_of_places(learner)
        if self.device.type != "cpu" or len(self._prepare):
            return self._state_values_by_tensors(learner)
        return one_by_one([(weight[learner].numpy(), bias[learner].numpy()) for weight, bias in self._weights])  # views

    def batch_values(self, learner: int) -> Callable[[Array], Array]:
        if self.device.type == "cpu" and not len(self._prepare):
            return many_at_once([(weight[learner].numpy(), bias[learner].numpy()) for weight, bias in self._weights])
        return self._batch_values_by_tensors(learner)

    def _batch_values_by_tensors(self, learner: int) -> Callable[[Array], Array]:
        if self.learners > 1:
            return super().batch_values(learner)  # the passes of this class are of all learners

        def values(states: Array) -> Array:
            return self._forward(torch.from_numpy(states).to(self.device))[-1][0].numpy(force=True)

        return values

    def _state_values_by_tensors(self, learner: int) -> Callable[[Array], Array]:
        def values(state: Array) -> Array:
            return self._forward(torch.from_numpy(state).unsqueeze(0).to(self.device))[-1][learner, 0].numpy(force=True)

        return values


def forward(inputs: Tensor, factors: Factors) -> list[Tensor]:
    """The input of each linear layer, [K, B, in], and last the output, with ReLU between the layers."""
    layers = [inputs]
    for weight, bias in factors[:-1]:
        layers.append(torch.baddbmm(bias, layers[-1], weight).relu_())
    weight, bias = factors[-1]
    layers.append(torch.baddbmm(bias, layers[-1], weight))
    return layers


def backward(slope: Tensor, inputs: list[Tensor], weights: Weights, gradients: Weights) -> Tensor:
    """Write the gradients of linear layers from ∂loss/∂output; returns the slope at the output of the first layer."""
    for layer in range(len(inputs) - 1, -1, -1):
        weight_gradient, bias_gradient = gradients[layer]
        torch.bmm(slope.transpose(1, 2), inputs[layer], out=weight_gradient)
        torch.sum(slope, dim=1, out=bias_gradient)
        if layer:
            slope = behind(slope, weights[layer][0], inputs[layer])
    return slope


def behind(slope: Tensor, weight: Tensor, rectified: Tensor) -> Tensor:
    """The slope at a layer's output taken back through it and through the ReLU that gave its input."""
    return torch.ops.aten.threshold_backward(torch.bmm(slope, weight), rectified, 0)


def one_by_one(layers: list[tuple[Array, Array]]) -> Callable[[Array], Array]:
    """A function from the input [in] of linear layers, weight [out, in] and bias [out], to their output."""
    hidden, (last_weight, last_bias) = layers[:-1], layers[-1]

    def values(state: Array) -> Array:
        for weight, bias in hidden:
            state = weight.dot(state)
            state += bias
            np.maximum(state, 0.0, out=state)
        return last_weight.dot(state) + last_bias

    return values


def many_at_once(layers: list[tuple[Array, Array]]) -> Callable[[Array], Array]:
    """The same for inputs [B, in]."""
    hidden, (last_weight, last_bias) = layers[:-1], layers[-1]

    def values(states: Array) -> Array:
        for weight, bias in hidden:
            states = states.dot(weight.T)
            states += bias
            np.maximum(states, 0.0, out=states)
        return states.dot(last_weight.T) + last_bias

    return values


def is_linear_chain(layers: Sequence[nn.Module]) -> bool:
    linear = all(isinstance(layer, nn.Linear) for layer in layers[::2])
    return len(layers) % 2 == 1 and linear and all(isinstance(layer, nn.ReLU) for layer in layers[1::2])


def layers_without_weights(skeleton: nn.Sequential) -> int:
    """How many layers come before the first one with parameters."""
    return next((i for i, layer in enumerate(skeleton) if any(True for _ in layer.parameters())), len(skeleton))
