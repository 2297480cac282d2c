"""Listeners that keep what the loop says: rows in metrics.jsonl, clock readings in timing.jsonl, TensorBoard curves."""

from __future__ import annotations

import glob
import json
import os
import secrets
import socket
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ebu.errors import UserError
from ebu.storage import files
from ebu.storage.run_folder import RunFolder
from ebu.training.events import EpisodeEnded, Evaluated, Event, Synchronised, Trained


def row(event: Event) -> dict[str, Any] | None:
    """The event as a row of metrics.jsonl, or None for what is only summarised. Nothing here depends on the clock."""
    if isinstance(event, Trained):
        own = {"recorded": event.recorded} if event.recorded else {}
        return {"kind": "train", "step": event.step, **event.metrics, **own}
    if isinstance(event, Evaluated):
        e = event.evaluation
        result = {
            "kind": "eval",
            "step": event.step,
            "mean_reward": e.mean,
            "std_reward": e.std,
            "median_reward": e.median,
            "returns": list(e.returns),
            "lengths": list(e.lengths),
            "mean_q": e.mean_q,
            "mean_discounted_return": e.mean_discounted_return,
        }
        if e.relative_lengths:
            result["relative_lengths"] = list(e.relative_lengths)
        return result
    if isinstance(event, Synchronised):
        return {"kind": "sync", "step": event.step, "learner": event.learner, "beta": event.beta, **event.scores}
    return None


class RowsFile:
    """One JSON row per line, flushed as it is written; knows the size and SHA-256 of what it should hold."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = files.open_append(path)
        self._size, self._digest = files.digest_of(path)

    def write(self, values: dict[str, Any]) -> None:
        line = json.dumps(values).encode() + b"\n"
        self._file.write(line)
        self._file.flush()
        self._size += len(line)
        self._digest.update(line)

    def sync(self) -> files.FileRecord:
        """Wait until everything is on the disk."""
        files.DISK.sync(self._file)
        return files.FileRecord(self._path.name, self._size, self._digest.hexdigest())

    def close(self) -> None:
        self._file.close()


class MetricsFile(RowsFile):
    """Rows that are byte for byte the same for the same seed."""

    def __call__(self, event: Event) -> None:
        values = row(event)
        if values is not None:
            self.write(values)


class TimingFile(RowsFile):
    """Whatever depends on the clock, kept apart."""

    def __init__(self, path: Path, start_step: int = 0) -> None:
        super().__init__(path)
        self._start = time.perf_counter()
        self._start_step = start_step

    def __call__(self, event: Event) -> None:
        if isinstance(event, EpisodeEnded):
            return
        seconds = time.perf_counter() - self._start
        speed = (event.step - self._start_step) / max(seconds, 1e-9)
        self.write({"step": event.step, "seconds": round(seconds, 3), "steps_per_second": round(speed, 1)})


class TensorBoard:
    """Live curves under the tags RL users know.

    Written row by row, not by a background thread, so that a full disk is noticed where it can be reported.
    """

    def __init__(self, folder: Path, start_step: int = 0) -> None:
        from tensorboard.compat.proto.event_pb2 import Event as Record
        from tensorboard.compat.proto.event_pb2 import SessionLog
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._record, self._summary = Record, Summary
        place = f"{time.time_ns() // 10**9}.{socket.gethostname()}.{os.getpid()}.{secrets.token_hex(4)}"
        self._file = RecordWriter(files.DISK.create(folder / f"events.out.tfevents.{place}"))
        self._start = time.perf_counter()
        self._start_step = start_step
        self._write(file_version="brain.Event:2")
        if start_step:  # what an interrupted session drew beyond this step is drawn again
            self._write(step=start_step + 1, session_log=SessionLog(status=SessionLog.START))

    def _write(self, **content: Any) -> None:
        self._file.write(self._record(wall_time=time.time(), **content).SerializeToString())
        self._file.flush()

    def __call__(self, event: Event) -> None:
        scalars = self._scalars(event)
        if scalars:
            values = [self._summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()]
            self._write(step=event.step, summary=self._summary(value=values))

    def _scalars(self, event: Event) -> dict[str, float]:
        if isinstance(event, Evaluated):
            e = event.evaluation
            scalars = {
                "eval/mean_reward": e.mean,
                "eval/mean_ep_length": sum(e.lengths) / len(e.lengths),
                "eval/mean_q": e.mean_q,
                "eval/mean_discounted_return": e.mean_discounted_return,
            }
            if e.relative_lengths:
                scalars["eval/relative_length"] = sum(e.relative_lengths) / len(e.relative_lengths)
            return scalars
        if isinstance(event, Trained):
            tags = {
                "ep_rew_mean": "rollout/ep_rew_mean",
                "ep_len_mean": "rollout/ep_len_mean",
                "relative_length": "rollout/relative_length",
                "game_score_mean": "rollout/game_score_mean",
                "epsilon": "rollout/exploration_rate",
                "loss": "train/loss",
                "q_mean": "train/q_mean",
                "updates": "train/n_updates",
                "explained_returns": "train/explained_returns",
                "memory_steps": "memory/steps",
            }
            scalars = {tags[key]: value for key, value in event.metrics.items() if key in tags}
            elapsed = max(time.perf_counter() - self._start, 1e-9)
            scalars["time/fps"] = (event.step - self._start_step) / elapsed
            return {**scalars, **event.recorded}
        if isinstance(event, Synchronised):
            return {"train/beta": event.beta}
        return {}

    def close(self) -> None:
        self._file.close()


def curves_folder(parent: Path, name: str, new: bool) -> Path:
    """``parent/name_1``, ``parent/name_2``, …: the next one, or the latest there is, as Stable-Baselines3 numbers them."""
    numbers = (path.name.removeprefix(f"{name}_") for path in parent.glob(f"{glob.escape(name)}_*"))
    taken = [int(number) for number in numbers if number.isdecimal()]
    folder = parent / f"{name}_{max(taken, default=0) + (1 if new or not taken else 0)}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write curves to {folder}: {error.strerror}; choose another tensorboard_log") from error
    return folder


class Recorder:
    """Writes every event to the run folder while a run lasts."""

    def __init__(self, folder: RunFolder, tensorboard: bool = True, start_step: int = 0) -> None:
        self._stack = ExitStack()
        self._metrics, self._timing = MetricsFile(folder.metrics), TimingFile(folder.timing, start_step)
        self._listeners: list[MetricsFile | TimingFile | TensorBoard] = [self._metrics, self._timing]
        if tensorboard:
            self._listeners.append(TensorBoard(folder.path, start_step))
        for listener in self._listeners:
            self._stack.callback(listener.close)

    def __call__(self, event: Event) -> None:
        for listener in self._listeners:
            listener(event)

    def sync(self) -> tuple[files.FileRecord, files.FileRecord]:
        """Bring the rows of metrics and timing to the disk; returns what each file should hold."""
        return self._metrics.sync(), self._timing.sync()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
