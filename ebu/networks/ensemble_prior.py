"""K networks with fixed random priors: Q_k = f_k + scale · p_k, of which f_k alone is learned (Osband et al., 2018).

Where there is no experience, learners with different priors keep different values, and try different things. f and p lie in
one block, so that copies and files hold both; each is evaluated in the form that is fastest for it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor, nn

from ebu.networks.ensemble import Ensemble, Pullback
from ebu.networks.modules import WithPrior
from ebu.types import Array

Form = Callable[[nn.Module, int, torch.device], Ensemble]


class EnsemblePrior(Ensemble):
    """K networks f and K priors p; ``parameters`` are [f | p] for each learner, ``trained`` and ``gradient`` those of f."""

    def __init__(self, skeleton: WithPrior, learners: int, device: torch.device, form: Form) -> None:
        super().__init__(skeleton, learners, device)
        self._scale = skeleton.scale
        learned, prior = (form(network, learners, device) for network in (skeleton.network, skeleton.prior))
        split = learned.parameters.shape[1]
        learned.parameters, prior.parameters = self.parameters[:, :split], self.parameters[:, split:]
        self._learned, self._prior = learned, prior

    @property
    def trained(self) -> Tensor:
        return self._learned.parameters

    @cached_property
    def gradient(self) -> Tensor:
        return self._learned.gradient

    def initialise(self, generator: torch.Generator, scheme: Literal["torch", "he"] = "torch") -> None:
        self._learned.initialise(generator, scheme)
        self._prior.initialise(generator, scheme)

    def values(self, states: Tensor) -> Tensor:
        return self._learned.values(states) + self._fixed(states)

    def differentiate(self, states: Tensor) -> tuple[Tensor, Pullback]:
        values, pullback = self._learned.differentiate(states)
        return values + self._fixed(states), pullback

    @torch.no_grad()
    def _fixed(self, states: Tensor) -> Tensor:
        return self._scale * self._prior.values(states)

    def state_values(self, learner: int) -> Callable[[Array], Array]:
        return self._sum(self._learned.state_values(learner), self._prior.state_values(learner))

    def batch_values(self, learner: int) -> Callable[[Array], Array]:
        return self._sum(self._learned.batch_values(learner), self._prior.batch_values(learner))

    def _sum(self, learned: Callable[[Array], Array], prior: Callable[[Array], Array]) -> Callable[[Array], Array]:
        return lambda states: learned(states) + self._scale * prior(states)
