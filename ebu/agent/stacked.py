"""K networks of one shape as one block of numbers: parameters[K, P].

The networks' weights are views into the block. A target copy, a synchronisation, an optimiser step or a checkpoint is
then one operation on one tensor, for one learner as for eleven.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

Views = list[tuple[str, slice, torch.Size]]


class StackedNetwork:
    """K networks; ``values(states)`` gives [K, B, A]. One learner costs exactly what a plain module costs."""

    def __init__(self, skeleton: nn.Module, learners: int, device: torch.device) -> None:
        self.learners = learners
        self.device = device
        self._layout = _layout(skeleton)
        self.parameters = torch.zeros(learners, self._layout[-1][1].stop, device=device)
        self._networks = [self._place(skeleton, k) for k in range(learners)]
        # Convolutions with per-learner weights gain nothing from batching on a CPU; everything else does.
        self._batched = learners > 1 and not any(isinstance(m, nn.Conv2d) and m.kernel_size[0] > 3 for m in skeleton.modules())
        self._skeleton = copy.deepcopy(skeleton)
        if self._batched:
            self._stacked = {
                name: self.parameters[:, place].view(learners, *shape).detach().requires_grad_()
                for name, place, shape in self._layout
            }
            self.leaves: list[Tensor] = list(self._stacked.values())
        else:
            self.leaves = [p for network in self._networks for p in network.parameters()]

    def _place(self, skeleton: nn.Module, learner: int) -> nn.Module:
        """A copy of the skeleton whose parameters are views of this learner's row."""
        network = copy.deepcopy(skeleton)
        for name, place, shape in self._layout:
            owner, _, attribute = name.rpartition(".")
            module = network.get_submodule(owner)
            setattr(module, attribute, nn.Parameter(self.parameters[learner, place].view(shape)))
        return network

    def initialise(self, generator: torch.Generator) -> None:
        """U(±1/√fan_in) for weights and biases: Torch's default, and the Lua code's; drawn learner by learner."""
        fan_in = _fan_in(self._skeleton)
        for learner in range(self.learners):
            for name, place, shape in self._layout:
                bound = 1 / math.sqrt(fan_in[name.rpartition(".")[0]])
                values = torch.empty(shape).uniform_(-bound, bound, generator=generator)
                self.parameters[learner, place] = values.reshape(-1).to(self.device)

    def values(self, states: Tensor) -> Tensor:
        """Q(s, ·) of every learner: [K, B, A]."""
        if self.learners == 1:
            return self._networks[0](states).unsqueeze(0)
        if self._batched:
            return vmap(lambda weights: functional_call(self._skeleton, weights, (states,)))(self._stacked)
        return torch.stack([network(states) for network in self._networks])

    def network(self, learner: int) -> nn.Module:
        """One learner as an ordinary module; it shares the block's memory."""
        return self._networks[learner]

    def gradient(self, loss: Tensor, out: Tensor) -> None:
        """∂loss/∂parameters into ``out``[K, P]."""
        gradients = torch.autograd.grad(loss, self.leaves)
        if self._batched:
            torch.cat([g.reshape(self.learners, -1) for g in gradients], dim=1, out=out)
        else:
            torch.cat([g.reshape(-1) for g in gradients], out=out.view(-1))

    @torch.no_grad()
    def copy_from(self, other: StackedNetwork) -> None:
        self.parameters.copy_(other.parameters)

    def named_tensors(self, learner: int = 0) -> dict[str, Tensor]:
        """One learner's weights by name, for a policy file."""
        return {name: self.parameters[learner, place].view(shape) for name, place, shape in self._layout}

    @torch.no_grad()
    def load_named_tensors(self, tensors: dict[str, Tensor], learner: int = 0) -> None:
        own = self.named_tensors(learner)
        if {k: v.shape for k, v in own.items()} != {k: v.shape for k, v in tensors.items()}:
            raise ValueError("the weights are those of another network")
        for name, view in own.items():
            view.copy_(tensors[name])

    def state_dict(self) -> dict[str, Any]:
        return {"parameters": self.parameters}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.parameters.copy_(state["parameters"])


def _layout(skeleton: nn.Module) -> Views:
    views: Views = []
    start = 0
    for name, parameter in skeleton.named_parameters():
        views.append((name, slice(start, start + parameter.numel()), parameter.shape))
        start += parameter.numel()
    return views


def _fan_in(skeleton: nn.Module) -> dict[str, int]:
    return {
        name: module.weight[0].numel()
        for name, module in skeleton.named_modules()
        if isinstance(module, nn.Linear | nn.Conv2d)
    }
