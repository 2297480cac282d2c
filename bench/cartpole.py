"""(b) The whole training loop on CartPole-v1 against Stable-Baselines3's DQN and CleanRL's; (c) EBU's cost over DQN's.

Same network (64, 64), batch 32, one update per 4 steps, Adam, ε fixed to 0.05, one thread; turns of 1,000 steps. CPU seconds
in place of those of a clock: everything runs in one thread, and others may use the machine meanwhile. The last row is what a
user gets who sets nothing: 128 × 128 units, batch 128, an update per step.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium
import torch
from torch import nn

import ebu
from bench.peers.cleanrl_dqn import CleanDQN
from bench.timing import rounds

TURN_STEPS = 1_000
TURNS = 15
QUICK_TURNS = 2
EPSILON = 0.05
SETTINGS: dict[str, Any] = {
    "batch_size": 32,
    "train_freq": 4,
    "gradient_steps": 1,
    "learning_rate": 1e-3,
    "buffer_size": 50_000,
    "learning_starts": 200,
    "target_update_interval": 500,
    "exploration_initial_eps": EPSILON,
    "exploration_final_eps": EPSILON,
    "seed": 0,
}
OURS = {**SETTINGS, "learning_rate_schedule": "constant", "tau": 1.0, "double_q": False}
PEER, OTHER_PEER = "Stable-Baselines3 DQN", "CleanRL's DQN"


def run(quick: bool = False) -> list[dict[str, Any]]:
    torch.set_num_threads(1)
    contestants = {"dqn": ours(ebu.DQN), "ebu": ours(ebu.EBU), PEER: stable_baselines(), OTHER_PEER: cleanrl()}
    default = ebu.EBU("CartPole-v1", eval_every=0, threads=1, seed=0).learn
    plays: dict[str, Callable[[], object]] = {name: lambda t=t: t(TURN_STEPS) for name, t in contestants.items()}  # type: ignore[misc]
    plays["default"] = lambda: default(TURN_STEPS // 4)
    seconds = rounds(plays, QUICK_TURNS if quick else TURNS, time.process_time)
    speed = {name: TURN_STEPS / statistics.median(values) for name, values in seconds.items()}
    peers = ", ".join(f"{name}: {speed[name]:,.0f} steps/s" for name in (PEER, OTHER_PEER))

    def row(what: str, name: str, **promise: float) -> dict[str, Any]:
        ratio = statistics.median(theirs / mine for theirs, mine in zip(seconds[PEER], seconds[name]))
        return {"what": what, "ours": f"{speed[name]:,.0f} steps/s", "peer": peers, "ratio": ratio, **promise}

    return [
        *(
            row(f"CartPole-v1 training, {algo}, 64 × 64 units, batch 32, an update per 4 steps", algo, at_least=5.0)
            for algo in ("dqn", "ebu")
        ),
        {
            "what": "EBU's time over DQN's in our loop",
            "ours": f"{1e6 / speed['ebu']:.0f} µs a step",
            "peer": f"our DQN: {1e6 / speed['dqn']:.0f} µs a step",
            "ratio": statistics.median(mine / theirs for mine, theirs in zip(seconds["ebu"], seconds["dqn"])),
            "at_most": 1.25,
        },
        {
            "what": "CartPole-v1 training, ebu, default settings (128 × 128 units, batch 128, an update per step)",
            "ours": f"{speed['default'] / 4:,.0f} steps/s",
            "peer": "no peer: for what a user gets who sets nothing",
            "ratio": speed["default"] / 4 / speed["ebu"],
            "at_least": 0.0,
        },
    ]


def ours(agent: Any) -> Callable[[int], object]:
    return agent("CartPole-v1", eval_every=0, threads=1, hidden_sizes=(64, 64), **OURS).learn


def stable_baselines() -> Callable[[int], object]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from stable_baselines3 import DQN

        model = DQN("MlpPolicy", "CartPole-v1", policy_kwargs={"net_arch": [64, 64]}, device="cpu", **SETTINGS)
    return lambda steps: model.learn(steps, reset_num_timesteps=False)


def cleanrl() -> Callable[[int], object]:
    names = ("batch_size", "train_freq", "learning_rate", "buffer_size", "learning_starts", "target_update_interval")
    return CleanDQN(
        lambda: gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make("CartPole-v1")),
        lambda actions: nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, actions)),
        epsilon=EPSILON,
        gamma=0.99,
        **{name: SETTINGS[name] for name in names},
    ).learn
