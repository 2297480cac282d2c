"""The run folder: what a run writes, and what eval, play and report read."""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from ebu.config import Config, from_json, override, to_json
from ebu.config_check import check
from ebu.errors import RunFailure, UserError
from ebu.storage import files
from ebu.storage.files import (
    MAX_JSON_FILE,
    MAX_ROWS_FILE,
    Damaged,
    Missing,
    is_aside,
    make_folders,
    open_file,
    read_file,
    read_text,
    words_for,
    write_atomically,
)
from ebu.storage.finished import EVENTS, FILES, drop_checkpoints, is_finished, write_finished
from ebu.storage.lock import RunLock

# What the numbers of every run depend on; the caller names what its environment needs in addition.
SOFTWARE = ("torch", "numpy", "scipy", "gymnasium", "zstandard", "safetensors")

SHARED_POLICY = "policy.safetensors"  # the name of policy.ebu in a folder of `ebu share`

_PACKAGE = re.compile(r"[A-Za-z0-9._-]{1,80}")
_VERSION = re.compile(r"[A-Za-z0-9.+!_-]{1,80}")


OLD_ASIDES = {f"{name}.part" for name in (*FILES, "summary.json", "failure.json")}  # as older versions named them


class LostSettings(UserError):
    """The settings are missing or damaged."""


def _instead_of(path: Path) -> str:
    """What to name in the place of a folder that is no run: one of the runs in it, or the command that makes one."""
    with suppress(OSError, ValueError):  # both for names that no file can have
        runs = sorted(entry.parent for entry in path.glob("*/config.json"))
        if runs:
            return f"name a run in it, such as {runs[0]}"
    return f"`ebu train --run {path}` makes one"


class RunFolder:
    """``config.json``, ``versions.json``, ``metrics.jsonl``, ``timing.jsonl``, TensorBoard events, ``checkpoints/``,
    ``policy.ebu``, ``best.ebu``, ``files.json`` and ``summary.json``; ``failure.json`` while the last thing that happened is
    that the run failed. The folder itself may be reached through a link; nothing inside it may be one.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.settings = path / "config.json"
        self.policy = path / "policy.ebu"
        self.best = path / "best.ebu"
        self.metrics = path / "metrics.jsonl"
        self.timing = path / "timing.jsonl"
        self.summary = path / "summary.json"
        self.versions = path / "versions.json"
        self.failure = path / "failure.json"
        self.curve = path / "curve.png"
        self.maze = path / "maze.png"
        self.checkpoints = path / "checkpoints"

    @classmethod
    def create(cls, path: Path, config: Config, packages: Iterable[str] = ()) -> RunFolder:
        """A new folder; one that already holds a run is never written into. ``packages`` are recorded with their versions."""
        try:
            _require_no_run(path)
            make_folders(path)
            with RunLock(path):
                _require_no_run(path)  # two processes may create it at once
                write_atomically(path / "versions.json", _render(software_versions(packages)))
                write_atomically(path / "config.json", to_json(config))  # last: with it, the folder holds a run
        except (OSError, ValueError) as error:  # a name may be impossible, too
            reason = getattr(error, "strerror", None) or error
            raise UserError(f"cannot write to {path}: {reason}; choose another --run folder") from error
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """An existing run; one that has lost its settings still has its checkpoints."""
        is_run = os.path.lexists(path / "config.json") or os.path.isdir(path / "checkpoints")
        if not is_run:  # both accept names that no file can have
            raise UserError(f"{path} is not a run folder (no config.json in it); {_instead_of(path)}")
        return cls(path)

    @classmethod
    def open_run(cls, path: Path) -> RunFolder:
        """As ``open``; a folder of `ebu share`, which has settings and a policy and nothing to continue, is refused."""
        folder = cls.open(path)
        if is_shared(path):
            train = f"`ebu train --preset {path / 'preset.toml'}` trains it anew"
            raise UserError(f"{path} is a folder of `ebu share`, which holds a policy and no run; {train}")
        return folder

    # ------------------------------------------------------------------ settings

    def config(self) -> Config:
        """The settings, from the newest good checkpoint where config.json is missing or damaged."""
        try:
            return self.read_config()
        except LostSettings as lost:
            text, _ = self._settings_of_checkpoint(lost)
            return from_json(text)

    def restore_config(self, announce: Callable[[str], None], known: Config | None = None) -> Config:
        """The settings; a config.json that is missing or damaged is written again, which is announced in a line.

        From the newest good checkpoint, or, where there is none yet, as they are ``known`` to be. The caller holds the
        folder's lock.
        """
        try:
            return self.read_config()
        except LostSettings as lost:
            from ebu.storage.checkpoints import CheckpointStore  # imports PyTorch, which most readers of a folder do not need

            if known is not None and not CheckpointStore(self.checkpoints).exists():
                text, source = to_json(known), "with the settings of this command"
            else:
                text, step = self._settings_of_checkpoint(lost)
                source = f"from the checkpoint of step {step:,}"
            write_atomically(self.settings, text)
            announce(f"{lost}; written again {source}")
            return from_json(text)

    def read_config(self) -> Config:
        """The settings in config.json and nowhere else."""
        try:
            return from_json(read_text(self.settings, MAX_JSON_FILE))
        except Missing as error:
            raise LostSettings(f"{self.settings} is missing") from error
        except Damaged as error:  # not what a power cut leaves of it, or not a text
            if isinstance(error.__cause__, UnicodeDecodeError):
                raise LostSettings(f"{self.settings} is damaged ({error})") from error
            raise UserError(f"{self.settings} cannot be read: {error}") from error
        except (UserError, ValueError, TypeError, RecursionError) as error:
            raise LostSettings(f"{self.settings} is damaged ({error})") from error

    def _settings_of_checkpoint(self, lost: UserError) -> tuple[str, int]:
        """The settings in the newest good checkpoint as they were written, and its step."""
        from ebu.storage.checkpoints import CheckpointStore

        try:
            loaded = CheckpointStore(self.checkpoints).load_weights(lambda text: None)  # settings need no episodes
            if loaded is not None:
                from_json(loaded.tree["config"])
                return loaded.tree["config"], loaded.step
        except (UserError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise UserError(f"{lost}, and no checkpoint has its settings: {error}") from error
        raise UserError(f"{lost}, and there is no checkpoint to take its settings from") from lost

    def has_policy(self) -> bool:
        """Whether there is a policy; one that is not a regular file is refused."""
        return _is_there(self.policy)

    def policy_file(self, best: bool) -> Path:
        """The last policy, or the one of the best evaluation; one line where there is none."""
        path = self.best if best else self.policy
        shared = self.path / SHARED_POLICY
        if best and is_shared(self.path):
            raise UserError(f"{self.path} is a folder of `ebu share`, which holds one policy; leave out best (--best)")
        if not best and not os.path.lexists(path) and _is_there(shared):  # a folder of `ebu share`
            return shared
        if not _is_there(path):
            unfinished = f"the run has not finished; if it was cut off, `ebu resume {self.path}` continues it"
            why = "it has had no evaluation" if best and self.has_policy() else unfinished
            raise UserError(f"{self.path} has no {'best ' if best else ''}policy yet (no {path.name}): {why}")
        return path

    def extended_config(self, steps: int) -> Config:
        """The settings of a finished run with a longer plan; refused where the run cannot be extended to it."""
        config = self.config()
        if not self.is_finished:
            if steps == config.steps:  # asked for again after an interruption
                return config
            raise UserError(f"{self.path} has not finished its {config.steps:,} steps; `ebu resume {self.path}` continues it")
        if not self.checkpoints.exists():
            raise UserError(f"{self.path} is a finished trial without checkpoints; it cannot be extended")
        if steps <= config.steps:
            raise UserError(f"{self.path} has trained for {config.steps:,} steps; steps must be more than that, got {steps:,}")
        extended = override(config, steps=steps)
        check(extended)
        return extended

    def extend(self, extended: Config) -> None:
        """Make the longer plan that of the run, which is then one to be resumed. The caller holds the folder's lock."""
        if extended == self.config():
            return
        files.DISK.unlink(self.summary)  # first: a run without a summary is one to be resumed, whatever its plan
        files.DISK.sync_folder(self.path)
        write_atomically(self.settings, to_json(extended))

    # ------------------------------------------------------------------ rows, and the end

    def rows(self) -> list[dict[str, Any]]:
        """All rows of metrics.jsonl."""
        try:
            with open_file(self.metrics, MAX_ROWS_FILE) as (file, status):
                files.require_not_sparse(self.metrics.name, status)
                rows = [json.loads(line) for line in file]
        except (Damaged, OSError, ValueError, RecursionError) as error:
            raise UserError(f"{self.metrics} cannot be read: {error}") from error
        if not all(map(_is_row, rows)):
            raise UserError(f"{self.metrics} has lines that are not rows of metrics; `ebu verify {self.path}` lists them")
        return rows

    def metrics_bytes(self) -> int:
        """The length of metrics.jsonl; 0 where there is none."""
        try:
            with open_file(self.metrics) as (_, status):
                return status.st_size
        except Missing:
            return 0

    def whole_rows(self, limit: int) -> int:
        """The bytes of the lines of metrics.jsonl that are complete within this limit."""
        with suppress(Missing):
            return read_file(self.metrics, MAX_ROWS_FILE)[:limit].rfind(b"\n") + 1
        return 0

    @property
    def is_finished(self) -> bool:
        return is_finished(self.path)

    @property
    def has_curves(self) -> bool:
        """Whether TensorBoard events were written, as they are from a run's first moment on."""
        return any(self.path.glob(f"{EVENTS}*"))

    def write_summary(self, values: dict[str, Any]) -> None:
        """The last file of a run: it says that everything else is there, and on the disk."""
        write_finished(self.path, _render(values))

    def drop_checkpoints(self) -> None:
        """A finished run needs none; those of any other run stay."""
        drop_checkpoints(self.path)

    def clean(self) -> None:
        """Remove what was half written or half removed. The caller holds the folder's lock."""
        with suppress(OSError):
            for path in sorted(self.path.iterdir()):
                if is_aside(path.name) or path.name in OLD_ASIDES:
                    with suppress(OSError):
                        files.remove(path)

    def recorded_versions(self) -> str:
        """What versions.json holds, as it is written; nothing where it cannot be read."""
        try:
            return read_text(self.versions, MAX_JSON_FILE)
        except Damaged:
            return ""

    def changed_software(self) -> list[str]:
        """What has another version now than when the run began, as far as that was recorded."""
        try:
            then = json.loads(read_text(self.versions, MAX_JSON_FILE))
            recorded = [(name, v) for name, v in then.items() if _PACKAGE.fullmatch(name) and _VERSION.fullmatch(v)]
        except (Damaged, ValueError, TypeError, AttributeError, RecursionError):
            return []
        now = software_versions(name for name, _ in recorded)
        return [f"{name} {v} → {now[name]}" for name, v in recorded if now.get(name, v) != v]

    @contextmanager
    def failures_recorded(self) -> Iterator[None]:
        """Whatever ends the work inside is left in ``failure.json`` for the report; a new try takes it away.

        The caller holds the folder's lock.
        """
        self.clean()
        with suppress(OSError):
            self.failure.unlink(missing_ok=True)
        try:
            yield
        except OSError as error:
            later = f"continue later with `ebu resume {self.path}`" if self.path.is_dir() else "the folder is gone"
            told = RunFailure(f"{words_for(error)}: {self.path} cannot be written; {later}")
            self._write_failure(told)
            raise told from error
        except Exception as error:
            self._write_failure(error)
            raise

    def _write_failure(self, error: Exception) -> None:
        text = " ".join(str(error).split())
        if not isinstance(error, UserError | RunFailure):
            text = f"{type(error).__name__}: {text}"
        with suppress(OSError):  # the disk itself may be what failed
            write_atomically(self.failure, _render({"error": text}))


def _is_there(path: Path) -> bool:
    try:
        with open_file(path):
            return True
    except Missing:
        return False


def _is_row(row: Any) -> bool:
    """Whether a line holds what every row has, and a row of evaluation its score."""
    if not isinstance(row, dict) or not isinstance(row.get("step"), int) or not isinstance(row.get("kind"), str):
        return False
    return row["kind"] != "eval" or isinstance(row.get("mean_reward"), int | float)


def is_shared(path: Path) -> bool:
    """Whether a folder is one of `ebu share`: no run has been in it."""
    return os.path.lexists(path / SHARED_POLICY) and not os.path.lexists(path / "versions.json")


def _require_no_run(path: Path) -> None:
    if is_shared(path):
        raise UserError(f"{path} already holds a shared policy; choose another folder")
    if os.path.lexists(path / "config.json"):
        raise UserError(f"{path} already holds a run; continue it with `ebu resume {path}`, or choose another folder")


def software_versions(packages: Iterable[str] = ()) -> dict[str, str]:
    """What is running, by name: Python, this package, whatever else every run depends on, and these packages."""
    from ebu.version import __version__

    versions = {"python": platform.python_version(), "ebu": __version__}
    for name in (*SOFTWARE, *packages):
        with suppress(metadata.PackageNotFoundError):
            versions.setdefault(name, metadata.version(name))
    return versions


def _render(values: dict[str, Any]) -> str:
    return json.dumps(values, indent=2) + "\n"


def evaluations(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["kind"] == "eval"]
