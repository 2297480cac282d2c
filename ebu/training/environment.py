"""The boundary to an environment that others wrote: what it returns is checked here, once, and encoded as stored.

Whatever it raises becomes an EnvironmentFailure of one line that says when.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import gymnasium
import numpy as np

from ebu.envs.spaces import InvalidValue, ObservationSpec, count_actions, describe, shown
from ebu.errors import EnvironmentFailure, RunFailure, UserError
from ebu.types import Array

REPORTED = ("shortest_path", "score", "game_over")
SHORT_VECTOR = 32
LARGEST_REWARD = float(np.finfo(np.float32).max)  # rewards are stored as float32


@dataclass(frozen=True)
class Interface:
    """What an agent sees of an environment and can do in it."""

    spec: ObservationSpec
    actions: int
    stack: int  # latest frames that form a state

    @classmethod
    def of(cls, env: gymnasium.Env[Any, Any], stack: int) -> Interface:
        """Refuses spaces that are not supported. Only observations with images are stacked."""
        spec = describe(env.observation_space).spec
        return cls(spec, count_actions(env.action_space), stack if spec.is_stacked else 1)

    def __str__(self) -> str:
        shape = f" {list(self.spec.categories or self.spec.shape)}"
        return f"{self.spec.kind} observations{shape} and {self.actions} actions"

    def require_same(self, other: Interface) -> None:
        """Refuse an environment whose observations or actions are not those that an agent was made for."""
        if (self.spec, self.actions) != (other.spec, other.actions):
            shared = "" if str(self) != str(other) else f" ({self.spec} and {other.spec})"
            raise UserError(f"the agent was made for {self}, but the environment has {other}{shared}")


class Step(NamedTuple):
    """What came back after an action."""

    frame: Array  # encoded
    reward: float  # raw
    learned_reward: float  # clipped where the setting says so
    terminated: bool
    truncated: bool
    info: dict[str, Any]

    @property
    def over(self) -> bool:
        return self.terminated or self.truncated


class Environment:
    """A Gymnasium environment whose every value is checked before anything is stored or learned."""

    def __init__(self, env: gymnasium.Env[Any, Any], reward_clip: float = 0.0) -> None:
        self.env = env
        self.name = env.spec.id if env.spec is not None else type(env.unwrapped).__name__
        self._observations = describe(env.observation_space)
        self.reward_clip = reward_clip
        self._frames_can_be_damaged = self._observations.spec.can_be_damaged

    def encode(self, observation: Any) -> Array:
        """An observation as it is stored; an InvalidValue where the space does not promise such a one."""
        frame = self._observations.encode(observation)
        if self._frames_can_be_damaged and not is_finite(frame):
            place = np.argwhere(~np.isfinite(frame))[0].tolist()
            raise InvalidValue(f"with {frame[tuple(place)]} at index {place}")
        return frame

    def reset(self, seed: int, when: str) -> Array:
        """The first frame of an episode; ``when`` is for the message if that fails."""
        try:
            returned = self.env.reset(seed=seed)
        except (Exception, SystemExit) as error:
            self._tell_of_failure(error, when, "at reset")
        if type(returned) is not tuple or len(returned) != 2:
            self._refuse(f"from reset {shown(returned)} instead of (observation, info)", when, "at reset")
        return self._frame(returned[0], when, "at reset")

    def step(self, action: int, when: str) -> Step:
        try:
            returned = self.env.step(action)
        except (Exception, SystemExit) as error:
            self._tell_of_failure(error, when, _after(action))
        if type(returned) is not tuple or len(returned) != 5:
            words = "instead of (observation, reward, terminated, truncated, info), the interface of Gymnasium"
            self._refuse(f"from step {shown(returned)} {words}", when, _after(action))
        observation, reward, terminated, truncated, info = returned
        try:
            frame = self.encode(observation)
        except InvalidValue as error:
            self._refuse(f"the observation {error}", when, _after(action))
        raw = reward if type(reward) is float else self._number(reward, when, _after(action))
        learned = clip_reward(raw, self.reward_clip)
        if not (math.isfinite(raw) and abs(learned) <= LARGEST_REWARD):
            self._refuse(f"the reward {raw}", when, _after(action))
        if type(terminated) is not bool or type(truncated) is not bool:
            terminated, truncated = (self._truth(value, when, _after(action)) for value in (terminated, truncated))
        if not isinstance(info, dict):
            self._refuse(f"the info {shown(info)} instead of a dictionary", when, _after(action))
        return Step(frame, raw, learned, terminated, truncated, info)

    def _frame(self, observation: Any, when: str, after: str) -> Array:
        """A damaged number must not reach the memory, from where it would spread to every weight."""
        try:
            return self.encode(observation)
        except InvalidValue as error:
            self._refuse(f"the observation {error}", when, after)

    def _number(self, reward: Any, when: str, after: str) -> float:
        if isinstance(reward, np.ndarray) and reward.ndim == 0:
            reward = reward[()]
        if not isinstance(reward, int | float | np.integer | np.floating | np.bool_):
            self._refuse(f"the reward {shown(reward)} instead of a number", when, after)
        return float(reward)

    def _truth(self, value: Any, when: str, after: str) -> bool:
        if isinstance(value, np.ndarray) and value.ndim == 0:
            value = value[()]
        if not isinstance(value, bool | np.bool_) and not (isinstance(value, int | np.integer) and value in (0, 1)):
            self._refuse(f"{shown(value)} as terminated or truncated instead of true or false", when, after)
        return bool(value)

    def _refuse(self, what: str, when: str, after: str) -> NoReturn:
        raise EnvironmentFailure(f"the environment {self.name} returned {what} {when}, {after}")

    def _tell_of_failure(self, error: BaseException, when: str, after: str) -> NoReturn:
        """Whatever the environment raises, as one line that says when; its ``sys.exit`` does not end a run silently."""
        if isinstance(error, UserError | RunFailure):
            raise error
        reason = " ".join(str(error).split())
        words = f"the environment {self.name} raised {type(error).__name__} {when}, {after}: {reason}"
        raise EnvironmentFailure(words) from error


def _after(action: int) -> str:
    return f"after action {action}"


def is_finite(frame: Array) -> bool:
    """Whether every number is; of a short vector by its sum, which takes a fifth of the time."""
    if frame.ndim == 1 and frame.size <= SHORT_VECTOR and math.isfinite(sum(frame.tolist())):
        return True
    return bool(np.isfinite(frame).all())


def clip_reward(reward: float, clip: float) -> float:
    """The reward as it is learned from; a clip of 0 leaves it."""
    return max(-clip, min(clip, reward)) if clip else reward


def reported(info: dict[str, Any]) -> dict[str, Any]:
    """The part of ``info`` that the loop reads, where it holds what it should."""
    if not info:
        return {}
    return {key: info[key] for key in REPORTED if isinstance(info.get(key), int | float | np.integer | np.floating)}


def relative_length(length: int, info: dict[str, Any]) -> float | None:
    """Steps taken over the shortest path's, where the environment knows it."""
    shortest = _finite(info.get("shortest_path"))
    return length / shortest if shortest is not None and shortest > 0 else None


def game_score(info: dict[str, Any]) -> float | None:
    """The score of the whole game that has just ended, where a game has several episodes."""
    return _finite(info.get("score")) if info.get("game_over") is True else None


def _finite(value: Any) -> float | None:
    """A number that others may have written into ``info`` under a name that means something to us; None for all else."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return None
    return float(value) if math.isfinite(value) else None
