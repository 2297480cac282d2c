"""Rows addressed by numbers that only grow. Old rows leave at the front, new ones join at the end, storage is reused."""

from __future__ import annotations

from typing import Any

import numpy as np

from ebu.types import Array

SMALLEST_ROOM = 1024


def room_for(rows: int, smallest: int = SMALLEST_ROOM) -> int:
    """How many rows are set aside to hold this many: a power of two."""
    return max(smallest, 1 << (rows - 1).bit_length())


class Ring:
    """Rows ``first … end − 1`` of one dtype and shape; room doubles when needed, so that a row costs O(1)."""

    def __init__(self, shape: tuple[int, ...], dtype: Any, room: int = SMALLEST_ROOM) -> None:
        self._rows = np.zeros((room, *shape), dtype)  # room is a power of two: row r is in slot r & (room − 1)
        self.first = 0
        self.end = 0

    def __len__(self) -> int:
        return self.end - self.first

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes

    def append(self, block: Array) -> None:
        count = len(block)
        if len(self) + count > len(self._rows):
            self._grow(len(self) + count)
        start = self.end & (len(self._rows) - 1)
        head = min(count, len(self._rows) - start)
        self._rows[start : start + head] = block[:head]
        self._rows[: count - head] = block[head:]
        self.end += count

    def take(self, numbers: Array) -> Array:
        """Rows by number, copied; the caller keeps to ``first … end − 1``."""
        return self._rows.take(numbers & (len(self._rows) - 1), axis=0)  # up to six times as fast as an index

    def drop_before(self, number: int) -> None:
        self.first = number

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._rows.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self._rows.shape[1:]

    def restart(self, number: int) -> None:
        """Forget everything; the next row has this number."""
        self.first = self.end = number

    def _grow(self, needed: int) -> None:
        numbers = np.arange(self.first, self.end)
        kept = self.take(numbers)
        room = room_for(needed, len(self._rows))
        self._rows = np.zeros((room, *self._rows.shape[1:]), self._rows.dtype)
        self._rows[numbers & (room - 1)] = kept
