"""Run folders in an object store (``s3://…``, ``gs://…``, ``file://…``: whatever fsspec reaches by its address).

A node that has no shared file system works in a folder of its own and keeps a copy here: after each checkpoint, and at
the end. Another node that takes over begins with what is here. Nothing half-copied is ever taken for whole: rows come
before the checkpoint that counts them, a checkpoint's manifest after its files, and the summary after everything else.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from ebu.errors import UserError
from ebu.storage.files import MAX_JSON_FILE, inside, make_folders, regular_files, write_atomically
from ebu.storage.finished import SUMMARY, is_summary
from ebu.storage.lock import NAME as LOCK
from ebu.training.events import Event

CHUNK_BYTES = 1 << 20
LOOK_EVERY = 250  # steps between looks for a new checkpoint


@dataclass
class Store:
    """A folder of the store. What has been copied is remembered, so that the next copy takes only what has changed."""

    url: str
    _fs: Any = None
    _copied: dict[str, tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        import fsspec

        try:
            self._fs, self._root = fsspec.core.url_to_fs(self.url)
        except (ImportError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise UserError(f"the store {self.url} cannot be reached: {reason}") from error

    def has(self, name: str) -> bool:
        self._fs.invalidate_cache()
        return bool(self._fs.exists(f"{self._root}/{name}"))

    def is_finished(self) -> bool:
        """Whether a run with a whole summary is here."""
        if not self.has(SUMMARY):
            return False
        with self._fs.open(f"{self._root}/{SUMMARY}", "rb") as file:
            return is_summary(file.read(MAX_JSON_FILE))

    def put(self, path: Path) -> None:
        """One file of this machine."""
        self._fs.makedirs(self._root, exist_ok=True)
        self._fs.put_file(str(path), f"{self._root}/{path.name}")

    def pull(self, folder: Path) -> None:
        """Everything that is here into a folder of this machine; the summary last, since it says that all is there."""
        self._fs.invalidate_cache()
        names = self._names()
        for name in sorted(names, key=copy_order):
            target = inside(folder, name)
            make_folders(target.parent)
            with self._fs.open(f"{self._root}/{name}", "rb") as file:
                write_atomically(target, iter(lambda: file.read(CHUNK_BYTES), b""))

    def push(self, folder: Path) -> None:
        """What is new or has changed in a folder of this machine; then removes what was removed there."""
        here = {
            path.relative_to(folder).as_posix(): (path.stat().st_size, path.stat().st_mtime_ns)
            for path in regular_files(folder)
            if path.name != LOCK
        }
        for name in sorted((name for name, stamp in here.items() if self._copied.get(name) != stamp), key=copy_order):
            target = f"{self._root}/{name}"
            self._fs.makedirs(str(PurePosixPath(target).parent), exist_ok=True)
            self._fs.put_file(str(folder / name), target)
        self._fs.invalidate_cache()
        for name in self._names() - here.keys():
            self._fs.rm_file(f"{self._root}/{name}")
        self._copied = here

    def _names(self) -> set[str]:
        root = self._root.rstrip("/") + "/"
        return {str(path)[len(root) :] for path in self._fs.find(root)} if self._fs.exists(self._root) else set()


def address_of(store: str, name: str) -> str:
    """Where a store keeps a trial; nowhere without a store."""
    return f"{store.rstrip('/')}/trials/{name}" if store else ""


def copy_order(name: str) -> tuple[int, str]:
    """The order in which the files of a run folder are copied."""
    if name == SUMMARY:
        return 4, name
    if name.endswith("/manifest.json"):
        return 3, name
    return (2 if name.startswith("checkpoints/generation") else 1 if name.startswith("checkpoints/") else 0), name


class Mirror:
    """Watches a run and copies its folder whenever there is a new checkpoint, between two steps, while nothing moves."""

    def __init__(self, store: Store, folder: Path) -> None:
        self._store = store
        self._folder = folder
        self._seen = self._checkpoints()

    def __call__(self, event: Event) -> None:
        pass

    def advance(self, done: int) -> None:
        if done % LOOK_EVERY == 0 and (found := self._checkpoints()) != self._seen:
            with suppress(OSError):  # the store may be away for a while; the next checkpoint tries again
                self._store.push(self._folder)
                self._seen = found

    def close(self) -> None:
        """A run that is stopped ends with a checkpoint; one that failed keeps what was copied last."""
        if self._checkpoints() != self._seen:
            self._store.push(self._folder)

    def _checkpoints(self) -> list[str]:
        return sorted(path.name for path in (self._folder / "checkpoints").glob("generation-*"))
