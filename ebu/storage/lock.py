"""One writer per run folder: a lock that names its holder and is released however the process ends."""

from __future__ import annotations

import errno
import json
import os
import socket
import stat
import sys
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from ebu.errors import UserError

NAME = "lock"
HOLDER_BYTES = 1024

_held: set[int] = set()  # descriptors of this process's locks

if sys.platform == "win32":
    import msvcrt

    FAR = 1 << 20  # a locked byte cannot be read there, so it lies beyond the holder's name

    def _try_lock(file: int) -> None:
        os.lseek(file, FAR, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _try_lock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _forget() -> None:
        """A forked child must not hold its parent's lock beyond the parent's death."""
        for file in _held:
            os.close(file)
        _held.clear()

    os.register_at_fork(after_in_child=_forget)


class Held(UserError):
    """Another process writes to the folder."""


class RunLock:
    """``with RunLock(folder):`` – any other process that tries meanwhile gets a Held, which names the holder.

    The file stays when the lock is gone: removing it would let a third process lock a file that a fourth cannot see.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self._file: int | None = None

    def __enter__(self) -> RunLock:
        folder = self.path.parent
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        try:
            file = os.open(self.path, flags, 0o644)
        except OSError as error:
            raise UserError(f"cannot write to {folder}: {error.strerror}; choose another --run folder") from error
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise UserError(f"cannot write to {folder}: {NAME} in it is not a regular file; choose another --run folder")
        try:
            _try_lock(file)
        except OSError as error:
            holder_name = _holder(file)
            os.close(file)
            if error.errno in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
                raise Held(f"{folder} is being written by {holder_name}; stop it or wait until it ends") from error
            raise UserError(f"{folder} cannot be locked: {error.strerror}; choose another --run folder") from error
        with suppress(OSError):  # on a full disk the lock holds all the same, without a name
            _write_holder(file)
        self._file = file
        _held.add(file)
        return self

    def __exit__(self, *_: object) -> None:
        file, self._file = self._file, None
        if file in _held:  # not in a forked child, where it is closed already
            _held.discard(file)
            with suppress(OSError):
                os.ftruncate(file, 0)
            os.close(file)  # opens the lock


def _write_holder(file: int) -> None:
    holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": f"{datetime.now():%Y-%m-%d %H:%M:%S}"}
    os.lseek(file, 0, os.SEEK_SET)
    os.ftruncate(file, 0)
    os.write(file, json.dumps(holder).encode()[:HOLDER_BYTES])


def _holder(file: int) -> str:
    """Who the lock file names, fit for one line; the holder may be about to write its name."""
    try:
        os.lseek(file, 0, os.SEEK_SET)
        holder = json.loads(os.read(file, HOLDER_BYTES))
        return f"process {int(holder['pid'])} on {ascii(holder['host'])[1:-1]} since {ascii(holder['since'])[1:-1]}"
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return "another process"
