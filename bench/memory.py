"""(d) The episode memory: bytes a step, and the cost of a sample from 10 thousand to 3 million stored steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.timing import interleave, repeat
from ebu.envs.mnist_maze import MNISTMaze
from ebu.memory.episodes import EpisodeMemory
from ebu.memory.samplers import EpisodeSampler, TransitionSampler
from ebu.types import Episode

SIZES = (10_000, 100_000, 1_000_000, 3_000_000)
EPISODE_STEPS = 200
SAMPLES = 200


def run() -> list[dict[str, Any]]:
    return [*_flat_cost(), *_bytes_per_step()]


def _episode(observations: np.ndarray) -> Episode:
    steps = len(observations) - 1
    return Episode(observations, np.zeros(steps, np.int64), np.zeros(steps, np.float32), np.ones(steps, np.float32), True)


def _flat_cost() -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(EPISODE_STEPS + 1, 4)).astype(np.float32)
    memories = {}
    for size in SIZES:
        memory = EpisodeMemory(size, (4,), np.float32, gamma=0.99)
        for _ in range(size // EPISODE_STEPS):
            memory.add(_episode(vectors))
        memories[size] = memory
    rows = []
    for name, sampler in (("32 transitions", TransitionSampler()), ("an episode", EpisodeSampler())):
        seconds = interleave(
            {
                str(size): repeat(lambda m=memory, s=sampler: s.sample(m, 32, rng), SAMPLES)  # type: ignore[misc]
                for size, memory in memories.items()
            },
            turns=7,
        )
        small, large = seconds[str(SIZES[0])], seconds[str(SIZES[-1])]
        rows.append(
            {
                "what": f"time to sample {name}: {SIZES[-1]:,} stored steps over {SIZES[0]:,}",
                "ours": f"{large / SAMPLES * 1e6:.0f} µs",
                "peer": ", ".join(f"{int(s):,}: {v / SAMPLES * 1e6:.0f} µs" for s, v in seconds.items()),
                "ratio": large / small,
                "at_most": 2.0,
            }
        )
    return rows


def _bytes_per_step() -> list[dict[str, Any]]:
    rows = []
    for title, redraw in (("digits fixed", False), ("digits redrawn", True)):
        env = MNISTMaze(redraw_digits=redraw)
        memory = EpisodeMemory(50_000, (2, 28, 28), np.uint8, gamma=0.9)
        rng = np.random.default_rng(0)
        while memory.steps < 5_000:
            frames = [env.reset(seed=int(rng.integers(2**31)))[0]]
            over = False
            while not over:
                frame, _, terminated, truncated, _ = env.step(int(rng.integers(4)))
                frames.append(frame)
                over = terminated or truncated
            memory.add(_episode(np.stack(frames)))
        stored, plain = memory.nbytes / memory.steps, 2 * 2 * 28 * 28
        rows.append(
            {
                "what": f"bytes a stored maze step, {title}",
                "ours": f"{stored:.0f}",
                "peer": f"state and next state as plain bytes: {plain}",
                "ratio": plain / stored,
                "at_least": 1.0,
            }
        )
    return rows
