"""Callbacks: what to do while an agent learns. ``agent.learn(50_000, callback=[StopOnReward(475), KeepBest("best.ebu")])``

A callback is any function of one event; one that returns False stops the training. The classes here are such functions with
state. Those that need the agent derive from ``Callback``: ``begin(agent)`` is called before the first step.
"""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ebu.config_check import is_whole
from ebu.errors import UserError
from ebu.training.events import EpisodeEnded, Evaluated, Event, Synchronised, Trained

if TYPE_CHECKING:
    from ebu.agent import Agent

__all__ = [
    "Callback",
    "Checkpoint",
    "EpisodeEnded",
    "Evaluated",
    "Event",
    "KeepBest",
    "Record",
    "StopOnReward",
    "Synchronised",
    "Trained",
]


OF_STABLE_BASELINES3 = {f"_on_{when}" for when in ("step", "training_start", "training_end", "rollout_start", "rollout_end")}


class Callback:
    """Base class of callbacks with state. Each method is optional."""

    agent: Agent
    waits_for_evaluations = False
    """Whether it does nothing without an evaluation; ``learn`` warns where there will be none."""

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        if foreign := sorted(OF_STABLE_BASELINES3 & vars(cls).keys()):
            words = "is a method of Stable-Baselines3's callbacks, and would never be called here"
            raise UserError(f"{cls.__name__}.{foreign[0]} {words}; write __call__(event) or advance(step) (docs/callbacks.md)")

    def begin(self, agent: Agent) -> None:
        """Called before the first step of a ``learn``."""
        self.agent = agent

    def __call__(self, event: Event) -> bool | None:
        """Called with every event; False stops the training, anything else continues it."""
        return None

    def advance(self, step: int) -> None:
        """Called after every step and everything that was due after it."""


class StopOnReward(Callback):
    """Stop when an evaluation's mean score reaches ``reward``; with ``episodes``, the mean of the latest training episodes."""

    def __init__(self, reward: float, episodes: int | None = None) -> None:
        if not isinstance(reward, int | float | np.number) or not np.isfinite(reward):
            raise UserError(f"StopOnReward takes a finite number, got {reward!r}")
        if episodes is not None and not (is_whole(episodes) and episodes >= 1):
            raise UserError(f"episodes must be at least 1, got {episodes!r}")
        self.reward, self.episodes = reward, None if episodes is None else int(episodes)
        self.waits_for_evaluations = episodes is None
        self._scores: deque[float] = deque(maxlen=self.episodes)

    def begin(self, agent: Agent) -> None:
        super().begin(agent)
        if self.episodes is None:
            _require_evaluations(agent, "StopOnReward", "; or pass episodes=, e.g. 100")
        self._scores.clear()

    def __call__(self, event: Event) -> bool | None:
        if self.episodes is None:
            return not (isinstance(event, Evaluated) and event.evaluation.mean >= self.reward)
        if isinstance(event, EpisodeEnded):
            self._scores.append(event.score)
            return len(self._scores) < self.episodes or float(np.mean(self._scores)) < self.reward
        return None


class KeepBest(Callback):
    """Save the policy of the best evaluation so far to a file. A run folder keeps it anyway, as ``best.ebu``."""

    waits_for_evaluations = True

    def __init__(self, path: str | Path) -> None:
        self.path = _path(path, "KeepBest")
        self.score: float | None = None

    def begin(self, agent: Agent) -> None:
        super().begin(agent)
        _require_evaluations(agent, "KeepBest")

    def __call__(self, event: Event) -> None:
        if isinstance(event, Evaluated) and (self.score is None or event.evaluation.mean > self.score):
            self.score = event.evaluation.mean
            self.agent.save(self.path)


def _path(value: Any, callback: str) -> Path:
    if not isinstance(value, str | os.PathLike):
        raise UserError(f"{callback} takes a path first, got {value!r}")
    return Path(value)


def _require_evaluations(agent: Agent, callback: str, otherwise: str = "") -> None:
    if agent.loop.evaluation_environment is None:
        words = "the environment object cannot be made a second time to evaluate on; give its id, or a list with a function"
        raise UserError(f"{callback}: {words} that makes it (env=[make]){otherwise}")


class _Every(Callback):
    """Acts every so many steps."""

    def __init__(self, folder: str | Path, every: int) -> None:
        if not (is_whole(every) and every >= 1):
            raise UserError(f"every must be at least 1 step, a whole number, got {every!r}")
        self.folder, self.every = _path(folder, type(self).__name__), int(every)
        self._last = 0

    def begin(self, agent: Agent) -> None:
        super().begin(agent)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot write to {self.folder}: {error.strerror}; choose another folder") from error
        self._last = agent.loop.step

    def advance(self, step: int) -> None:
        if step // self.every > self._last // self.every:
            self.act(step)
        self._last = step

    def act(self, step: int) -> None:
        raise NotImplementedError


class Checkpoint(_Every):
    """Save the agent every so many steps as ``folder/NAME-STEP.ebu``; with ``memory``, it can continue exactly."""

    def __init__(self, folder: str | Path, every: int, name: str = "agent", memory: bool = False) -> None:
        super().__init__(folder, every)
        self.name, self.memory = name, memory

    def act(self, step: int) -> None:
        self.agent.save(self.folder / f"{self.name}-{step}.ebu", memory=self.memory)


class Record(_Every):
    """A video of one greedy episode every so many steps, as ``folder/step-STEP.mp4`` (or .gif). Training is not disturbed."""

    def __init__(self, folder: str | Path, every: int, suffix: str = ".mp4", seed: int = 0) -> None:
        super().__init__(folder, every)
        self.suffix, self.seed = suffix, seed

    def begin(self, agent: Agent) -> None:
        from ebu.training.film import require_film

        super().begin(agent)
        require_film(self.folder / f"step-0{self.suffix}")
        offered = agent.env.metadata.get("render_modes", [])
        if "rgb_array" not in offered:
            name = agent.config.environment.env
            raise UserError(f"{name} cannot be recorded (it offers {', '.join(offered) or 'nothing'})")
        self._env = agent.make_env(render_mode="rgb_array")

    def act(self, step: int) -> None:
        from ebu.training.environment import Environment
        from ebu.training.evaluate import rollout
        from ebu.training.film import write_film

        frames: list[Any] = []
        for _ in rollout(
            self.agent.policy,
            Environment(self._env),
            seed=self.seed,
            epsilon=0.0,
            rng=np.random.default_rng(self.seed),
            stack=self.agent.interface.stack,
            max_steps=self.agent.config.environment.max_episode_steps,
            watch=lambda: frames.append(self._env.render()),
        ):
            pass
        write_film(self.folder / f"step-{step}{self.suffix}", frames, int(self._env.metadata.get("render_fps") or 15))
