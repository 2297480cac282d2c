"""Trials that exist already: beside this item, or under the name that an earlier version gave them.

A trial is its settings. Its folder is named after them, but how names are made may change between versions; what is in
``config.json`` does not, and settings that are new since have their defaults.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from ebu.config import Config, flat, from_json
from ebu.env_arguments import environment_arguments
from ebu.errors import UserError
from ebu.experiments.sweeps.pruning import was_pruned
from ebu.experiments.sweeps.trials import Trial
from ebu.storage import files
from ebu.storage.files import MAX_JSON_FILE, Damaged, read_text
from ebu.storage.finished import is_finished
from ebu.storage.lock import NAME as LOCK
from ebu.storage.lock import Held, RunLock

BESIDES = ("checkpoint_every", "checkpoint_minutes")  # they change neither what is learned nor what is recorded


def finished_folders(trials: Sequence[Trial], out: Path) -> dict[str, Path]:
    """Trial id → where it is finished, in the trials of this folder or of those beside it, under whatever name."""
    out = out.resolve()
    known = _by_settings(path for path in _folders_around(out) if is_finished(path) and not was_pruned(path))
    found = {}
    for one in trials:
        path = out / "trials" / one.id
        place = path if is_finished(path) else known.get(identity(one.config()))
        if place is not None:
            found[one.id] = place
    return found


def adopt_finished(trials: Sequence[Trial], out: Path) -> None:
    """Take over what an item beside this one has finished: Table 2, Table 3 and Figure 4 are about the same runs.

    The files of a finished trial never change, so both folders hold the same ones and no space is used. A trial of this
    folder under an earlier version's name is given its name, whether it is finished or not, unless a process holds it.
    """
    _rename_own(trials, out)
    places = finished_folders(trials, out)
    for name, place in places.items():
        path = out / "trials" / name
        if not path.exists():
            _adopt(place, path)


def identity(config: Config) -> str:
    """A text that is equal for equal settings; the order of the environment's arguments does not count."""
    settings = {name: value for name, value in flat(config).items() if name not in BESIDES}
    settings["env_args"] = environment_arguments(config.environment.env_args)
    return json.dumps(settings, sort_keys=True)


def _folders_around(out: Path) -> list[Path]:
    """All trials that there are, those of this folder first."""
    own = (out / "trials").glob("*/config.json")
    beside = out.parent.glob("*/trials/*/config.json")
    return list(dict.fromkeys(path.parent for path in [*sorted(own), *sorted(beside)]))


def _by_settings(folders: Iterable[Path]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for folder in folders:
        with suppress(Damaged, UserError, ValueError, RecursionError):  # settings of another version, or no settings
            found.setdefault(identity(from_json(read_text(folder / "config.json", MAX_JSON_FILE))), folder)
    return found


def _rename_own(trials: Sequence[Trial], out: Path) -> None:
    names = {one.id for one in trials}
    others = [path.parent for path in sorted((out / "trials").glob("*/config.json")) if path.parent.name not in names]
    if not others:
        return
    known = _by_settings(others)
    for one in trials:
        path, found = out / "trials" / one.id, known.get(identity(one.config()))
        if found is not None and not path.exists():
            with suppress(Held), RunLock(found):
                files.DISK.rename(found, path)


def _adopt(found: Path, path: Path) -> None:
    """The files of a finished run under a second name, all of them or none."""
    aside = files.aside_of(path)
    files.make_folders(path.parent)
    try:
        files.DISK.make_folder(aside)
        for file in files.regular_files(found):
            if file.parent == found and file.name != LOCK:
                _link(file, aside / file.name)
        files.DISK.sync_folder(aside)
        files.DISK.rename(aside, path)
    except BaseException:
        with suppress(OSError):
            files.remove(aside)
        raise
    files.DISK.sync_folder(path.parent)


def _link(source: Path, target: Path) -> None:
    try:
        files.DISK.link(source, target)
    except OSError:  # on another disk
        with files.open_file(source) as (file, _):
            files.write_atomically(target, iter(lambda: file.read(1 << 20), b""))
