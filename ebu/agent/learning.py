"""How an agent learns: ``learn``, and training in a run folder."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from ebu.agent.acting import Acting
from ebu.agent.saving import Saving
from ebu.config import Config, override
from ebu.envs.families import family
from ebu.errors import UserError
from ebu.storage.lock import RunLock
from ebu.storage.run_folder import RunFolder
from ebu.training.events import Listener, as_listeners


def silent(text: str) -> None:
    pass


def warn(text: str) -> None:
    """For what a training without a run folder has to say."""
    warnings.warn(text, stacklevel=2)


@dataclass(frozen=True)
class Progress:
    """How far a run was taken."""

    finished: bool
    interrupted: bool  # by a signal
    steps: int  # taken now
    seconds: float


class Learning(Acting, Saving):
    """The part of an agent that learns."""

    def learn(
        self,
        total_timesteps: int,
        callback: Listener | list[Listener] | None = None,
        progress_bar: bool = False,
        run: str | Path | None = None,
        reset_num_timesteps: bool = True,
    ) -> Self:
        """Train for this many agent steps; called again, it continues with network, memory and counters as they are.

        Schedules (ε, the step size) are planned over the steps now asked for; with ``reset_num_timesteps=False`` over the
        sum of these and the steps of the calls before, as in Stable-Baselines3.

        Each callback is called with every event; one that returns False stops the training. With ``run`` the training
        keeps a run folder as ``ebu train`` does: metrics, TensorBoard curves, checkpoints, the policy, a summary;
        ``ebu.resume(run)`` continues it exactly from its last checkpoint.
        """
        if total_timesteps < 0:
            raise UserError(f"total_timesteps must be at least 0, got {total_timesteps}")
        if total_timesteps == 0:
            return self
        listeners = as_listeners(callback)
        loop = self.loop
        until = loop.step + total_timesteps
        start = loop.step if reset_num_timesteps or not loop.planned_steps else loop.plan_start
        with self._learning():
            self._learn(until, start, listeners, progress_bar, run)
        return self

    def _learn(
        self, until: int, plan_start: int, listeners: list[Listener], progress_bar: bool, run: str | Path | None
    ) -> None:
        from ebu.training.trainer import Trainer

        if run is not None:
            folder = create_run(Path(run), override(self.config, steps=until))
            self.config = folder.config()
            with RunLock(folder.path):
                progress = self.train_in(folder, plan_start=plan_start, listeners=listeners, progress_bar=progress_bar)
                interrupted = progress.interrupted
        else:
            with self.threads(), self._bar(progress_bar, self.loop.step, until) as bars:
                trainer = Trainer(self.loop, until, plan_start, announce=warn)
                trainer.run([*listeners, *bars])
                interrupted = trainer.interrupted
        if interrupted:  # between two steps, with nothing half done: learn continues where it stopped
            raise KeyboardInterrupt

    @contextmanager
    def _learning(self) -> Iterator[None]:
        """One ``learn`` at a time: two would take each other's steps."""
        if not self._turn.acquire(blocking=False):
            raise UserError("this agent is already learning, in another thread or in a callback; make a second agent")
        try:
            yield
        finally:
            self._turn.release()

    def train_in(
        self,
        folder: RunFolder,
        *,
        resume: bool = False,
        plan_start: int = 0,
        drop_damaged: bool = False,
        tensorboard: bool = True,
        listeners: Sequence[Listener] = (),
        progress_bar: bool = False,
        announce: Callable[[str], None] = silent,
    ) -> Progress:
        """Train to the end of the folder's plan, or to a signal. The policy is saved either way; a finished run has a
        summary. The caller holds the folder's lock.
        """
        from ebu.training.conclusion import conclude
        from ebu.training.trainer import Trainer

        with self.threads():
            trainer = Trainer(self.loop, self.config.steps, plan_start, folder, announce)
            if resume:
                trainer.resume(drop_damaged)
            if trainer.is_finished:
                announce("the run is finished; nothing is left to do")
            start, start_step = time.perf_counter(), self.loop.step
            with self._bar(progress_bar, start_step, self.config.steps) as bars:
                finished = trainer.run([*listeners, *bars], tensorboard)
            seconds = time.perf_counter() - start
        with folder.failures_told():
            self.save(folder.policy)
            if finished:
                conclude(folder, self)
        return Progress(finished, trainer.interrupted, self.loop.step - start_step, seconds)

    @contextmanager
    def _bar(self, wanted: bool, start: int, until: int) -> Iterator[list[Listener]]:
        if not wanted:
            yield []
            return
        from rich.console import Console

        from ebu.training.progress import ProgressBar

        with closing(ProgressBar(until, self.algo, Console(file=sys.stderr), start)) as bar:
            yield [bar]

    @contextmanager
    def threads(self) -> Iterator[None]:
        """The number of CPU threads that suits the network, put back afterwards. Small ones are slower with more than one."""
        import torch

        before = torch.get_num_threads()
        own = family(self.config.environment.env).threads if self.interface.spec.kind == "image" else 1
        torch.set_num_threads(self.config.run.threads or own or before)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def create_run(path: Path, config: Config) -> RunFolder:
    """A new run folder that records the versions of what its environment depends on."""
    return RunFolder.create(path, config, family(config.environment.env).packages)
