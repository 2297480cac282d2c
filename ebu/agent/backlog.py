"""The queue between targets and learner: (state, action, target), handed out in minibatches.

An episode's targets are computed once, with the target network of that moment, and keep their values until they are
used, as in the authors' code. The queue owns the frames it refers to: the memory may forget the episode meanwhile.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ebu.types import Array, Batch, Span, Targets


@dataclass
class _Pending:
    span: Span
    targets: Targets
    used: int = 0  # how many of the span's trained steps have been handed out

    def __len__(self) -> int:
        return len(self.span.trained) - self.used


class Backlog:
    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._queue: deque[_Pending] = deque()

    def __len__(self) -> int:
        return sum(map(len, self._queue))

    def push(self, span: Span, targets: Targets) -> None:
        self._queue.append(_Pending(span, targets))

    def pop(self, count: int) -> Batch:
        """The next ``count`` steps, in the order their spans hand them out."""
        parts: list[tuple[_Pending, Array]] = []
        while count:
            front = self._queue[0]
            positions = front.span.trained[front.used : front.used + count]
            parts.append((front, positions))
            front.used += len(positions)
            count -= len(positions)
            if not len(front):
                self._queue.popleft()
        return self._batch(parts)

    def _batch(self, parts: list[tuple[_Pending, Array]]) -> Batch:
        def rows(pick: Any) -> Array:
            arrays = [pick(pending.span, positions) for pending, positions in parts]
            return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)

        def columns(name: str) -> Tensor | None:
            if getattr(parts[0][0].targets, name) is None:
                return None
            tensors = [
                getattr(pending.targets, name)[..., torch.from_numpy(positions).to(self._device)]
                for pending, positions in parts
            ]
            return tensors[0] if len(tensors) == 1 else torch.cat(tensors, dim=-1)

        values = columns("values")
        assert values is not None
        weights = None
        if parts[0][0].span.weights is not None:
            weights = torch.from_numpy(rows(lambda span, i: span.weights[i])).to(self._device)
        return Batch(
            states=torch.from_numpy(rows(lambda span, i: span.states(span.rows[i]))).to(self._device),
            actions=torch.from_numpy(rows(lambda span, i: span.actions[i])).to(self._device),
            targets=values,
            steps=rows(lambda span, i: span.steps[i]),
            lower=columns("lower"),
            upper=columns("upper"),
            weights=weights,
        )
