"""A span on the learner's device with the network values a target rule may ask for, computed when asked."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from ebu.errors import Interrupted
from ebu.learning.learner import Learner, Networks
from ebu.learning.placed_states import PlacedStates
from ebu.types import Array, Span

FORWARD_ROWS = 512  # states in one forward pass: large enough to be efficient, small enough for any machine's memory
# Images go through in multiples of this many: PyTorch keeps compiled convolutions with their work space for every number of
# images it meets, a gigabyte for the episodes of a run on Atari.
IMAGE_ROWS = 32


class SpanValues:
    """Rewards, discounts, actions and ends as tensors [N]; values of the networks as [K, N, A]."""

    def __init__(
        self,
        span: Span,
        learner: Learner,
        epsilon: float = 0.0,
        should_stop: Callable[[], bool] = lambda: False,
        updates: int = 0,
    ) -> None:
        self.span = span
        self.updates = updates  # so far, for rules that change along the training
        self._should_stop = should_stop
        self.epsilon = epsilon  # of the current behaviour
        self._learner = learner
        self._device = learner.online.device
        self.states = PlacedStates(span, self._device)

    @cached_property
    def rewards(self) -> Tensor:
        return self.tensor(self.span.rewards)

    @cached_property
    def discounts(self) -> Tensor:
        return self.tensor(self.span.discounts)

    @cached_property
    def actions(self) -> Tensor:
        return self.tensor(self.span.actions)

    @cached_property
    def continues(self) -> Tensor:
        return self.tensor(self.span.continues)

    def tensor(self, array: Array) -> Tensor:
        return torch.from_numpy(array).to(self._device)

    @property
    def _has_images(self) -> bool:
        return self.span.frames.ndim > 2

    @cached_property
    def target_next(self) -> Tensor:
        """Q̂(S_{t+1}, ·; θ⁻), [K, N, A]."""
        return self._values(self._learner.target, self.span.rows + 1)

    @cached_property
    def online_next(self) -> Tensor:
        """Q(S_{t+1}, ·; θ), [K, N, A]."""
        return self._values(self._learner.online, self.span.rows + 1)

    @cached_property
    def target_taken(self) -> Tensor:
        """Q̂(S_t, A_t; θ⁻), [K, N]."""
        return self._of_actions(self._values(self._learner.target, self.span.rows))

    @cached_property
    def online_taken(self) -> Tensor:
        """Q(S_t, A_t; θ), [K, N]."""
        return self._of_actions(self._values(self._learner.online, self.span.rows))

    @cached_property
    def target_taken_and_next(self) -> tuple[Tensor, Tensor]:
        """Q̂(S_t, A_t; θ⁻)[K, N] and Q̂(S_{t+1}, ·; θ⁻)[K, N, A], with one forward pass over the states."""
        rows = np.union1d(self.span.rows, self.span.rows + 1)
        values = self._values(self._learner.target, rows)
        here = values[:, self.tensor(np.searchsorted(rows, self.span.rows))]
        beyond = values[:, self.tensor(np.searchsorted(rows, self.span.rows + 1))]
        return self._of_actions(here), beyond

    def _of_actions(self, values: Tensor) -> Tensor:
        """Of values [K, N, A] those of the actions taken, [K, N]."""
        return values.gather(-1, self.actions.expand(values.shape[:-1]).unsqueeze(-1)).squeeze(-1)

    def _values(self, network: Networks, rows: Array) -> Tensor:
        at_once = network.images_at_once if self._has_images and self._device.type == "cpu" else FORWARD_ROWS
        if len(rows) <= at_once:
            return self._values_at_once(network, rows)
        parts = [self._values_at_once(network, part) for part in np.split(rows, range(at_once, len(rows), at_once))]
        return torch.cat(parts, dim=1)

    def _values_at_once(self, network: Networks, rows: Array) -> Tensor:
        if self._should_stop():
            raise Interrupted
        missing = -len(rows) % IMAGE_ROWS if self._has_images else 0
        with torch.no_grad():
            if not missing:
                return network.values(self.states(rows))
            padded = np.concatenate([rows, rows[-1:].repeat(missing)])  # the last one again, up to a number that comes often
            return network.values(self.states(padded))[:, : len(rows)]
