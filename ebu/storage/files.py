"""Every file access of a run folder: writing through calls that a test can make fail, reading that trusts nothing."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from ebu.errors import UserError

HOLLOW_FROM_BYTES, HOLLOW_RATIO = 64 << 20, 1000  # a file this much larger than its share of the disk is a trap

class Damaged(UserError):
    """A file that is not what ebu wrote; the line says in which way."""


@dataclass(frozen=True)
class FileRecord:
    """What a manifest knows of a file."""

    name: str
    size: int
    sha256: str


# ---------------------------------------------------------------------- writing


class Disk:
    """Every call that changes the disk. Tests put another one in its place."""

    def create(self, path: Path) -> BinaryIO:
        return path.open("xb", buffering=1 << 20)

    def write(self, file: BinaryIO, data: Any) -> None:
        file.write(data)

    def sync(self, file: BinaryIO) -> None:
        """Everything written so far is on the disk, whatever happens to the machine."""
        file.flush()
        os.fsync(file.fileno())

    def sync_folder(self, path: Path) -> None:
        """The names in the folder are on the disk, too."""
        if os.name == "nt":  # cannot open a folder, and writes names without being asked
            return
        folder = os.open(path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def make_folder(self, path: Path) -> None:
        path.mkdir()

    def rename(self, old: Path, new: Path) -> None:
        old.replace(new)

    def unlink(self, path: Path) -> None:
        path.unlink()

    def remove_folder(self, path: Path) -> None:
        path.rmdir()


DISK = Disk()


def words_for(error: OSError) -> str:
    """Why the disk did not take something."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return "the disk is full" if full else f"the disk refused ({error.strerror or error})"


def write_file(path: Path, parts: Iterable[Any]) -> FileRecord:
    """A new file of these parts, synced; the record is under the name it will have."""
    digest, size = hashlib.sha256(), 0
    file = DISK.create(path)
    try:
        for part in parts:
            DISK.write(file, part)
            digest.update(part)
            size += len(part)
        DISK.sync(file)
    finally:
        with suppress(OSError):  # closing writes what is still buffered, which fails where the rest did
            file.close()
    return FileRecord(path.name.removesuffix(".part"), size, digest.hexdigest())


def remove(path: Path) -> None:
    """A file, or a folder of files; of a link, the link."""
    if path.is_dir() and not path.is_symlink():
        for child in path.iterdir():
            DISK.unlink(child)
        DISK.remove_folder(path)
    else:
        DISK.unlink(path)


# ---------------------------------------------------------------------- reading


@contextmanager
def open_file(path: Path) -> Iterator[tuple[BinaryIO, os.stat_result]]:
    """A regular file, opened without following a link or waiting at a pipe."""
    flags = os.O_RDONLY
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"):
        flags |= getattr(os, name, 0)
    try:
        with open(path, "rb", opener=lambda name, _: os.open(name, flags)) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise Damaged(f"{path.name} is not a regular file")
            yield file, status
    except OSError as error:
        raise Damaged(f"{path.name} cannot be read: {error.strerror}") from error


@contextmanager
def open_recorded(folder: Path, record: FileRecord) -> Iterator[BinaryIO]:
    """A file that is as large as it should be; nothing of it has been read yet."""
    with open_file(folder / record.name) as (file, status):
        if status.st_size != record.size:
            raise Damaged(f"{record.name} has {status.st_size} bytes instead of {record.size}")
        on_disk = getattr(status, "st_blocks", record.size) * 512
        if record.size > HOLLOW_FROM_BYTES and on_disk * HOLLOW_RATIO < record.size:
            raise Damaged(f"{record.name} is hollow: {record.size} bytes that take {on_disk} on the disk")
        yield file


def read_recorded(folder: Path, record: FileRecord, limit: int | None = None) -> bytearray:
    """The whole file, if it is what was written."""
    if limit is not None and record.size > limit:
        raise Damaged(f"{record.name} has {record.size} bytes, which is too many")
    with open_recorded(folder, record) as file:
        data = bytearray(record.size)
        cast(Any, file).readinto(data)
    require_hash(record, hashlib.sha256(data).hexdigest())
    return data


def require_hash(record: FileRecord, sha256: str) -> None:
    if sha256 != record.sha256:
        raise Damaged(f"{record.name} was changed: its SHA-256 is not the manifest's")
