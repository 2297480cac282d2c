"""Files of episodes, which several checkpoints may share.

An episode never changes once it is stored, so each is written once: a checkpoint writes the episodes that are new as one
segment and refers to the segments of the checkpoint before. A segment is the episodes' bytes end to end, then the SHA-256 of
each, then their lengths as 64-bit integers. When there would be more than MAX_SEGMENTS, the cheapest neighbouring ones
become one.

The manifest has one SHA-256 for the whole segment, which is what loading checks. The hashes of the single episodes say, in
a segment that is damaged, which episodes are not. Segments of earlier versions have none.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Protocol

import numpy as np

from ebu.storage import files
from ebu.storage.files import Damaged, FileRecord, open_recorded, write_file

MAX_SEGMENTS = 64
MERGED_SEGMENTS = 33  # neighbours that become one: it happens at most at every 32nd checkpoint
DIGEST_BYTES, LENGTH_BYTES = 32, 8  # of each episode, at the end of a segment
SEGMENT_NAME = re.compile(r"episodes-[0-9]{8}-[0-9]{12}\.bin")


class EpisodeSource(Protocol):
    """The episodes stored at this moment; numbers only grow and an episode never changes."""

    @property
    def first(self) -> int: ...

    @property
    def end(self) -> int: ...

    def pack(self, number: int) -> bytes:
        """One episode as bytes that mean something to the caller only."""


@dataclass(frozen=True)
class Segment:
    """Episodes ``first … end − 1`` in a file; without a record, it is still to be written."""

    first: int
    end: int
    record: FileRecord | None

    @property
    def file(self) -> FileRecord:
        assert self.record is not None
        return self.record

    def written(self, path: Path, episodes: EpisodeSource) -> Segment:
        def parts() -> Iterator[bytes]:
            digests, lengths = [], np.zeros(self.end - self.first, "<u8")
            for number in range(self.first, self.end):
                packed = episodes.pack(number)
                digests.append(hashlib.sha256(packed).digest())
                lengths[number - self.first] = len(packed)
                yield packed
            yield b"".join(digests)
            yield lengths.tobytes()

        return replace(self, record=write_file(path, parts()))

    def check(self, folder: Path) -> None:
        with open_recorded(folder, self.file) as file:
            self._sound_lengths(file)
            file.seek(0)
            files.require_hash(self.file, hashlib.file_digest(file, "sha256").hexdigest())  # type: ignore[arg-type]

    def read(self, folder: Path, first: int) -> Iterator[tuple[int, bytes]]:
        """The episodes from number ``first`` on."""
        with open_recorded(folder, self.file) as file:
            lengths = self._sound_lengths(file).tolist()
            skipped = max(first - self.first, 0)
            file.seek(sum(lengths[:skipped]))
            for number, length in enumerate(lengths[skipped:], self.first + skipped):
                yield number, file.read(length)

    def read_intact(self, folder: Path, first: int) -> Iterator[tuple[int, bytes]]:
        """The episodes from number ``first`` on that have the SHA-256 they were written with; of a file that is damaged.

        Where a length was changed, the places of the episodes before it follow from the beginning of the file, and of
        those after it from the end: a changed bit costs one episode, wherever it is.
        """
        try:
            with open_recorded(folder, self.file) as file:
                room = self.file.size - (DIGEST_BYTES + LENGTH_BYTES) * len(self)
                if room < 0:
                    return
                lengths = [min(length, room + 1) for length in self._lengths(file).tolist()]
                digests = _read(file, room, DIGEST_BYTES * len(self))
                before = list(itertools.accumulate(lengths, initial=0))
                for i in range(max(first - self.first, 0), len(self)):
                    digest = digests[DIGEST_BYTES * i : DIGEST_BYTES * (i + 1)]
                    for place in sorted({before[i], room - before[-1] + before[i]}):
                        packed = _read(file, place, lengths[i]) if 0 <= place <= room - lengths[i] else None
                        if packed is not None and hashlib.sha256(packed).digest() == digest:
                            yield self.first + i, packed
                            break
        except Damaged:  # shorter, or no file
            return

    def __len__(self) -> int:
        return self.end - self.first

    def _sound_lengths(self, file: BinaryIO) -> np.ndarray:
        """The bytes of each episode; together they fill the file, with the hashes or, in earlier versions, without."""
        room = self.file.size - LENGTH_BYTES * len(self)
        if room >= 0:
            lengths = self._lengths(file)
            total = (int((lengths >> 32).sum()) << 32) + int((lengths & 0xFFFFFFFF).sum())  # cannot overflow
            if total in (room, room - DIGEST_BYTES * len(self)):
                return lengths
        raise Damaged(f"{self.file.name} does not hold the episodes that the manifest lists")

    def _lengths(self, file: BinaryIO) -> np.ndarray:
        size = LENGTH_BYTES * len(self)
        return np.frombuffer(_read(file, self.file.size - size, size), "<u8")


def _read(file: BinaryIO, place: int, size: int) -> bytes:
    file.seek(place)
    return file.read(size)


def plan(segments: tuple[Segment, ...], first: int, end: int) -> list[Segment]:
    """Segments that hold episodes ``first … end − 1``: the given ones that still matter, and what is to be written."""
    needed = [segment for segment in segments if segment.end > first]
    start = needed[-1].end if needed else first
    if start < end:
        needed.append(Segment(start, end, None))
    if len(needed) > MAX_SEGMENTS:
        sizes = [segment.file.size if segment.record else 0 for segment in needed]  # the new one is written anyway
        places = range(len(needed) - MERGED_SEGMENTS + 1)
        cheapest = min(places, key=lambda i: sum(sizes[i : i + MERGED_SEGMENTS]))
        merged = needed[cheapest : cheapest + MERGED_SEGMENTS]
        needed[cheapest : cheapest + MERGED_SEGMENTS] = [Segment(max(merged[0].first, first), merged[-1].end, None)]
    return needed
