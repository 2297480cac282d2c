"""The fast path for K networks that begin with one small convolution, such as MinAtar's.

All K networks read the same states, so the patches under the kernel are cut out once and one product with all K kernels
gives every first layer: [K·filters, patch] × [patch, B·places]. The linear layers after it are those of
the multilayer perceptrons.
"""

from __future__ import annotations

from functools import cached_property
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import unfold

from ebu.networks.ensemble import Pullback
from ebu.networks.ensemble_mlp import EnsembleMLP, backward, behind, forward, is_linear_chain, layers_without_weights


class EnsembleConvolution(EnsembleMLP):
    """K networks of one convolution without padding, ReLU, flattening, and linear layers with ReLU between them."""

    @staticmethod
    def fits(skeleton: nn.Module) -> bool:
        if not isinstance(skeleton, nn.Sequential):
            return False
        layers = list(skeleton)[layers_without_weights(skeleton) :]
        if [type(layer) for layer in layers[:3]] != [nn.Conv2d, nn.ReLU, nn.Flatten]:
            return False
        first = cast(nn.Conv2d, layers[0])
        is_plain = first.padding == (0, 0) and first.dilation == (1, 1) and first.groups == 1
        return is_plain and is_linear_chain(layers[3:])

    @cached_property
    def _convolution(self) -> nn.Conv2d:
        return cast(nn.Conv2d, cast(nn.Sequential, self.skeleton)[len(self._prepare)])

    @cached_property
    def _kernels(self) -> tuple[Tensor, Tensor]:
        """All kernels and biases as the factors of one product, kept in memory of their own; see ``_gather``."""
        weight, bias = self._weights[0]
        rows = weight.shape[0] * weight.shape[1]
        return weight.new_empty(rows, weight[0, 0].numel()), bias.new_empty(rows, 1)

    def _gather(self) -> tuple[Tensor, Tensor]:
        """The K kernels side by side: in the block they lie one network apart."""
        kernels, biases = self._kernels
        weight, bias = self._weights[0]
        kernels.view(weight.shape).copy_(weight)
        biases.view(bias.shape).copy_(bias)
        return kernels, biases

    @torch.no_grad()
    def _convolve(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """The patches [patch, B·places], and the rectified features [K, B, filters·places]."""
        images = self._prepare(states)
        filters, size, stride = self._convolution.out_channels, self._convolution.kernel_size, self._convolution.stride
        patches = unfold(images, size, stride=stride).transpose(0, 1)  # [patch, B, places]
        count, places = patches.shape[1:]
        patches = patches.reshape(len(patches), -1)
        kernels, biases = self._gather()
        maps = torch.addmm(biases, kernels, patches).relu_().view(self.learners, filters, count, places)
        return patches, maps.transpose(1, 2).reshape(self.learners, count, filters * places)

    @torch.no_grad()
    def _forward(self, states: Tensor) -> list[Tensor]:
        return forward(self._convolve(states)[1], self._weights[1:])

    def differentiate(self, states: Tensor) -> tuple[Tensor, Pullback]:
        patches, features = self._convolve(states)
        with torch.no_grad():
            *inputs, values = forward(features, self._weights[1:])

        @torch.no_grad()
        def pullback(slope: Tensor) -> None:
            linear = self._weights[1:]
            slope = behind(backward(slope, inputs, linear, self._gradients[1:]), linear[0][0], features)
            weight_gradient, bias_gradient = self._gradients[0]
            filters = weight_gradient.shape[1]
            maps = slope.view(self.learners, slope.shape[1], filters, -1).transpose(1, 2)  # [K, filters, B, places]
            maps = maps.reshape(self.learners * filters, -1)
            weight_gradient.copy_((maps @ patches.T).view(weight_gradient.shape))
            bias_gradient.copy_(maps.sum(1).view(bias_gradient.shape))

        return values, pullback
