"""The fast path for multilayer perceptrons: K networks at once, the gradient written out, a single state in NumPy.

On networks this small the time goes into calling operations, not into arithmetic. Writing out the chain rule takes a
third of autograd's calls; NumPy's calls cost a fraction of a tensor's. Tests hold this equal to the general path.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from ebu.agent.stacked import Pullback, StackedNetwork
from ebu.types import Array

Weights = list[tuple[Tensor, Tensor]]  # per layer: [K, out, in], [K, out]


class StackedMLP(StackedNetwork):
    """K networks of linear layers with ReLU between them, after any layers without parameters."""

    @staticmethod
    def fits(skeleton: nn.Module) -> bool:
        """Whether the network is such a chain."""
        if not isinstance(skeleton, nn.Sequential):
            return False
        first = _first_linear(skeleton)
        chain = list(skeleton)[first:]
        linear = all(isinstance(layer, nn.Linear) for layer in chain[::2])
        return len(chain) % 2 == 1 and linear and all(isinstance(layer, nn.ReLU) for layer in chain[1::2])

    @cached_property
    def _prepare(self) -> nn.Sequential:
        """The layers before the first linear one: scaling, one-hot coding, flattening."""
        assert isinstance(self.skeleton, nn.Sequential)
        return nn.Sequential(*list(self.skeleton)[: _first_linear(self.skeleton)])

    def _views(self, block: Tensor) -> Weights:
        tensors = [block[:, place].view(self.learners, *shape) for _, place, shape in self.layout]
        return list(zip(tensors[0::2], tensors[1::2]))

    @cached_property
    def _weights(self) -> Weights:
        return self._views(self.parameters)

    @cached_property
    def _gradients(self) -> Weights:
        return self._views(self.gradient)

    @torch.no_grad()
    def _forward(self, states: Tensor) -> list[Tensor]:
        """The input of each layer, [K, B, in], and last the output, [K, B, A]."""
        inputs = self._prepare(states) if len(self._prepare) else states
        layers = [inputs.expand(self.learners, *inputs.shape)]
        for weight, bias in self._weights[:-1]:
            layers.append(torch.baddbmm(bias.unsqueeze(1), layers[-1], weight.transpose(1, 2)).relu_())
        weight, bias = self._weights[-1]
        layers.append(torch.baddbmm(bias.unsqueeze(1), layers[-1], weight.transpose(1, 2)))
        return layers

    def values(self, states: Tensor) -> Tensor:
        return self._forward(states)[-1]

    def differentiate(self, states: Tensor) -> tuple[Tensor, Pullback]:
        *inputs, values = self._forward(states)

        @torch.no_grad()
        def pullback(slope: Tensor) -> None:
            for layer in range(len(inputs) - 1, -1, -1):
                weight_gradient, bias_gradient = self._gradients[layer]
                torch.bmm(slope.transpose(1, 2), inputs[layer], out=weight_gradient)
                torch.sum(slope, dim=1, out=bias_gradient)
                if layer:
                    behind = torch.bmm(slope, self._weights[layer][0])
                    slope = torch.ops.aten.threshold_backward(behind, inputs[layer], 0)

        return values, pullback

    def state_values(self, learner: int) -> Callable[[Array], Array]:
        if self.device.type != "cpu" or len(self._prepare):
            return self._state_values_by_tensors(learner)
        layers = [(weight[learner].numpy(), bias[learner].numpy()) for weight, bias in self._weights]  # views
        hidden, (last_weight, last_bias) = layers[:-1], layers[-1]

        def values(state: Array) -> Array:
            for weight, bias in hidden:
                state = np.maximum(weight @ state + bias, 0.0)
            return last_weight @ state + last_bias

        return values

    def _state_values_by_tensors(self, learner: int) -> Callable[[Array], Array]:
        def values(state: Array) -> Array:
            return self._forward(torch.from_numpy(state).unsqueeze(0).to(self.device))[-1][learner, 0].numpy(force=True)

        return values


def stacked(skeleton: nn.Module, learners: int, device: torch.device) -> StackedNetwork:
    """K networks in the form that is fastest for them."""
    return (StackedMLP if StackedMLP.fits(skeleton) else StackedNetwork)(skeleton, learners, device)


def _first_linear(skeleton: nn.Sequential) -> int:
    """How many layers stand before the first one with parameters."""
    return next((i for i, layer in enumerate(skeleton) if any(True for _ in layer.parameters())), len(skeleton))
