"""DQN the way CleanRL's ``dqn_atari.py`` and ``dqn.py`` do it, as an object that can be asked for some more steps.

CleanRL is a collection of scripts, not a package, so the structure of its script is written down here: Gymnasium's and
Stable-Baselines3's wrappers one around the other, Stable-Baselines3's replay buffer, two plain networks, Adam, squared
error, one update per four steps. Left out is what only reports (TensorBoard, video), which would cost it time.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import torch
from stable_baselines3.common.atari_wrappers import (
    ClipRewardEnv,
    EpisodicLifeEnv,
    FireResetEnv,
    MaxAndSkipEnv,
    NoopResetEnv,
)
from stable_baselines3.common.buffers import ReplayBuffer
from torch import nn
from torch.nn import functional


class CleanDQN:
    """``learn(n)`` plays n steps and makes n / train_freq updates."""

    def __init__(
        self,
        make: Callable[[], gymnasium.Env[Any, Any]],
        network: Callable[[int], nn.Module],
        *,
        buffer_size: int,
        learning_starts: int,
        epsilon: float,
        learning_rate: float,
        batch_size: int,
        gamma: float,
        train_freq: int,
        target_update_interval: int,
    ) -> None:
        self._envs = gymnasium.vector.SyncVectorEnv([make], autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP)
        self._actions: Any = self._envs.single_action_space
        self._online, self._target = (network(int(self._actions.n)) for _ in range(2))
        self._target.load_state_dict(self._online.state_dict())
        self._optimiser = torch.optim.Adam(self._online.parameters(), lr=learning_rate)
        self._buffer = ReplayBuffer(
            buffer_size,
            self._envs.single_observation_space,
            self._actions,
            "cpu",
            optimize_memory_usage=len(self._envs.single_observation_space.shape or ()) > 1,  # as the script for images has it
            handle_timeout_termination=False,
        )
        self._learning_starts = learning_starts
        self._epsilon = epsilon
        self._batch_size = batch_size
        self._gamma = gamma
        self._train_freq = train_freq
        self._target_update_interval = target_update_interval
        self._step = 0
        self._observation, _ = self._envs.reset(seed=1)

    def learn(self, steps: int) -> None:
        for _ in range(steps):
            self._play()
            self._step += 1
            if self._step > self._learning_starts:
                if self._step % self._train_freq == 0:
                    self._update()
                if self._step % self._target_update_interval == 0:
                    self._target.load_state_dict(self._online.state_dict())

    def _play(self) -> None:
        if random.random() < self._epsilon:
            actions = np.array([self._actions.sample()])
        else:
            actions = self._online(torch.Tensor(self._observation)).argmax(dim=1).numpy()
        following, rewards, terminated, truncated, infos = self._envs.step(actions)
        stored = following.copy()
        for place, is_cut in enumerate(truncated):
            if is_cut:
                stored[place] = infos["final_obs"][place]
        self._buffer.add(self._observation, stored, actions, rewards, terminated, [infos])
        self._observation = following

    def _update(self) -> None:
        data = self._buffer.sample(self._batch_size)
        with torch.no_grad():
            best = self._target(data.next_observations).max(dim=1).values
            wanted = data.rewards.flatten() + self._gamma * best * (1 - data.dones.flatten())
        values = self._online(data.observations).gather(1, data.actions).squeeze()
        loss = functional.mse_loss(wanted, values)
        self._optimiser.zero_grad()
        loss.backward()
        self._optimiser.step()


def of_atari(env_id: str, **settings: Any) -> CleanDQN:
    return CleanDQN(lambda: _wrapped(env_id), lambda actions: nn.Sequential(_Scaled(), nature_network(actions)), **settings)


class _Scaled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / 255.0


def nature_network(actions: int) -> nn.Sequential:
    """From floats [B, 4, 84, 84] to action values."""
    return nn.Sequential(
        nn.Conv2d(4, 32, 8, stride=4),
        nn.ReLU(),
        nn.Conv2d(32, 64, 4, stride=2),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3, stride=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(3136, 512),
        nn.ReLU(),
        nn.Linear(512, actions),
    )


def _wrapped(env_id: str) -> gymnasium.Env[Any, Any]:
    env: Any = gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make(env_id))
    env = EpisodicLifeEnv(MaxAndSkipEnv(NoopResetEnv(env, noop_max=30), skip=4))
    if "FIRE" in env.unwrapped.get_action_meanings():
        env = FireResetEnv(env)
    env = gymnasium.wrappers.ResizeObservation(ClipRewardEnv(env), (84, 84))
    return gymnasium.wrappers.FrameStackObservation(gymnasium.wrappers.GrayscaleObservation(env), 4)
