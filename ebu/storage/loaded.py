"""What loading a checkpoint gives: its step, its tree and its episodes, and which of these were lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ebu.storage.files import Damaged
from ebu.storage.manifest import BLOCKS, STATE, Manifest
from ebu.storage.segments import Segment

MAX_RANGES = 8


@dataclass(frozen=True)
class Loaded:
    step: int
    tree: Any
    episodes: Iterable[tuple[int, bytes]]  # read from the disk as they are used; use them up before the next save
    lost: LostEpisodes | None = None  # episodes that are damaged and left out


@dataclass(frozen=True)
class LostEpisodes:
    """Episodes of a checkpoint that are damaged, and in which way."""

    numbers: tuple[int, ...]
    reason: str

    def __str__(self) -> str:
        """Their numbers as ranges, as many as fit a line."""
        found = set(self.numbers)
        firsts = (number for number in self.numbers if number - 1 not in found)
        lasts = (number for number in self.numbers if number + 1 not in found)
        words = [f"{first:,}" if first == last else f"{first:,} to {last:,}" for first, last in zip(firsts, lasts)]
        return ", ".join(words if len(words) <= MAX_RANGES else [*words[: MAX_RANGES - 1], "…", words[-1]])


@dataclass(frozen=True)
class StoredEpisodes:
    """The episodes of a checkpoint, one at a time; of segments that are damaged, those that are not."""

    folder: Path
    manifest: Manifest
    damaged: frozenset[Segment] = frozenset()

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        for segment in self.manifest.segments:
            read = segment.read_intact if segment in self.damaged else segment.read
            yield from read(self.folder, self.manifest.first)


def split_blocks(data: bytearray, entries: Any) -> dict[str, bytes]:
    """The blocks by name, cut from their file."""
    blocks: dict[str, bytes] = {}
    end = 0
    for entry in entries if isinstance(entries, list) else [entries]:
        match entry:
            case [str(name), int(length)] if 0 <= length <= len(data) - end and name not in blocks:
                blocks[name] = bytes(memoryview(data)[end : end + length])
                end += length
            case _:
                raise Damaged(f"{STATE} describes blocks that are not in {BLOCKS}")
    if end != len(data):
        raise Damaged(f"{BLOCKS} holds more than {STATE} describes")
    return blocks


def empty_blocks(entries: Any) -> dict[str, bytes]:
    """Nothing under the name of every block."""
    try:
        return {str(name): b"" for name, _ in entries}
    except (TypeError, ValueError) as error:
        raise Damaged(f"{STATE} describes blocks that are not in {BLOCKS}") from error
