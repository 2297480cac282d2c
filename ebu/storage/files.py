"""File access of run folders: writing through calls that a test can make fail, reading that checks before it allocates."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

from ebu.errors import UserError

SPARSE_FROM_BYTES, SPARSE_RATIO = 64 << 20, 1000  # a file this much larger than its share of the disk is refused

# The largest file of each kind that is read; what a run writes stays far below.
MAX_JSON_FILE = 1 << 20  # config.json, versions.json, summary.json, failure.json, files.json
MAX_ROWS_FILE = 1 << 30  # metrics.jsonl, timing.jsonl
MAX_PICTURE = 50 << 20
MAX_POLICY = 4 << 30

ASIDE_HEX = 16
_ASIDE = re.compile(rf"\.(.+)\.[0-9a-f]{{{ASIDE_HEX}}}\.part", re.DOTALL)


class Damaged(UserError):
    """A file that is not what ebu wrote; the line says in which way."""


class Missing(Damaged):
    """There is no such file."""


@dataclass(frozen=True)
class FileRecord:
    """A file as a manifest lists it."""

    name: str
    size: int
    sha256: str


# ---------------------------------------------------------------------- writing


class Disk:
    """Every call that changes the disk. Tests put another one in its place."""

    def create(self, path: Path) -> BinaryIO:
        """A new file; an error if the name is taken, be it by a link."""
        return path.open("xb", buffering=1 << 20)

    def append(self, path: Path) -> BinaryIO:
        """A regular file to write to at its end, made if it is missing; a link is not followed, a pipe not waited for."""
        return open(path, "ab", opener=lambda name, _: _open_regular(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND))

    def truncate(self, path: Path, length: int) -> None:
        file = _open_regular(path, os.O_RDWR)
        try:
            os.ftruncate(file, length)
        finally:
            os.close(file)

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
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems do not sync folders
                raise
        finally:
            os.close(folder)

    def make_folder(self, path: Path) -> None:
        path.mkdir()

    def rename(self, old: Path, new: Path) -> None:
        old.replace(new)

    def link(self, old: Path, new: Path) -> None:
        """A second name for a file."""
        os.link(old, new, follow_symlinks=False)

    def unlink(self, path: Path) -> None:
        path.unlink()

    def remove_folder(self, path: Path) -> None:
        path.rmdir()


DISK = Disk()


def words_for(error: OSError) -> str:
    """Why the disk did not take something."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return "the disk is full" if full else f"the disk reported an error ({error.strerror or error})"


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


def write_atomically(path: Path, content: str | bytes | Iterable[bytes]) -> FileRecord:
    """The whole content under this name, or what was there before; on the disk when this returns.

    Written aside under a name of its own, so that several processes may write one path at once; the last one stays.
    """
    if isinstance(content, str):
        content = content.encode()
    aside = aside_of(path)
    try:
        record = write_file(aside, [content] if isinstance(content, bytes) else content)
        DISK.rename(aside, path)
    except BaseException:
        with suppress(OSError):
            DISK.unlink(aside)
        raise
    DISK.sync_folder(path.parent)
    return FileRecord(path.name, record.size, record.sha256)


def aside_of(path: Path) -> Path:
    """A temporary name in the same folder that no other process uses; ``is_aside`` recognises it."""
    return path.with_name(f".{path.name[:40]}.{secrets.token_hex(ASIDE_HEX // 2)}.part")


def is_aside(name: str) -> bool:
    """Whether this is the name of something half written or half removed."""
    return _ASIDE.fullmatch(name) is not None


def make_folders(path: Path) -> None:
    """The folder and those above it, as far as they are missing, with their names on the disk."""
    if path.is_dir():
        return
    make_folders(path.parent)
    with suppress(FileExistsError):  # another process may create it at the same time
        DISK.make_folder(path)
    if not path.is_dir():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    DISK.sync_folder(path.parent)


def open_append(path: Path) -> BinaryIO:
    """A file of a run folder to write to at its end; its name is on the disk when this returns."""
    file = DISK.append(path)
    if os.fstat(file.fileno()).st_size == 0:
        DISK.sync_folder(path.parent)
    return file


def sync_file(path: Path) -> None:
    """What has been written to the file is on the disk."""
    with DISK.append(path) as file:
        DISK.sync(file)


def remove(path: Path) -> None:
    """A file, or a folder with all that is in it; of a link, the link."""
    if not _is_folder(path):
        DISK.unlink(path)
        return
    folders = [path]
    for folder in folders:  # grows while it is walked
        for child in folder.iterdir():
            if _is_folder(child):
                folders.append(child)
            else:
                DISK.unlink(child)
    for folder in reversed(folders):
        DISK.remove_folder(folder)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


# ---------------------------------------------------------------------- reading


@contextmanager
def open_file(path: Path, limit: int | None = None) -> Iterator[tuple[BinaryIO, os.stat_result]]:
    """A regular file of at most ``limit`` bytes, opened without following a link or waiting at a pipe."""
    try:
        file = open(path, "rb", opener=lambda name, _: _open_regular(name, os.O_RDONLY))  # noqa: SIM115 - closed below
    except (FileNotFoundError, NotADirectoryError) as error:
        raise Missing(f"{path.name} cannot be read: {error.strerror}") from error
    except ValueError as error:  # a name that no file can have
        raise Missing(f"{path.name} cannot be read: {error}") from error
    except OSError as error:
        raise Damaged(f"{path.name} cannot be read: {error.strerror}") from error
    with file:
        status = os.fstat(file.fileno())
        if limit is not None and status.st_size > limit:
            raise Damaged(f"{path.name} has {status.st_size} bytes; at most {limit} are read")
        try:
            yield file, status
        except OSError as error:
            raise Damaged(f"{path.name} cannot be read: {error.strerror}") from error


def read_file(path: Path, limit: int | None) -> bytes:
    """The whole of a regular file of at most ``limit`` bytes."""
    with open_file(path, limit) as (file, status):
        require_not_sparse(path.name, status)
        return file.read(status.st_size)


def read_text(path: Path, limit: int) -> str:
    """The text of such a file."""
    try:
        return read_file(path, limit).decode()
    except UnicodeDecodeError as error:
        raise Damaged(f"{path.name} is not a text file: {error.reason} at byte {error.start}") from error


def require_not_sparse(name: str, status: os.stat_result) -> None:
    """Refuse a file that declares far more bytes than it has on the disk: reading it could take all memory."""
    on_disk = getattr(status, "st_blocks", status.st_size) * 512
    if status.st_size > SPARSE_FROM_BYTES and on_disk * SPARSE_RATIO < status.st_size:
        raise Damaged(f"{name} is a sparse file: {status.st_size} bytes declared, {on_disk} on the disk")


@contextmanager
def open_recorded(folder: Path, record: FileRecord) -> Iterator[BinaryIO]:
    """A file that is as large as it should be; nothing of it has been read yet."""
    with open_file(folder / record.name) as (file, status):
        if status.st_size != record.size:
            raise Damaged(f"{record.name} has {status.st_size} bytes instead of {record.size}")
        require_not_sparse(record.name, status)
        yield file


def read_recorded(folder: Path, record: FileRecord, limit: int | None = None) -> bytearray:
    """The whole file, if it is what was written."""
    if limit is not None and record.size > limit:
        raise Damaged(f"{record.name} has {record.size} bytes; at most {limit} are read")
    with open_recorded(folder, record) as file:
        data = bytearray(record.size)
        cast(Any, file).readinto(data)
    require_hash(record, hashlib.sha256(data).hexdigest())
    return data


def require_hash(record: FileRecord, sha256: str) -> None:
    if sha256 != record.sha256:
        raise Damaged(f"{record.name} was changed: its SHA-256 is not the manifest's")


def hash_file(path: Path) -> FileRecord:
    """Size and SHA-256 of a file as it is."""
    with open_file(path) as (file, status):
        require_not_sparse(path.name, status)
        return FileRecord(path.name, status.st_size, hashlib.file_digest(file, "sha256").hexdigest())  # type: ignore[arg-type]


def digest_of(path: Path, size: int | None = None) -> tuple[int, Any]:
    """How many bytes a file has, up to ``size`` of them, and their SHA-256, which can be continued; a missing one has none."""
    digest, read = hashlib.sha256(), 0
    with suppress(Missing), open_file(path) as (file, status):
        require_not_sparse(path.name, status)
        left = status.st_size if size is None else min(size, status.st_size)
        while part := file.read(min(left - read, 1 << 20)):
            digest.update(part)
            read += len(part)
    return read, digest


def regular_files(folder: Path) -> Iterator[Path]:
    """Every regular file below a folder, in order; no links, and nothing that is half written or half removed."""
    folders = [folder] if folder.is_dir() else []
    for folder in folders:  # grows while it is walked
        for path in sorted(folder.iterdir()):
            if path.is_symlink() or path.name.endswith(".part"):
                continue
            if path.is_dir():
                folders.append(path)
            elif path.is_file():
                yield path


def inside(folder: Path, name: str) -> Path:
    """Where a file of this relative name belongs; a name that leads out of the folder, or through a link, is refused."""
    parts = PurePosixPath(name).parts
    impossible = not parts or name.startswith("/") or ".." in parts or "\0" in name
    if impossible or (os.name == "nt" and any(letter in name for letter in ":\\")):
        raise Damaged(f"{name!a} is not the name of a file inside {folder}")
    path = folder
    for part in parts[:-1]:
        path = path / part
        if path.is_symlink():
            raise Damaged(f"{path} is a link, which is not followed")
    return path / parts[-1]


def _open_regular(name: Any, flags: int) -> int:
    """A descriptor of a regular file: no link is followed, no pipe waited for, no device opened."""
    for option in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY", "O_CLOEXEC"):
        flags |= getattr(os, option, 0)
    try:
        file = os.open(name, flags, 0o666)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            raise Damaged(f"{os.path.basename(name)} is a link, which is not followed") from error
        if error.errno == errno.ENXIO:  # a pipe without a reader, a socket
            raise Damaged(f"{os.path.basename(name)} is not a regular file") from error
        raise
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise Damaged(f"{os.path.basename(name)} is not a regular file")
    return file
