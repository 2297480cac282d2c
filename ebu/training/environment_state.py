"""Restores an environment in the middle of an episode: from its own snapshot, or by replaying the episode."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import gymnasium
import numpy as np

from ebu.envs.spaces import describe
from ebu.training.open_episode import OpenEpisode

PROBE_STEPS = 30


@runtime_checkable
class Snapshots(Protocol):
    """What an environment offers to be saved and restored exactly."""

    def snapshot(self) -> dict[str, Any]: ...

    def restore(self, snapshot: dict[str, Any]) -> Any:
        """Back to the snapshot; returns the observation of that moment."""


# Around an environment with snapshots these hold nothing but a count of steps; what others hold, a snapshot would miss.
WRAPPERS = (gymnasium.wrappers.TimeLimit, gymnasium.wrappers.OrderEnforcing, gymnasium.wrappers.PassiveEnvChecker)


def _core(env: gymnasium.Env[Any, Any]) -> Snapshots | None:
    """The environment inside, if its snapshots tell everything."""
    layer: Any = env
    while isinstance(layer, WRAPPERS):
        layer = layer.env
    return layer if layer is env.unwrapped and isinstance(layer, Snapshots) else None


def capture(env: gymnasium.Env[Any, Any]) -> dict[str, Any] | None:
    """The environment's snapshot, or None where the open episode has to be played again."""
    core = _core(env)
    return None if core is None else core.snapshot()


def bring_back(env: gymnasium.Env[Any, Any], snapshot: dict[str, Any] | None, episode: OpenEpisode | None) -> bool:
    """Restore the environment's state; False where that is not exact and the open episode must be dropped."""
    core = _core(env)
    if core is not None and snapshot is not None:
        env.reset(seed=episode.seed if episode is not None else 0)  # wrappers need a reset before the first step
        core.restore(snapshot)
        if episode is not None:
            _set_elapsed_steps(env, len(episode.actions))
        return True
    try:
        return episode is None or _replay(env, episode)
    except Exception:  # of the environment's: the actions that it took before, it refuses now
        return False


def _replay(env: gymnasium.Env[Any, Any], episode: OpenEpisode) -> bool:
    """Play the recorded actions from the recorded seed, checking every observation."""
    encode = describe(env.observation_space).encode
    observation, _ = env.reset(seed=episode.seed)
    if not _same(encode(observation), episode.observations[0]):
        return False
    for action, expected in zip(episode.actions, episode.observations[1:]):
        observation, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated or not _same(encode(observation), expected):
            return False
    return True


def comes_back_exactly(env: gymnasium.Env[Any, Any]) -> bool:
    """Whether a run on this environment can be resumed exactly; tried out on a spare copy.

    One that raises here tells nothing about that; the run will say what is wrong with it.
    """
    try:
        return _core(env) is not None or _repeats_itself(env)
    except Exception:
        return True


def _repeats_itself(env: gymnasium.Env[Any, Any]) -> bool:
    """Whether a short episode of random actions is the same when it is played again."""
    encode = describe(env.observation_space).encode
    rng = np.random.default_rng(0)
    observation, _ = env.reset(seed=12345)
    episode = OpenEpisode(12345, [encode(observation)])
    for _ in range(PROBE_STEPS):
        action = int(rng.integers(env.action_space.n))  # type: ignore[attr-defined]
        observation, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            break
        episode.actions.append(action)
        episode.observations.append(encode(observation))
    return _replay(env, episode)


def _same(frame: np.ndarray, other: np.ndarray) -> bool:
    return frame.shape == other.shape and frame.tobytes() == other.tobytes()


def _set_elapsed_steps(env: gymnasium.Env[Any, Any], steps: int) -> None:
    """A time limit around an environment counts its own steps, which no snapshot inside knows."""
    layer: Any = env
    while layer is not env.unwrapped:
        if isinstance(layer, gymnasium.wrappers.TimeLimit):
            setattr(layer, "_elapsed_steps", steps)  # noqa: B010 - the wrapper offers no other way
        layer = layer.env
