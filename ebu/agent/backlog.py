"""The queue between targets and learner: (state, action, target), handed out in minibatches.

An episode's targets are computed once, with the target network of that moment, and keep their values until they are
used, as in the authors' code. The queue owns the frames it refers to: the memory may forget the episode meanwhile.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
import zstandard
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

    def state_dict(self) -> dict[str, Any]:
        """Pending spans with their frames, compressed: the memory may have forgotten their episodes."""
        return {"pending": [_saved(pending) for pending in self._queue]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._queue = deque(_restored(saved, self._device) for saved in state["pending"])

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


def _saved(pending: _Pending) -> dict[str, Any]:
    span = {f.name: getattr(pending.span, f.name) for f in fields(Span)}
    frames = np.ascontiguousarray(span.pop("frames"))
    return {
        "used": pending.used,
        "span": span,
        "targets": {f.name: getattr(pending.targets, f.name) for f in fields(Targets)},
        "frames": zstandard.ZstdCompressor(level=1).compress(frames.data.cast("B")),
        "frames_shape": list(frames.shape),
        "frames_dtype": frames.dtype.str,
    }


def _restored(saved: dict[str, Any], device: torch.device) -> _Pending:
    dtype, shape = np.dtype(saved["frames_dtype"]), tuple(saved["frames_shape"])
    size = int(np.prod(shape)) * dtype.itemsize
    if zstandard.get_frame_parameters(saved["frames"]).content_size != size:
        raise ValueError("the frames of a pending span declare another size")
    frames = np.frombuffer(zstandard.ZstdDecompressor().decompress(saved["frames"]), dtype).reshape(shape)
    targets: Any = {name: None if t is None else t.to(device) for name, t in saved["targets"].items()}
    return _Pending(Span(frames=frames, **saved["span"]), Targets(**targets), int(saved["used"]))
