"""The one driver of the loop: plan, advance, listeners, checkpoints, signals. A run with a folder can be resumed exactly."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from ebu.config import from_json, is_extension, to_json
from ebu.errors import EnvironmentFailure, Interrupted, UserError
from ebu.storage import files
from ebu.storage.checkpoints import CheckpointStore
from ebu.storage.codec import require_like
from ebu.storage.faults import reached
from ebu.storage.loaded import Loaded
from ebu.storage.run_folder import RunFolder, evaluations
from ebu.training.best import BestPolicy
from ebu.training.environment_state import comes_back_exactly
from ebu.training.events import EpisodeEnded, Event, Listener
from ebu.training.listeners import Recorder
from ebu.training.loop import TrainingLoop
from ebu.training.loop_state import from_earlier_version, restore, state_of
from ebu.training.lost_episodes import restore_without_lost
from ebu.training.signals import stop_on_first_interrupt, stop_on_signals

Announce = Callable[[str], None]


class Trainer:
    """Runs a loop until step ``until``, its schedules planned from ``plan_start`` to there.

    With a folder, it records and saves the run, and can resume it.
    """

    def __init__(
        self,
        loop: TrainingLoop,
        until: int,
        plan_start: int = 0,
        folder: RunFolder | None = None,
        announce: Announce = lambda text: None,
    ) -> None:
        self._loop = loop
        self._until = until
        self._extended_to: int | None = None  # where the run ends if it is extended beyond its old plan
        self._announce = announce
        self._saves = None if folder is None else _Saves(folder, loop, announce)
        self._evaluated_at_end = folder is None
        self._asked_to_stop = False
        self._announced_cuts = False
        self.interrupted = False  # by a signal
        loop.plan(until - plan_start, plan_start)
        loop.should_stop = lambda: self._asked_to_stop
        self._waiting: list[Callable[[int], None]] = []  # listeners that say something during a long evaluation
        loop.while_evaluating = self._while_evaluating  # also without a folder: the hook of a run before must not stay

    @property
    def is_finished(self) -> bool:
        return self._plan_is_done and self._extended_to is None

    @property
    def _plan_is_done(self) -> bool:
        return self._loop.step >= self._until and not self._loop.is_busy and self._evaluated_at_end

    def resume(self, drop_damaged: bool = False) -> None:
        """Back to the newest good checkpoint; from the beginning where there is none.

        With ``drop_damaged``, back to one that has lost episodes, if there is no other.
        """
        assert self._saves is not None, "only a run with a folder can be resumed"
        self._evaluated_at_end, planned = self._saves.load(drop_damaged)
        if planned < self._until:  # extended since; what is left of the old plan comes first
            self._until, self._extended_to = planned, self._until

    def run(self, listeners: Sequence[Listener] = (), tensorboard: bool = True) -> bool:
        """Train until the plan is done (True), or a signal or a listener asks to stop (False).

        With a folder a checkpoint is left either way, also when something is raised.
        """
        with ExitStack() as stack:
            if self._saves is None:
                stack.enter_context(stop_on_first_interrupt(self._interrupt))
            else:
                stack.enter_context(stop_on_signals(self._interrupt))
                listeners = [stack.enter_context(self._saves.recording(tensorboard)), self._saves.best, *listeners]
                if self._loop.has_begun and not self._saves.has_saved:
                    self._save()  # a run that begins with what an agent has learned before cannot begin again from nothing
            try:
                self._train(listeners)
            except Interrupted:
                pass
            except (EnvironmentFailure, KeyboardInterrupt):  # what was learned is kept
                self._save()
                raise
            self._save()
        return self.is_finished

    def _train(self, listeners: Sequence[Listener]) -> None:
        advances = [listener.advance for listener in listeners if hasattr(listener, "advance")]
        self._waiting = [listener.evaluating for listener in listeners if hasattr(listener, "evaluating")]
        while not self._is_done() and not self._asked_to_stop:
            for event in self._loop.advance():  # all events of a step, also when one of them asks to stop
                self._tell_of_cuts(event)
                for listener in listeners:
                    if listener(event) is False:
                        self._asked_to_stop = True
            for advance in advances:
                advance(self._loop.step)
            self._save_if_due()

    def _is_done(self) -> bool:
        """Whether nothing is left, once a run that does not end with an evaluation has been given one."""
        if self._loop.step < self._until:
            return False
        if not self._loop.is_busy and not self._evaluated_at_end:
            every = self._loop.config.evaluation.eval_every
            if (not every or self._until % every) and self._loop.evaluation_environment is not None:
                self._loop.request_evaluation()
            self._evaluated_at_end = True
        if self._plan_is_done and self._extended_to is not None:
            self._extend(self._extended_to)
        return self.is_finished

    def _extend(self, until: int) -> None:
        """Continue beyond the finished plan, with the schedules of the longer one."""
        assert self._saves is not None
        start = self._loop.plan_start
        self._loop.plan(until - start, start)
        self._until, self._extended_to, self._evaluated_at_end = until, None, False
        self._saves.extend()
        self._save()

    def _interrupt(self) -> None:
        self.interrupted = self._asked_to_stop = True

    def _tell_of_cuts(self, event: Event) -> None:
        """Say once that an environment without end is learned from in pieces."""
        if isinstance(event, EpisodeEnded) and event.was_cut and not self._announced_cuts:
            self._announced_cuts = True
            self._announce(
                f"an episode was truncated at {event.length:,} steps: its environment did not end it (see --max-episode-steps)"
            )

    def _while_evaluating(self) -> None:
        """At every step of an evaluation, which may last longer than what lies between two."""
        for evaluating in self._waiting:
            evaluating(self._loop.step)
        self._save_if_due()

    def _save_if_due(self) -> None:
        if self._saves is not None and self._saves.is_due():
            self._save()

    def _save(self) -> None:
        if self._saves is not None:
            self._saves.save(self._evaluated_at_end)


class _Saves:
    """The checkpoints and records of a run in its folder."""

    def __init__(self, folder: RunFolder, loop: TrainingLoop, announce: Announce) -> None:
        self._folder = folder
        self._loop = loop
        self._announce = announce
        self._config = folder.config()
        self._settings = to_json(self._config)  # those of the plan being followed
        self._versions = folder.recorded_versions()
        self._store = CheckpointStore(folder.path / "checkpoints")
        self.best = BestPolicy(folder.best, loop, self._config)
        self._recorder: Recorder | None = None
        self.saved_step = 0
        self.saved_time = time.monotonic()
        self._saved_place: object = None

    @property
    def has_saved(self) -> bool:
        return self._saved_place is not None

    @contextmanager
    def recording(self, tensorboard: bool) -> Iterator[Recorder]:
        """Rows and curves while the run lasts."""
        with self._folder.failures_recorded():
            self._warn_of_drops()
            with Recorder(self._folder, tensorboard, self._loop.step) as self._recorder:
                yield self._recorder

    def _warn_of_drops(self) -> None:
        environment = self._loop.evaluation_environment
        if environment is not None and not comes_back_exactly(environment.env):
            self._announce(
                "this environment is not reproducible from its seed: after an interruption the open episode is "
                "dropped, and the rest of the run may differ from an uninterrupted one"
            )

    def is_due(self) -> bool:
        config = self._loop.config.run
        steps_due = self._loop.step - self.saved_step >= config.checkpoint_every
        return steps_due or time.monotonic() - self.saved_time >= 60 * config.checkpoint_minutes

    def _place(self, evaluated_at_end: bool) -> tuple[object, ...]:
        """What identifies a moment of a run."""
        loop = self._loop
        return (loop.step, loop.is_busy, evaluated_at_end, loop.updates, loop.memory.end_episode)

    def save(self, evaluated_at_end: bool) -> None:
        """A checkpoint, unless nothing has happened since the last."""
        assert self._recorder is not None
        place = self._place(evaluated_at_end)
        if place == self._saved_place:
            return
        reached("trainer:save")
        metrics, timing = self._recorder.sync()
        tree = {
            "config": self._settings,
            "loop": state_of(self._loop),
            "environments": self._loop.actors.environments.capture(),
            "metrics_bytes": metrics.size,
            "metrics_sha256": metrics.sha256,
            "timing": [timing.size, timing.sha256],
            "versions": self._versions,
            "evaluated_at_end": evaluated_at_end,
            "memory_end_step": self._loop.memory.end_step,
            "episode_starts": self._loop.memory.starts(),
            "best": self.best.state_dict(),
        }
        self._store.save(self._loop.step, tree, self._loop.memory)
        self.saved_step, self.saved_time, self._saved_place = self._loop.step, time.monotonic(), place

    def extend(self) -> None:
        """From here on, checkpoints belong to the longer plan."""
        self._settings = to_json(self._config)

    def load(self, drop_damaged: bool = False) -> tuple[bool, int]:
        """Restores the loop and its environment; returns whether the final evaluation had been made, and the steps planned."""
        loaded = self._store.load(self._announce, drop_damaged)
        if loaded is None:
            self._announce("there is no checkpoint yet: the run starts from the beginning")
            self._trim_metrics(0, None, drop_damaged)
            self.best.load_state_dict(BestPolicy.NONE)
            return False, self._config.steps
        tree = loaded.tree
        try:
            saved = from_json(tree["config"])  # settings that are new since have their defaults
            if not is_extension(self._config, saved):
                raise UserError(f"the checkpoint in {self._folder.path} belongs to a run with other settings")
            tree["loop"] = from_earlier_version(tree["loop"])
            require_like(tree["loop"], state_of(self._loop), "loop")
            self._restore(loaded)
            self._settings = to_json(saved)
            evaluated_at_end = bool(tree["evaluated_at_end"])
            metrics_bytes, metrics_sha256 = int(tree["metrics_bytes"]), tree.get("metrics_sha256")
            if metrics_bytes < 0:
                raise ValueError("metrics_bytes < 0")
            if not isinstance(metrics_sha256, str | None):
                raise TypeError("the hash of the metrics is not text")
            self._versions = str(tree.get("versions", self._versions))
            self.best.load_state_dict(tree["best"] if "best" in tree else self._best_score_until(loaded.step))
            snapshots = tree["environments"] if "environments" in tree else [tree["environment"]]
            if self._loop.actors.bring_back(snapshots, self._announce) and loaded.lost is None:
                # else the next checkpoint is due at once, without what is damaged
                self._saved_place = self._place(evaluated_at_end)
        except UserError:
            raise
        except Exception as error:  # of any kind: a hostile file can cause any of them
            reason = f"{type(error).__name__}: {error}"
            raise UserError(f"invalid checkpoint in {self._folder.path}: {reason}") from error
        self.saved_step = loaded.step
        self._trim_metrics(metrics_bytes, metrics_sha256, drop_damaged)
        if changed := self._folder.changed_software():
            words = f"the run began with other software ({', '.join(changed)})"
            self._announce(f"{words}: it continues, but may differ in the last bits from an uninterrupted run")
        self._announce(f"resumed at step {loaded.step:,}")
        return evaluated_at_end, saved.steps

    def _best_score_until(self, step: int) -> dict[str, Any]:
        """For a checkpoint of an earlier version, which holds no best policy: only a better one is kept from here on."""
        scores = [row["mean_reward"] for row in evaluations(self._folder.rows()) if row["step"] <= step]
        return {**BestPolicy.NONE, "score": max(scores, default=None)}

    def _restore(self, loaded: Loaded) -> None:
        if loaded.lost is None:
            return restore(self._loop, loaded.tree["loop"], loaded.episodes)
        episodes, steps = restore_without_lost(self._loop, loaded.tree, loaded.episodes)
        self._announce(
            f"{episodes:,} of {episodes + self._loop.memory.episodes:,} episodes ({steps:,} steps) are dropped, damaged: "
            f"{loaded.lost}; {loaded.lost.reason}; the run continues, but not bit-for-bit as an uninterrupted one"
        )

    def _trim_metrics(self, length: int, sha256: str | None, drop_damaged: bool) -> None:
        """Rows written after the checkpoint are written again: no gap, no duplicate."""
        path = self._folder.metrics
        found, digest = files.digest_of(path, length)
        is_whole = found == length and sha256 in (None, digest.hexdigest())  # earlier versions recorded no hash
        if not is_whole:
            words = f"{path} was changed: its first {length} bytes are not those that the checkpoint recorded"
            if not drop_damaged:
                way = f"`ebu resume {self._folder.path} --drop-damaged` continues with the rows as they are"
                raise UserError(f"{words}; the run cannot be resumed exactly; {way}")
            self._announce(f"{words}; the run continues with the rows as they are")
            length = self._folder.whole_rows(length)
        if self._folder.metrics_bytes() > length:
            files.DISK.truncate(path, length)
