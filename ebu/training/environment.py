"""The boundary to an environment that others wrote: what it returns is checked here, once, and encoded as stored.

Whatever it raises becomes an EnvironmentFailure of one line that says when.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from ebu.envs.spaces import ObservationSpec, count_actions, describe
from ebu.errors import EnvironmentFailure, RunFailure, UserError
from ebu.types import Array

LARGEST_REWARD = float(np.finfo(np.float32).max)  # rewards are stored as float32


@dataclass(frozen=True)
class Interface:
    """What an agent sees of an environment and can do in it."""

    spec: ObservationSpec
    actions: int
    stack: int  # latest frames that form a state

    @classmethod
    def of(cls, env: gymnasium.Env[Any, Any], stack: int) -> Interface:
        """Refuses spaces that are not supported. Only images are stacked."""
        spec = describe(env.observation_space).spec
        return cls(spec, count_actions(env.action_space), stack if spec.kind == "image" else 1)


@dataclass(frozen=True)
class Step:
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
        self._observations = describe(env.observation_space)
        self._reward_clip = reward_clip
        self._frames_can_be_damaged = self._observations.spec.can_be_damaged

    def encode(self, observation: Any) -> Array:
        """An observation as it is stored."""
        return self._observations.encode(observation)

    def reset(self, seed: int, when: str) -> Array:
        """The first frame of an episode; ``when`` is for the message if that fails."""
        with told_as_failure(f"at the reset {when}"):
            observation, _ = self.env.reset(seed=seed)
        frame = self.encode(observation)
        self._require_finite(frame, when, "at reset")
        return frame

    def step(self, action: int, when: str) -> Step:
        with told_as_failure(f"{when}, after action {action}"):
            observation, reward, terminated, truncated, info = self.env.step(action)
        frame = self.encode(observation)
        raw = float(reward)
        learned = clip_reward(raw, self._reward_clip)
        after = f"after action {action}"
        if not (math.isfinite(raw) and abs(learned) <= LARGEST_REWARD):
            raise EnvironmentFailure(f"the environment returned the reward {raw} {when}, {after}")
        self._require_finite(frame, when, after)
        return Step(frame, raw, learned, terminated, truncated, info)

    def _require_finite(self, frame: Array, when: str, after: str) -> None:
        """A damaged number must not reach the memory, from where it would spread to every weight."""
        if self._frames_can_be_damaged and not np.isfinite(frame).all():
            place = np.argwhere(~np.isfinite(frame))[0].tolist()
            raise EnvironmentFailure(
                f"the environment returned an observation with {frame[tuple(place)]} at index {place} {when}, {after}"
            )


def clip_reward(reward: float, clip: float) -> float:
    """The reward as it is learned from; a clip of 0 leaves it."""
    return max(-clip, min(clip, reward)) if clip else reward


def relative_length(length: int, info: dict[str, Any]) -> float | None:
    """Steps taken over the shortest path's, where the environment knows it."""
    return length / info["shortest_path"] if "shortest_path" in info else None


@contextmanager
def told_as_failure(when: str) -> Iterator[None]:
    """Whatever an environment raises, as one line that says when."""
    try:
        yield
    except (UserError, RunFailure):
        raise
    except Exception as error:
        reason = " ".join(str(error).split())
        raise EnvironmentFailure(f"the environment raised {type(error).__name__} {when}: {reason}") from error
