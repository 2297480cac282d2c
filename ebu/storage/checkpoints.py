"""Checkpoints on disk: atomic, checked byte for byte when read, incremental.

    checkpoints/
        generation-00000007/      manifest.json · state.json · tensors.safetensors · blocks.bin
        generation-00000008/      at least two are kept
        episodes-00000003-000000000000.bin, …

A generation is one checkpoint (``manifest.py`` says what it consists of). Episodes lie beside the generations in files
that several of them share (``segments.py``); one goes when no generation refers to it.

Everything is written under a name that ends in ``.part``, synced, and renamed: segments first, the generation last.
The manifest gives size and SHA-256 of every file, its own included. Whatever fails, the checkpoint before
stays as it was. Only the holder of the run's lock may call ``save`` or ``clean``; reading changes nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ebu.errors import RunFailure, UserError
from ebu.storage import files
from ebu.storage.codec import (
    MAX_JSON_BYTES,
    decode_tensors,
    encode_tensors,
    flatten,
    parse_json,
    render_json,
    unflatten,
)
from ebu.storage.faults import reached
from ebu.storage.files import Damaged, FileRecord, open_recorded, read_recorded, words_for, write_file
from ebu.storage.loaded import Loaded, LostEpisodes, StoredEpisodes, empty_blocks, split_blocks
from ebu.storage.manifest import BLOCKS, FILES, MANIFEST, STATE, TENSORS, Manifest
from ebu.storage.segments import SEGMENT_NAME, EpisodeSource, Segment, plan

MAX_GENERATION = 99_999_999

# Where EBU_KILL_AT can end the process, in order.
POINTS = tuple(
    f"checkpoint:{place}"
    for place in ("begin", "segments", "files", "before-rename", "after-rename", "prune", "pruning", "end")
)

_GENERATION = re.compile(r"generation-([0-9]{8})")


class CheckpointStore:
    """The checkpoints of one run, of which the last ``keep`` are kept."""

    def __init__(self, folder: Path, keep: int = 2) -> None:
        if keep < 2:
            raise ValueError(f"at least two checkpoints must be kept, got {keep}: the newest may be damaged")
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
            raise RunFailure(f"{self.folder} holds {self._path(MAX_GENERATION).name}, which has the largest number possible")
        final = self._path(generation)
        try:
            manifest, size = self._write(final, generation, step, contents, episodes)
        except BaseException as error:
            if not final.exists():  # else it is complete, and only its sync is missing
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
        disk = files.DISK
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
        written = tuple(write_file(aside / name, contents[name]) for name in FILES)
        manifest = Manifest(generation, step, episodes.first, episodes.end, written, tuple(segments))
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
        return manifest, sum(file.size for file in (*written, *new, record))

    def _segments(self, episodes: EpisodeSource) -> tuple[Segment, ...]:
        """Those of the last checkpoint, if they are still there and these episodes continue it."""
        last = self._last
        if last is None or not last.first <= episodes.first <= last.end <= episodes.end:
            return ()
        return last.segments if self._is_there(last) else ()

    def _is_there(self, manifest: Manifest) -> bool:
        """Whether a checkpoint that was whole still has its manifest, and every file at its size."""
        path = self._path(manifest.generation)
        try:
            records = [(path, file) for file in manifest.files] + [(self.folder, s.file) for s in manifest.segments]
            for folder, record in records:
                with open_recorded(folder, record):
                    pass
            return self._manifest(manifest.generation) == manifest
        except Damaged:
            return False

    def _failure(self, step: int, error: OSError) -> str:
        last = self._last
        if last is None:
            before = "those before it are unchanged" if self.exists() else "there is none before it"
        elif self._is_there(last):
            before = f"the checkpoint of step {last.step} is intact"
        else:
            before = f"the checkpoint of step {last.step} is gone, too"
        return f"{words_for(error)}: the checkpoint of step {step} could not be written to {self.folder}; {before}"

    # ------------------------------------------------------------------ tidying up

    def _prune(self) -> None:
        """Forget old generations, now that a newer one is on the disk; what fails here is done at the next save."""
        reached("checkpoint:prune")
        good = sorted(set(self._generations()) - self._damaged)
        with suppress(OSError):
            for generation in set(self._generations()) - set(good[-self.keep :]):
                path = self._path(generation)
                files.DISK.rename(path, path.with_name(f"{path.name}.part"))  # gone at once, or not at all
            files.DISK.sync_folder(self.folder)  # before its files are removed, so that it cannot reappear without them
            reached("checkpoint:pruning")
            self.clean()
        reached("checkpoint:end")

    def clean(self) -> None:
        """Remove what an interrupted or failed save left behind, as far as the disk allows."""
        referred = self._referred()
        with suppress(OSError):
            for path in sorted(self.folder.iterdir()):
                name = path.name.removesuffix(".part")
                ours = _GENERATION.fullmatch(name) or SEGMENT_NAME.fullmatch(name)
                is_aside = (name != path.name and ours) or files.is_aside(path.name)  # of a save, or of a copy
                is_unused = referred is not None and SEGMENT_NAME.fullmatch(path.name) and path.name not in referred
                if is_aside or is_unused:
                    with suppress(OSError):
                        files.remove(path)

    def _referred(self) -> set[str] | None:
        """Names of the segments that some generation refers to; None while a manifest cannot be read."""
        try:
            manifests = [self._manifest(generation) for generation in self._generations()]
        except Damaged:
            return None
        return {segment.file.name for manifest in manifests for segment in manifest.segments}

    # ------------------------------------------------------------------ loading

    def exists(self) -> bool:
        """Whether there is any checkpoint, good or not."""
        return bool(self._generations())

    def load(self, announce: Callable[[str], None], drop_damaged: bool = False) -> Loaded | None:
        """The newest good checkpoint, every byte of it checked; None if there has never been one.

        A damaged one is passed over for the one before it, which is announced in a line. Where none is good, with
        ``drop_damaged``, the newest one that has lost nothing but episodes, without those.
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
        if not faults:
            return None
        words = f"no checkpoint in {self.folder} can be used: {', '.join(faults.values())}"
        found = self._newest(self._load_state)
        if found is None:
            raise UserError(words)
        manifest, tree = found
        if not drop_damaged:
            run = self.folder.parent
            resume, rescue = f"`ebu resume {run} --drop-damaged`", f"`ebu rescue {run} --out policy.ebu`"
            raise UserError(f"{words}; {resume} continues without the damaged episodes, {rescue} saves the policy")
        self._damaged = set(faults)  # none of whose segments is used again: what is kept is written again
        return Loaded(manifest.step, tree, *self._intact(manifest))

    def load_weights(self, announce: Callable[[str], None]) -> Loaded | None:
        """The newest checkpoint with intact weights, whatever happened to its episodes and blocks, which are left out.

        None if there has never been a checkpoint.
        """
        found = self._newest(lambda generation: self._load_state(generation, with_blocks=False), announce)
        if found is None and self.exists():
            raise UserError(f"no checkpoint in {self.folder} has intact weights")
        return None if found is None else Loaded(found[0].step, found[1], ())

    def _newest(
        self, load: Callable[[int], tuple[Manifest, Any]], announce: Callable[[str], None] = lambda line: None
    ) -> tuple[Manifest, Any] | None:
        for generation in sorted(self._generations(), reverse=True):
            try:
                return load(generation)
            except Damaged as error:
                announce(f"{self._path(generation).name} is damaged ({_line(error)})")
        return None

    def _intact(self, manifest: Manifest) -> tuple[StoredEpisodes, LostEpisodes]:
        """The episodes of a checkpoint that are as they were written, and those that are not."""
        reasons = {}
        for segment in manifest.segments:
            try:
                segment.check(self.folder)
            except Damaged as error:
                reasons[segment] = _line(error)
        kept = StoredEpisodes(self.folder, manifest, frozenset(reasons))
        intact = {number for number, _ in kept}
        numbers = tuple(number for number in range(manifest.first, manifest.end) if number not in intact)
        return kept, LostEpisodes(numbers, next(iter(reasons.values()), ""))

    def problems(self) -> list[str]:
        """What is wrong with any of the checkpoints, a line each; a run may be writing meanwhile."""
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
        manifest, tree = self._load_state(generation)
        for segment in manifest.segments:
            if segment.file not in checked:
                segment.check(self.folder)
                checked.add(segment.file)
        return manifest, tree

    def _load_state(self, generation: int, with_blocks: bool = True) -> tuple[Manifest, Any]:
        """A generation's manifest and tree, without a look at its episodes; without its blocks each is empty."""
        path, manifest = self._path(generation), self._manifest(generation)
        state, tensors, blocks = manifest.files
        value = parse_json(bytes(read_recorded(path, state, MAX_JSON_BYTES)))
        if not isinstance(value, dict) or value.keys() != {"tree", "blocks"}:
            raise Damaged(f"{STATE} is not a state")
        entries = value["blocks"]
        named = split_blocks(read_recorded(path, blocks), entries) if with_blocks else empty_blocks(entries)
        return manifest, unflatten(value["tree"], decode_tensors(read_recorded(path, tensors)), named)

    def _manifest(self, generation: int) -> Manifest:
        return Manifest.read(self._path(generation), generation)

    def _path(self, generation: int) -> Path:
        return self.folder / f"generation-{generation:08d}"

    def _generations(self) -> list[int]:
        if self.folder.is_symlink():
            raise UserError(f"{self.folder} is a link, which is not followed")
        try:
            names = os.listdir(self.folder)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise UserError(f"the checkpoints in {self.folder} cannot be read: {error.strerror}") from error
        return [int(match[1]) for match in map(_GENERATION.fullmatch, names) if match]


def _line(error: Exception) -> str:
    """An error's text in one line of sensible length, whatever a stranger's file put into it."""
    text = " ".join(ascii(str(error))[1:-1].replace("\\n", " ").split())
    return text if len(text) <= 200 else f"{text[:197]}..."
