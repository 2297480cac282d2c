"""(i) EBU inside Stable-Baselines3 (`ebu.sb3`) beside `ebu.EBU`: speed of the training loop, bytes of a stored step, learning.

Settings as in `cartpole.py`. `python -m bench.sb3 STEPS SEED…` trains both on CartPole-v1 and prints their greedy scores.
"""

from __future__ import annotations

import sys
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces

import ebu
from bench.cartpole import OURS, SETTINGS, TURN_STEPS
from bench.timing import interleave
from ebu.memory.episodes import EpisodeMemory
from ebu.types import Episode

FRAME = (84, 84)
STORED_STEPS = 2_000


def run() -> list[dict[str, Any]]:
    return [_speed(), _memory()]


def _speed() -> dict[str, Any]:
    from ebu.sb3 import EBU

    torch.set_num_threads(1)
    ours = ebu.EBU("CartPole-v1", eval_every=0, threads=1, hidden_sizes=(64, 64), **OURS)
    peer = EBU("MlpPolicy", "CartPole-v1", policy_kwargs={"net_arch": [64, 64]}, device="cpu", **SETTINGS)
    turns = {"ebu": lambda: ours.learn(TURN_STEPS), "sb3": lambda: peer.learn(TURN_STEPS, reset_num_timesteps=False)}
    speed = {name: TURN_STEPS / seconds for name, seconds in interleave(turns, turns=9).items()}
    return {
        "what": "CartPole-v1 training, ebu.EBU over ebu.sb3.EBU",
        "ours": f"{speed['ebu']:,.0f} steps/s",
        "peer": f"ebu.sb3.EBU: {speed['sb3']:,.0f} steps/s",
        "ratio": speed["ebu"] / speed["sb3"],
        "at_least": 2.0,
    }


def _memory() -> dict[str, Any]:
    """Bytes of a step of Atari with four stacked frames; frames of Breakout, played at random."""
    from ebu.envs.make import make_environment
    from ebu.sb3 import EpisodeReplayBuffer

    env = make_environment("ALE/Breakout-v5")
    rng = np.random.default_rng(0)
    memory = EpisodeMemory(STORED_STEPS * 2, (1, *FRAME), np.uint8, gamma=0.99, stack=4)
    steps = 0
    while steps < STORED_STEPS:
        frames, over = [env.reset(seed=steps)[0]], False
        while not over:
            frame, _, terminated, truncated, _ = env.step(int(rng.integers(env.action_space.n)))
            frames.append(frame)
            over = terminated or truncated
        length = len(frames) - 1
        shown = np.stack(frames).reshape(length + 1, 1, *FRAME)
        memory.add(Episode(shown, np.zeros(length, np.int64), np.zeros(length, np.float32), np.ones(length, np.float32), True))
        steps += length
    buffer = EpisodeReplayBuffer(100, spaces.Box(0, 255, (4, *FRAME), np.uint8), spaces.Discrete(4), device="cpu")
    arrays = (buffer.observations, buffer.next_observations, buffer.actions, buffer.rewards, buffer.dones, buffer.timeouts)
    theirs = sum(array.nbytes for array in arrays) / buffer.buffer_size
    own = memory.nbytes / memory.steps
    return {
        "what": "bytes of a stored step of Breakout",
        "ours": f"{own:,.0f}",
        "peer": f"ebu.sb3.EBU: {theirs:,.0f}",
        "ratio": theirs / own,
        "at_least": 20.0,
    }


def learn(steps: int, seed: int) -> dict[str, float]:
    """The mean greedy score over 20 episodes after training, with the settings of the preset for small environments."""
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.monitor import Monitor

    from ebu.sb3 import EBU

    torch.set_num_threads(1)
    ours = ebu.EBU("CartPole-v1", eval_every=0, threads=1, seed=seed).learn(steps)
    values = ours.config.learner
    peer = EBU(
        "MlpPolicy",
        "CartPole-v1",
        double_q=True,
        learning_rate=lambda left: left * values.learning_rate,
        buffer_size=100_000,
        learning_starts=values.learning_starts,
        batch_size=values.batch_size,
        tau=values.tau,
        target_update_interval=values.target_update_interval,
        train_freq=values.train_freq,
        exploration_fraction=0.2,
        exploration_final_eps=0.1,
        policy_kwargs={"net_arch": [128, 128]},
        seed=seed,
        device="cpu",
    ).learn(steps)
    env = Monitor(gymnasium.make("CartPole-v1"))
    return {
        "ebu.EBU": ebu.evaluate(ours, episodes=20, epsilon=0.0, seed=1).mean,
        "ebu.sb3.EBU": float(np.mean(evaluate_policy(peer, env, n_eval_episodes=20, return_episode_rewards=True)[0])),
    }


if __name__ == "__main__":
    for each in map(int, sys.argv[2:]):
        print(each, learn(int(sys.argv[1]), each), flush=True)
