"""The queue between targets and learner: (state, action, target), handed out in minibatches.

An episode's targets are computed once, with the target network of that moment, and keep their values until they are
used, as in the authors' code. The queue owns the frames it refers to: the memory may forget the episode meanwhile.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
import zstandard
from torch import Tensor

from ebu.learning.placed_states import PlacedStates
from ebu.types import Array, Batch, Span, Targets

Column = Any  # one number for each step: a tensor on the device, on the CPU an array, which is gathered and sliced faster


@dataclass
class _Pending:
    """A span with its targets. What is handed out is put in order once, so that a minibatch is a slice of it."""

    span: Span
    targets: Targets
    states: PlacedStates
    used: int = 0  # how many of the span's trained steps have been handed out

    def __len__(self) -> int:
        return len(self.span.trained) - self.used

    def take(self, count: int) -> Batch:
        """The next steps, up to so many."""
        part = slice(self.used, self.used + count)
        self.used = min(part.stop, len(self.span.trained))
        return Batch(
            states=self.states(self._rows[part]),
            actions=_tensor(self._actions[part]),
            targets=_tensor(self._values[:, part]).contiguous(),
            steps=self._steps[part],
            columns={name: _tensor(column[:, part]).contiguous() for name, column in self._columns.items()},
            weights=None if self._weights is None else _tensor(self._weights[part]),
        )

    @cached_property
    def _rows(self) -> Array:
        return self.span.rows[self.span.trained]

    @cached_property
    def _steps(self) -> Array:
        return self.span.steps[self.span.trained]

    @cached_property
    def _actions(self) -> Column:
        return self._placed(self.span.actions[self.span.trained])

    @cached_property
    def _weights(self) -> Column | None:
        weights = self.span.weights
        return None if weights is None else self._placed(weights[self.span.trained])

    @cached_property
    def _values(self) -> Column:
        return self._ordered(self.targets.values)

    @cached_property
    def _columns(self) -> dict[str, Column]:
        return {name: self._ordered(column) for name, column in self.targets.columns.items()}

    def _placed(self, array: Array) -> Column:
        device = self.targets.values.device
        return array if device.type == "cpu" else torch.from_numpy(array).to(device)

    def _ordered(self, column: Tensor) -> Column:
        trained = self.span.trained
        return column.numpy()[:, trained] if column.device.type == "cpu" else column[:, self._placed(trained)]


class Backlog:
    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._queue: deque[_Pending] = deque()

    def __len__(self) -> int:
        return sum(map(len, self._queue))

    def push(self, span: Span, targets: Targets, states: PlacedStates | None = None) -> None:
        """``states`` are those the targets were computed from; their frames may be on the device already."""
        self._queue.append(_Pending(span, targets, states or PlacedStates(span, self._device)))

    def pop(self, count: int) -> Batch:
        """The next ``count`` steps, in the order their spans hand them out."""
        parts: list[Batch] = []
        while count:
            front = self._queue[0]
            parts.append(front.take(count))
            count -= len(parts[-1].steps)
            if not len(front):
                self._queue.popleft()
        return parts[0] if len(parts) == 1 else _joined(parts)

    def state_dict(self) -> dict[str, Any]:
        """Pending spans with their frames, compressed: the memory may have forgotten their episodes."""
        return {"pending": [_saved(pending) for pending in self._queue]}

    def load_state_dict(self, state: dict[str, Any], learners: int, actions: int) -> None:
        self._queue = deque(_restored(saved, self._device, learners, actions) for saved in state["pending"])


def _tensor(column: Column) -> Tensor:
    return torch.from_numpy(column) if isinstance(column, np.ndarray) else column


def _joined(parts: list[Batch]) -> Batch:
    weights = [part.weights for part in parts if part.weights is not None]
    return Batch(
        states=torch.cat([part.states for part in parts]),
        actions=torch.cat([part.actions for part in parts]),
        targets=torch.cat([part.targets for part in parts], dim=-1),
        steps=np.concatenate([part.steps for part in parts]),
        columns={name: torch.cat([part.columns[name] for part in parts], dim=-1) for name in parts[0].columns},
        weights=torch.cat(weights) if weights else None,
    )


def _saved(pending: _Pending) -> dict[str, Any]:
    span = {f.name: getattr(pending.span, f.name) for f in fields(Span)}
    frames = np.ascontiguousarray(span.pop("frames"))
    return {
        "used": pending.used,
        "span": span,
        "targets": {"values": pending.targets.values, **pending.targets.columns},
        "frames": zstandard.ZstdCompressor(level=1).compress(frames.data.cast("B")),
        "frames_shape": list(frames.shape),
        "frames_dtype": frames.dtype.str,
    }


def _restored(saved: dict[str, Any], device: torch.device, learners: int, actions: int) -> _Pending:
    dtype, shape = np.dtype(saved["frames_dtype"]), tuple(saved["frames_shape"])
    size = math.prod(shape) * dtype.itemsize
    if zstandard.get_frame_parameters(saved["frames"]).content_size != size:
        raise ValueError("the declared size of a pending span's frames does not match their shape")
    columns = {name: tensor.to(device) for name, tensor in saved["targets"].items() if tensor is not None}
    targets = Targets(columns.pop("values"), columns)
    without_frames = Span(frames=np.empty((0, *shape[1:]), dtype), **saved["span"])
    pending = _Pending(without_frames, targets, PlacedStates(without_frames, device), int(saved["used"]))
    _require_sense(pending, shape[0], learners, actions)  # before memory is allocated for the frames
    frames = np.frombuffer(zstandard.ZstdDecompressor().decompress(saved["frames"]), dtype).reshape(shape)
    span = replace(pending.span, frames=frames)
    return replace(pending, span=span, states=PlacedStates(span, device))


def _require_sense(pending: _Pending, frames: int, learners: int, actions: int) -> None:
    """Refuse a saved span whose parts do not belong together, or that needs more frames than its steps can have."""
    span, steps = pending.span, len(pending.span)
    by_step = [getattr(span, f.name) for f in fields(Span) if f.name not in ("frames", "stack_index", "trained", "weights")]
    stacked, number = span.stack_index, torch.get_default_dtype()
    fits = (
        all(len(numbers) == steps for numbers in by_step)
        and 0 <= pending.used < len(span.trained)
        and _within(span.trained, steps)
        and _within(span.actions, actions)
        and _within(span.steps, 2**63)
        and _within(span.rows, frames - 1)
        and frames <= steps * (2 if stacked is None else 1 + stacked.shape[1])
        and (stacked is None or (len(stacked) == frames and _within(stacked + 1, frames + 1)))
        and (span.weights is None or len(span.weights) == steps)
        and all(
            (column.dtype, column.shape) == (number, (learners, steps))
            for column in (pending.targets.values, *pending.targets.columns.values())
        )
    )
    if not fits:
        raise ValueError("inconsistent lengths or indices in a pending span")


def _within(numbers: Array, end: int) -> bool:
    """Whole numbers of at least 0 and less than ``end``."""
    return numbers.dtype == np.int64 and bool(((numbers >= 0) & (numbers < end)).all())
