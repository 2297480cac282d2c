"""Run folders as plain data: finished, in progress or aborted, they are read the same way.

A run that is being written to has no summary yet, and the last line of its metrics may be half a line. Both are read as
far as they go. Nothing here imports PyTorch.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ebu.config import Config, flat
from ebu.errors import UserError
from ebu.storage.files import MAX_JSON_FILE, MAX_PICTURE, MAX_ROWS_FILE, Damaged, Missing, open_file, read_file, read_text
from ebu.storage.run_folder import is_shared

Row = dict[str, Any]
State = Literal["finished", "unfinished", "failed"]


@dataclass(frozen=True)
class Run:
    """One run folder, as far as it has been written."""

    path: Path
    settings: Row  # config.json, by flat names
    training: tuple[Row, ...]  # rows of each kind, by growing step
    evaluations: tuple[Row, ...]
    syncs: tuple[Row, ...]
    summary: Row
    state: State
    error: str  # why it failed, where that was recorded
    unreadable: int  # lines of metrics.jsonl that are not rows, a torn last one aside
    seconds: float | None  # of training, by the clock
    written: float | None  # when the newest row was written (seconds since 1970)
    versions: Row  # of the software it ran with, where that was recorded
    picture: Path | None  # the learned maze

    @property
    def algo(self) -> str:
        return str(self.settings.get("algo", "unknown"))

    @property
    def env(self) -> str:
        return str(self.settings.get("env", "unknown"))

    @property
    def env_args(self) -> tuple[str, ...]:
        return tuple(map(str, self.settings.get("env_args") or ()))

    @property
    def seed(self) -> int:
        return int(self.settings.get("seed", 0))

    @property
    def planned_steps(self) -> int:
        return int(self.settings.get("steps", 0))

    @property
    def step(self) -> int:
        """The last step there is a row of."""
        latest = [*self.training[-1:], *self.evaluations[-1:], *self.syncs[-1:]]
        return max((int(row["step"]) for row in latest), default=0)

    def points(self, kind: Literal["eval", "train"], name: str) -> list[tuple[float, float]]:
        """(step, value) of one column, where it holds a finite number (or a list of them, whose mean is taken)."""
        rows = self.evaluations if kind == "eval" else self.training
        pairs = ((float(row["step"]), _number(row.get(name))) for row in rows)
        return [(step, value) for step, value in pairs if value is not None]


def find_runs(paths: Iterable[Path]) -> list[Path]:
    """The run folders among ``paths`` and, for a folder that is none itself, everywhere below it."""
    found: dict[Path, None] = {}
    for path in paths:
        if os.path.isfile(path / "config.json"):  # accepts names that no file can have
            below = [path]
        elif not os.path.isdir(path):
            below = []
        else:
            below = sorted(config.parent for config in path.rglob("config.json") if not _is_half(config, path))
        below = [folder for folder in below if not is_shared(folder)]
        if not below:
            what = (
                "has no run in it" if os.path.isdir(path) else "is not a folder" if os.path.exists(path) else "does not exist"
            )
            raise UserError(f"{path} {what}; name run folders as `ebu train --run DIR` writes them, or a folder of such")
        found.update(dict.fromkeys(below))
    return list(found)


def _is_half(config: Path, above: Path) -> bool:
    """Whether it lies in a folder that is half written or half removed."""
    return any(part.endswith(".part") for part in config.relative_to(above).parts)


def read_run(path: Path) -> Run:
    """Everything a report needs of one run folder. A link, a pipe or a device in the place of one of its files is refused."""
    try:
        return _read_run(path)
    except Damaged as error:
        raise UserError(f"{path} cannot be read: {error}") from error


def _completed(settings: Row) -> Row:
    """The settings with those that an earlier version did not have yet: resumed, its run takes their defaults, too."""
    if "algo" not in settings or "env" not in settings:  # of no version
        return settings
    return settings | {name: value for name, value in flat(Config()).items() if name not in settings}


def _read_run(path: Path) -> Run:
    try:
        settings = json.loads(read_text(path / "config.json", MAX_JSON_FILE))
    except (Damaged, ValueError, RecursionError) as error:
        raise UserError(f"{path / 'config.json'} cannot be read: {error}") from error
    if not isinstance(settings, dict):
        raise UserError(f"{path / 'config.json'} does not hold settings")
    metrics = path / "metrics.jsonl"
    rows, unreadable = read_rows(metrics)
    summary = _object(path / "summary.json")
    failure = _object(path / "failure.json") or {}
    reason = str((summary or {}).get("error") or failure.get("error") or "")
    timing, _ = read_rows(path / "timing.jsonl")
    return Run(
        path=path,
        settings=_completed(settings),
        training=_of_kind(rows, "train"),
        evaluations=_of_kind(rows, "eval"),
        syncs=_of_kind(rows, "sync"),
        summary=summary or {},
        state="failed" if reason else "unfinished" if summary is None else "finished",
        error=reason,
        unreadable=unreadable,
        seconds=_seconds(timing),
        written=_written(metrics),
        versions=_object(path / "versions.json") or (summary or {}).get("versions") or {},
        picture=_picture(path / "maze.png"),
    )


def read_rows(path: Path) -> tuple[list[Row], int]:
    """The rows of a JSON-lines file and the number of lines that are none; a torn last line is passed over in silence."""
    try:
        text = read_file(path, MAX_ROWS_FILE).decode("utf-8", errors="replace")
    except Missing:
        return [], 0
    *lines, rest = text.split("\n")
    rows = [_row(line) for line in lines if line.strip()]
    last = _row(rest) if rest.strip() else None  # complete, but for its newline; or torn
    return [row for row in [*rows, last] if row is not None], rows.count(None)


def _row(line: str) -> Row | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) and _number(row.get("step")) is not None else None


def _of_kind(rows: Sequence[Row], kind: str) -> tuple[Row, ...]:
    """By growing step; of two rows for one step, as after a restart, the later one holds."""
    by_step = {row["step"]: row for row in rows if row.get("kind") == kind}
    return tuple(by_step[step] for step in sorted(by_step))


def _object(path: Path) -> Row | None:
    try:
        found = json.loads(read_file(path, MAX_JSON_FILE))
    except (Missing, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and found else None


def _picture(path: Path) -> Path | None:
    try:
        with open_file(path, MAX_PICTURE):
            return path
    except Missing:
        return None


def _written(path: Path) -> float | None:
    """When a file was written last."""
    try:
        with open_file(path) as (_, status):
            return status.st_mtime
    except Missing:
        return None


def _seconds(timing: Sequence[Row]) -> float | None:
    """The clock starts at 0 again in each session of a run, so a fall marks the end of a session."""
    readings = [value for row in timing if (value := _number(row.get("seconds"))) is not None]
    ends = [now for now, following in zip(readings, [*readings[1:], -math.inf]) if following < now]
    return sum(ends) if ends else None


def _number(value: Any) -> float | None:
    """A finite number, the mean of a list of them, or None."""
    if isinstance(value, list):
        numbers = [_number(item) for item in value]
        finite = [item for item in numbers if item is not None]
        return sum(finite) / len(finite) if finite and len(finite) == len(numbers) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)
