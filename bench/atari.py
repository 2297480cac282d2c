"""The whole training loop on Atari against Stable-Baselines3's DQN and CleanRL's, and against bare arithmetic.

Same network (Nature DQN's), batch 32, one update per 4 steps, Adam, frame skip 4, ε fixed to 0.1, two threads. Before the
clock starts, each plays 5,000 steps with 1,000 updates: by then the averages of Adam are as in a long run, where those of
weights without gradient have shrunk to denormal numbers. Turns alternate, and each turn of ours is set against the same
round's turns of the others.

The arithmetic limit is what the algorithm cannot do without, in the faster memory layout: for every step that is not
random a forward pass of one state, for every update a forward pass of 32 states through the target network and a forward
and backward pass of 32 states through the online one. No emulator, no memory, no optimiser.
"""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Callable
from typing import Any

import ale_py
import gymnasium
import torch
from torch import Tensor, nn

import ebu
from bench.peers.cleanrl_dqn import nature_network, of_atari
from bench.timing import rounds

GAMES = ("Pong", "Breakout")
THREADS = 2
EPSILON = 0.1
BATCH, STEPS_PER_UPDATE = 32, 4
SETTINGS = f"Nature network, batch {BATCH}, an update per {STEPS_PER_UPDATE} steps, two threads"
SIZES = {"warm_up": 5_000, "turn": 100, "turns": 40}  # steps before the clock starts, steps in a turn, turns
QUICK = {"warm_up": 1_200, "turn": 40, "turns": 2}
COMMON: dict[str, Any] = {
    "batch_size": BATCH,
    "gamma": 0.99,
    "train_freq": STEPS_PER_UPDATE,
    "buffer_size": 20_000,
    "learning_starts": 1_000,
    "learning_rate": 1e-4,
    "target_update_interval": 1_000,
}
LIMITS = {"channels first": torch.contiguous_format, "channels last": torch.channels_last}


def run(quick: bool = False) -> list[dict[str, Any]]:
    torch.set_num_threads(THREADS)
    gymnasium.register_envs(ale_py)
    return [row for game in GAMES for row in _game_rows(game, **(QUICK if quick else SIZES))]


def _game_rows(game: str, warm_up: int, turn: int, turns: int) -> list[dict[str, Any]]:
    own = {"dqn": ours(ebu.DQN, game), "ebu": ours(ebu.EBU, game)}
    peers = {"Stable-Baselines3 DQN": stable_baselines(game), "CleanRL's DQN": cleanrl(game)}
    bare = {name: bare_passes(layout) for name, layout in LIMITS.items()}
    for train in (*own.values(), *peers.values()):
        train(warm_up)
    contestants = {**own, **peers, **bare}
    seconds = rounds({name: lambda t=train: t(turn) for name, train in contestants.items()}, turns)  # type: ignore[misc]
    median = {name: statistics.median(values) for name, values in seconds.items()}
    peer = min(peers, key=lambda name: median[name])
    limit = min(bare, key=lambda name: median[name])
    speeds = ", ".join(f"{name} {turn / median[name]:.0f} steps/s" for name in peers)
    rows = []
    for algo in own:
        ratios = [theirs / mine for theirs, mine in zip(seconds[peer], seconds[algo])]
        spread = f"rounds from {min(ratios):.2f} to {max(ratios):.2f}"
        rows.append(
            {
                "what": f"{game} training, {algo}, {SETTINGS}, over {peer} ({spread})",
                "ours": f"{turn / median[algo]:.0f} steps/s",
                "peer": speeds,
                "ratio": statistics.median(ratios),
                "at_least": 1.8,
            }
        )
    for algo in own:
        shares = [least / mine for least, mine in zip(seconds[limit], seconds[algo])]
        theirs = statistics.median(least / other for least, other in zip(seconds[limit], seconds[peer]))
        rows.append(
            {
                "what": f"{game} training, {algo}: share of the arithmetic limit ({limit}); the aim is 0.85",
                "ours": f"{turn / median[algo]:.0f} of {turn / median[limit]:.0f} steps/s",
                "peer": f"{peer}: {theirs:.2f}",
                "ratio": statistics.median(shares),
                "at_least": 0.0,
            }
        )
    return rows


# ---------------------------------------------------------------------- contestants: functions that train some steps


def ours(agent: Any, game: str) -> Callable[[int], object]:
    return agent(
        f"ALE/{game}-v5",
        preset="paper",
        exploration_initial_eps=EPSILON,
        exploration_final_eps=EPSILON,
        optimizer="adam",
        optimizer_eps=1e-8,
        eval_every=0,
        threads=THREADS,
        seed=0,
        **COMMON,
    ).learn


def stable_baselines(game: str) -> Callable[[int], object]:
    from stable_baselines3 import DQN
    from stable_baselines3.common.env_util import make_atari_env
    from stable_baselines3.common.vec_env import VecFrameStack

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = DQN(
            "CnnPolicy",
            VecFrameStack(make_atari_env(f"{game}NoFrameskip-v4", seed=0), 4),
            gradient_steps=1,
            exploration_initial_eps=EPSILON,
            exploration_final_eps=EPSILON,
            optimize_memory_usage=True,
            replay_buffer_kwargs={"handle_timeout_termination": False},
            seed=0,
            device="cpu",
            **COMMON,
        )
    return lambda steps: model.learn(steps, reset_num_timesteps=False)


def cleanrl(game: str) -> Callable[[int], object]:
    return of_atari(f"{game}NoFrameskip-v4", epsilon=EPSILON, **COMMON).learn


def bare_passes(layout: torch.memory_format) -> Callable[[int], None]:
    """The passes that some steps need, on floats that are already there."""
    online, target = (nature_network(4).to(memory_format=layout) for _ in range(2))  # type: ignore[call-overload]
    weights = list(online.parameters())
    many, one = (torch.rand(count, 4, 84, 84).to(memory_format=layout) for count in (BATCH, 1))

    def passes(steps: int) -> None:
        updates = steps // STEPS_PER_UPDATE
        with torch.inference_mode():
            _forward(online, one, round(steps * (1 - EPSILON)))
            _forward(target, many, updates)
        for _ in range(updates):
            values = online(many)
            torch.autograd.grad(values, weights, torch.ones_like(values))

    return passes


def _forward(network: nn.Module, states: Tensor, times: int) -> None:
    for _ in range(times):
        network(states)
