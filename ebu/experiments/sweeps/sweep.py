"""The trials of a sweep while an engine works on them: what is known of each, how long the rest will take, how to show it."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table

from ebu.experiments.sweeps.trials import Trial
from ebu.storage.files import Damaged, open_file
from ebu.storage.finished import is_finished
from ebu.training.progress import duration
from ebu.training.signals import handling

State = Literal["waiting", "running", "finished", "failed", "stopped"]

TAIL_BYTES = 1 << 14
PLAIN_SECONDS = 300.0  # between lines of progress where there is no terminal
REFRESH_SECONDS = 1.0
STYLES: dict[State, str] = {"waiting": "dim", "running": "cyan", "finished": "green", "failed": "red", "stopped": "yellow"}


@dataclass(frozen=True)
class Outcome:
    """How one attempt at a trial ended. Busy: another process holds it. Died: its process was lost, not its checkpoint."""

    state: Literal["finished", "stopped", "failed", "busy", "died"]
    reason: str = ""


@dataclass
class Job:
    """One trial of the sweep, and its state."""

    trial: Trial
    path: Path
    planned: int = 0  # steps
    expected: float = 0.0  # seconds of the whole trial
    state: State = "waiting"
    step: int = 0
    first_step: int = 0  # where this attempt began
    score: float | None = None
    started: float = 0.0
    seconds: float = 0.0  # of the last attempt
    reason: str = ""

    @property
    def is_complete(self) -> bool:
        return is_finished(self.path)

    def begin(self) -> None:
        self.state, self.first_step, self.started = "running", self.step, time.monotonic()

    def end(self, state: State, reason: str = "") -> None:
        self.state, self.reason, self.seconds = state, reason, time.monotonic() - self.started

    def left(self) -> float:
        """Seconds it will still take at the expected pace."""
        if self.state in ("finished", "failed"):
            return 0.0
        return self.expected * (1 - min(self.step / max(self.planned, 1), 1.0))


def look(path: Path) -> tuple[int, float | None]:
    """The last step there is a row of, and the last score, from the end of a run's metrics; cheap."""
    try:
        with open_file(path / "metrics.jsonl") as (file, status):
            file.seek(max(status.st_size - TAIL_BYTES, 0))
            lines = file.read(TAIL_BYTES).split(b"\n")
    except Damaged:
        return 0, None
    step, greedy, training = 0, None, None
    for line in lines:
        try:
            row = json.loads(line)
            step = int(row["step"])
        except (ValueError, KeyError, TypeError, RecursionError):
            continue  # the first and the last line may be torn
        greedy, training = row.get("mean_reward", greedy), row.get("ep_rew_mean", training)
    return step, training if greedy is None else greedy


@dataclass
class Sweep:
    """All trials, each once. Engines change its jobs; ``refresh`` shows them."""

    out: Path
    jobs: list[Job]
    there: int  # finished before the sweep began
    stops: int = 0  # how many times a stop was requested
    console: Console = field(default_factory=lambda: Console(stderr=True))
    _live: Live | None = None
    _told: dict[str, State] = field(default_factory=dict)
    _told_at: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, trials: Sequence[Trial], out: Path) -> Sweep:
        unique = {trial.id: trial for trial in trials}
        jobs = [Job(trial, out / "trials" / name) for name, trial in unique.items()]
        for job in jobs:
            job.planned, job.expected = job.trial.config().steps, job.trial.expected_seconds()
            job.step, job.score = look(job.path)
            if job.is_complete:
                job.state = "finished"
        return cls(out, jobs, sum(job.state == "finished" for job in jobs))

    def waiting(self) -> list[Job]:
        """What is to be done: by rounds, in each the longest first, so that no core is left with a long trial at the end."""
        return sorted((job for job in self.jobs if job.state == "waiting"), key=lambda job: (job.trial.round, -job.left()))

    def count(self, state: State) -> int:
        return sum(job.state == state for job in self.jobs)

    # ------------------------------------------------------------------ time

    def pace(self) -> float:
        """Measured over expected seconds of what has been done in this sweep."""
        done = [job for job in self.jobs if job.started and job.step > job.first_step and job.planned]
        expected = sum(job.expected * (job.step - job.first_step) / job.planned for job in done)
        measured = sum(_elapsed(job) for job in done)
        return measured / expected if expected > 0 else 1.0

    def seconds_left(self) -> float:
        left = [job.left() for job in self.jobs]
        together = max(self.count("running"), 1)
        return self.pace() * max(sum(left) / together, max(left, default=0.0))

    # ------------------------------------------------------------------ showing

    @contextmanager
    def shown(self) -> Iterator[None]:
        """A live table in a terminal, lines at intervals elsewhere."""
        if not self.console.is_terminal:
            yield
            self.refresh()
            return
        with Live(console=self.console, auto_refresh=False) as self._live:
            yield
            self.refresh()
        self._live = None

    def refresh(self) -> None:
        if self._live is not None:
            self._live.update(self._table(), refresh=True)
            return
        for job in self.jobs:
            if job.state != self._told.get(job.trial.id, "waiting"):
                if job.started:
                    self._say(self._line(job))
                self._told[job.trial.id] = job.state
        if time.monotonic() - self._told_at > PLAIN_SECONDS:
            self._say(self._headline())

    def _say(self, text: str) -> None:
        self._told_at = time.monotonic()
        print(text, file=sys.stderr, flush=True)

    def _headline(self) -> str:
        parts = [f"{self.count('finished')} of {len(self.jobs)} trials finished"]
        if self.there:
            parts.append(f"{self.there} of them before")
        if failed := self.count("failed"):
            parts.append(f"{failed} failed")
        if self.stops:
            parts.append("stopping at checkpoints (Ctrl-C again to stop at once)")
        elif running := self.count("running"):
            parts += [f"{running} running", f"about {duration(self.seconds_left())} left"]
        return ", ".join(parts)

    def _line(self, job: Job) -> str:
        facts = {
            "running": f"from step {job.first_step:,}" if job.first_step else "",
            "finished": f"in {duration(job.seconds)}" + ("" if job.score is None else f", score {job.score:.4g}"),
            "failed": job.reason,
        }
        return f"{job.trial.id}: {job.state} {facts.get(job.state, '')}".rstrip()

    def _table(self) -> Table:
        table = Table(title=self._headline(), title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0))
        for name in ("trial", "state", "progress", "score", "time left"):
            table.add_column(name, header_style="dim", no_wrap=True, justify="right" if name == "score" else "left")
        shown, hidden = self._visible()
        pace = self.pace()
        for job in shown:
            share = 1.0 if job.state == "finished" else min(job.step / max(job.planned, 1), 1.0)
            took = f"took {duration(job.seconds)}"
            left = {"running": duration(job.left() * pace), "failed": escape(job.reason[:60]), "finished": took}
            table.add_row(
                f"{job.trial.id}  [dim]{escape(job.trial.label)}[/]",
                f"[{STYLES[job.state]}]{job.state}[/]",
                ProgressBar(total=1.0, completed=share, width=16),
                "" if job.score is None else f"{job.score:.4g}",
                left.get(job.state, ""),
            )
        if hidden:
            words = ", ".join(f"{count} {state}" for state, count in hidden.items())
            table.add_row(f"[dim]… and {words}[/]")
        return table

    def _visible(self) -> tuple[list[Job], dict[str, int]]:
        """As many as fit the terminal: what runs, what failed, what finished last, what comes next."""
        order: dict[State, int] = {"running": 0, "failed": 1, "stopped": 2, "finished": 3, "waiting": 4}
        latest = sorted(self.jobs, key=lambda job: (order[job.state], -job.started, job.trial.round, -job.left()))
        latest = [job for job in latest if job.started or job.state != "finished"]  # not those that were there before
        room = max(self.console.height - 5, 5)
        hidden: dict[str, int] = {}
        for job in latest[room:]:
            hidden[job.state] = hidden.get(job.state, 0) + 1
        return latest[:room], hidden

    # ------------------------------------------------------------------ stopping

    @contextmanager
    def listening(self) -> Iterator[None]:
        """SIGINT and SIGTERM are counted: the first asks the trials to stop at a checkpoint, the second ends them."""

        def handle(number: int, _: Any) -> None:
            self.stops += 1

        with handling({signal.SIGINT: handle, signal.SIGTERM: handle}):
            yield


def _elapsed(job: Job) -> float:
    return time.monotonic() - job.started if job.state == "running" else job.seconds
