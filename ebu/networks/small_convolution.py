"""The fast path for one network of one small convolution on the CPU, such as MinAtar's.

What is large stays with PyTorch: the patches, the kernels, and the linear layer that reads all features. The small layers
behind it go through NumPy, whose calls cost a fraction. Tests hold this equal to the general path.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from ebu.networks.ensemble import Pullback
from ebu.networks.ensemble_convolution import EnsembleConvolution
from ebu.networks.small_mlp import Layers, are_small, backward, behind, forward, gradients_of, layers_of
from ebu.networks.wide_layer import WideLayer, wide_layer
from ebu.types import Array

_behind_relu = torch.ops.aten.threshold_backward.grad_input


class SmallConvolution(EnsembleConvolution):
    """One network of a convolution, a wide linear layer and small ones. ``forward`` and ``backward`` as of ``SmallMLP``."""

    images_at_once = 512  # small ones: more in one product gain more than their features lose in the caches

    @staticmethod
    def fits_rows(skeleton: nn.Module, rows: int) -> bool:
        """Whether the network is such a chain, and the passes of so many states through its last layers are small."""
        if not EnsembleConvolution.fits(skeleton):
            return False
        _, *small = [layer for layer in skeleton.modules() if isinstance(layer, nn.Linear)]
        return bool(small) and are_small(small, rows)

    @cached_property
    def _wide(self) -> WideLayer:
        (weight, bias), (weight_gradient, bias_gradient) = self._weights[1], self._gradients[1]
        return wide_layer((weight[0], bias[0]), (weight_gradient[0], bias_gradient[0]))

    @cached_property
    def _small(self) -> Layers:
        return layers_of(self._weights[2:])

    @cached_property
    def _small_gradients(self) -> list[tuple[Array, Array]]:
        return gradients_of(self._gradients[2:])

    @cached_property
    def _own_kernels(self) -> tuple[Tensor, Tensor]:
        """Views of the kernels [filters, patch] and their biases [filters, 1]."""
        kernels, biases = self._first
        return kernels[0], biases[0]

    @cached_property
    def _kernel_gradients(self) -> tuple[Tensor, Tensor]:
        """The same of the gradient, biases as [filters]."""
        weight, bias = self._gradients[0]
        return weight[0].flatten(1), bias[0]

    def _kernels(self) -> tuple[Tensor, Tensor]:
        kernels, biases = self._own_kernels
        return kernels if self._scale == 1.0 else kernels * self._scale, biases

    # ------------------------------------------------------------------ values and their gradient

    def values(self, states: Tensor) -> Tensor:
        return torch.from_numpy(self._values(states)[None])

    @torch.inference_mode()  # spares each operation a look at autograd
    def _values(self, states: Tensor) -> Array:
        """By the library's convolution, which is faster for many states where no gradient needs their patches."""
        kernels, biases = self._kernels()
        weight = kernels.view(self._weights[0][0].shape[1:])
        maps = torch.conv2d(states.to(kernels.dtype), weight, biases[:, 0], self._stride)
        return forward(self._wide.forward(maps.relu_().flatten(1)).numpy(), self._small)[-1]

    def differentiate(self, states: Tensor) -> tuple[Tensor, Pullback]:
        *passed, values = self.forward(states)

        def pullback(slope: Tensor) -> None:
            self.backward(slope[0].numpy(), passed)
            self.collect_gradient()

        return torch.from_numpy(values[None]), pullback

    @torch.inference_mode()
    def forward(self, states: Tensor) -> list[Any]:
        """Patches, features, the inputs of the small layers, and last the output [B, A], an array."""
        count = states.shape[0]  # len() of a tensor is several calls
        kernels, biases = self._kernels()
        numbers = states.numpy().reshape(count, -1).astype(self._small[0][0].dtype)  # bytes would be picked more slowly
        patches = torch.from_numpy(numbers).index_select(1, self._index(states.shape[1:])).view(count, kernels.shape[1], -1)
        features = torch.baddbmm(biases, kernels.expand(count, *kernels.shape), patches).relu_().view(count, -1)
        return [patches, features, *forward(self._wide.forward(features).numpy(), self._small)]

    @torch.inference_mode()
    def backward(self, slope: Array, passed: list[Any]) -> None:
        """Write the gradient from ∂loss/∂output [B, A] and what ``forward`` gave before the output."""
        patches, features, *inputs = passed
        slope = behind(backward(slope, inputs, self._small, self._small_gradients), self._small[0], inputs[0])
        at_features = self._wide.backward(slope, features)
        _behind_relu(at_features, features, 0, grad_input=at_features)
        kernels, biases = self._kernel_gradients
        maps = at_features.view(patches.shape[0], kernels.shape[0], -1)
        torch.sum(torch.bmm(maps, patches.transpose(1, 2)), dim=0, out=kernels)
        torch.sum(maps, dim=(0, 2), out=biases)
        if self._scale != 1.0:
            kernels.mul_(self._scale)

    # ------------------------------------------------------------------ the gradient in parts

    def gradient_parts(self) -> list[Tensor]:
        """The gradient after a backward pass, one part after another; the wide layer's is not copied into the block."""
        before, after = self._around_wide
        return [before, self._wide.weight_gradient.view(-1), after]

    def collect_gradient(self) -> None:
        """Bring all of it to ``gradient``."""
        self._wide.collect()

    @cached_property
    def _around_wide(self) -> tuple[Tensor, Tensor]:
        place = self.layout[2][1]
        return self.gradient[0, : place.start], self.gradient[0, place.stop :]
