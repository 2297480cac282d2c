"""Whole episodes that are not drawn uniformly: new ones at once, or those with large errors more often."""

from __future__ import annotations

from typing import Any

import numpy as np

from ebu.memory.episodes import EpisodeMemory
from ebu.memory.samplers import EpisodeSampler
from ebu.types import Array

NOT_REPLAYED = -1.0  # in the place of an error
LARGEST_ERROR = 1e30
LARGEST_STEP = 2**62  # differences of two are still 64-bit integers
SMALLEST_ERROR = 1e-8  # an episode without any error is still drawn now and then


class NewestEpisodeSampler(EpisodeSampler):
    """Uniform, but every group begins with the episodes that have ended since the last one, the newest first.

    Which these are is known from the steps that were replayed, not from what was sampled: a sample may be abandoned.
    """

    choice = "newest"
    wants_errors = True  # for the steps they belong to

    def __init__(self) -> None:
        self._replayed = 0  # the number of the step after the newest one replayed; an episode's last is replayed first

    def first(self, memory: EpisodeMemory) -> Array:
        if self._replayed >= memory.end_step:
            return super().first(memory)
        oldest = memory.locate(np.array([max(self._replayed, memory.first_step)]))[0][0]
        return np.arange(memory.end_episode - 1, oldest - 1, -1)

    def feedback(self, steps: Array, errors: Array) -> None:
        self._replayed = max(self._replayed, int(steps.max()) + 1)

    def renumber(self, kept: Array, first: int) -> None:
        self._replayed = first + int(np.searchsorted(kept, self._replayed))

    def state_dict(self) -> dict[str, Any]:
        return {"replayed": self._replayed}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._replayed = int(state["replayed"])


class ErrorEpisodeSampler(EpisodeSampler):
    """An episode with probability ∝ eᵃ, e being the mean size of the errors its steps were last replayed with.

    The preference a fades linearly to none over the run, as that of prioritised replay does. An episode that was not replayed
    yet counts as the one with the largest errors.
    """

    choice = "errors"
    wants_errors = True

    def __init__(self, alpha: float) -> None:
        self._alpha = alpha
        self._first = 0  # the step of the first error
        self._errors = np.empty(0, np.float32)  # their sizes, by step

    def draw(self, memory: EpisodeMemory, count: int, rng: np.random.Generator, progress: float) -> Array:
        self._follow(memory)
        weights = self._means(memory) ** (self._alpha * (1.0 - progress))
        bounds = np.cumsum(weights)
        places = np.searchsorted(bounds, rng.random(count) * bounds[-1], side="right")
        return memory.first_episode + np.minimum(places, len(bounds) - 1)

    def _means(self, memory: EpisodeMemory) -> Array:
        """The mean size of the errors of each episode."""
        starts = memory.starts() - memory.first_step
        is_known = self._errors >= 0.0
        counts = np.add.reduceat(is_known, starts, dtype=np.int64)
        sums = np.add.reduceat(np.where(is_known, self._errors, 0.0), starts, dtype=np.float64)
        means = np.maximum(sums / np.maximum(counts, 1), SMALLEST_ERROR)
        return np.where(counts > 0, means, means.max())

    def _follow(self, memory: EpisodeMemory) -> None:
        """Take over what the memory has stored and forgotten since the last sample."""
        gone = memory.first_step - self._first
        kept = self._errors[gone : gone + memory.steps] if gone >= 0 else self._errors[:0]
        new = np.full(memory.steps - len(kept), NOT_REPLAYED, np.float32)
        self._first, self._errors = memory.first_step, np.concatenate([kept, new])

    def feedback(self, steps: Array, errors: Array) -> None:
        places = steps - self._first
        is_held = (places >= 0) & (places < len(self._errors))
        sizes = np.nan_to_num(np.abs(errors), nan=LARGEST_ERROR, posinf=LARGEST_ERROR)
        self._errors[places[is_held]] = np.minimum(sizes, LARGEST_ERROR)[is_held]

    def renumber(self, kept: Array, first: int) -> None:
        places = kept - self._first
        self._first = first + int(np.searchsorted(places, 0))
        self._errors = self._errors[places[(places >= 0) & (places < len(self._errors))]]

    def state_dict(self) -> dict[str, Any]:
        return {"first": self._first, "errors": self._errors.copy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._first, self._errors = int(state["first"]), np.array(state["errors"], np.float32)
        if self._errors.ndim != 1 or not np.isfinite(self._errors).all():
            raise ValueError("the errors of stored steps are not a list of numbers")
        if not 0 <= self._first < LARGEST_STEP:
            raise ValueError(f"the first step with an error cannot be {self._first}")
