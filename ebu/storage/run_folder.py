"""The run folder: what a run writes, and what eval, play and report read."""

from __future__ import annotations

import json
import os
import platform
import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from ebu.config import Config, from_json, to_json
from ebu.errors import RunFailure, UserError
from ebu.storage.files import words_for
from ebu.storage.lock import RunLock
from ebu.training.events import Event
from ebu.training.listeners import MetricsFile, TensorBoard, TimingFile

# What the numbers of a run may depend on; of these, whatever is installed is recorded.
SOFTWARE = ("torch", "numpy", "scipy", "gymnasium", "zstandard", "safetensors", "ale-py", "minatar", "minigrid")

MAX_CONFIG_BYTES = 1 << 20  # what is longer is cut, and then refused


class RunFolder:
    """``config.json``, ``versions.json``, ``metrics.jsonl``, ``timing.jsonl``, TensorBoard events, ``checkpoints/``,
    ``policy.ebu``, ``summary.json``; ``failure.json`` while the last thing that happened is that the run failed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.policy = path / "policy.ebu"
        self.metrics = path / "metrics.jsonl"
        self.summary = path / "summary.json"
        self.versions = path / "versions.json"
        self.failure = path / "failure.json"
        self.curve = path / "curve.png"

    @classmethod
    def create(cls, path: Path, config: Config) -> RunFolder:
        """A new folder; one that already holds a run is never written into."""
        try:
            _require_no_run(path)
            path.mkdir(parents=True, exist_ok=True)
            with RunLock(path):
                _require_no_run(path)  # of two that want the folder at once, one comes second
                _write(path / "versions.json", _render(software_versions()))
                _write(path / "config.json", to_json(config))  # last: with it, the folder holds a run
        except (OSError, ValueError) as error:  # a name may be impossible, too
            reason = getattr(error, "strerror", None) or error
            raise UserError(f"cannot write to {path}: {reason}; choose another --run folder") from error
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """An existing run."""
        if not os.path.isfile(path / "config.json"):  # which takes names that no file can have, too
            raise UserError(f"{path} is not a run folder (no config.json in it); `ebu train --run {path}` makes one")
        return cls(path)

    def config(self) -> Config:
        try:
            with (self.path / "config.json").open("rb") as file:
                return from_json(file.read(MAX_CONFIG_BYTES).decode())
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise UserError(f"{self.path / 'config.json'} cannot be read: {error}") from error

    def rows(self) -> list[dict[str, Any]]:
        """All rows of metrics.jsonl."""
        try:
            rows = [json.loads(line) for line in self.metrics.read_text(encoding="utf-8").splitlines()]
        except (OSError, ValueError, RecursionError) as error:
            raise UserError(f"{self.metrics} cannot be read: {error}") from error
        if not all(map(_is_row, rows)):
            raise UserError(f"{self.metrics} holds lines that are no rows of metrics; `ebu verify {self.path}` lists them")
        return rows

    def write_summary(self, values: dict[str, Any]) -> None:
        _write(self.summary, _render(values))

    def drop_checkpoints(self) -> None:
        """A finished run needs none: its summary, rows and policy stay."""
        shutil.rmtree(self.path / "checkpoints", ignore_errors=True)

    def changed_software(self) -> list[str]:
        """What has another version now than when the run began, as far as that was recorded."""
        try:
            then = json.loads(self.versions.read_text(encoding="utf-8"))
            return [f"{k} {then[k]} → {v}" for k, v in software_versions().items() if then.get(k, v) != v]
        except (OSError, ValueError, AttributeError, RecursionError):
            return []

    @contextmanager
    def failures_told(self) -> Iterator[None]:
        """Whatever ends the work inside is left in ``failure.json`` for the report; a new try takes it away."""
        with suppress(OSError):
            self.failure.unlink(missing_ok=True)
        try:
            yield
        except OSError as error:
            told = RunFailure(f"{words_for(error)}: {self.path} cannot be written; `ebu resume {self.path}` goes on later")
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
            _write(self.failure, _render({"error": text}))


def _is_row(row: Any) -> bool:
    """Whether a line holds what every row has, and a row of evaluation its score."""
    if not isinstance(row, dict) or not isinstance(row.get("step"), int) or not isinstance(row.get("kind"), str):
        return False
    return row["kind"] != "eval" or isinstance(row.get("mean_reward"), int | float)


def _require_no_run(path: Path) -> None:
    if (path / "config.json").exists():
        raise UserError(f"{path} already holds a run; go on with it by `ebu resume {path}`, or choose another --run")


def software_versions() -> dict[str, str]:
    """What is running, by name: Python, this package, and whatever else the numbers may depend on."""
    from ebu.version import __version__

    versions = {"python": platform.python_version(), "ebu": __version__}
    for name in SOFTWARE:
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


def _render(values: dict[str, Any]) -> str:
    return json.dumps(values, indent=2) + "\n"


def _write(path: Path, text: str) -> None:
    """The whole text, or nothing: half a file would be taken for damage."""
    aside = path.with_name(f"{path.name}.part")
    try:
        aside.write_text(text, encoding="utf-8")
        aside.replace(path)
    except OSError:
        aside.unlink(missing_ok=True)
        raise


class Recorder:
    """Writes every event to the run folder while a run lasts."""

    def __init__(self, folder: RunFolder, tensorboard: bool = True, start_step: int = 0) -> None:
        self._stack = ExitStack()
        self._metrics = MetricsFile(folder.metrics)
        self._listeners: list[MetricsFile | TimingFile | TensorBoard] = [
            self._metrics,
            TimingFile(folder.path / "timing.jsonl", start_step),
        ]
        if tensorboard:
            self._listeners.append(TensorBoard(folder.path, start_step))
        for listener in self._listeners:
            self._stack.callback(listener.close)

    def __call__(self, event: Event) -> None:
        for listener in self._listeners:
            listener(event)

    def sync_metrics(self) -> int:
        """Bring the metrics to the disk; returns their length in bytes."""
        return self._metrics.sync()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def evaluations(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["kind"] == "eval"]
