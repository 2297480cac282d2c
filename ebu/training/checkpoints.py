"""Checkpoints on disk: whole or not there, checked byte for byte when read, cheap to write again.

    checkpoints/
        generation-00000007/      manifest.json · state.json · tensors.safetensors · blocks.bin
        generation-00000008/      at least two are kept
        episodes-00000003-000000000000.bin, …

A generation is one checkpoint. Episodes never change once they are stored, so they lie beside the generations in
segments, which later generations refer to again: a checkpoint writes the episodes that are new, as one segment. A
segment is the episodes' bytes end to end, then their lengths as 64-bit integers. When there would be more than
MAX_SEGMENTS, the cheapest neighbouring ones are written anew as one. A segment goes when no generation refers to it.

Everything is written under a name that ends in ``.part``, synced, and renamed: segments first, the generation last.
The manifest gives size and SHA-256 of every file, its own included. Whatever fails on the way, the checkpoint before
stays as it was. Only the holder of the run's lock may call ``save`` or ``clean``; reading changes nothing.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np

from ebu.errors import RunFailure, UserError
from ebu.training import points
from ebu.training.points import Damaged, FileRecord, open_file, open_recorded, reached, read_recorded, write_file
from ebu.training.tree import (
    MAX_JSON_BYTES,
    decode_tensors,
    encode_tensors,
    flatten,
    parse_json,
    render_json,
    unflatten,
)

FORMAT = "ebu-checkpoint-1"
MANIFEST, STATE, TENSORS, BLOCKS = "manifest.json", "state.json", "tensors.safetensors", "blocks.bin"
FILES = (STATE, TENSORS, BLOCKS)
MAX_SEGMENTS = 64
MERGED_SEGMENTS = 33  # neighbours that become one: it happens at most at every 32nd checkpoint
MAX_MANIFEST_BYTES = 64 << 10
MAX_GENERATION = 99_999_999

# Where EBU_KILL_AT can end the process, in order.
POINTS = tuple(
    f"checkpoint:{place}"
    for place in ("begin", "segments", "files", "before-rename", "after-rename", "prune", "pruning", "end")
)

_GENERATION = re.compile(r"generation-([0-9]{8})")
_SEGMENT = re.compile(r"episodes-[0-9]{8}-[0-9]{12}\.bin")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class EpisodeSource(Protocol):
    """The episodes stored at this moment; numbers only grow and an episode never changes."""

    @property
    def first(self) -> int: ...

    @property
    def end(self) -> int: ...

    def pack(self, number: int) -> bytes:
        """One episode as bytes that mean something to the caller only."""


@dataclass(frozen=True)
class Loaded:
    step: int
    tree: Any
    episodes: Iterable[tuple[int, bytes]]  # read from the disk as they are used; use them up before the next save


# ---------------------------------------------------------------------- segments


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
            lengths = np.zeros(self.end - self.first, "<u8")
            for number in range(self.first, self.end):
                packed = episodes.pack(number)
                lengths[number - self.first] = len(packed)
                yield packed
            yield lengths.tobytes()

        return replace(self, record=write_file(path, parts()))

    def check(self, folder: Path) -> None:
        with open_recorded(folder, self.file) as file:
            self._lengths(file)
            file.seek(0)
            points.require_hash(self.file, hashlib.file_digest(file, "sha256").hexdigest())  # type: ignore[arg-type]

    def read(self, folder: Path, first: int) -> Iterator[tuple[int, bytes]]:
        """The episodes from number ``first`` on."""
        with open_recorded(folder, self.file) as file:
            lengths = self._lengths(file).tolist()
            skipped = max(first - self.first, 0)
            file.seek(sum(lengths[:skipped]))
            for number, length in enumerate(lengths[skipped:], self.first + skipped):
                yield number, file.read(length)

    def _lengths(self, file: BinaryIO) -> np.ndarray:
        """The bytes of each episode; together they fill the file."""
        room = self.file.size - 8 * (self.end - self.first)
        if room >= 0:
            file.seek(room)
            lengths = np.frombuffer(file.read(self.file.size - room), "<u8")
            total = (int((lengths >> 32).sum()) << 32) + int((lengths & 0xFFFFFFFF).sum())  # cannot overflow
            if total == room:
                return lengths
        raise Damaged(f"{self.file.name} does not hold the episodes it should")


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


# ---------------------------------------------------------------------- the manifest


@dataclass(frozen=True)
class Manifest:
    generation: int
    step: int
    first: int  # episodes first … end − 1 are stored; the oldest segment may hold earlier ones, too
    end: int
    files: tuple[FileRecord, ...]  # in the order of FILES
    segments: tuple[Segment, ...]  # oldest first

    def render(self) -> bytes:
        body = {
            "format": FORMAT,
            "generation": self.generation,
            "step": self.step,
            "first_episode": self.first,
            "end_episode": self.end,
            "files": [vars(file) for file in self.files],
            "segments": [{"first": s.first, "end": s.end, **vars(s.file)} for s in self.segments],
        }
        return render_json({**body, "sha256": hashlib.sha256(render_json(body, indent=1)).hexdigest()}, indent=1)

    @classmethod
    def parse(cls, text: bytes) -> Manifest:
        """The manifest in a text; any text but the one ``render`` gives for it is refused."""
        value = parse_json(text)
        if not isinstance(value, dict) or value.get("format") != FORMAT:
            raise Damaged(f"{MANIFEST} is not of the format {FORMAT}")
        try:
            manifest = cls(
                _whole(value["generation"]),
                _whole(value["step"]),
                _whole(value["first_episode"]),
                _whole(value["end_episode"]),
                tuple(_record(entry) for entry in value["files"]),
                tuple(Segment(_whole(s["first"]), _whole(s["end"]), _record(s)) for s in value["segments"]),
            )
        except (KeyError, TypeError) as error:
            raise Damaged(f"{MANIFEST} does not hold what it should: {error}") from error
        if manifest.render() != text:
            raise Damaged(f"{MANIFEST} was changed")
        manifest._require_sense()
        return manifest

    def _require_sense(self) -> None:
        if [file.name for file in self.files] != list(FILES):
            raise Damaged(f"{MANIFEST} names other files than a checkpoint has")
        if not all(_SEGMENT.fullmatch(segment.file.name) for segment in self.segments):
            raise Damaged(f"{MANIFEST} names a file that cannot be a segment")
        reached_end = self.segments[0].first if self.segments else self.first
        follow = len(self.segments) <= MAX_SEGMENTS and reached_end <= self.first <= self.end
        for segment in self.segments:
            follow = follow and segment.first == reached_end < segment.end
            reached_end = segment.end
        if not follow or reached_end != self.end:
            raise Damaged(f"{MANIFEST} names segments that do not follow one another")


def _whole(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**53:
        raise Damaged(f"{MANIFEST} holds an impossible number")
    return value


def _record(entry: dict[str, Any]) -> FileRecord:
    if type(entry["name"]) is not str or type(entry["sha256"]) is not str or not _SHA256.fullmatch(entry["sha256"]):
        raise Damaged(f"{MANIFEST} holds an impossible name or SHA-256")
    return FileRecord(entry["name"], _whole(entry["size"]), entry["sha256"])


# ---------------------------------------------------------------------- the store


class CheckpointStore:
    """The checkpoints of one run, of which the last ``keep`` are kept."""

    def __init__(self, folder: Path, keep: int = 2) -> None:
        if keep < 2:
            raise ValueError(f"at least two checkpoints are kept, not {keep}: the one before must outlive a bad one")
        self.folder = folder
        self.keep = keep
        self._last: Manifest | None = None  # what was loaded or saved last; its segments are used again
        self._damaged: set[int] = set()  # generations found damaged, which do not count as kept

    # ------------------------------------------------------------------ saving

    def save(self, step: int, tree: Any, episodes: EpisodeSource) -> int:
        """Write a checkpoint; returns the number of bytes written. After a RunFailure the one before is intact."""
        skeleton, tensors, blocks = flatten(tree)
        state = render_json({"tree": skeleton, "blocks": [[name, len(block)] for name, block in blocks.items()]})
        contents = {STATE: [state], TENSORS: encode_tensors(tensors), BLOCKS: blocks.values()}
        self.clean()
        generation = max(self._generations(), default=0) + 1
        if generation > MAX_GENERATION:
            raise RunFailure(f"{self.folder} holds {self._path(MAX_GENERATION).name}, which can have no successor")
        final = self._path(generation)
        try:
            manifest, size = self._write(final, generation, step, contents, episodes)
        except BaseException as error:
            if not final.exists():  # else it is complete, and only the disk's word for it is missing
                with suppress(OSError, UserError):
                    self.clean()
            if isinstance(error, OSError):
                raise RunFailure(self._failure(step, error)) from error
            raise
        self._last = manifest
        self._prune()
        return size

    def _write(
        self, final: Path, generation: int, step: int, contents: dict[str, Any], episodes: EpisodeSource
    ) -> tuple[Manifest, int]:
        disk = points.DISK
        reached("checkpoint:begin")
        if not self.folder.exists():
            disk.make_folder(self.folder)
            disk.sync_folder(self.folder.parent)
        aside = final.with_name(f"{final.name}.part")
        disk.make_folder(aside)
        segments = plan(self._segments(episodes), episodes.first, episodes.end)
        new: list[FileRecord] = []
        for i, segment in enumerate(segments):
            if segment.record is None:
                name = f"episodes-{generation:08d}-{segment.first:012d}.bin.part"
                segments[i] = segment.written(self.folder / name, episodes)
                new.append(segments[i].file)
        reached("checkpoint:segments")
        files = tuple(write_file(aside / name, contents[name]) for name in FILES)
        manifest = Manifest(generation, step, episodes.first, episodes.end, files, tuple(segments))
        record = write_file(aside / MANIFEST, [manifest.render()])
        disk.sync_folder(aside)
        reached("checkpoint:files")
        for file in new:
            disk.rename(self.folder / f"{file.name}.part", self.folder / file.name)
        disk.sync_folder(self.folder)
        reached("checkpoint:before-rename")
        disk.rename(aside, final)
        reached("checkpoint:after-rename")
        disk.sync_folder(self.folder)
        return manifest, sum(file.size for file in (*files, *new, record))

    def _segments(self, episodes: EpisodeSource) -> tuple[Segment, ...]:
        """Those of the last checkpoint, if they are still there and these episodes continue it."""
        last = self._last
        if last is None or not last.first <= episodes.first <= last.end <= episodes.end:
            return ()
        try:
            for segment in last.segments:
                with open_recorded(self.folder, segment.file):
                    pass
            return last.segments if self._manifest(last.generation) == last else ()
        except Damaged:
            return ()

    def _failure(self, step: int, error: OSError) -> str:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        reason = "the disk is full" if full else f"the disk refused ({error.strerror or error})"
        before = f"the checkpoint of step {self._last.step} is intact" if self._last else "there is none before it"
        return f"{reason}: the checkpoint of step {step} could not be written to {self.folder}; {before}"

    # ------------------------------------------------------------------ tidying up

    def _prune(self) -> None:
        """Forget old generations, now that a newer one is on the disk; what fails here is done at the next save."""
        reached("checkpoint:prune")
        good = sorted(set(self._generations()) - self._damaged)
        with suppress(OSError):
            for generation in set(self._generations()) - set(good[-self.keep :]):
                path = self._path(generation)
                points.DISK.rename(path, path.with_name(f"{path.name}.part"))  # gone at once, or not at all
            points.DISK.sync_folder(self.folder)  # before its files go, so that it cannot come back without them
            reached("checkpoint:pruning")
            self.clean()
        reached("checkpoint:end")

    def clean(self) -> None:
        """Remove what an interrupted or failed save left behind, as far as the disk allows."""
        referred = self._referred()
        with suppress(OSError):
            for path in sorted(self.folder.iterdir()):
                name = path.name.removesuffix(".part")
                is_aside = name != path.name and (_GENERATION.fullmatch(name) or _SEGMENT.fullmatch(name))
                is_unused = referred is not None and _SEGMENT.fullmatch(path.name) and path.name not in referred
                if is_aside or is_unused:
                    with suppress(OSError):
                        points.remove(path)

    def _referred(self) -> set[str] | None:
        """Names of the segments that some generation refers to; None while a manifest cannot be read."""
        try:
            manifests = [self._manifest(generation) for generation in self._generations()]
        except Damaged:
            return None
        return {segment.file.name for manifest in manifests for segment in manifest.segments}

    # ------------------------------------------------------------------ loading

    def load(self, announce: Callable[[str], None]) -> Loaded | None:
        """The newest good checkpoint, every byte of it checked; None if there has never been one.

        A damaged one is passed over for the one before it, which is announced in a line.
        """
        faults: dict[int, str] = {}
        for generation in sorted(self._generations(), reverse=True):
            try:
                manifest, tree = self._load(generation, set())
            except Damaged as error:
                faults[generation] = f"{self._path(generation).name} is damaged ({_line(error)})"
                continue
            self._last, self._damaged = manifest, set(faults)
            if faults:
                announce(f"{', '.join(faults.values())}; falling back to the checkpoint of step {manifest.step}")
            return Loaded(manifest.step, tree, StoredEpisodes(self.folder, manifest))
        if faults:
            raise UserError(f"no checkpoint in {self.folder} can be used: {', '.join(faults.values())}")
        return None

    def problems(self) -> list[str]:
        """What is wrong with any of the checkpoints, a line each; a run may go on writing meanwhile."""
        checked: set[FileRecord] = set()
        found: list[str] = []
        for generation in sorted(self._generations()):
            try:
                self._load(generation, checked)
            except Damaged as error:
                if os.path.lexists(self._path(generation)):  # else it was old and has just been pruned
                    found.append(f"{self._path(generation).name}: {_line(error)}")
        return found

    def _load(self, generation: int, checked: set[FileRecord]) -> tuple[Manifest, Any]:
        """A generation's manifest and tree, with every file verified; segments in ``checked`` were before."""
        path, manifest = self._path(generation), self._manifest(generation)
        limits = (MAX_JSON_BYTES, None, None)
        state, tensors, blocks = (read_recorded(path, file, limit) for file, limit in zip(manifest.files, limits))
        value = parse_json(bytes(state))
        if not isinstance(value, dict) or value.keys() != {"tree", "blocks"}:
            raise Damaged(f"{STATE} is not a state")
        tree = unflatten(value["tree"], decode_tensors(tensors), _split(blocks, value["blocks"]))
        for segment in manifest.segments:
            if segment.file not in checked:
                segment.check(self.folder)
                checked.add(segment.file)
        return manifest, tree

    def _manifest(self, generation: int) -> Manifest:
        path = self._path(generation)
        if path.is_symlink() or not path.is_dir():
            raise Damaged(f"{path.name} is not a folder")
        with open_file(path / MANIFEST) as (file, status):
            if status.st_size > MAX_MANIFEST_BYTES:
                raise Damaged(f"{MANIFEST} has {status.st_size} bytes, which is too many")
            manifest = Manifest.parse(file.read(MAX_MANIFEST_BYTES))
        if manifest.generation != generation:
            raise Damaged(f"{MANIFEST} is that of generation {manifest.generation}")
        return manifest

    def _path(self, generation: int) -> Path:
        return self.folder / f"generation-{generation:08d}"

    def _generations(self) -> list[int]:
        try:
            names = os.listdir(self.folder)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise UserError(f"the checkpoints in {self.folder} cannot be read: {error.strerror}") from error
        return [int(match[1]) for match in map(_GENERATION.fullmatch, names) if match]


def verify(folder: Path) -> list[str]:
    """What is wrong with the checkpoints in a folder, a line each; an empty list means that all are good."""
    return CheckpointStore(folder).problems()


@dataclass(frozen=True)
class StoredEpisodes:
    """The episodes of a checkpoint, one at a time."""

    folder: Path
    manifest: Manifest

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        for segment in self.manifest.segments:
            yield from segment.read(self.folder, self.manifest.first)


def _split(data: bytearray, entries: Any) -> dict[str, bytes]:
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


def _line(error: Exception) -> str:
    """An error's text in one line of sensible length, whatever a stranger's file put into it."""
    text = " ".join(ascii(str(error))[1:-1].replace("\\n", " ").split())
    return text if len(text) <= 200 else f"{text[:197]}..."
