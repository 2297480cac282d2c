"""Whole episodes of a policy without learning: scores, recordings, pictures. Raw rewards, their own randomness."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ebu.errors import Interrupted
from ebu.learning.policy import FrameStack, Policy
from ebu.seeding import draw_seed
from ebu.storage.faults import reached
from ebu.training.environment import Environment, Step, relative_length
from ebu.types import Evaluation


@dataclass(frozen=True)
class Taken:
    """One step of an episode that is only watched."""

    action: int
    value: float  # Q(s, a)
    result: Step


def rollout(
    policy: Policy,
    environment: Environment,
    *,
    seed: int,
    epsilon: float,
    rng: np.random.Generator,
    stack: int = 1,
    random_first_actions: int = 0,
    max_steps: int | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    watch: Callable[[], None] = lambda: None,
) -> Iterator[Taken]:
    """The steps of one episode with ε-greedy actions; ``watch`` is called after the reset and after each step."""
    frames = FrameStack(stack)
    state = frames.begin(environment.reset(seed, "in an evaluation"))
    watch()
    taken = 0
    over = False
    while not over and (max_steps is None or taken < max_steps):
        if should_stop():
            raise Interrupted
        action, value = policy.act_and_value(state, 1.0 if taken < random_first_actions else epsilon, rng)
        result = environment.step(action, "in an evaluation")
        state = frames.push(result.frame)
        taken, over = taken + 1, result.over
        watch()
        yield Taken(action, value, result)


def evaluate(
    policy: Policy,
    environment: Environment,
    *,
    episodes: int,
    epsilon: float,
    gamma: float,
    rng: np.random.Generator,
    stack: int = 1,
    random_first_actions: int = 0,
    max_steps: int | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Evaluation:
    """Scores over whole episodes. Every episode counts, also one cut off by the environment's limit or ``max_steps``.

    ``mean_q`` beside ``mean_discounted_return`` shows overestimation: both are means over all visited steps, the latter
    of rewards as they are learned from.
    """
    returns, lengths, relative, q_taken, discounted = [], [], [], [], []
    for _ in range(episodes):
        rewards: list[float] = []
        learned: list[float] = []
        info: dict[str, Any] = {}
        for step in rollout(
            policy,
            environment,
            seed=draw_seed(rng),
            epsilon=epsilon,
            rng=rng,
            stack=stack,
            random_first_actions=random_first_actions,
            max_steps=max_steps,
            should_stop=should_stop,
        ):
            q_taken.append(step.value)
            rewards.append(step.result.reward)
            learned.append(step.result.learned_reward)
            info = step.result.info
        reached("evaluate")
        returns.append(float(sum(rewards)))
        lengths.append(len(rewards))
        discounted += discounted_returns(learned, gamma)
        length = relative_length(len(rewards), info)
        if length is not None:
            relative.append(length)
    return Evaluation(
        returns=tuple(returns),
        lengths=tuple(lengths),
        mean_q=float(np.mean(q_taken)),
        mean_discounted_return=float(np.mean(discounted)),
        relative_lengths=tuple(relative),
    )


def discounted_returns(rewards: list[float], gamma: float) -> list[float]:
    """Σ γᵏ r_{t+k} for every t, to the end of the episode."""
    total = 0.0
    backward = []
    for reward in reversed(rewards):
        total = reward + gamma * total
        backward.append(total)
    return backward[::-1]
