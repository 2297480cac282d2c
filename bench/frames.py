"""Bytes of RAM per stored step, and the time to unpack, after 50,000 steps of eight games chosen to be hard to compress.

The games are played with random actions through the real training loop (paper's protocol, ε = 1, no updates). All that
the memory holds is counted: compressed frames, the table of steps, the room set aside to grow. Beside it stands by how
much the process grew, as the operating system sees it: a heap full of holes is memory too.
"""

from __future__ import annotations

import ctypes
import gc
import os
import statistics
from pathlib import Path
from typing import Any

import numpy as np

import ebu
from bench.timing import repeat, seconds_of
from ebu.memory.episodes import EpisodeMemory
from ebu.memory.samplers import TransitionSampler

GAMES = ("Enduro", "BattleZone", "Seaquest", "Qbert", "VideoPinball", "Atlantis", "Pong", "Breakout")
FRAME_BYTES = 84 * 84
PAIR_BYTES = 2 * 4 * FRAME_BYTES  # a state and the next one, as Stable-Baselines3 stores them
MEDIAN_BYTES, LARGEST_BYTES = 200, 500  # what is promised
EPISODE_SECONDS, BATCH_SECONDS = 0.010, 0.005
BESIDE = f"{FRAME_BYTES:,} for one plain frame, {PAIR_BYTES:,} for two stacks of four"


def run(quick: bool = False) -> list[dict[str, Any]]:
    stored: dict[str, float] = {}
    grown: dict[str, float] = {}
    episode: dict[str, float] = {}
    batch: dict[str, float] = {}
    for game in GAMES:
        memory, grown[game] = played(game, steps=8_000 if quick else 50_000)
        stored[game] = memory.nbytes / memory.steps
        episode[game], batch[game] = _seconds_to_unpack(memory)
    middle = statistics.median(stored.values())
    return [
        *(_bytes_row(f"bytes a stored step of {game}", value, LARGEST_BYTES) for game, value in stored.items()),
        _bytes_row("bytes a stored step, median of these games", middle, MEDIAN_BYTES),
        _bytes_row("bytes by which the process grows a stored step, largest", max(grown.values()), LARGEST_BYTES),
        _time_row("1,000 consecutive steps unpacked, slowest game", episode, EPISODE_SECONDS),
        _time_row("32 single steps unpacked, slowest game", batch, BATCH_SECONDS),
    ]


def played(game: str, steps: int) -> tuple[EpisodeMemory, float]:
    """The memory after this many random steps, and by how many bytes the process grew for each of the latter four fifths.

    The last, unfinished episode is neither part of the memory nor of the growth.
    """
    settings = {"exploration_initial_eps": 1.0, "exploration_final_eps": 1.0, "learning_starts": 10**9, "eval_every": 0}
    agent = ebu.DQN(f"ALE/{game}-v5", preset="paper", seed=0, **settings)
    readings = []
    for part in (steps // 5, steps - steps // 5):
        agent.learn(part).loop.drop_open_episodes()
        readings.append((agent.loop.memory.steps, _resident_bytes()))
    (before, small), (after, large) = readings
    return agent.loop.memory, (large - small) / (after - before)


def _resident_bytes() -> int:
    """RAM of this process after everything that is free has been given back."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _seconds_to_unpack(memory: EpisodeMemory) -> tuple[float, float]:
    """Of 1,000 steps of one episode, or of as many as it takes where they are shorter; of a uniform batch of 32 steps."""
    rng = np.random.default_rng(0)
    numbers = rng.permutation(np.arange(memory.first_episode, memory.end_episode))
    lengths = memory.lengths(numbers)
    longest = np.argsort(-lengths, kind="stable")
    numbers, lengths = numbers[longest], lengths[longest]
    counts = np.minimum(lengths, np.maximum(1_000 - (np.cumsum(lengths) - lengths), 0))
    taken = counts > 0
    pieces = numbers[taken], np.zeros(taken.sum(), np.int64), counts[taken]
    sampler = TransitionSampler()
    episode = seconds_of(lambda: memory.read(*pieces), times=15)
    batch = seconds_of(repeat(lambda: sampler.sample(memory, 32, rng), 5), times=15) / 5
    return episode, batch


def _bytes_row(what: str, value: float, limit: int) -> dict[str, Any]:
    return {
        "what": f"{what} (at most {limit})",
        "ours": f"{value:.0f}",
        "peer": BESIDE,
        "ratio": PAIR_BYTES / value,
        "at_least": PAIR_BYTES / limit,
    }


def _time_row(what: str, seconds: dict[str, float], limit: float) -> dict[str, Any]:
    slowest = max(seconds, key=lambda game: seconds[game])
    return {
        "what": what,
        "ours": f"{seconds[slowest] * 1e3:.2f} ms ({slowest})",
        "peer": f"limit {limit * 1e3:.0f} ms",
        "ratio": limit / seconds[slowest],
        "at_least": 1.0,
    }
