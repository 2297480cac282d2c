"""What is replayed next: whole episodes, or single steps."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from ebu.memory.episodes import EpisodeMemory
from ebu.types import Array, Span


class Sampler(Protocol):
    wants_errors: bool  # whether ``feedback`` is to be called after every update
    minibatches: int  # how many minibatches one call is to serve

    def sample(self, memory: EpisodeMemory, wanted: int, rng: np.random.Generator, progress: float = 0.0) -> Span:
        """A span with at least ``wanted`` trained steps; ``progress`` is the share of the run that is over."""

    def feedback(self, steps: Array, errors: Array) -> None:
        """The errors target − value these steps were just replayed with."""

    def renumber(self, kept: Array, first: int) -> None:
        """Some steps were lost in a damaged file: the one that had the number ``kept[i]`` now has ``first + i``."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class Stateless:
    """A sampler whose only state is the generator passed to it."""

    wants_errors = False
    minibatches = 1

    def feedback(self, steps: Array, errors: Array) -> None:
        pass

    def renumber(self, kept: Array, first: int) -> None:
        pass

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


class EpisodeSampler(Stateless):
    """Whole episodes, each equally likely whatever its length, learned from their ends backward.

    Short ones are drawn several at a time, so that one computation of targets serves some minibatches, as it does by
    itself where episodes are long.
    """

    choice = "uniform"  # as the setting ``episode_choice`` calls it
    minibatches = 8

    def sample(self, memory: EpisodeMemory, wanted: int, rng: np.random.Generator, progress: float = 0.0) -> Span:
        guess = 1 + (wanted * memory.episodes) // memory.steps  # by the mean length; a few draws too many are cheap
        chosen = np.concatenate([self.first(memory), self.draw(memory, guess, rng, progress)])
        reached = memory.lengths(chosen).cumsum()
        while reached[-1] < wanted:
            chosen = np.concatenate([chosen, self.draw(memory, guess, rng, progress)])
            reached = memory.lengths(chosen).cumsum()
        return whole_episodes(memory, chosen[: 1 + reached.searchsorted(wanted)])

    def first(self, memory: EpisodeMemory) -> Array:
        """The episodes with which a span begins in any case."""
        return np.empty(0, np.int64)

    def draw(self, memory: EpisodeMemory, count: int, rng: np.random.Generator, progress: float) -> Array:
        """Some episodes at random."""
        return rng.integers(memory.first_episode, memory.end_episode, count)


class TransitionSampler(Stateless):
    """Single steps, uniformly over all stored steps; each with the ``length`` − 1 steps after it that a target needs."""

    draws_steps = True  # so that a minibatch cannot be a whole episode

    def __init__(self, length: int = 1, minibatches: int = 1) -> None:
        self._length = length
        self.minibatches = minibatches

    def sample(self, memory: EpisodeMemory, wanted: int, rng: np.random.Generator, progress: float = 0.0) -> Span:
        return steps_with_followers(memory, rng.integers(memory.first_step, memory.end_step, wanted), self._length)


class WindowSampler(Stateless):
    """Single steps, uniformly over all stored steps, each in the middle of its neighbours within the episode."""

    draws_steps = True  # so that a minibatch cannot be a whole episode

    def __init__(self, before: int, after: int) -> None:
        self._before = before
        self._after = after

    def sample(self, memory: EpisodeMemory, wanted: int, rng: np.random.Generator, progress: float = 0.0) -> Span:
        episodes, offsets = memory.locate(rng.integers(memory.first_step, memory.end_step, wanted))
        before = np.minimum(self._before, offsets)
        after = np.minimum(self._after, memory.lengths(episodes) - offsets - 1)
        counts = before + 1 + after
        return memory.read(episodes, offsets - before, counts, trained=counts.cumsum() - counts + before)


def whole_episodes(memory: EpisodeMemory, episodes: Array) -> Span:
    """Episodes end to end, each handed out from its last step to its first."""
    lengths = memory.lengths(episodes)
    ends = lengths.cumsum()
    # Counting down from the end of each piece: position = (end of piece − 1) − (position − start of piece).
    backward = np.repeat(2 * ends - lengths - 1, lengths) - np.arange(ends[-1])
    return memory.read(episodes, np.zeros_like(episodes), lengths, trained=backward)


def steps_with_followers(memory: EpisodeMemory, steps: Array, length: int) -> Span:
    """Each step and up to ``length`` − 1 that follow it in its episode; only the first of each piece is trained."""
    if length == 1:
        return memory.read_single(steps)
    episodes, offsets = memory.locate(steps)
    counts = np.minimum(length, memory.lengths(episodes) - offsets)
    return memory.read(episodes, offsets, counts, trained=counts.cumsum() - counts)
