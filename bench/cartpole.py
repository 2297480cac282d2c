"""(b) The whole training loop on CartPole-v1 against Stable-Baselines3's DQN; (c) EBU's cost over DQN's.

Same network (64, 64), batch 32, one update per 4 steps, Adam, ε fixed to 0.05, one thread; turns of 2,000 steps.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch

import ebu
from bench.timing import interleave

TURN_STEPS = 2_000
SETTINGS: dict[str, Any] = {
    "batch_size": 32,
    "train_freq": 4,
    "gradient_steps": 1,
    "learning_rate": 1e-3,
    "buffer_size": 50_000,
    "learning_starts": 200,
    "target_update_interval": 500,
    "exploration_initial_eps": 0.05,
    "exploration_final_eps": 0.05,
    "seed": 0,
}
OURS = {**SETTINGS, "learning_rate_schedule": "constant", "tau": 1.0, "double_q": False}


def run() -> list[dict[str, Any]]:
    torch.set_num_threads(1)
    ours = {cls.algo: cls("CartPole-v1", eval_every=0, threads=1, hidden_sizes=(64, 64), **OURS) for cls in (ebu.DQN, ebu.EBU)}
    peer = _stable_baselines()
    seconds = interleave(
        {
            "dqn": lambda: ours["dqn"].learn(TURN_STEPS),
            "ebu": lambda: ours["ebu"].learn(TURN_STEPS),
            "sb3": lambda: peer.learn(TURN_STEPS, reset_num_timesteps=False),
        },
        turns=9,
    )
    speed = {name: TURN_STEPS / value for name, value in seconds.items()}
    return [
        {
            "what": f"CartPole-v1 training, {algo}",
            "ours": f"{speed[algo]:,.0f} steps/s",
            "peer": f"Stable-Baselines3 DQN: {speed['sb3']:,.0f} steps/s",
            "ratio": speed[algo] / speed["sb3"],
            "at_least": 2.5,
        }
        for algo in ("dqn", "ebu")
    ] + [
        {
            "what": "EBU's time over DQN's in our loop",
            "ours": f"{seconds['ebu'] / TURN_STEPS * 1e6:.0f} µs a step",
            "peer": f"our DQN: {seconds['dqn'] / TURN_STEPS * 1e6:.0f} µs a step",
            "ratio": seconds["ebu"] / seconds["dqn"],
            "at_most": 1.05,
        }
    ]


def _stable_baselines() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from stable_baselines3 import DQN

        return DQN("MlpPolicy", "CartPole-v1", policy_kwargs={"net_arch": [64, 64]}, device="cpu", **SETTINGS)
