"""K networks of a user's own, one by one: any layers, with their own starting weights. Nothing is assumed about them."""

from __future__ import annotations

import copy
from functools import cached_property
from typing import Literal, cast

import torch
from torch import nn

from ebu.networks.ensemble import Ensemble
from ebu.networks.factories import OwnNetwork

SEEDS = 2**63 - 1


class EnsembleOwn(Ensemble):
    """K modules as the user's factory makes them, their parameters in one block."""

    @staticmethod
    def fits(skeleton: nn.Module) -> bool:
        return isinstance(skeleton, OwnNetwork)

    _batched = False  # not every module can be run for all learners in one call

    def initialise(self, generator: torch.Generator, scheme: Literal["torch", "he"] = "torch") -> None:
        """The starting weights that the factory gives each learner; ``scheme`` is for our own networks."""
        skeleton = cast(OwnNetwork, self.skeleton)
        for learner in range(self.learners):
            module = skeleton.made(int(torch.randint(SEEDS, (), generator=generator)))
            weights = dict(module.named_parameters(prefix="module"))
            with torch.no_grad():
                for name, view in self.named_tensors(learner).items():
                    view.copy_(weights[name])

    @cached_property
    def _networks(self) -> list[nn.Module]:
        """As for our own, with buffers, and with parameters that appear in several places (tied weights)."""
        networks = [copy.deepcopy(self.skeleton).to(self.device) for _ in range(self.learners)]
        for learner, network in enumerate(networks):
            views = self.named_tensors(learner)
            shared = {id(p): nn.Parameter(views[name]) for name, p in network.named_parameters()}
            for name, parameter in list(network.named_parameters(remove_duplicate=False)):
                owner, _, attribute = name.rpartition(".")
                setattr(network.get_submodule(owner), attribute, shared[id(parameter)])
        return networks
