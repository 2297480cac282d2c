"""Runs the trials of an experiment, on this machine or on a Ray cluster: the missing ones, the half-run ones from their
checkpoints, the finished ones never again.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from ebu.errors import RunFailure, UserError
from ebu.experiments.sweeps.store import Store, address_of
from ebu.experiments.sweeps.sweep import Sweep
from ebu.experiments.sweeps.trials import Trial
from ebu.storage import files
from ebu.storage.finished import drop_checkpoints, is_finished
from ebu.storage.lock import Held, RunLock


class Engine(Protocol):
    """Carries out the waiting jobs of a sweep. Returns when all have ended, or have stopped because they were asked to."""

    @property
    def store(self) -> str:
        """The address of an object store that keeps a copy of every trial, or nothing."""

    def run(self, sweep: Sweep) -> None: ...


def make_engine(
    name: str = "local",
    workers: int = 0,
    address: str = "",
    store: str = "",
    cpus_per_trial: float = 1.0,
    gpus_per_trial: float = 0.0,
) -> Engine:
    """The engine of this name. ``workers`` is how many trials run at once; 0 means as many as there is room for."""
    if workers < 0:
        raise UserError(f"--workers must be at least 0, got {workers}")
    if name == "local":
        if address:
            raise UserError("--address names a Ray cluster; add --engine ray")
        from ebu.experiments.sweeps.local_engine import LocalEngine

        return LocalEngine(workers=workers, store=store)
    if name == "ray":
        from ebu.experiments.sweeps.ray_engine import RayEngine

        return RayEngine(address=address, workers=workers, store=store, cpus=cpus_per_trial, gpus=gpus_per_trial)
    raise UserError(f"there is no engine {name!r}; choose local or ray")


def run_trials(trials: Sequence[Trial], out: Path, engine: Engine) -> list[Path]:
    """The run folders of the trials, in their order, all finished.

    A trial that fails does not hold up the others: each is named in the end, and a RunFailure counts them.
    KeyboardInterrupt when the sweep was asked to stop: every trial has saved a checkpoint, and the same call continues them.
    """
    out = out.resolve()
    try:
        (out / "trials").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write to {out}: {error.strerror}; choose another --out folder") from error
    if engine.store:
        _fetch(trials, out, engine.store)
    sweep = Sweep.of(trials, out)
    if sweep.waiting():
        engine.run(sweep)
    for job in sweep.jobs:
        if job.is_complete:  # left behind by a process that ended in between
            drop_checkpoints(job.path)
    if failed := [job for job in sweep.jobs if job.state == "failed"]:
        for job in failed:
            print(f"{job.trial.id} failed: {job.reason}\n  for details: ebu resume {job.path} --debug", file=sys.stderr)
        kept = f"{sweep.count('finished')} are finished and kept"
        raise RunFailure(f"{len(failed)} of {len(sweep.jobs)} trials failed; {kept}; run the command again to retry")
    if sweep.stops:
        sweep.console.print(
            f"stopped: {sweep.count('finished')} of {len(sweep.jobs)} trials are finished; run the command again to continue",
            highlight=False,
        )
        raise KeyboardInterrupt
    return [out / "trials" / trial.id for trial in trials]


def _fetch(trials: Sequence[Trial], out: Path, store: str) -> None:
    """Make folder and store agree on what is finished."""
    for name in dict.fromkeys(trial.id for trial in trials):
        path, there = out / "trials" / name, Store(address_of(store, name))
        is_here, is_there = is_finished(path), there.is_finished()
        if is_there and not is_here:
            files.make_folders(path)
            with suppress(Held), RunLock(path):  # the process that holds it will finish it
                there.pull(path)
        elif is_here and not is_there:
            there.push(path)
