"""How a run ends: ``files.json`` lists every file with its size and SHA-256, ``summary.json`` says that all are there.

Both are on the disk before anything that the run no longer needs is removed. Nothing here imports PyTorch.
"""

from __future__ import annotations

import hashlib
import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from ebu.storage import files
from ebu.storage.files import (
    MAX_JSON_FILE,
    Damaged,
    FileRecord,
    hash_file,
    open_recorded,
    read_file,
    read_text,
    require_hash,
    sync_file,
    write_atomically,
)

FORMAT = "ebu-files-1"
MANIFEST, SUMMARY, CHECKPOINTS = "files.json", "summary.json", "checkpoints"
ROWS = ("metrics.jsonl", "timing.jsonl")
FILES = ("config.json", "versions.json", *ROWS, "policy.ebu", "best.ebu", "curve.png", "maze.png")
EVENTS = "events.out.tfevents."
MAX_FILES = 1_000

_SHA256 = re.compile(r"[0-9a-f]{64}")


def is_finished(folder: Path) -> bool:
    """Whether the run has a summary that can be read; one that is empty or damaged does not count."""
    try:
        return is_summary(read_file(folder / SUMMARY, MAX_JSON_FILE))
    except Damaged:
        return False


def is_summary(content: bytes) -> bool:
    try:
        summary = json.loads(content)
    except (ValueError, RecursionError):
        return False
    return isinstance(summary, dict) and bool(summary)


def write_finished(folder: Path, summary: str) -> None:
    """The list of the run's files, then its summary, each on the disk before the next."""
    names = _names(folder)
    for name in names:
        if name in ROWS or name.startswith(EVENTS):  # the others were synced when they were written
            sync_file(folder / name)
    data = summary.encode()
    records = [hash_file(folder / name) for name in names]
    records.append(FileRecord(SUMMARY, len(data), hashlib.sha256(data).hexdigest()))
    write_atomically(folder / MANIFEST, render(records))
    write_atomically(folder / SUMMARY, data)


def drop_checkpoints(folder: Path) -> None:
    """A finished run needs none: its summary, rows and policy stay. What fails here is done at the next call."""
    if not is_finished(folder):
        return
    checkpoints = folder / CHECKPOINTS
    with suppress(OSError):
        if checkpoints.is_dir() and not checkpoints.is_symlink():
            files.DISK.rename(checkpoints, files.aside_of(checkpoints))  # gone at once, or not at all
            files.DISK.sync_folder(folder)  # before its files are removed, so that it cannot reappear without them
        for path in sorted(folder.iterdir()):
            if path.name.startswith(f".{CHECKPOINTS}.") and files.is_aside(path.name):
                files.remove(path)


def _names(folder: Path) -> list[str]:
    there = sorted(path.name for path in folder.iterdir())
    return [name for name in FILES if name in there] + [name for name in there if name.startswith(EVENTS)][-MAX_FILES:]


def render(records: list[FileRecord]) -> str:
    body = {"format": FORMAT, "files": [vars(record) for record in records]}
    return json.dumps({**body, "sha256": hashlib.sha256(json.dumps(body).encode()).hexdigest()}, indent=1) + "\n"


def parse(text: str) -> list[FileRecord]:
    """The records in a list of files; any text but the one ``render`` gives for them is refused."""
    try:
        value = json.loads(text)
        records = [_record(entry) for entry in value["files"]]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise Damaged(f"{MANIFEST} is not a list of files: {error}") from error
    if render(records) != text:
        raise Damaged(f"{MANIFEST} was changed")
    return records


def _record(entry: Any) -> FileRecord:
    name, size, sha256 = entry["name"], entry["size"], entry["sha256"]
    known = isinstance(name, str) and "/" not in name and (name in (*FILES, SUMMARY) or name.startswith(EVENTS))
    if not known or type(size) is not int or size < 0 or not _SHA256.fullmatch(sha256):
        raise ValueError("an entry is not a name, size and SHA-256 of a file of a run")
    return FileRecord(name, size, sha256)


def problems(folder: Path) -> dict[str, str]:
    """What is wrong with the files of a finished run: a line for each file."""
    try:
        records = parse(read_text(folder / MANIFEST, MAX_JSON_FILE))
    except Damaged as error:
        return {MANIFEST: str(error)}
    found = {}
    for record in records:
        try:
            with open_recorded(folder, record) as file:
                require_hash(record, hashlib.file_digest(file, "sha256").hexdigest())  # type: ignore[arg-type]
        except Damaged as error:
            found[record.name] = str(error)
    return found
