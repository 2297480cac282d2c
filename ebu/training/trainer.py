"""A run that cannot be lost: the loop with its folder, lock, checkpoints and signals."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ebu.config import to_json
from ebu.distributed.processes import is_launched
from ebu.errors import EnvironmentFailure, Interrupted, UserError
from ebu.storage import files
from ebu.storage.checkpoints import CheckpointStore
from ebu.storage.codec import require_like
from ebu.storage.faults import reached
from ebu.storage.run_folder import RunFolder
from ebu.training.environment_state import bring_back, capture, comes_back_exactly
from ebu.training.events import Event
from ebu.training.listeners import Recorder
from ebu.training.loop import TrainingLoop

Listener = Callable[[Event], Any]
Announce = Callable[[str], None]


class Session:
    """Runs a loop to the end of its plan, saving it on the way. Made new, or resumed from the folder's checkpoints."""

    def __init__(self, folder: RunFolder, loop: TrainingLoop, steps: int, announce: Announce) -> None:
        self._folder = folder
        self._loop = loop
        self._steps = steps
        self._announce = announce
        self._settings = to_json(folder.config())
        self._store = CheckpointStore(folder.path / "checkpoints")
        self._evaluated_at_end = False
        self._asked_to_stop = False
        self._saved_step = 0
        self._saved_time = time.monotonic()
        self._saved_place: object = None
        loop.plan(steps)
        loop.should_stop = lambda: self._asked_to_stop

    @property
    def is_finished(self) -> bool:
        return self._loop.step >= self._steps and not self._loop.is_busy and self._evaluated_at_end

    def resume(self) -> None:
        """Back to the newest good checkpoint; from the beginning where there is none."""
        loaded = self._store.load(self._announce)
        if loaded is None:
            self._announce("there is no checkpoint yet: the run begins again from its start")
            self._trim_metrics(0)
            return
        tree = loaded.tree
        try:
            if tree["config"] != self._settings:
                raise UserError(f"the checkpoint in {self._folder.path} belongs to a run with other settings")
            require_like(tree["loop"], self._loop.state_dict(), "loop")
            self._loop.load_state_dict(tree["loop"], loaded.episodes)
            self._evaluated_at_end = bool(tree["evaluated_at_end"])
            metrics_bytes = int(tree["metrics_bytes"])
            if bring_back(self._loop.env, tree["environment"], self._loop.open):
                self._saved_place = self._place()
            else:
                self._announce("the environment does not come back exactly: the episode that was being played is dropped")
                self._loop.drop_open_episode()
        except UserError:
            raise
        except Exception as error:  # of any kind: whoever wrote the file may have meant any of them
            reason = f"{type(error).__name__}: {error}"
            raise UserError(f"the checkpoint in {self._folder.path} does not fit this run: {reason}") from error
        self._saved_step = loaded.step
        self._trim_metrics(metrics_bytes)
        if changed := self._folder.changed_software():
            words = f"the run began with other software ({', '.join(changed)})"
            self._announce(f"{words}: it goes on, but perhaps not bit for bit as it would have")
        self._announce(f"resumed at step {loaded.step:,}")

    def run(self, listeners: list[Listener], on_step: Callable[[int], None], tensorboard: bool) -> bool:
        """Train until the plan is done (True) or a signal asks to stop (False); either way a checkpoint is left."""
        with self._folder.failures_told(), _signals(self._ask_to_stop):
            self._warn_of_drops()
            with Recorder(self._folder, tensorboard, self._loop.step) as recorder:
                try:
                    self._train([recorder, *listeners], on_step, recorder)
                except Interrupted:
                    pass
                except EnvironmentFailure:  # what was learned is kept
                    self._save(recorder)
                    raise
                if self._place() != self._saved_place:
                    self._save(recorder)
        return self.is_finished

    def _train(self, listeners: list[Listener], on_step: Callable[[int], None], recorder: Recorder) -> None:
        while not self._is_done() and not self._asked_to_stop:
            for event in self._loop.advance():
                for listener in listeners:
                    if listener(event) is False:
                        self._asked_to_stop = True
            on_step(self._loop.step)
            if self._is_checkpoint_due():
                self._save(recorder)

    def _warn_of_drops(self) -> None:
        if self._loop.evaluation_env is not None and not comes_back_exactly(self._loop.evaluation_env):
            self._announce(
                "this environment does not repeat itself from its seed: after an interruption the episode being played "
                "is dropped, and the rest of the run may differ from one that was never interrupted"
            )

    def _is_done(self) -> bool:
        """Whether nothing is left, once a run that does not end with an evaluation has been given one."""
        if self._loop.step >= self._steps and not self._loop.is_busy and not self._evaluated_at_end:
            every = self._loop.config.evaluation.eval_every
            if (not every or self._steps % every) and self._loop.evaluation_env is not None:
                self._loop.request_evaluation()
            self._evaluated_at_end = True
        return self.is_finished

    def _ask_to_stop(self) -> None:
        self._asked_to_stop = True

    def _is_checkpoint_due(self) -> bool:
        config = self._loop.config.run
        steps_due = self._loop.step - self._saved_step >= config.checkpoint_every
        return steps_due or time.monotonic() - self._saved_time >= 60 * config.checkpoint_minutes

    def _save(self, recorder: Recorder) -> None:
        reached("session:save")
        tree = {
            "config": self._settings,
            "loop": self._loop.state_dict(),
            "environment": capture(self._loop.env),
            "metrics_bytes": recorder.sync_metrics(),
            "evaluated_at_end": self._evaluated_at_end,
        }
        self._store.save(self._loop.step, tree, self._loop.memory)
        self._saved_step, self._saved_time, self._saved_place = self._loop.step, time.monotonic(), self._place()

    def _place(self) -> object:
        """Equal to that of the last checkpoint while nothing has happened since."""
        return self._loop.step, self._loop.is_busy, self._evaluated_at_end

    def _trim_metrics(self, length: int) -> None:
        """Rows written after the checkpoint are written again: no gap, no duplicate."""
        path = self._folder.metrics
        there = self._folder.metrics_bytes()
        if not 0 <= length <= there:
            raise UserError(f"{path} is shorter than its checkpoint says; the run cannot be resumed exactly")
        if there > length:
            files.DISK.truncate(path, length)


@contextmanager
def termination_interrupts() -> Iterator[None]:
    """SIGTERM raises KeyboardInterrupt, as SIGINT does: for the work around a run, where nothing has to be saved."""
    with _handling({signal.SIGTERM: signal.default_int_handler}):
        yield


@contextmanager
def _signals(ask_to_stop: Callable[[], None]) -> Iterator[None]:
    """The first SIGINT or SIGTERM asks; the second ends the process at once. What is saved stays saved.

    torchrun passes on a signal that may have reached the process already, and ends by itself one that does not stop.
    """
    asked = False

    def handle(number: int, _: Any) -> None:
        nonlocal asked
        if asked and not is_launched():
            os._exit(128 + number)
        asked = True
        ask_to_stop()

    with _handling({signal.SIGINT: handle, signal.SIGTERM: handle}):
        yield


@contextmanager
def _handling(handlers: dict[signal.Signals, Any]) -> Iterator[None]:
    """These signal handlers, and afterwards the ones before."""
    try:
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    except ValueError:  # not in the main thread, where signals cannot be caught
        before = {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
