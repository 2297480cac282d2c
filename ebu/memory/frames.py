"""Where observations live: vectors plainly, images compressed without loss in blocks of consecutive frames."""

from __future__ import annotations

import sys
from typing import Any, Literal, Protocol

import numpy as np
import zstandard

from ebu.memory.ring import Ring
from ebu.types import Array

# Long enough for one frame to be predicted from the last, short enough to unpack for a single step. Blocks of 64 save a
# tenth of the bytes and take three times as long for a batch of single steps.
BLOCK_FRAMES = 16
BLOCK_OVERHEAD_BYTES = sys.getsizeof(b"") + 8  # Python's own for an object and the list's pointer to it
ZSTD_LEVEL = 3
COMPRESS_FROM_BYTES = 1024  # below this a frame is a vector in disguise (MiniGrid, MinAtar) and unpacking costs more


Compression = Literal["auto", "always", "never"]


def is_compressed(shape: tuple[int, ...], dtype: Any, compress: Compression) -> bool:
    """Whether frames of this kind are compressed; "auto" means images that are large enough."""
    is_large_image = len(shape) == 3 and int(np.prod(shape)) * np.dtype(dtype).itemsize >= COMPRESS_FROM_BYTES
    return compress == "always" or (compress == "auto" and is_large_image)


class FrameStore(Protocol):
    """Observations of whole episodes; episodes are numbered from 0 and leave oldest first."""

    @property
    def nbytes(self) -> int: ...

    def append(self, frames: Array) -> None:
        """Add the T + 1 observations of the next episode."""

    def read(self, episodes: Array, first_rows: Array, starts: Array, counts: Array) -> Array:
        """For each piece, ``counts`` observations of an episode from its number ``starts`` on; laid end to end.

        ``first_rows`` is the number, over all episodes ever stored, of each episode's first observation.
        """

    def drop_oldest(self, frames: int) -> None:
        """Forget the oldest episode, which had this many observations."""

    def pack(self, episode: int, first_row: int, count: int) -> bytes:
        """The observations of one episode as they are stored."""

    def unpack(self, packed: bytes, count: int) -> None:
        """Add the next episode from what ``pack`` gave; ValueError where it cannot have ``count`` observations."""

    def restart(self, episode: int, row: int) -> None:
        """Forget everything; the next episode has this number, its first observation that row."""


class PlainFrames:
    """A ring of rows; any set of pieces is one indexed read."""

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self._ring = Ring(shape, dtype)

    @property
    def nbytes(self) -> int:
        return self._ring.nbytes

    def append(self, frames: Array) -> None:
        self._ring.append(frames)

    def read(self, episodes: Array, first_rows: Array, starts: Array, counts: Array) -> Array:
        return self._ring.take(ranges(first_rows + starts, counts))

    def drop_oldest(self, frames: int) -> None:
        self._ring.drop_before(self._ring.first + frames)

    def pack(self, episode: int, first_row: int, count: int) -> bytes:
        return self._ring.take(np.arange(first_row, first_row + count)).tobytes()

    def unpack(self, packed: bytes, count: int) -> None:
        self._ring.append(np.frombuffer(packed, self._ring.dtype).reshape(count, *self._ring.shape))

    def restart(self, episode: int, row: int) -> None:
        self._ring.restart(row)


class CompressedFrames:
    """Each episode as zstandard blocks of 16 consecutive frames."""

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self._shape = shape
        self._dtype = np.dtype(dtype)
        self._frame_bytes = int(np.prod(shape)) * self._dtype.itemsize
        self._blocks: dict[int, list[bytes]] = {}  # episode number → its blocks
        self._first = 0
        self._nbytes = 0
        self._compressor = zstandard.ZstdCompressor(level=ZSTD_LEVEL)
        self._decompressor = zstandard.ZstdDecompressor()

    @property
    def nbytes(self) -> int:
        return self._nbytes

    def append(self, frames: Array) -> None:
        frames = np.ascontiguousarray(frames, self._dtype)
        blocks = [
            self._compressor.compress(frames[start : start + BLOCK_FRAMES].data.cast("B"))
            for start in range(0, len(frames), BLOCK_FRAMES)
        ]
        self._keep(blocks)

    def _keep(self, blocks: list[bytes]) -> None:
        self._blocks[self._first + len(self._blocks)] = blocks
        self._nbytes += _size(blocks)

    def read(self, episodes: Array, first_rows: Array, starts: Array, counts: Array) -> Array:
        frames = np.empty((int(counts.sum()), *self._shape), self._dtype)
        bytes_out = frames.data.cast("B")
        size, written = self._frame_bytes, 0
        for episode, start, count in zip(episodes.tolist(), starts.tolist(), counts.tolist()):
            blocks = self._blocks[episode]
            while count:
                number, offset = divmod(start, BLOCK_FRAMES)
                part = min(count, BLOCK_FRAMES - offset)
                raw = self._decompressor.decompress(blocks[number])
                bytes_out[written * size : (written + part) * size] = memoryview(raw)[offset * size :][: part * size]
                start, count, written = start + part, count - part, written + part
        return frames

    def drop_oldest(self, frames: int) -> None:
        self._nbytes -= _size(self._blocks.pop(self._first))
        self._first += 1

    def pack(self, episode: int, first_row: int, count: int) -> bytes:
        blocks = self._blocks[episode]
        return np.array([len(block) for block in blocks], "<u4").tobytes() + b"".join(blocks)

    def unpack(self, packed: bytes, count: int) -> None:
        number = -(-count // BLOCK_FRAMES)
        sizes = np.frombuffer(packed, "<u4", number)
        ends = 4 * number + np.cumsum(sizes, dtype=np.int64)
        if ends[-1] != len(packed):
            raise ValueError("the blocks of an episode do not add up")
        blocks = [packed[end - size : end] for end, size in zip(ends.tolist(), sizes.tolist())]
        for i, block in enumerate(blocks):  # a block unpacks to what it declares: no more than its frames
            frames = min(BLOCK_FRAMES, count - i * BLOCK_FRAMES)
            if zstandard.get_frame_parameters(block).content_size != frames * self._frame_bytes:
                raise ValueError("a block of frames declares another size")
        self._keep(blocks)

    def restart(self, episode: int, row: int) -> None:
        self._blocks.clear()
        self._first, self._nbytes = episode, 0


def _size(blocks: list[bytes]) -> int:
    return sum(map(len, blocks)) + BLOCK_OVERHEAD_BYTES * len(blocks)


def ranges(starts: Array, counts: Array) -> Array:
    """[starts₀, starts₀ + 1, …, starts₁, …]: consecutive numbers, ``counts`` from each start, laid end to end."""
    ends = np.cumsum(counts)
    return np.repeat(starts - (ends - counts), counts) + np.arange(ends[-1])
