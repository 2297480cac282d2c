"""What a checkpoint consists of: every file with its size and SHA-256, and the episodes it refers to.

The manifest carries its own SHA-256, too, and is read only as it was written: any other text, however equal in meaning,
is refused.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ebu.storage.codec import parse_json, render_json
from ebu.storage.files import Damaged, FileRecord, read_file
from ebu.storage.segments import MAX_SEGMENTS, SEGMENT_NAME, Segment

FORMAT = "ebu-checkpoint-1"
MANIFEST, STATE, TENSORS, BLOCKS = "manifest.json", "state.json", "tensors.safetensors", "blocks.bin"
FILES = (STATE, TENSORS, BLOCKS)
MAX_MANIFEST_BYTES = 64 << 10

_SHA256 = re.compile(r"[0-9a-f]{64}")


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
            raise Damaged(f"{MANIFEST} is invalid: {error}") from error
        if manifest.render() != text:
            raise Damaged(f"{MANIFEST} was changed")
        manifest._require_sense()
        return manifest

    @classmethod
    def read(cls, folder: Path, generation: int) -> Manifest:
        """The manifest in a checkpoint's folder, if it is that of this generation."""
        if folder.is_symlink() or not folder.is_dir():
            raise Damaged(f"{folder.name} is not a folder")
        manifest = cls.parse(read_file(folder / MANIFEST, MAX_MANIFEST_BYTES))
        if manifest.generation != generation:
            raise Damaged(f"{MANIFEST} is that of generation {manifest.generation}")
        return manifest

    def _require_sense(self) -> None:
        if [file.name for file in self.files] != list(FILES):
            raise Damaged(f"{MANIFEST} does not list the files of a checkpoint")
        if not all(SEGMENT_NAME.fullmatch(segment.file.name) for segment in self.segments):
            raise Damaged(f"{MANIFEST} lists a segment with an invalid file name")
        reached_end = self.segments[0].first if self.segments else self.first
        follow = len(self.segments) <= MAX_SEGMENTS and reached_end <= self.first <= self.end
        for segment in self.segments:
            follow = follow and segment.first == reached_end < segment.end
            reached_end = segment.end
        if not follow or reached_end != self.end:
            raise Damaged(f"{MANIFEST} lists segments that are not consecutive")


def _whole(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**53:
        raise Damaged(f"{MANIFEST} is invalid: a count is negative, too large or not a whole number")
    return value


def _record(entry: dict[str, Any]) -> FileRecord:
    if type(entry["name"]) is not str or type(entry["sha256"]) is not str or not _SHA256.fullmatch(entry["sha256"]):
        raise Damaged(f"{MANIFEST} is invalid: a name or SHA-256 is malformed")
    return FileRecord(entry["name"], _whole(entry["size"]), entry["sha256"])
