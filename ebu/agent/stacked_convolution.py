"""The fast path for networks that begin with one small convolution, such as MinAtar's; K of them at once.

All K networks read the same states, so the patches under the kernel are cut out once, and for each state one product with
all K kernels gives every first layer: [K·filters, patch] × [patch, places]. It comes out in the order in which the linear
layers read it, and those are a stacked MLP's. With the chain rule written out and a single state in NumPy, one network
takes a third of the time of a convolution by the library and autograd. Tests hold this equal to the general path.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from ebu.agent.networks import Scale
from ebu.agent.stacked import Pullback
from ebu.agent.stacked_mlp import StackedMLP, backward, behind, forward, is_linear_chain, one_by_one
from ebu.types import Array


class StackedConvolution(StackedMLP):
    """K networks of one convolution without padding, ReLU, flattening, and linear layers with ReLU between them."""

    @staticmethod
    def fits(skeleton: nn.Module) -> bool:
        if not isinstance(skeleton, nn.Sequential):
            return False
        layers = list(skeleton)
        if [type(layer) for layer in layers[:4]] != [Scale, nn.Conv2d, nn.ReLU, nn.Flatten]:
            return False
        first = cast(nn.Conv2d, layers[1])
        is_plain = first.padding == (0, 0) and first.dilation == (1, 1) and first.groups == 1
        return is_plain and first.weight.is_contiguous() and is_linear_chain(layers[4:])

    # ------------------------------------------------------------------ patches times kernels

    @cached_property
    def _scale(self) -> float:
        """What states are multiplied with. The kernels take it over, being smaller than the patches."""
        return cast(Scale, cast(nn.Sequential, self.skeleton)[0]).scale

    @cached_property
    def _indices(self) -> dict[torch.Size | tuple[int, ...], Tensor]:
        """By shape of an image: see ``_index``."""
        return {}

    def _index(self, image: torch.Size | tuple[int, ...]) -> Tensor:
        """[patch · places]: which number of the image [C, H, W] is seen where; made once for each shape."""
        index = self._indices.get(image)
        if index is None:
            convolution = cast(nn.Conv2d, cast(nn.Sequential, self.skeleton)[1])
            index = patch_index(image, convolution.kernel_size, convolution.stride).to(self.device)
            self._indices[image] = index
        return index

    @torch.no_grad()
    def _kernels(self) -> tuple[Tensor, Tensor]:
        """All kernels [K·filters, patch] and biases [K·filters, 1]; of one network they are where they are."""
        weight, bias = self._weights[0]
        rows = weight.shape[0] * weight.shape[1]
        kernels = weight.reshape(rows, -1)
        return kernels if self._scale == 1.0 else kernels * self._scale, bias.reshape(rows, 1)

    @torch.no_grad()
    def _convolve(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """The patches [B, patch, places], and the rectified features [K, B, filters·places]."""
        count = len(states)
        kernels, biases = self._kernels()
        patches = states.reshape(count, -1).to(torch.float32).index_select(1, self._index(states.shape[1:]))
        patches = patches.view(count, kernels.shape[1], -1)
        maps = torch.baddbmm(biases, kernels.expand(count, *kernels.shape), patches).relu_()  # [B, K·filters, places]
        return patches, maps.view(count, self.learners, -1).transpose(0, 1)

    # ------------------------------------------------------------------ values and their gradient

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
            maps = slope.transpose(0, 1).reshape(len(patches), -1, patches.shape[2])  # [B, K·filters, places]
            by_state = torch.bmm(maps, patches.transpose(1, 2))  # [B, K·filters, patch]
            gradient = by_state.sum(0) if self._scale == 1.0 else by_state.sum(0).mul_(self._scale)
            weight_gradient.copy_(gradient.view(weight_gradient.shape))
            bias_gradient.copy_(maps.sum((0, 2)).view(bias_gradient.shape))

        return values, pullback

    def state_values(self, learner: int) -> Callable[[Array], Array]:
        if self.device.type != "cpu":
            return self._state_values_by_tensors(learner)
        (kernel, bias), *linear = ((weight[learner].numpy(), bias[learner].numpy()) for weight, bias in self._weights)
        kernels, biases, scale, rest = kernel.reshape(len(kernel), -1), bias[:, None], np.float32(self._scale), one_by_one(linear)

        def values(state: Array) -> Array:
            patches = state.take(self._index(state.shape).numpy()).astype(np.float32).reshape(kernels.shape[1], -1)
            maps = kernels @ patches
            if scale != 1:
                maps *= scale
            return rest(np.maximum(maps + biases, 0.0).reshape(-1))

        return values


def patch_index(image: torch.Size | tuple[int, ...], kernel: tuple[int, ...], stride: tuple[int, ...]) -> Tensor:
    """Which numbers of an image [C, H, W], counted through, lie under the kernel at each place: [C · h · w · places]."""
    numbers = np.arange(np.prod(image)).reshape(image)
    windows = np.lib.stride_tricks.sliding_window_view(numbers, kernel, axis=(1, 2))[:, :: stride[0], :: stride[1]]
    return torch.from_numpy(windows.transpose(0, 3, 4, 1, 2).reshape(-1))  # from [C, rows, columns, h, w]
