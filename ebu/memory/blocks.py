"""Small blocks of bytes that come and go in order, kept in a few large pieces of memory."""

from __future__ import annotations

import numpy as np

from ebu.memory.ring import Ring
from ebu.types import Array

CHUNK_BYTES = 1 << 18

PLACE = np.dtype([("chunk", np.int64), ("start", np.int32), ("size", np.int32)])


class BlockQueue:
    """Blocks numbered 0, 1, 2, …; new ones join at the end, old ones leave at the front.

    Each block as an object of its own would leave a hole in the heap that nothing else fits into, the compressor's buffer
    being larger than what it returns: 4,000 bytes of RAM for a step of 60 bytes. In large chunks a block takes its size.
    """

    def __init__(self) -> None:
        self._places = Ring((), PLACE)
        self._chunks: dict[int, memoryview] = {}
        self._newest = -1  # number of the chunk that is being filled
        self._used = 0  # bytes of it

    @property
    def end(self) -> int:
        """Number of the next block."""
        return self._places.end

    @property
    def nbytes(self) -> int:
        return self._places.nbytes + sum(map(len, self._chunks.values()))

    def append(self, block: bytes) -> None:
        size = len(block)
        if self._newest not in self._chunks or self._used + size > len(self._chunks[self._newest]):
            self._newest, self._used = self._newest + 1, 0
            self._chunks[self._newest] = np.empty(max(CHUNK_BYTES, size), np.uint8).data
        self._chunks[self._newest][self._used : self._used + size] = block
        self._places.append(np.array([(self._newest, self._used, size)], PLACE))
        self._used += size

    def take(self, numbers: Array) -> list[memoryview]:
        """Blocks by number, not copied: to be read before anything else happens to the queue."""
        places = self._places.take(numbers).tolist()
        return [self._chunks[chunk][start : start + size] for chunk, start, size in places]

    def drop_before(self, number: int) -> None:
        """Forget older blocks; a chunk goes with its last one."""
        oldest = self._oldest_chunk()
        self._places.drop_before(number)
        for chunk in range(oldest, self._oldest_chunk()):
            del self._chunks[chunk]

    def restart(self, number: int) -> None:
        """Forget everything; the next block has this number."""
        self._places.restart(number)
        self._chunks.clear()

    def _oldest_chunk(self) -> int:
        if not len(self._places):
            return self._newest + 1
        return int(self._places.take(np.array([self._places.first]))["chunk"][0])
