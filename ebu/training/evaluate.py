"""Scores of a policy on whole episodes: raw rewards, no learning, its own randomness."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from ebu.envs.spaces import describe
from ebu.errors import Interrupted
from ebu.learning.policy import FrameStack
from ebu.seeding import draw_seed
from ebu.storage.faults import reached
from ebu.training.environment_state import told_as_failure
from ebu.types import Array, Evaluation


def evaluate(
    values_of: Callable[[Array], Array],
    env: gymnasium.Env[Any, Any],
    *,
    episodes: int,
    epsilon: float,
    gamma: float,
    reward_clip: float,
    stack: int,
    random_first_actions: int,
    rng: np.random.Generator,
    should_stop: Callable[[], bool] = lambda: False,
) -> Evaluation:
    """Play whole episodes with ε-greedy actions. Every episode counts, also one cut off by the environment's limit.

    ``mean_q`` beside ``mean_discounted_return`` shows overestimation: both are means over all visited steps, the latter
    of rewards as they are learned from.
    """
    encode = describe(env.observation_space).encode
    frames = FrameStack(stack)
    returns, lengths, relative, q_taken, discounted = [], [], [], [], []
    for _ in range(episodes):
        with told_as_failure("at a reset in the evaluation"):
            observation, info = env.reset(seed=draw_seed(rng))
        state = frames.begin(encode(observation))
        rewards: list[float] = []
        over = False
        while not over:
            if should_stop():
                raise Interrupted
            values = values_of(state)
            action = int(values.argmax())
            if len(rewards) < random_first_actions or (epsilon > 0.0 and rng.random() < epsilon):
                action = int(rng.integers(len(values)))
            q_taken.append(float(values[action]))
            with told_as_failure(f"in the evaluation, after action {action}"):
                observation, reward, terminated, truncated, info = env.step(action)
            rewards.append(float(reward))
            state = frames.push(encode(observation))
            over = terminated or truncated
        reached("evaluate")
        returns.append(float(sum(rewards)))
        lengths.append(len(rewards))
        discounted += discounted_returns([clip_reward(reward, reward_clip) for reward in rewards], gamma)
        if "shortest_path" in info:
            relative.append(len(rewards) / info["shortest_path"])
    return Evaluation(
        returns=tuple(returns),
        lengths=tuple(lengths),
        mean_q=float(np.mean(q_taken)),
        mean_discounted_return=float(np.mean(discounted)),
        relative_lengths=tuple(relative),
    )


def clip_reward(reward: float, clip: float) -> float:
    """The reward as it is learned from; a clip of 0 leaves it."""
    return max(-clip, min(clip, reward)) if clip else reward


def discounted_returns(rewards: list[float], gamma: float) -> list[float]:
    """Σ γᵏ r_{t+k} for every t, to the end of the episode."""
    total = 0.0
    backward = []
    for reward in reversed(rewards):
        total = reward + gamma * total
        backward.append(total)
    return backward[::-1]
