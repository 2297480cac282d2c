"""How an agent learns: ``learn``, and training in a run folder."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from ebu.agent.acting import Acting
from ebu.agent.exporting import Exporting
from ebu.agent.remembering import Remembering
from ebu.agent.saving import Saving
from ebu.config import Config, override
from ebu.config_check import check, is_whole
from ebu.envs.families import family
from ebu.errors import UserError
from ebu.storage.lock import RunLock
from ebu.storage.run_folder import RunFolder
from ebu.training.due import passed, why_no_update
from ebu.training.events import Callbacks, Listener, as_listeners


def silent(text: str) -> None:
    pass


def warn(text: str) -> None:
    """For messages of training without a run folder, at the user's line that led to them."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("ebu."):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, stacklevel=level)


@dataclass(frozen=True)
class Progress:
    """How far a run got."""

    finished: bool
    interrupted: bool  # by a signal
    steps: int  # taken now
    seconds: float


class Learning(Acting, Saving, Remembering, Exporting):
    """The part of an agent that learns."""

    def learn(
        self,
        total_timesteps: int,
        callback: Callbacks = None,
        log_interval: int | None = None,
        tb_log_name: str = "run",
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
        *,
        run: str | Path | None = None,
        gradient_steps: int = 0,
    ) -> Self:
        """Train for this many agent steps; called again, it continues with network, memory and counters as they are.

        The arguments mean the same as in Stable-Baselines3, which does not have ``run`` and ``gradient_steps``.

        Args:
          total_timesteps: schedules (ε, the learning rate) are planned over the steps of this call, as in Stable-Baselines3: a
            second call starts exploring anew.
          callback: called with every event (docs/callbacks.md); one that returns False stops the training.
          log_interval: episodes between rows of training metrics; by default a row every ``log_every`` steps.
          tb_log_name: where the agent has a ``tensorboard_log``, the curves of this call are in the folder
            ``tensorboard_log/tb_log_name_1``, ``…_2`` and so on; with ``run`` they are in the run folder instead.
          reset_num_timesteps: False plans over the sum of these steps and those of earlier calls.
          progress_bar: on standard error.
          run: keep a run folder as ``ebu train`` does: metrics, TensorBoard curves, checkpoints, the policy, a summary;
            ``ebu.resume(run)`` continues it exactly from its last checkpoint.
          gradient_steps: updates from what is in the memory before the first step; ``learn(0, gradient_steps=n)`` learns
            offline from the episodes that ``remember`` was given.
        """
        steps, offline = whole_steps(total_timesteps), whole_steps(gradient_steps, "gradient_steps")
        listeners = as_listeners(callback)
        if log_interval is not None:
            check(override(self.config, log_interval=log_interval))
        if offline:
            self._learn_offline(offline, listeners)
        if steps == 0:
            return self
        loop = self.loop
        until = loop.step + steps
        start = loop.step if reset_num_timesteps or not loop.planned_steps else loop.plan_start
        with self._learning(), self._rows_every(log_interval):
            self._tell_of_no_evaluations()
            if run is not None:  # which ends with an evaluation
                interrupted = self._learn_in(Path(run), until, start, listeners, progress_bar)
            else:
                self._tell_of_idle(listeners, until)
                with self._curves(tb_log_name, reset_num_timesteps) as curves:
                    interrupted = self._learn_alone(until, start, [*listeners, *curves], progress_bar)
        if interrupted:  # between two steps, with nothing half done: learn continues where it stopped
            raise KeyboardInterrupt
        if (reason := why_no_update(loop)) is not None and "updates" not in self._told:
            self._told.add("updates")  # many short calls learn as one long call does
            warn(reason)
        return self

    def _tell_of_no_evaluations(self) -> None:
        """Once, where evaluations are due and there is no second environment for them."""
        if self.config.evaluation.eval_every and self.loop.evaluation_environment is None and "evaluations" not in self._told:
            self._told.add("evaluations")
            words = "was given as an object that cannot be made a second time: there are no evaluations during training"
            warn(f"{self.config.environment.env} {words}; give its id, or a list with a function that makes it (env=[make])")

    def _tell_of_idle(self, listeners: list[Listener], until: int) -> None:
        """A line for each callback that waits for an evaluation, where none is due until this step."""
        every, step = self.config.evaluation.eval_every, self.loop.step
        if self.loop.evaluation_environment is None or passed(every, step, until):
            return
        for listener in listeners:
            if getattr(listener, "waits_for_evaluations", False):
                words = f"no evaluation is due in these {until - step:,} steps, as eval_every is {every:,}"
                warn(f"{type(listener).__name__} has nothing to do: {words}; the agent takes eval_every=, such as 1_000")

    def _learn_in(self, run: Path, until: int, plan_start: int, listeners: list[Listener], progress_bar: bool) -> bool:
        """Learn in a new run folder; returns whether a signal stopped it."""
        self._begin(listeners)  # before the folder is made: a callback may refuse
        folder = create_run(run, override(self.config, steps=until))
        self.config = folder.config()
        with RunLock(folder.path):
            progress = self.train_in(folder, plan_start=plan_start, listeners=listeners, progress_bar=progress_bar)
        return progress.interrupted

    def _learn_alone(self, until: int, plan_start: int, listeners: list[Listener], progress_bar: bool) -> bool:
        """Learn without a folder; returns whether a signal stopped it."""
        from ebu.training.trainer import Trainer

        with self.threads(), self._bar(progress_bar, self.loop.step, until) as bars:
            self._begin(listeners)
            trainer = Trainer(self.loop, until, plan_start, announce=warn)
            trainer.run([*listeners, *bars])
        return trainer.interrupted

    def _begin(self, listeners: Sequence[Listener]) -> None:
        """Make the agent known to the callbacks that ask for it."""
        for listener in listeners:
            if hasattr(listener, "begin"):
                listener.begin(self)

    def _learn_offline(self, updates: int, listeners: list[Listener]) -> None:
        """Make this many updates from the stored episodes alone."""
        from ebu.training.offline import learn_offline
        from ebu.training.signals import stop_on_first_interrupt

        loop = self.loop
        if not loop.memory.episodes:
            raise UserError("the memory is empty: call agent.remember(episodes) first, or train for some environment steps")
        self._begin(listeners)
        asked: list[bool] = []
        loop.should_stop = lambda: bool(asked)
        with self._learning(), self.threads(), stop_on_first_interrupt(lambda: asked.append(True)):
            for event in learn_offline(loop, updates):
                answers = [listener(event) for listener in listeners]  # all are told, also when one asks to stop
                if any(answer is False for answer in answers):
                    return
        if asked:  # between two updates, with nothing half done
            raise KeyboardInterrupt

    @contextmanager
    def _rows_every(self, episodes: int | None) -> Iterator[None]:
        """Within it, a row of training metrics after so many episodes; None leaves that as it is set."""
        before = self.config.run.log_interval
        if episodes is not None:
            self._set_log_interval(episodes)
        try:
            yield
        finally:
            if episodes is not None:
                self._set_log_interval(before)

    def _set_log_interval(self, episodes: int) -> None:
        self.config = override(self.config, log_interval=episodes)
        if self._loop is not None:
            self._loop.config = override(self._loop.config, log_interval=episodes)

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
        summary. The caller holds the folder's lock, and has made a new run known to its listeners.
        """
        from ebu.training.conclusion import conclude
        from ebu.training.trainer import Trainer

        with self.threads():
            trainer = Trainer(self.loop, self.config.steps, plan_start, folder, announce)
            if resume:
                trainer.resume(drop_damaged)
            if trainer.is_finished:
                announce("the run is finished; nothing is left to do")
            if resume:
                self._begin(listeners)  # with the agent as it was
            start, start_step = time.perf_counter(), self.loop.step
            with self._bar(progress_bar, start_step, self.config.steps) as bars:
                finished = trainer.run([*listeners, *bars], tensorboard)
            seconds = time.perf_counter() - start
        with folder.failures_recorded():
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
    def _curves(self, name: str, new: bool) -> Iterator[list[Listener]]:
        """TensorBoard curves of one call of ``learn``, where the agent has a folder for them."""
        if self._tensorboard_log is None:
            yield []
            return
        from ebu.training.listeners import TensorBoard, curves_folder

        with closing(TensorBoard(curves_folder(self._tensorboard_log, name, new), self.loop.step)) as curves:
            yield [curves]

    @contextmanager
    def threads(self) -> Iterator[None]:
        """Use as many CPU threads as suit the network, and restore the number afterwards. Small ones are slower with more."""
        import torch

        before = torch.get_num_threads()
        own = family(self.config.environment.env).threads if self.interface.spec.is_stacked else 1
        torch.set_num_threads(self.config.run.threads or own or before)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def create_run(path: Path, config: Config) -> RunFolder:
    """A new run folder that records the versions of what its environment depends on."""
    return RunFolder.create(path, config, family(config.environment.env).packages)


def whole_steps(total: Any, name: str = "total_timesteps") -> int:
    """A number of steps as a user may write it: 20_000, NumPy's, or 1e5."""
    if not is_whole(total) or not 0 <= total < 10**12:
        raise UserError(f"{name} must be a whole number of at least 0, got {total!r}")
    return int(total)
