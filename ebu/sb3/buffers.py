"""Replay buffers of Stable-Baselines3 that know where episodes begin and end.

Steps lie in the arrays of SB3's own buffers, ``[size, n_envs]``, used as rings; an index records which rows form an
episode of which environment. An episode leaves as a whole when its first step is overwritten. ``sample`` is SB3's, so that
the buffers also serve its DQN; ``sample_episodes`` gives whole episodes, end to end on one time axis.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
from stable_baselines3.common.buffers import DictReplayBuffer, ReplayBuffer
from stable_baselines3.common.vec_env import VecNormalize
from torch import Tensor

from ebu.errors import UserError

Array = np.ndarray[Any, Any]
Observations = Tensor | dict[str, Tensor]


@dataclass(frozen=True)
class Episodes:
    """Steps of some episodes on one axis of N. Observations and rewards are normalised where a VecNormalize is given."""

    observations: Observations
    next_observations: Observations
    actions: Tensor  # [N]
    rewards: Tensor  # [N]
    terminated: Tensor  # [N], 1 where nothing is earned beyond; an episode cut by a time limit has none
    continues: Tensor  # [N], whether the step after it belongs to the same episode

    def __len__(self) -> int:
        return len(self.rewards)


class _EpisodeIndex(ReplayBuffer):
    """What the buffers add to SB3's: for each environment, the rows of its finished episodes and of the one in progress.

    Rows are counted from the first that was ever added; the one with number g lies in row g modulo the size.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        if options.get("optimize_memory_usage"):
            raise UserError("whole episodes are replayed without optimize_memory_usage; leave it out, or use ebu itself")
        super().__init__(*args, **options)
        self._forget()

    def _forget(self) -> None:
        self._added = 0
        self._open = [0] * self.n_envs  # the first row of the episode in progress
        self._finished: list[deque[tuple[int, int]]] = [deque() for _ in range(self.n_envs)]  # first row, row after the last

    def reset(self) -> None:
        super().reset()
        self._forget()

    def add(self, obs: Any, next_obs: Any, action: Array, reward: Array, done: Array, infos: list[dict[str, Any]]) -> None:
        super().add(obs, next_obs, action, reward, done, infos)
        self._added += 1
        oldest = self._added - self.buffer_size
        for env, finished in enumerate(self._finished):
            while finished and finished[0][0] < oldest:
                finished.popleft()
            if done[env]:
                self._finish(env)

    def end_open_episodes(self) -> None:
        """The environments were left in the middle of an episode: what there is of it counts as cut by a time limit."""
        for env in range(self.n_envs):
            self._finish(env)

    def _finish(self, env: int) -> None:
        first = max(self._open[env], self._added - self.buffer_size)  # of one longer than the buffer, the part that is left
        if first < self._added:
            self._finished[env].append((first, self._added))
        self._open[env] = self._added

    @property
    def episodes(self) -> int:
        """How many whole episodes there are."""
        return sum(map(len, self._finished))

    def _candidates(self) -> list[tuple[int, int, int]]:
        """(environment, first row, row after the last) of what can be replayed.

        As long as no episode is whole, it is what there is of those in progress: an environment may never end one.
        """
        whole = [(env, *rows) for env, finished in enumerate(self._finished) for rows in finished]
        oldest = max(self._added - self.buffer_size, 0)
        begun = [(env, max(first, oldest), self._added) for env, first in enumerate(self._open) if first < self._added]
        return whole or begun

    def sample_episodes(self, steps: int, rng: np.random.Generator, env: VecNormalize | None = None) -> Episodes:
        """Episodes drawn uniformly, whatever their lengths, until they have at least this many steps together."""
        candidates = self._candidates()
        if not candidates:
            raise UserError("there is nothing to replay: no step has been added to the buffer")
        drawn: list[tuple[int, int, int]] = []
        while sum(end - first for _, first, end in drawn) < steps:
            drawn.append(candidates[rng.integers(len(candidates))])
        rows = np.concatenate([np.arange(first, end) for _, first, end in drawn]) % self.buffer_size
        envs = np.concatenate([np.full(end - first, number) for number, first, end in drawn])
        continues = np.concatenate([np.arange(first, end) < end - 1 for _, first, end in drawn])
        rewards = self._normalize_reward(self.rewards[rows, envs], env)
        return Episodes(
            self._pick(self.observations, rows, envs, env),
            self._pick(self.next_observations, rows, envs, env),
            self.to_torch(self.actions[rows, envs, 0]).long(),
            self.to_torch(rewards),
            self.to_torch(self.dones[rows, envs] * (1 - self.timeouts[rows, envs])),
            self.to_torch(continues),
        )

    def _pick(self, stored: Any, rows: Array, envs: Array, env: VecNormalize | None) -> Observations:
        return self.to_torch(self._normalize_obs(stored[rows, envs], env))  # type: ignore[arg-type]


class EpisodeReplayBuffer(_EpisodeIndex):
    """Whole episodes of array observations, for ``replay_buffer_class=``."""


class DictEpisodeReplayBuffer(_EpisodeIndex, DictReplayBuffer):
    """Whole episodes of dictionary observations (``MultiInputPolicy``)."""

    def _pick(self, stored: Any, rows: Array, envs: Array, env: VecNormalize | None) -> Observations:
        normalised = self._normalize_obs({key: values[rows, envs] for key, values in stored.items()}, env)
        return {key: self.to_torch(values) for key, values in normalised.items()}  # type: ignore[union-attr]
