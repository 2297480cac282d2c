"""The fast path for networks that begin with one small convolution, such as MinAtar's; K of them at once.

All K networks read the same states, so the patches under the kernel are cut out once, and for each state one product with
all K kernels gives every first layer: [K·filters, patch] × [patch, places]. It comes out in the order in which the linear
layers read it, and those are from `EnsembleMLP`. With the chain rule written out and a single state in NumPy, one network
takes a third of the time of a convolution by the library and autograd. Tests hold this equal to the general path.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from ebu.networks.ensemble import Pullback
from ebu.networks.ensemble_mlp import EnsembleMLP, backward, behind, forward, is_linear_chain, one_by_one
from ebu.networks.modules import Scale
from ebu.types import Array

NUMPY_UP_TO_ELEMENTS = 500_000  # weights; with more of them NumPy's products of one state are slower than a tensor's


class EnsembleConvolution(EnsembleMLP):
    """K networks of one convolution without padding, ReLU, flattening, and linear layers with ReLU between them."""

    keeps_work_space = False  # the gradient comes from products with patches

    @staticmethod
    def fits(skeleton: nn.Module) -> bool:
        if not isinstance(skeleton, nn.Sequential):
            return False
        layers = list(skeleton)
        if [type(layer) for layer in layers[:4]] != [Scale, nn.Conv2d, nn.ReLU, nn.Flatten]:
            return False
        return is_plain_convolution(cast(nn.Conv2d, layers[1])) and is_linear_chain(layers[4:])

    # ------------------------------------------------------------------ patches times kernels

    @cached_property
    def _scale(self) -> float:
        """What states are multiplied with. The kernels take it over, being smaller than the patches."""
        return cast(Scale, cast(nn.Sequential, self.skeleton)[0]).scale

    @cached_property
    def _stride(self) -> tuple[int, ...]:
        return cast(nn.Conv2d, cast(nn.Sequential, self.skeleton)[1]).stride

    @cached_property
    def _indices(self) -> dict[tuple[int, ...], Tensor]:
        """By shape of an image: see ``_index``."""
        return {}

    def _index(self, image: tuple[int, ...]) -> Tensor:
        """Which number of an image [C, H, W] is seen at each place, as [patch · places]; made once for each shape."""
        if image not in self._indices:
            convolution = cast(nn.Conv2d, cast(nn.Sequential, self.skeleton)[1])
            index = patch_index(image, convolution.kernel_size, convolution.stride)
            self._indices[image] = torch.from_numpy(index).to(self.device)
        return self._indices[image]

    @cached_property
    def _first(self) -> tuple[Tensor, Tensor]:
        """Views of the kernels [K, filters, patch] and their biases [K, filters, 1]."""
        weight, bias = self._weights[0]
        return weight.flatten(2), bias.unsqueeze(2)

    def _kernels(self) -> tuple[Tensor, Tensor]:
        """All kernels [K·filters, patch] and biases [K·filters, 1]; those of one network are read where they lie."""
        kernels, biases = (view[0] if self.learners == 1 else view.flatten(0, 1) for view in self._first)
        return kernels if self._scale == 1.0 else kernels * self._scale, biases

    def _maps(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """The patches [B, patch, places], and what the kernels make of them, [B, K·filters, places]."""
        count = len(states)
        kernels, biases = self._kernels()
        numbers = states.reshape(count, -1).to(kernels.dtype)  # as floats: bytes are picked one by one, which is slower
        patches = numbers.index_select(1, self._index(states.shape[1:])).view(count, kernels.shape[1], -1)
        return patches, torch.baddbmm(biases, kernels.expand(count, *kernels.shape), patches)

    def _convolve(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """The patches, and the rectified features [K, B, filters·places]."""
        patches, maps = self._maps(states)
        return patches, maps.relu_().view(len(states), self.learners, -1).transpose(0, 1)

    # ------------------------------------------------------------------ values and their gradient

    def _forward(self, states: Tensor) -> list[Tensor]:
        return forward(self._convolve(states)[1], self._factors[1:])

    def differentiate(self, states: Tensor) -> tuple[Tensor, Pullback]:
        patches, features = self._convolve(states)
        *inputs, values = forward(features, self._factors[1:])

        def pullback(slope: Tensor) -> None:
            linear = self._weights[1:]
            slope = behind(backward(slope, inputs, linear, self._gradients[1:]), linear[0][0], features)
            self._backward(slope, patches)

        return values, pullback

    def _backward(self, slope: Tensor, patches: Tensor) -> None:
        """Write the gradient of the kernels and their biases from the slope [K, B, filters·places] at their output."""
        weight, bias = self._gradients[0]
        kernels = weight.flatten(2)  # [K, filters, patch]
        count, _, places = patches.shape
        maps = slope.transpose(0, 1).reshape(count, -1, places)  # [B, K·filters, places]
        by_state = torch.bmm(maps, patches.transpose(1, 2)).view(count, *kernels.shape)
        torch.sum(by_state, dim=0, out=kernels)
        torch.sum(maps.view(count, *bias.shape, places), dim=(0, 3), out=bias)
        if self._scale != 1.0:
            kernels.mul_(self._scale)

    def state_values(self, learner: int) -> Callable[[Array], Array]:
        if self.device.type != "cpu" or self.parameters.shape[1] > NUMPY_UP_TO_ELEMENTS:
            return self._state_values_by_tensors(learner)
        maps_of = self._maps_of_one(learner)
        values_of = one_by_one([(weight[learner].numpy(), bias[learner].numpy()) for weight, bias in self._weights[1:]])

        def values(state: Array) -> Array:
            maps = maps_of(state)
            np.maximum(maps, 0.0, out=maps)
            return values_of(maps.reshape(-1))

        return values

    def _maps_of_one(self, learner: int) -> Callable[[Array], Array]:
        """From one state to what the kernels make of it, [filters, places]."""
        weight, bias = (view[learner].numpy() for view in self._weights[0])
        kernels, biases = weight.reshape(len(weight), -1), bias[:, None]  # views
        scale = kernels.dtype.type(self._scale)

        def maps_of(state: Array) -> Array:
            numbers = state.astype(kernels.dtype)
            if scale != 1.0:
                numbers *= scale
            maps = kernels.dot(numbers.take(self._index(state.shape).numpy()).reshape(kernels.shape[1], -1))
            maps += biases
            return maps

        return maps_of


def is_plain_convolution(layer: nn.Conv2d) -> bool:
    """Without padding, dilation or groups, its weights in the usual order."""
    is_plain = layer.padding == (0, 0) and layer.dilation == (1, 1) and layer.groups == 1
    return is_plain and layer.weight.is_contiguous()


def patch_index(image: tuple[int, ...], kernel: tuple[int, ...], stride: tuple[int, ...]) -> Array:
    """Which numbers of an image [C, H, W], counted through, lie under the kernel at each place: [C · h · w · places]."""
    numbers = np.arange(np.prod(image)).reshape(image)
    windows = np.lib.stride_tricks.sliding_window_view(numbers, kernel, axis=(1, 2))[:, :: stride[0], :: stride[1]]
    return windows.transpose(0, 3, 4, 1, 2).flatten()  # a copy, from [C, rows, columns, h, w]
