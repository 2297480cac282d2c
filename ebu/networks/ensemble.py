"""K networks of one shape as one block of numbers: parameters[K, P].

The networks' weights are views into the block. A target copy, a synchronisation, an optimiser step or a checkpoint is
then one operation on one tensor, for one learner as for eleven.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from ebu.networks.modules import output_layers
from ebu.types import Array

Layout = list[tuple[str, slice, torch.Size, tuple[int, ...]]]  # name, place in the block, shape, strides
Pullback = Callable[[Tensor], None]


class Ensemble:
    """K networks; ``values(states)`` gives [K, B, A]. One learner costs what a plain module costs."""

    # How many images one call of ``values`` should be given on the CPU at most: their floats, and what the first convolution
    # makes of them, stay in its caches.
    images_at_once = 128

    def __init__(self, skeleton: nn.Module, learners: int, device: torch.device) -> None:
        self.learners = learners
        self.device = device
        self.skeleton = skeleton
        self.layout = _layout(skeleton)
        self.parameters = torch.zeros(learners, self.layout[-1][1].stop, device=device)

    @property
    def trained(self) -> Tensor:
        """The part of ``parameters`` that is learned: all of them."""
        return self.parameters

    @property
    def keeps_work_space(self) -> bool:
        """Whether PyTorch's convolutions compute the gradient: they keep work space for every number of images they meet."""
        return any(isinstance(module, nn.Conv2d) for module in self.skeleton.modules())

    @cached_property
    def gradient(self) -> Tensor:
        """Of ``trained``, written by a pullback."""
        with torch.inference_mode(False):  # to be written anywhere, wherever it is first asked for
            return torch.zeros_like(self.parameters)

    def initialise(self, generator: torch.Generator, scheme: Literal["torch", "he"] = "torch") -> None:
        """Starting weights, drawn learner by learner.

        torch: U(±1/√fan_in) for weights and biases, PyTorch's default and the Lua code's. he: U(±√(6/fan_in)) for
        weights and 0.1 for biases, as the released EBU code. A normalisation starts as the identity.
        """
        fan_in = _fan_in(self.skeleton)
        views = self.views(self.parameters)
        for learner in range(self.learners):
            for (name, _, shape, _), view in zip(self.layout, views):
                layer, _, kind = name.rpartition(".")
                if layer not in fan_in:
                    view[learner].fill_(1.0 if kind == "weight" else 0.0)
                    continue
                bound = math.sqrt((6 if scheme == "he" else 1) / fan_in[layer])
                values = torch.empty(shape).uniform_(-bound, bound, generator=generator)
                if scheme == "he" and kind == "bias":
                    values.fill_(0.1)
                view[learner].copy_(values)

    def views(self, block: Tensor) -> list[Tensor]:
        """A block [K, P] as a tensor [K, *shape] for each weight, each lying in memory as the skeleton's own does."""
        learners, apart = block.shape[0], block.stride(0)
        return [
            block.as_strided((learners, *shape), (apart, *strides), block.storage_offset() + place.start)
            for _, place, shape, strides in self.layout
        ]

    # ------------------------------------------------------------------ values and their gradient

    def values(self, states: Tensor) -> Tensor:
        """Q(s, ·) of every learner: [K, B, A]."""
        if self.learners == 1:
            return self._networks[0](states).unsqueeze(0)
        if self._batched:
            return vmap(lambda weights: functional_call(self.skeleton, weights, (states,)))(self._together)
        return torch.stack([network(states) for network in self._networks])

    def differentiate(self, states: Tensor) -> tuple[Tensor, Pullback]:
        """The values and a function that takes ∂loss/∂values[K, B, A] and writes ``gradient``."""
        values = self.values(states)

        def pullback(slope: Tensor) -> None:
            gradients = torch.autograd.grad(values, self._leaves, slope, allow_unused=True)
            for view, gradient in zip(self._gradient_views, gradients):
                view.zero_() if gradient is None else view.copy_(gradient)  # none for a weight that is not used

        return values.detach(), pullback

    def state_values(self, learner: int) -> Callable[[Array], Array]:
        """A function from one state to Q(s, ·)[A] of one learner, following its weights as they change."""
        network = self._networks[learner]

        def values(state: Array) -> Array:
            with torch.inference_mode():
                return network(torch.from_numpy(state).unsqueeze(0).to(self.device))[0].numpy(force=True)

        return values

    def batch_values(self, learner: int) -> Callable[[Array], Array]:
        """The same for several states at once: [B, …] → [B, A]."""
        network = self._networks[learner]

        def values(states: Array) -> Array:
            with torch.inference_mode():
                return network(torch.from_numpy(states).to(self.device)).numpy(force=True)

        return values

    @cached_property
    def _batched(self) -> bool:
        """Whether K > 1 networks run as one call: convolutions with large kernels gain nothing from it on a CPU."""
        kernels = [m.kernel_size[0] for m in self.skeleton.modules() if isinstance(m, nn.Conv2d)]
        return self.learners > 1 and max(kernels, default=0) <= 3

    @cached_property
    def _networks(self) -> list[nn.Module]:
        """Ordinary modules, one per learner, that share the block's memory."""
        networks = [copy.deepcopy(self.skeleton) for _ in range(self.learners)]
        for learner, network in enumerate(networks):
            for name, view in self.named_tensors(learner).items():
                owner, _, attribute = name.rpartition(".")
                setattr(network.get_submodule(owner), attribute, nn.Parameter(view))
        return networks

    @cached_property
    def _together(self) -> dict[str, Tensor]:
        """The block as named tensors [K, …], for one call over all learners."""
        views = zip(self.layout, self.views(self.parameters))
        return {name: view.detach().requires_grad_() for (name, *_), view in views}

    @cached_property
    def _leaves(self) -> list[Tensor]:
        """What autograd differentiates by, in the block's order."""
        if self._batched:
            return list(self._together.values())
        return [parameter for network in self._networks for parameter in network.parameters()]

    @cached_property
    def _gradient_views(self) -> list[Tensor]:
        """The gradient's block in the shapes of the leaves."""
        views = self.views(self.gradient)
        return views if self._batched else [view[learner] for learner in range(self.learners) for view in views]

    # ------------------------------------------------------------------ copies

    @torch.no_grad()
    def move_towards(self, other: Ensemble, share: float) -> None:
        """θ ← θ + share · (θ' − θ); the whole way is an exact copy."""
        if share == 1.0:
            self.parameters.copy_(other.parameters)
        else:
            self.parameters.lerp_(other.parameters, share)

    @torch.no_grad()
    def renew_outputs(self, fresh: Tensor) -> None:
        """The last layer's weights from a block [K, P] of newly drawn ones; the others stay."""
        last = tuple(f"{layer}." for layer in output_layers(self.skeleton))
        for name, place, *_ in self.layout:
            if name.startswith(last):
                self.parameters[:, place].copy_(fresh[:, place])

    def named_tensors(self, learner: int = 0) -> dict[str, Tensor]:
        """One learner's weights by name, for a policy file."""
        return {name: view[learner] for (name, *_), view in zip(self.layout, self.views(self.parameters))}

    @torch.no_grad()
    def load_named_tensors(self, tensors: dict[str, Tensor]) -> None:
        """One learner's weights, given to all; or those of as many learners, with an axis [K] before each shape."""
        shapes = {name: shape for name, _, shape, _ in self.layout}
        of_each = {name: torch.Size((self.learners, *shape)) for name, shape in shapes.items()}
        if {name: tensor.shape for name, tensor in tensors.items()} not in (shapes, of_each):
            raise ValueError("the weights do not match the network: names or shapes differ")
        for (name, *_), view in zip(self.layout, self.views(self.parameters)):
            view.copy_(tensors[name])

    def state_dict(self) -> dict[str, Any]:
        return {"parameters": self.parameters}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.parameters.copy_(state["parameters"])


def stacked(members: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The weights of several networks with an axis [K] before each shape; those of one as they are."""
    if len(members) == 1:
        return members[0]
    return {name: torch.stack([tensors[name] for tensors in members]) for name in members[0]}


def _layout(skeleton: nn.Module) -> Layout:
    views: Layout = []
    start = 0
    for name, parameter in skeleton.named_parameters():
        strides = torch.empty_like(parameter).stride()  # its own, unless it is a view that leaves out numbers
        views.append((name, slice(start, start + parameter.numel()), parameter.shape, strides))
        start += parameter.numel()
    return views


def _fan_in(skeleton: nn.Module) -> dict[str, int]:
    return {
        name: module.weight[0].numel()
        for name, module in skeleton.named_modules()
        if isinstance(module, nn.Linear | nn.Conv2d)
    }
