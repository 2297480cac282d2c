"""What is replayed next: whole episodes, or single steps."""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

import numpy as np

from ebu.memory.episodes import EpisodeMemory
from ebu.types import Array, Span


class Sampler(Protocol):
    def sample(self, memory: EpisodeMemory, wanted: int, rng: np.random.Generator) -> Span:
        """A span with at least ``wanted`` trained steps."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class Stateless:
    """A sampler whose only state is the generator passed to it."""

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


class EpisodeSampler(Stateless):
    """Whole episodes, each equally likely whatever its length, learned from their ends backward."""

    def sample(self, memory: EpisodeMemory, wanted: int, rng: np.random.Generator) -> Span:
        chosen: list[int] = []
        total = 0
        while total < wanted:
            episode = rng.integers(memory.first_episode, memory.end_episode)
            chosen.append(int(episode))
            total += int(memory.lengths(np.array([episode]))[0])
        return whole_episodes(memory, np.array(chosen))


class TransitionSampler(Stateless):
    """Single steps, uniformly over all stored steps; each with the ``length`` − 1 steps after it that a target needs."""

    def __init__(self, length: int = 1) -> None:
        self._length = length

    def sample(self, memory: EpisodeMemory, wanted: int, rng: np.random.Generator) -> Span:
        return steps_with_followers(memory, rng.integers(memory.first_step, memory.end_step, wanted), self._length)


def whole_episodes(memory: EpisodeMemory, episodes: Array) -> Span:
    """Episodes end to end, each handed out from its last step to its first."""
    lengths = memory.lengths(episodes)
    span = memory.read(episodes, np.zeros_like(episodes), lengths)
    ends = np.cumsum(lengths)
    # Counting down from the end of each piece: position = (end of piece − 1) − (position − start of piece).
    backward = np.repeat(2 * ends - lengths - 1, lengths) - np.arange(ends[-1])
    return dataclasses.replace(span, trained=backward)


def steps_with_followers(memory: EpisodeMemory, steps: Array, length: int) -> Span:
    """Each step and up to ``length`` − 1 that follow it in its episode; only the first of each piece is trained."""
    episodes, offsets = memory.locate(steps)
    counts = np.ones_like(steps) if length == 1 else np.minimum(length, memory.lengths(episodes) - offsets)
    span = memory.read(episodes, offsets, counts)
    return dataclasses.replace(span, trained=np.cumsum(counts) - counts)
