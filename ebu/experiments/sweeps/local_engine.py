"""Trials on this machine: a process for each, one thread in each, as many at once as there are cores."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ebu.config import to_json
from ebu.experiments.sweeps.store import address_of
from ebu.experiments.sweeps.sweep import REFRESH_SECONDS, Job, Outcome, Sweep, look

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
BUSY_SECONDS = 1.0  # before a trial that another sweep holds is checked again


def cores() -> int:
    """Those this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class LocalEngine:
    workers: int = 0
    """Trials in parallel; 0: one for each core."""
    retries: int = 3
    """How often a trial whose process died is restarted from its checkpoint."""
    store: str = ""

    def run(self, sweep: Sweep) -> None:
        pool = _Pool(self, sweep)
        with sweep.listening(), sweep.shown():
            pool.work(self.workers or cores())


class _Pool:
    """A thread for each worker process hands it one trial after another; the main thread shows their state."""

    def __init__(self, engine: LocalEngine, sweep: Sweep) -> None:
        self._engine = engine
        self._sweep = sweep
        self._waiting = deque(sweep.waiting())
        self._workers: set[_Worker] = set()
        self._serving = 0
        self._lock = threading.Lock()
        self._changed = threading.Event()

    def work(self, workers: int) -> None:
        self._serving = min(workers, len(self._waiting))
        for _ in range(self._serving):
            threading.Thread(target=self._serve, daemon=True).start()
        stops = 0
        while self._serving:
            if self._sweep.stops > stops:
                stops = self._sweep.stops
                self._stop(at_once=stops > 1)
            for job in self._sweep.jobs:
                if job.state == "running":
                    job.step, job.score = look(job.path)
            self._sweep.refresh()
            self._changed.wait(REFRESH_SECONDS)
            self._changed.clear()

    def _serve(self) -> None:
        worker = _Worker()
        with self._lock:
            self._workers.add(worker)
        while (job := self._next()) is not None:
            try:
                self._carry_out(job, worker)
            except Exception as error:  # a full disk, too many processes: the other trials continue
                job.end("failed", f"{type(error).__name__}: {error}")
            self._changed.set()
        worker.close()
        with self._lock:
            self._workers.discard(worker)
            self._serving -= 1
        self._changed.set()

    def _next(self) -> Job | None:
        with self._lock:
            return None if self._sweep.stops or not self._waiting else self._waiting.popleft()

    def _carry_out(self, job: Job, worker: _Worker) -> None:
        """One trial to its end, through the deaths of its process."""
        job.begin()
        outcome = Outcome("died")
        for _ in range(self._engine.retries + 1):
            outcome = worker.attempt(self._order(job), stopping=lambda: self._sweep.stops > 0)
            job.step, job.score = look(job.path)
            if outcome.state == "failed":
                return job.end("failed", outcome.reason)
            if job.is_complete:
                return job.end("finished")
            if self._sweep.stops:
                return job.end("stopped")
            if outcome.state == "busy":
                return self._postpone(job)
        tries = self._engine.retries + 1
        log = job.path / "log.txt"
        job.end("failed", f"its process died {tries} times ({outcome.reason}); its last output may be in {log}")

    def _order(self, job: Job) -> dict[str, str]:
        store = address_of(self._engine.store, job.trial.id)
        return {"path": str(job.path), "config": to_json(job.trial.config()), "store": store}

    def _postpone(self, job: Job) -> None:
        """Another sweep holds this trial: check it again when the others are done."""
        time.sleep(BUSY_SECONDS)
        job.state = "waiting"
        with self._lock:
            self._waiting.append(job)

    def _stop(self, at_once: bool) -> None:
        with self._lock:
            for worker in self._workers:
                if at_once:
                    worker.kill()
                else:
                    worker.ask_to_stop()


class _Worker:
    """A worker process, started when there is something to do and again when it has died."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._at_it = 0  # the process that has forked for the trial

    def attempt(self, order: dict[str, str], stopping: Callable[[], bool]) -> Outcome:
        Path(order["path"]).mkdir(parents=True, exist_ok=True)
        if self._process is None or self._process.poll() is not None:
            self._process = _start()
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        with suppress(OSError, ValueError):  # it may have died, or have been asked to stop by now
            process.stdin.write(json.dumps(order).encode() + b"\n")
            process.stdin.flush()
        if stopping():  # asked while it was starting
            self.ask_to_stop()
        outcome, how = None, "its worker was killed"
        while line := process.stdout.readline():
            answer = json.loads(line)
            if "pid" in answer:
                self._at_it = answer["pid"]
            elif "outcome" in answer:
                outcome = Outcome(**answer["outcome"])
            else:
                code = answer["exit"]
                how = f"signal {-code}" if code < 0 else f"exit code {code}"
                break
        else:
            self.close()
        self._at_it = 0
        return outcome or Outcome("died", how)

    def ask_to_stop(self) -> None:
        """The end of its input tells a trial to stop at a checkpoint."""
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()

    def kill(self) -> None:
        with suppress(OSError):
            if self._at_it:
                os.kill(self._at_it, signal.SIGKILL)
        if self._process is not None:
            self._process.kill()

    def close(self) -> None:
        self.ask_to_stop()
        if self._process is not None:
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._process = None


def _start() -> subprocess.Popen[bytes]:
    paths = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)  # modules are found there as they are here
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "ebu.experiments.sweeps.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **ONE_THREAD, "PYTHONPATH": paths},
        creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
    )
