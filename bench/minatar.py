"""The whole training loop on MinAtar's Breakout against Stable-Baselines3's DQN and CleanRL's with the same network.

Network of Young and Tian (16 kernels of 3 × 3, 128 hidden units), batch 32, one update per step, Adam, ε fixed to 0.1, one
thread. CPU seconds in place of those of a clock: everything runs in one thread, and others may use the machine meanwhile.
Before the first turn each plays 2,000 steps with 1,000 updates.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn

import ebu
from bench.peers.cleanrl_dqn import CleanDQN
from bench.timing import rounds

ENVIRONMENT = "MinAtar/Breakout-v1"
PEER, OTHER_PEER = "Stable-Baselines3 DQN", "CleanRL's DQN"
EPSILON = 0.1
SIZES = {"warm_up": 2_000, "turn": 100, "turns": 25}  # steps before the first turn, in a turn; turns
QUICK = {"warm_up": 1_200, "turn": 50, "turns": 2}
COMMON: dict[str, Any] = {
    "batch_size": 32,
    "gamma": 0.99,
    "train_freq": 1,
    "gradient_steps": 1,
    "learning_rate": 2.5e-4,
    "buffer_size": 50_000,
    "learning_starts": 1_000,
    "target_update_interval": 1_000,
    "exploration_initial_eps": EPSILON,
    "exploration_final_eps": EPSILON,
    "seed": 0,
}


def run(quick: bool = False) -> list[dict[str, Any]]:
    torch.set_num_threads(1)
    return _rows(**(QUICK if quick else SIZES))


def _rows(warm_up: int, turn: int, turns: int) -> list[dict[str, Any]]:
    own = {"dqn": ours(ebu.DQN), "ebu": ours(ebu.EBU)}
    contestants = {**own, PEER: stable_baselines(), OTHER_PEER: cleanrl()}
    for train in contestants.values():
        train(warm_up)
    plays = {name: lambda t=train: t(turn) for name, train in contestants.items()}
    seconds = rounds(plays, turns, time.process_time)  # type: ignore[arg-type]
    speed = {name: turn / statistics.median(values) for name, values in seconds.items()}
    peers = ", ".join(f"{name}: {speed[name]:,.0f} steps/s" for name in (PEER, OTHER_PEER))
    return [
        {
            "what": f"{ENVIRONMENT} training, {algo}, an update per step, CPU seconds",
            "ours": f"{speed[algo]:,.0f} steps/s",
            "peer": peers,
            "ratio": statistics.median(theirs / mine for theirs, mine in zip(seconds[PEER], seconds[algo])),
            "at_least": 3.0,
        }
        for algo in own
    ]


def ours(agent: Any) -> Callable[[int], object]:
    settings = {"learning_rate_schedule": "constant", "tau": 1.0, "double_q": False, "eval_every": 0, "threads": 1}
    return agent(ENVIRONMENT, **settings, **COMMON).learn


def stable_baselines() -> Callable[[int], object]:
    from stable_baselines3 import DQN
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

    class Convolution(BaseFeaturesExtractor):  # type: ignore[misc]
        """The part of the network before its linear layers; the policy's net_arch gives those."""

        def __init__(self, space: gymnasium.Space[Any]) -> None:
            super().__init__(space, 16 * 8 * 8)
            self.layers = nn.Sequential(nn.Conv2d(space.shape[2], 16, 3), nn.ReLU(), nn.Flatten())  # type: ignore[index]

        def forward(self, states: Tensor) -> Tensor:
            return self.layers(states.permute(0, 3, 1, 2))

    policy = {"features_extractor_class": Convolution, "net_arch": [128]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        env = gymnasium.make(ENVIRONMENT, disable_env_checker=True)  # registered when ours was made
        model = DQN("MlpPolicy", env, policy_kwargs=policy, device="cpu", **COMMON)
    return lambda steps: model.learn(steps, reset_num_timesteps=False)


def cleanrl() -> Callable[[int], object]:
    shared = ("batch_size", "gamma", "train_freq", "learning_rate", "buffer_size", "learning_starts", "target_update_interval")
    settings = {name: COMMON[name] for name in shared}

    def make() -> gymnasium.Env[Any, Any]:
        env = gymnasium.make(ENVIRONMENT, disable_env_checker=True)
        return gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.wrappers.DtypeObservation(env, np.uint8))

    return CleanDQN(make, _network, epsilon=EPSILON, **settings).learn


def _network(actions: int) -> nn.Module:
    """From bytes [B, 10, 10, 4] to action values."""
    return nn.Sequential(
        _ChannelsFirst(), nn.Conv2d(4, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 8 * 8, 128), nn.ReLU(),
        nn.Linear(128, actions),
    )  # fmt: skip


class _ChannelsFirst(nn.Module):
    def forward(self, states: Tensor) -> Tensor:
        return states.to(torch.float32).permute(0, 3, 1, 2)
