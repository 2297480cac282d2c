"""Several environments at once, on Gymnasium's vector environments: in this process, or each in its own.

Every environment is checked and its observations are encoded where it runs, so that only frames travel. Gymnasium resets
nothing by itself: an ended episode's last frame arrives as it is, and the next episode begins with its own seed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Any, Literal, NoReturn

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from ebu.envs.spaces import ObservationSpec
from ebu.errors import EnvironmentFailure, RunFailure, UserError
from ebu.training.environment import Environment, Interface, Step, clip_reward, reported
from ebu.training.environment_state import bring_back, capture
from ebu.training.environments import Snapshot
from ebu.training.open_episode import OpenEpisode
from ebu.types import Array

Factory = Callable[[], gymnasium.Env[Any, Any]]
Vectorization = Literal["sync", "async"]

# A new process from a copy of this one is there at once and needs no `if __name__ == "__main__"` in the user's script.
START_METHOD = "fork" if sys.platform == "linux" else None

# Gymnasium joins the frames of all environments at every reset, also of those that are not reset and have none yet.
NO_EPISODE = {"begin": False}

DIFFERENT = "the environments differ in their observations or actions; for one agent they must be the same"


class Member(gymnasium.Wrapper[Any, Any, Any, Any]):
    """One of the environments, where it runs. A failure is returned in ``info``: a process that raises would be lost."""

    def __init__(self, env: gymnasium.Env[Any, Any], number: int, count: int, stack: int) -> None:
        super().__init__(env)
        self.interface = Interface.of(env, stack)
        self.observation_space = _frame_space(self.interface.spec)
        self.saved: tuple[Snapshot, OpenEpisode | None] = (None, None)  # set from outside before ``bring_back``
        self._environment = Environment(env)
        self._who = f"in environment {number + 1} of {count}"
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        if options == NO_EPISODE:
            return self._no_frame(), {}
        assert seed is not None, "every episode has its own seed"
        self._steps = 0
        try:
            return self._environment.reset(seed, self._who), {}
        except (UserError, RunFailure) as error:
            return self._no_frame(), {"failure": error}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        try:
            step = self._environment.step(int(action), f"{self._who} at step {self._steps} of its episode")
        except (UserError, RunFailure) as error:
            return self._no_frame(), 0.0, False, False, {"failure": error}
        told = tuple(reported(step.info).items())
        return step.frame, step.reward, step.terminated, step.truncated, {"told": told} if told else {}

    def capture(self) -> Snapshot:
        return capture(self.env)

    def bring_back(self) -> bool:
        snapshot, episode = self.saved
        self._steps = 0 if episode is None else len(episode.actions)
        self.saved = (None, None)
        return bring_back(self.env, snapshot, episode)

    def _no_frame(self) -> Array:
        return np.zeros(self.observation_space.shape, self.observation_space.dtype)  # type: ignore[arg-type]


@dataclass(frozen=True)
class _MakeMember:
    """Makes a member in this process or in its own."""

    make: Factory
    number: int
    count: int
    stack: int
    owner: int  # the process that trains

    def __call__(self) -> Member:
        if os.getpid() != self.owner and hasattr(os, "setpgid"):
            os.setpgid(0, 0)  # Ctrl-C is for the process that trains: it still needs this one for its checkpoint
        return Member(self.make(), self.number, self.count, self.stack)


class VectorEnvironments:
    """Environments made by ``factories``, all of which an agent sees alike."""

    def __init__(
        self,
        factories: Sequence[Factory],
        vectorization: Vectorization,
        name: str,
        interface: Interface,
        stack: int,
        reward_clip: float = 0.0,
    ) -> None:
        self.count = len(factories)
        self._factories = [_MakeMember(make, i, self.count, stack, os.getpid()) for i, make in enumerate(factories)]
        self._vectorization = vectorization
        self._name = name
        self._interface = interface
        self._reward_clip = reward_clip
        self._vector: SyncVectorEnv | AsyncVectorEnv | None = self._made()

    def _made(self) -> SyncVectorEnv | AsyncVectorEnv:
        options: dict[str, Any] = {"copy": False, "autoreset_mode": AutoresetMode.DISABLED}
        try:
            if self._vectorization == "sync":
                vector: SyncVectorEnv | AsyncVectorEnv = SyncVectorEnv(self._factories, **options)
            else:
                vector = AsyncVectorEnv(self._factories, context=START_METHOD, **options)
            vector.reset(options=dict(NO_EPISODE))
            alike = all(interface == self._interface for interface in vector.call("interface"))
        except UserError:
            raise
        except Exception as error:  # of any kind: others wrote the environments
            reason = " ".join(str(error).split()) or type(error).__name__
            if isinstance(error, RuntimeError | AssertionError) and "space" in reason:
                raise UserError(DIFFERENT) from error
            raise UserError(f"{self.count} environments of {self._name} could not be made: {reason}") from error
        if not alike:
            raise UserError(DIFFERENT)
        if isinstance(vector, SyncVectorEnv) and len({id(env.unwrapped) for env in vector.envs}) < self.count:
            raise UserError("the functions return the same environment object; each must make one of its own")
        return vector

    # ------------------------------------------------------------------ playing

    def reset(self, seeds: Mapping[int, int], when: str) -> dict[int, Array]:
        mask = np.zeros(self.count, bool)
        mask[list(seeds)] = True
        given = [seeds.get(number) for number in range(self.count)]
        frames, infos = self._ask(when, lambda vector: vector.reset(seed=given, options={"reset_mask": mask}))
        self._raise_failure(infos)
        return {number: frames[number].copy() for number in seeds}

    def step(self, actions: Sequence[int], when: str) -> list[Step]:
        array = np.array(actions)
        frames, rewards, terminated, truncated, infos = self._ask(when, lambda vector: vector.step(array))
        self._raise_failure(infos)
        told = infos.get("told", [None] * self.count)
        values = zip(frames, rewards.tolist(), terminated.tolist(), truncated.tolist(), told)
        return [  # each frame by itself: together they would stay until the longest episode ends
            Step(frame.copy(), reward, clip_reward(reward, self._reward_clip), ended, cut, dict(info or ()))
            for frame, reward, ended, cut, info in values
        ]

    def _raise_failure(self, infos: dict[str, Any]) -> None:
        if "failure" in infos:
            raise next(error for error in infos["failure"] if error is not None)

    # ------------------------------------------------------------------ saving

    def capture(self) -> list[Snapshot]:
        """None for all where the environments are lost; their episodes are dropped then."""
        if self._vector is None:
            return [None] * self.count
        return list(self._ask("at a checkpoint", lambda vector: vector.call("capture")))

    def bring_back(self, snapshots: Sequence[Snapshot], episodes: Sequence[OpenEpisode | None]) -> list[bool]:
        self._ask("while resuming", lambda vector: vector.set_attr("saved", list(zip(snapshots, episodes))))
        return list(self._ask("while resuming", lambda vector: vector.call("bring_back")))

    # ------------------------------------------------------------------ processes

    def _ask(self, when: str, question: Callable[[SyncVectorEnv | AsyncVectorEnv], Any]) -> Any:
        if self._vector is None:
            self._vector = self._made()
        try:
            return question(self._vector)
        except (EOFError, ConnectionError) as error:
            self._tell_of_loss(when, error)
        except BaseException:  # interrupted with answers under way, which would be taken for those of the next question
            self.close()
            raise

    def _tell_of_loss(self, when: str, error: Exception) -> NoReturn:
        processes = getattr(self._vector, "processes", [])
        for sentinel in wait([process.sentinel for process in processes], timeout=1.0):
            next(process for process in processes if process.sentinel == sentinel).join(1.0)
        lost = [f"{i + 1} (exit code {process.exitcode})" for i, process in enumerate(processes) if not process.is_alive()]
        self.close()
        which = ", ".join(lost) or "unknown"
        words = f"the process of environment {which} of {self.count} of {self._name} has ended {when}"
        raise EnvironmentFailure(words) from error

    def close(self) -> None:
        """End the processes, whatever they are doing; the next question starts new ones."""
        vector, self._vector = self._vector, None
        if isinstance(vector, AsyncVectorEnv):
            for process in vector.processes:
                process.terminate()
            for process in vector.processes:
                process.join()
            vector.closed = True  # its own way would wait for answers of a process that is gone
        elif vector is not None:
            vector.close()


def _frame_space(spec: ObservationSpec) -> spaces.Box:
    """The space of encoded frames: any observation as one array."""
    dtype = np.dtype(spec.dtype)
    low, high = (-np.inf, np.inf) if dtype.kind == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return spaces.Box(low, high, spec.shape, dtype.type)
