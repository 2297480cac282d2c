"""K networks that give a histogram for each action; the passes are those of the form that is fastest for their layers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor, nn

from ebu.networks.ensemble import Ensemble, Pullback
from ebu.networks.histogram import Histogram, by_action, slope_of_logits, value_of
from ebu.types import Array


class EnsembleHistogram(Ensemble):
    """``values`` are those of the histograms; a learner differentiates their logits."""

    def __init__(
        self,
        skeleton: Histogram,
        learners: int,
        device: torch.device,
        form: Callable[[nn.Module, int, torch.device], Ensemble],
    ) -> None:
        super().__init__(skeleton, learners, device)
        self._inner = form(skeleton.network, learners, device)
        self._inner.parameters = self.parameters

    @cached_property
    def gradient(self) -> Tensor:
        return self._inner.gradient

    def initialise(self, generator: torch.Generator, scheme: Literal["torch", "he"] = "torch") -> None:
        self._inner.initialise(generator, scheme)

    def values(self, states: Tensor) -> Tensor:
        return value_of(by_action(self._inner.values(states)))

    def differentiate(self, states: Tensor) -> tuple[Tensor, Pullback]:
        logits, pullback = self.differentiate_logits(states)
        return value_of(logits), lambda slope: pullback(slope_of_logits(logits, slope))

    def differentiate_logits(self, states: Tensor) -> tuple[Tensor, Pullback]:
        """Logits [K, B, A, bins] and a function that takes ∂loss/∂logits and writes ``gradient``."""
        outputs, pullback = self._inner.differentiate(states)
        return by_action(outputs), lambda slope: pullback(slope.flatten(-2))

    def state_values(self, learner: int) -> Callable[[Array], Array]:
        return _decoded(self._inner.state_values(learner))

    def batch_values(self, learner: int) -> Callable[[Array], Array]:
        return _decoded(self._inner.batch_values(learner))


def _decoded(outputs: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return lambda states: value_of(by_action(torch.from_numpy(outputs(states)))).numpy()
