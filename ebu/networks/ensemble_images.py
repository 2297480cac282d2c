"""The fast path for networks of several convolutions, such as Nature DQN's: channels last, the chain rule written out.

With the channels of a pixel side by side the library's convolutions are faster, the gradient of the first three times
so; ``networks.py`` lays the kernels out accordingly. Writing out the chain rule spares autograd's bookkeeping and puts
the largest gradient where it belongs without a copy. Bytes are turned four at a time: a first convolution of stride 4 over
an image is one of stride 1 over its squares of 4 × 4 pixels. Tests hold this equal to the general path.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from ebu.networks.ensemble import Ensemble, Pullback
from ebu.networks.ensemble_mlp import is_linear_chain
from ebu.networks.modules import Scale
from ebu.networks.products import prefers_onednn, product, rectified
from ebu.types import Array

Weights = list[tuple[Tensor, Tensor]]  # per layer: weight, bias
Kernels = tuple[list[Tensor], list[tuple[int, ...]]]  # and strides, of each convolution

SQUARE = 4  # pixels; a row of a square is as many bytes as torch.int32 has


class EnsembleImages(Ensemble):
    """K networks of two or more convolutions without padding and then linear layers, ReLU between; run one by one."""

    @staticmethod
    def fits(skeleton: nn.Module) -> bool:
        if not isinstance(skeleton, nn.Sequential) or not isinstance(skeleton[0], Scale):
            return False
        convolutions = _convolutions(skeleton)
        rectified = [type(layer) for layer in list(skeleton)[2 : 2 * len(convolutions) + 1 : 2]]
        rest = list(skeleton)[1 + 2 * len(convolutions) :]
        return (
            len(convolutions) > 1
            and all(c.padding == (0, 0) and c.dilation == (1, 1) and c.groups == 1 for c in convolutions)
            and rectified == [nn.ReLU] * len(convolutions)
            and len(rest) > 1
            and isinstance(rest[0], nn.Flatten)
            and is_linear_chain(rest[1:])
        )

    # ------------------------------------------------------------------ weights

    @cached_property
    def _strides(self) -> list[tuple[int, ...]]:
        """Of each convolution."""
        return [convolution.stride for convolution in _convolutions(cast(nn.Sequential, self.skeleton))]

    @cached_property
    def _scale(self) -> float:
        """What bytes are multiplied with. The first kernels take it over, being smaller than the images."""
        return cast(Scale, cast(nn.Sequential, self.skeleton)[0]).scale

    def _layers(self, block: Tensor) -> list[Weights]:
        """By learner: weight and bias of each layer."""
        learners = [[view[learner] for view in self.views(block)] for learner in range(self.learners)]
        return [list(zip(views[0::2], views[1::2])) for views in learners]

    @cached_property
    def _weights(self) -> list[Weights]:
        return self._layers(self.parameters)

    @cached_property
    def _gradients(self) -> list[Weights]:
        return self._layers(self.gradient)

    @cached_property
    def _by_onednn(self) -> bool:
        """Whether hidden linear layers are."""
        return prefers_onednn(self.parameters)

    @cached_property
    def _can_read_squares(self) -> bool:
        """Whether the first convolution moves, and is as large as, whole squares."""
        kernel = self._weights[0][0][0].shape[2:]
        return self._strides[0] == (SQUARE, SQUARE) and not any(size % SQUARE for size in kernel)

    def _in_squares(self, images: Tensor) -> bool:
        """Whether images of this kind are read in squares."""
        height, width = images.shape[-2:]
        return self._can_read_squares and images.dtype == torch.uint8 and height % SQUARE == 0 == width % SQUARE

    @cached_property
    def _numbers(self) -> np.dtype:
        """The type of the weights, as NumPy has it."""
        return np.dtype(str(self.parameters.dtype).removeprefix("torch."))

    def _images(self, states: Tensor) -> Tensor:
        """Bytes turned, then made floats: bytes are cheaper to move."""
        turned = _squares(states.contiguous()) if self._in_squares(states) else _channels_last(states)
        return turned.to(self.parameters.dtype)

    def _kernels(self, learner: int, images: Tensor) -> Kernels:
        """Of each convolution, as these images need them; computed again when the weights have changed."""
        version, kernels = self._prepared.get((learner, images.shape[1]), (-1, None))
        if kernels is None or version != self.parameters._version:
            version, kernels = self.parameters._version, self._prepare(learner, images)
            self._prepared[learner, images.shape[1]] = version, kernels
        return kernels

    @torch.no_grad()
    def _prepare(self, learner: int, images: Tensor) -> Kernels:
        first, *others = (weight for weight, _ in self._weights[learner][: len(self._strides)])
        first = first * self._scale
        if images.shape[1] == first.shape[1]:
            return [first, *others], self._strides
        return [_kernel_in_squares(first), *others], [(1, 1), *self._strides[1:]]

    @cached_property
    def _prepared(self) -> dict[tuple[int, int], tuple[int, Kernels]]:
        """By learner and channels of the images: the version of the weights, and the kernels made from them."""
        return {}

    # ------------------------------------------------------------------ values and their gradient

    def values(self, states: Tensor) -> Tensor:
        images = self._images(states)
        return torch.stack([self._forward(learner, images)[-1] for learner in range(self.learners)])

    def differentiate(self, states: Tensor) -> tuple[Tensor, Pullback]:
        images = self._images(states)
        layers = [self._forward(learner, images) for learner in range(self.learners)]

        def pullback(slope: Tensor) -> None:
            for learner in range(self.learners):
                self._backward(learner, layers[learner], slope[learner])

        return torch.stack([inputs_and_output[-1] for inputs_and_output in layers]), pullback

    def state_values(self, learner: int) -> Callable[[Array], Array]:
        if self.device.type != "cpu":
            return self._state_values_by_convolution(learner)

        def values(state: Array) -> Array:
            image = self._image(state)
            return self._forward_one(learner, image).numpy()

        return values

    def _state_values_by_convolution(self, learner: int) -> Callable[[Array], Array]:
        values_of = self.batch_values(learner)
        return lambda state: values_of(state[None])[0]

    def batch_values(self, learner: int) -> Callable[[Array], Array]:
        def values(states: Array) -> Array:
            images = self._images(torch.from_numpy(states).to(self.device))
            return self._forward(learner, images)[-1].numpy(force=True)

        return values

    def _image(self, state: Array) -> Tensor:
        """As ``_images``, of one state; small arrays are turned faster by NumPy."""
        images = torch.from_numpy(state).unsqueeze(0)
        if not self._in_squares(images):
            return self._images(images)
        return torch.from_numpy(_squares_of_one(state).astype(self._numbers)).permute(2, 0, 1).unsqueeze(0)

    @torch.inference_mode()
    def _forward_one(self, learner: int, image: Tensor) -> Tensor:
        """The output [A] for one image. Patches times kernels are faster than a convolution where there is only one."""
        weights, (kernels, strides) = self._weights[learner], self._kernels(learner, image)
        here = image[0].permute(1, 2, 0).contiguous()
        for kernel, stride, (_, bias) in zip(kernels, strides, weights):
            patches = _patches(here, kernel.shape, stride)
            matrix = kernel.permute(0, 2, 3, 1).flatten(1)
            rows = patches.reshape(-1, matrix.shape[1])
            maps = rectified(rows, matrix, bias) if self._by_onednn else torch.addmm(bias, rows, matrix.t()).relu_()
            here = maps.view(*patches.shape[:2], len(kernel))
        return self._linear(here.permute(2, 0, 1).reshape(1, -1), weights[len(kernels) :])[-1][0]

    @torch.no_grad()
    def _forward(self, learner: int, images: Tensor) -> list[Tensor]:
        """The input of each layer and last the output."""
        weights = self._weights[learner]
        layers = [images]
        for kernel, stride, (_, bias) in zip(*self._kernels(learner, images), weights):
            layers.append(torch.conv2d(layers[-1], kernel, bias, stride).relu_())
        layers[-1] = layers[-1].flatten(1)
        return layers + self._linear(layers[-1], weights[len(self._strides) :])

    def _linear(self, inputs: Tensor, weights: Weights) -> list[Tensor]:
        """The output of each linear layer, ReLU between; by columns, which for a minibatch is faster than by rows."""
        outputs = [inputs]
        for weight, bias in weights[:-1]:
            if self._by_onednn:
                outputs.append(rectified(outputs[-1], weight, bias))
            else:
                outputs.append(torch.addmm(bias.unsqueeze(1), weight, outputs[-1].t()).relu_().t())
        weight, bias = weights[-1]
        return [*outputs[1:], torch.addmm(bias, outputs[-1], weight.t())]

    @torch.no_grad()
    def _backward(self, learner: int, layers: list[Tensor], slope: Tensor) -> None:
        """Write the gradient of one learner from ∂loss/∂output."""
        weights, gradients = self._weights[learner], self._gradients[learner]
        kernels, strides = self._kernels(learner, layers[0])
        for layer in range(len(weights) - 1, len(kernels) - 1, -1):
            weight_gradient, bias_gradient = gradients[layer]
            if self._by_onednn and layer < len(weights) - 1:
                weight_gradient.copy_(product(slope.t(), layers[layer].t()))
                torch.sum(slope, dim=0, out=bias_gradient)
                behind = product(slope, weights[layer][0].t())
            else:
                slope = slope.t().contiguous().t()  # by columns, as in the forward pass
                torch.mm(slope.t(), layers[layer], out=weight_gradient)
                torch.sum(slope, dim=0, out=bias_gradient)
                behind = torch.mm(slope, weights[layer][0])
            slope = _before_relu(behind, layers[layer])
        slope = self._as_maps(slope, layers[len(kernels) - 1], kernels[-1])
        for layer in range(len(kernels) - 1, -1, -1):
            behind, kernel_gradient, bias_gradient = torch.ops.aten.convolution_backward(
                slope,
                layers[layer],
                kernels[layer],
                [len(kernels[layer])],
                strides[layer],
                *([0, 0], [1, 1], False, [0, 0], 1),  # padding, dilation, not transposed, output padding, groups
                [layer > 0, True, True],  # the slope at the images is not needed
            )
            if not layer:
                kernel_gradient = _kernel_of_squares(kernel_gradient, gradients[0][0].shape) * self._scale
            gradients[layer][0].copy_(kernel_gradient)
            gradients[layer][1].copy_(bias_gradient)
            slope = _before_relu(behind, layers[layer]) if layer else slope

    def _as_maps(self, slope: Tensor, inputs: Tensor, kernel: Tensor) -> Tensor:
        """[B, features] → [B, filters, H, W] of the last convolution's output, channels last."""
        height, width = (
            (size - extent) // stride + 1
            for size, extent, stride in zip(inputs.shape[2:], kernel.shape[2:], self._strides[-1])
        )
        return _channels_last(slope.view(len(slope), len(kernel), height, width))


def _squares(images: Tensor) -> Tensor:
    """Bytes [B, C, H, W] → [B, C · 4 · 4, H / 4, W / 4], channels last: the pixels of a square side by side."""
    batch, channels, height, width = images.shape
    rows = images.view(torch.int32).view(batch, channels, height // SQUARE, SQUARE, width // SQUARE)
    strips = rows.transpose(1, 2).contiguous().flatten(2, 3)  # two steps, both with long inner loops, are faster than one
    turned = strips.transpose(2, 3).contiguous().view(torch.uint8)
    return turned.view(batch, height // SQUARE, width // SQUARE, channels * SQUARE * SQUARE).permute(0, 3, 1, 2)


def _squares_of_one(image: Array) -> Array:
    """The same for one: bytes [C, H, W] → [H / 4, W / 4, C · 4 · 4]."""
    channels, height, width = image.shape
    rows = np.ascontiguousarray(image).view(np.int32).reshape(channels, height // SQUARE, SQUARE, width // SQUARE)
    turned = np.ascontiguousarray(rows.transpose(1, 3, 0, 2)).view(np.uint8)
    return turned.reshape(height // SQUARE, width // SQUARE, channels * SQUARE * SQUARE)


def _patches(image: Tensor, kernel: torch.Size, stride: tuple[int, ...]) -> Tensor:
    """[H, W, C] → [h, w, rows of a patch, columns · C]: what a kernel [F, C, rows, columns] sees at each place. No copy."""
    height, width, channels = image.shape
    row = width * channels  # numbers in a row of the image
    down, right = stride
    places = ((height - kernel[2]) // down + 1, (width - kernel[3]) // right + 1)
    return image.as_strided((*places, kernel[2], kernel[3] * channels), (down * row, right * channels, row, 1))


def _kernel_in_squares(kernel: Tensor) -> Tensor:
    """[F, C, h, w] for pixels → [F, C · 4 · 4, h / 4, w / 4] for squares, channels last."""
    filters, channels, height, width = kernel.shape
    parts = kernel.view(filters, channels, height // SQUARE, SQUARE, width // SQUARE, SQUARE).permute(0, 2, 4, 1, 3, 5)
    return parts.reshape(filters, height // SQUARE, width // SQUARE, channels * SQUARE * SQUARE).permute(0, 3, 1, 2)


def _kernel_of_squares(kernel: Tensor, shape: torch.Size) -> Tensor:
    """The way back to a kernel of this shape."""
    filters, channels, height, width = shape
    if kernel.shape == shape:
        return kernel
    parts = kernel.permute(0, 2, 3, 1).reshape(filters, height // SQUARE, width // SQUARE, channels, SQUARE, SQUARE)
    return parts.permute(0, 3, 1, 4, 2, 5).reshape(shape)


def _channels_last(images: Tensor) -> Tensor:
    return images.contiguous(memory_format=torch.channels_last)


def _before_relu(slope: Tensor, rectified: Tensor) -> Tensor:
    return torch.ops.aten.threshold_backward(slope, rectified, 0)


def _convolutions(skeleton: nn.Sequential) -> list[nn.Conv2d]:
    """Those that follow the first layer, with one other layer after each."""
    found: list[nn.Conv2d] = []
    for layer in list(skeleton)[1::2]:
        if not isinstance(layer, nn.Conv2d):
            break
        found.append(layer)
    return found
