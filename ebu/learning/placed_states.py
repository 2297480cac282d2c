"""The states of a span on the learner's device: its frames cross to it once, and states are stacked there by index."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from ebu.types import Array, Span


class PlacedStates:
    """Gives the states of some rows of a span as a tensor on the device.

    On the CPU nothing has to cross, and NumPy gathers a few rows faster than a tensor does.
    """

    def __init__(self, span: Span, device: torch.device) -> None:
        self._span = span
        self._device = device

    def __call__(self, rows: Array) -> Tensor:
        if self._device.type == "cpu":
            return torch.from_numpy(self._span.states(rows))
        return self._stacked(torch.from_numpy(rows).to(self._device))

    def _stacked(self, rows: Tensor) -> Tensor:
        """As ``Span.states``, on the device."""
        if self._stack_index is None:
            return self._frames.index_select(0, rows)
        index = self._stack_index.index_select(0, rows)  # [B, stack]
        stacked = self._frames.index_select(0, index.clamp(min=0).flatten()).unflatten(0, index.shape)  # [B, stack, *F]
        blank = (index < 0).view(*index.shape, *[1] * (stacked.ndim - 2))
        return stacked.masked_fill(blank, 0).reshape(len(rows), -1, *stacked.shape[-2:])

    @cached_property
    def _frames(self) -> Tensor:
        return torch.from_numpy(self._span.frames).to(self._device)

    @cached_property
    def _stack_index(self) -> Tensor | None:
        index = self._span.stack_index
        return None if index is None else torch.from_numpy(index).to(self._device)
