"""A folder of checkpoints and a policy in one file, without compression: an archive in the ZIP format, nothing of it pickled.

The contents carry their own hashes, which whoever reads the checkpoint checks. Here, names and sizes are.
"""

from __future__ import annotations

import re
import shutil
import zipfile
from pathlib import Path

from ebu.errors import RunFailure, UserError
from ebu.storage import files
from ebu.storage.files import open_file, regular_files, words_for
from ebu.storage.manifest import FILES, MANIFEST
from ebu.storage.segments import SEGMENT_NAME

POLICY, CHECKPOINTS = "policy.ebu", "checkpoints"
FIRST_BYTES = b"PK\x03\x04"
MAX_ENTRIES = 100_000
OF_SB3 = "stable_baselines3 loads it; here an agent is trained anew (docs/from-stable-baselines3.md)"

_NAME = re.compile(
    rf"{POLICY}|{CHECKPOINTS}/(generation-[0-9]{{8}}/({'|'.join(map(re.escape, (*FILES, MANIFEST)))})|{SEGMENT_NAME.pattern})"
)


def is_bundle(path: Path) -> bool:
    """Whether a file begins as one of these; a policy alone begins otherwise."""
    try:
        with path.open("rb") as file:
            return file.read(len(FIRST_BYTES)) == FIRST_BYTES
    except (OSError, ValueError):  # no file, or a name that none can have
        return False


def pack(path: Path, folder: Path) -> None:
    """All files of a folder as one, whole or not at all."""
    aside = files.aside_of(path)
    try:
        with files.DISK.create(aside) as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
                for source in sorted(regular_files(folder)):
                    archive.writestr(zipfile.ZipInfo(source.relative_to(folder).as_posix()), source.read_bytes())
            files.DISK.sync(file)
        files.DISK.rename(aside, path)
        files.DISK.sync_folder(path.parent)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise RunFailure(f"{words_for(error)}: {path} could not be written") from error


def unpack(path: Path, folder: Path) -> None:
    """The files of a bundle, each in its place below the folder; whatever else an archive can hold is refused."""
    try:
        with open_file(path.resolve()) as (file, status), zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
            if not {"data", "policy.pth"}.isdisjoint(archive.namelist()):
                raise UserError(f"{path} is a model of Stable-Baselines3, not a policy of ebu; {OF_SB3}")
            if len(entries) > MAX_ENTRIES or sum(entry.file_size for entry in entries) > status.st_size:
                raise ValueError("its contents are larger than the file")
            for entry in entries:
                stored = entry.compress_type == zipfile.ZIP_STORED and not entry.flag_bits & 1
                if not stored or _NAME.fullmatch(entry.filename) is None:
                    raise ValueError(f"it holds {ascii(entry.filename)[:80]}, which is no part of an agent")
                target = folder / entry.filename
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(entry) as source, target.open("xb") as copy:
                    shutil.copyfileobj(source, copy)
    except (zipfile.BadZipFile, ValueError, OSError, EOFError, NotImplementedError, RuntimeError) as error:
        raise UserError(f"{path}: invalid agent file: {' '.join(str(error).split())}") from error
