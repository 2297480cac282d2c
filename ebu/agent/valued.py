"""A span on the learner's device with the network values a target rule may ask for, computed when asked."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from ebu.agent.learner import Learner
from ebu.agent.stacked import StackedNetwork
from ebu.types import Array, Span

FORWARD_ROWS = 512  # states in one forward pass: large enough to be efficient, small enough for any machine's memory


class ValuedSpan:
    """Rewards, discounts, actions and ends as tensors [N]; values of the networks as [K, N, A]."""

    def __init__(self, span: Span, learner: Learner) -> None:
        self.span = span
        self._learner = learner
        self._device = learner.online.device
        self.rewards = self._tensor(span.rewards)
        self.discounts = self._tensor(span.discounts)
        self.actions = self._tensor(span.actions)
        self.continues = self._tensor(span.continues)

    def _tensor(self, array: Array) -> Tensor:
        return torch.from_numpy(array).to(self._device)

    @cached_property
    def target_next(self) -> Tensor:
        """Q̂(S_{t+1}, ·; θ⁻), [K, N, A]."""
        return self._values(self._learner.target, self.span.rows + 1)

    def _values(self, network: StackedNetwork, rows: Array) -> Tensor:
        with torch.no_grad():
            parts = [
                network.values(self._tensor(self.span.states(part)))
                for part in np.split(rows, range(FORWARD_ROWS, len(rows), FORWARD_ROWS))
            ]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
