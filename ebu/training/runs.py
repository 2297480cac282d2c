"""The run folder: what a run writes, and what eval, play and report read."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ebu.config import Config, from_json, to_json
from ebu.errors import UserError
from ebu.training.events import Event
from ebu.training.metrics import MetricsFile, TensorBoard, TimingFile


class RunFolder:
    """``config.json``, ``metrics.jsonl``, ``timing.jsonl``, TensorBoard events, ``policy.ebu``, ``summary.json``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.policy = path / "policy.ebu"
        self.metrics = path / "metrics.jsonl"
        self.summary = path / "summary.json"
        self.curve = path / "curve.png"

    @classmethod
    def create(cls, path: Path, config: Config) -> RunFolder:
        """A new folder; one that already holds a run is never written into."""
        if (path / "config.json").exists():
            raise UserError(f"{path} already holds a run; go on with it by `ebu resume {path}`, or choose another --run")
        try:
            path.mkdir(parents=True, exist_ok=True)
            (path / "config.json").write_text(to_json(config), encoding="utf-8")
        except OSError as error:
            raise UserError(f"cannot write to {path}: {error.strerror}; choose another --run folder") from error
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """An existing run."""
        if not (path / "config.json").is_file():
            raise UserError(f"{path} is not a run folder (no config.json in it); `ebu train --run {path}` makes one")
        return cls(path)

    def config(self) -> Config:
        try:
            return from_json((self.path / "config.json").read_text(encoding="utf-8"))
        except (OSError, ValueError, TypeError) as error:
            raise UserError(f"{self.path / 'config.json'} cannot be read: {error}") from error

    def rows(self) -> list[dict[str, Any]]:
        """All rows of metrics.jsonl."""
        try:
            return [json.loads(line) for line in self.metrics.read_text(encoding="utf-8").splitlines()]
        except (OSError, ValueError) as error:
            raise UserError(f"{self.metrics} cannot be read: {error}") from error

    def write_summary(self, values: dict[str, Any]) -> None:
        self.summary.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")


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
