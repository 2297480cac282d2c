"""Where observations live: vectors plainly, images compressed without loss in blocks of consecutive frames."""

from __future__ import annotations

from typing import Any, Literal, Protocol

import numpy as np
import zstandard

from ebu.memory.blocks import BlockQueue
from ebu.memory.ring import Ring
from ebu.types import Array

# Long enough for one frame to be predicted from the last, short enough to unpack for a single step. Blocks of 64 save a
# tenth of the bytes and take three times as long for a batch of single steps.
BLOCK_FRAMES = 16
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

    def read_pairs(self, episodes: Array, first_rows: Array, starts: Array) -> Array:
        """The same for pieces of two observations each."""

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

    def read_pairs(self, episodes: Array, first_rows: Array, starts: Array) -> Array:
        rows = np.repeat(first_rows + starts, 2)
        rows[1::2] += 1
        return self._ring.take(rows)

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
        self._blocks = BlockQueue()
        self._firsts = Ring((), np.int64)  # number of each episode's first block
        self._compressor = zstandard.ZstdCompressor(level=ZSTD_LEVEL)
        self._decompressor = zstandard.ZstdDecompressor()

    @property
    def nbytes(self) -> int:
        return self._blocks.nbytes + self._firsts.nbytes

    def append(self, frames: Array) -> None:
        frames = np.ascontiguousarray(frames, self._dtype)
        self._firsts.append(np.array([self._blocks.end]))
        for start in range(0, len(frames), BLOCK_FRAMES):
            self._blocks.append(self._compressor.compress(frames[start : start + BLOCK_FRAMES].data.cast("B")))

    def read(self, episodes: Array, first_rows: Array, starts: Array, counts: Array) -> Array:
        firsts = starts // BLOCK_FRAMES
        spanned = (starts + counts - 1) // BLOCK_FRAMES - firsts + 1  # blocks of each piece
        inside = ranges(firsts, spanned)  # number of each block within its episode
        blocks = self._blocks.take(np.repeat(self._firsts.take(episodes), spanned) + inside)
        begins = np.maximum(np.repeat(starts, spanned) - inside * BLOCK_FRAMES, 0)  # what is wanted of each block
        ends = np.minimum(np.repeat(starts + counts, spanned) - inside * BLOCK_FRAMES, BLOCK_FRAMES)

        frames = np.empty((int(counts.sum()), *self._shape), self._dtype)
        room, size = frames.data.cast("B"), self._frame_bytes
        for block, begin, end in zip(blocks, (begins * size).tolist(), (ends * size).tolist()):
            room[: end - begin] = memoryview(self._decompressor.decompress(block))[begin:end]
            room = room[end - begin :]
        return frames

    def read_pairs(self, episodes: Array, first_rows: Array, starts: Array) -> Array:
        return self.read(episodes, first_rows, starts, np.full(len(starts), 2))

    def drop_oldest(self, frames: int) -> None:
        self._blocks.drop_before(int(self._firsts.take(np.array([self._firsts.first]))[0]) + _blocks_of(frames))
        self._firsts.drop_before(self._firsts.first + 1)

    def pack(self, episode: int, first_row: int, count: int) -> bytes:
        first = int(self._firsts.take(np.array([episode]))[0])
        blocks = self._blocks.take(np.arange(first, first + _blocks_of(count)))
        return np.array([len(block) for block in blocks], "<u4").tobytes() + b"".join(blocks)

    def unpack(self, packed: bytes, count: int) -> None:
        number = _blocks_of(count)
        sizes = np.frombuffer(packed, "<u4", number)
        ends = 4 * number + np.cumsum(sizes, dtype=np.int64)
        if ends[-1] != len(packed):
            raise ValueError("the blocks of an episode do not match its number of frames")
        blocks = [packed[end - size : end] for end, size in zip(ends.tolist(), sizes.tolist())]
        for i, block in enumerate(blocks):  # a block unpacks to what it declares: no more than its frames
            frames = min(BLOCK_FRAMES, count - i * BLOCK_FRAMES)
            if zstandard.get_frame_parameters(block).content_size != frames * self._frame_bytes:
                raise ValueError("a block of frames declares an unexpected size")
        self._firsts.append(np.array([self._blocks.end]))
        for block in blocks:
            self._blocks.append(block)

    def restart(self, episode: int, row: int) -> None:
        self._blocks.restart(0)
        self._firsts.restart(episode)


def _blocks_of(frames: int) -> int:
    return -(-frames // BLOCK_FRAMES)


def ranges(starts: Array, counts: Array) -> Array:
    """[starts₀, starts₀ + 1, …, starts₁, …]: consecutive numbers, ``counts`` from each start, laid end to end."""
    ends = counts.cumsum()
    return (starts - (ends - counts)).repeat(counts) + np.arange(ends[-1])
