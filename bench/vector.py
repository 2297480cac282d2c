"""Many environments at once: ours with 8 against ours with one and against Stable-Baselines3's vector environments with 8.

Network (64, 64), batch 32, an update per 4 environment steps, Adam, ε fixed to 0.05, one thread; turns alternate.
Stable-Baselines3 counts ``train_freq`` in steps of all environments together: with 8 that is 2 updates after each.

- CartPole-v1 in one process, in CPU seconds.
- An environment that sleeps 2 ms a step, each in its own process, in seconds of a clock.
- The time of a step of CartPole-v1 with 8 environments, with 10 million stored steps and with 10,000.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import torch

import ebu
from bench.cartpole import OURS, SETTINGS
from bench.timing import rounds
from ebu.types import Episode

ENVIRONMENTS = 8
SIZES = {"turn": 2_000, "turns": 15, "sleeping_turn": 400, "stored": 10_000_000}
QUICK = {"turn": 400, "turns": 2, "sleeping_turn": 160, "stored": 100_000}


class Sleeping(gymnasium.Wrapper):  # type: ignore[type-arg]
    """CartPole whose every step waits, as a simulator elsewhere would."""

    def step(self, action: Any) -> Any:
        time.sleep(0.002)
        return super().step(action)


def run(quick: bool = False) -> list[dict[str, Any]]:
    torch.set_num_threads(1)
    sizes = QUICK if quick else SIZES
    return [
        *in_one_process(sizes["turn"], sizes["turns"]),
        *in_several(sizes["sleeping_turn"], sizes["turns"] // 2),
        flat(sizes["turn"], sizes["turns"], sizes["stored"]),
    ]


def in_one_process(turn: int, turns: int) -> list[dict[str, Any]]:
    rows = []
    peer = stable_baselines(partial(gymnasium.make, "CartPole-v1"), processes=False)
    for agent in (ebu.DQN, ebu.EBU):
        seconds = measure(
            {
                "one": ours(agent, "CartPole-v1", n_envs=1),
                "many": ours(agent, "CartPole-v1", n_envs=ENVIRONMENTS),
                "sb3": peer,
            },
            turn,
            turns,
            time.process_time,
        )
        what = f"CartPole-v1, {agent.algo}, {ENVIRONMENTS} environments in one process, CPU seconds"
        rows += against_both(what, seconds, turn, at_least_one=2.0, at_least_peer=3.0)
    return rows


def in_several(turn: int, turns: int) -> list[dict[str, Any]]:
    seconds = measure(
        {
            "one": ours(ebu.EBU, [sleeping]),
            "many": ours(ebu.EBU, [sleeping] * ENVIRONMENTS, vectorization="async"),
            "sb3": stable_baselines(sleeping, processes=True),
        },
        turn,
        turns,
        time.perf_counter,
    )
    what = f"environment that waits 2 ms a step, ebu, {ENVIRONMENTS} processes"
    return against_both(what, seconds, turn, at_least_one=5.0, at_least_peer=1.0)


def flat(turn: int, turns: int, stored: int) -> dict[str, Any]:
    """Whether a step costs the same however much is stored."""
    few, many = (
        ebu.EBU("CartPole-v1", n_envs=ENVIRONMENTS, eval_every=0, threads=1, **OURS | {"buffer_size": size})
        for size in (10_000, stored)
    )
    fill(few, 10_000)
    fill(many, stored)
    seconds = measure({"few": few.learn, "many": many.learn}, turn, turns, time.process_time)
    times = {name: statistics.median(values) / turn * 1e6 for name, values in seconds.items()}
    return {
        "what": f"time of a step with {ENVIRONMENTS} environments: {stored:,} stored steps over 10,000, CPU seconds",
        "ours": f"{times['many']:.0f} µs",
        "peer": f"10,000: {times['few']:.0f} µs",
        "ratio": statistics.median(many / few for few, many in zip(seconds["few"], seconds["many"])),
        "at_most": 1.15,
    }


def fill(agent: Any, steps: int, length: int = 200) -> None:
    """Random episodes until so many steps are stored."""
    rng = np.random.default_rng(0)
    while agent.loop.memory.steps + length <= steps:
        agent.loop.memory.add(
            Episode(
                observations=rng.standard_normal((length + 1, 4), np.float32),
                actions=rng.integers(2, size=length),
                rewards=np.ones(length, np.float32),
                behaviour=np.ones(length, np.float32),
                terminated=True,
            )
        )


def measure(
    contestants: dict[str, Callable[[int], object]], turn: int, turns: int, clock: Callable[[], float]
) -> dict[str, list[float]]:
    plays = {name: partial(learn, turn) for name, learn in contestants.items()}
    return rounds(plays, turns, clock)


def against_both(
    what: str, seconds: dict[str, list[float]], turn: int, at_least_one: float, at_least_peer: float
) -> list[dict[str, Any]]:
    speed = {name: turn / statistics.median(values) for name, values in seconds.items()}

    def row(other: str, words: str, at_least: float) -> dict[str, Any]:
        return {
            "what": what,
            "ours": f"{speed['many']:,.0f} steps/s",
            "peer": f"{words}: {speed[other]:,.0f} steps/s",
            "ratio": statistics.median(theirs / mine for theirs, mine in zip(seconds[other], seconds["many"])),
            "at_least": at_least,
        }

    return [
        row("one", "ours with one", at_least_one),
        row("sb3", f"Stable-Baselines3 DQN with {ENVIRONMENTS}", at_least_peer),
    ]


def ours(agent: Any, env: Any, **settings: Any) -> Callable[[int], object]:
    return agent(env, eval_every=0, threads=1, hidden_sizes=(64, 64), **OURS, **settings).learn


def sleeping() -> gymnasium.Env[Any, Any]:
    return Sleeping(gymnasium.make("CartPole-v1"))


def stable_baselines(make: Callable[[], gymnasium.Env[Any, Any]], processes: bool) -> Callable[[int], object]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from stable_baselines3 import DQN
        from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

        factories = [make] * ENVIRONMENTS
        env = SubprocVecEnv(factories, start_method="fork") if processes else DummyVecEnv(factories)
        same = SETTINGS | {"train_freq": 1, "gradient_steps": ENVIRONMENTS // SETTINGS["train_freq"]}
        model = DQN("MlpPolicy", env, policy_kwargs={"net_arch": [64, 64]}, device="cpu", **same)
    return lambda steps: model.learn(steps, reset_num_timesteps=False)
