"""Cost of one update of each method over DQN's, same network and batch: sampling, targets, gradient step, feedback.

The paper's ratios, from hours of training: EBU 1.10, PER 1.06, Retrace 1.12, Optimality Tightening 2.95, adaptive EBU
1.47 on several GPUs. Here everything runs on one CPU, where adaptive EBU's limit is the number of its learners, 11: near it
where DQN's update is arithmetic, far below where it is calls of operations, above where one network alone has faster
products. The Nature network runs on two threads, in seconds
of a clock; the small ones run on one thread, as they are trained, in CPU seconds.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
import torch

from bench.timing import rounds
from ebu.agent import Agent
from ebu.distributed.learner import Ranks
from ebu.distributed.processes import ProcessGroup
from ebu.presets import configure
from ebu.types import Episode

# network → environment settings, what each method may cost, updates in a turn
CASES: dict[str, tuple[dict[str, Any], dict[str, float], int]] = {
    "mlp": ({"env": "CartPole-v1", "hidden_sizes": (64, 64)}, {"adaptive-ebu": 4.0}, 150),
    "minatar": ({"env": "MinAtar/Breakout-v1"}, {"adaptive-ebu": 13.0}, 60),
    "nature": (
        {"env": "ALE/Breakout-v5", "preset": "paper"},
        {"ebu": 1.05, "per": 1.10, "retrace": 1.25, "optimality-tightening": 3.0, "adaptive-ebu": 12.0},
        25,  # 800 steps: two of the episodes whose targets are computed at once
    ),
}
EPISODES, EPISODE_STEPS = 12, 400
TURNS = 15


def run() -> list[dict[str, Any]]:
    rows = []
    for network, (settings, limits, updates) in CASES.items():
        threads, clock = (2, time.perf_counter) if network == "nature" else (1, time.process_time)
        torch.set_num_threads(threads)
        agents = {name: filled_agent(name, settings) for name in ("dqn", *limits)}
        plays = {name: lambda a=agent, n=updates: learn(a, n) for name, agent in agents.items()}
        turns = rounds(plays, TURNS, clock)  # type: ignore[arg-type]
        seconds = {name: statistics.median(values) for name, values in turns.items()}
        for name, limit in limits.items():
            rows.append(
                {
                    "what": f"one update of {name} over DQN's, {network} network",
                    "ours": f"{seconds[name] / updates * 1e3:.2f} ms",
                    "peer": f"our DQN: {seconds['dqn'] / updates * 1e3:.2f} ms",
                    "ratio": seconds[name] / seconds["dqn"],
                    "at_most": limit,
                }
            )
    return rows


def learn(agent: Agent, updates: int) -> None:
    for _ in range(updates):
        agent.loop._learn()


def filled_agent(name: str, settings: dict[str, Any], group: ProcessGroup | None = None) -> Agent:
    """An agent whose memory holds some episodes: vectors of noise, or a still picture that changes a little at each step."""
    common = {"double_q": False, "batch_size": 32, "buffer_size": 10_000, "eval_every": 0, "seed": 0}
    agent = Agent.from_config(configure(name, **common, **settings), ranks=None if group is None else Ranks(group))
    loop = agent.loop
    loop.plan(10_000)
    loop.step = 1
    rng = np.random.default_rng(0)
    spec = loop.interface.spec
    for _ in range(EPISODES):
        if spec.kind == "image":
            still = rng.random(spec.shape) < 0.1
            frames = (still ^ (rng.random((EPISODE_STEPS + 1, *spec.shape)) < 0.01)).astype(np.uint8)
        else:
            frames = rng.normal(size=(EPISODE_STEPS + 1, *spec.shape)).astype(np.float32)
        loop.memory.add(
            Episode(
                frames,
                rng.integers(loop.interface.actions, size=EPISODE_STEPS),
                rng.normal(size=EPISODE_STEPS).astype(np.float32),
                np.full(EPISODE_STEPS, 0.5, np.float32),
                True,
            )
        )
    return agent
