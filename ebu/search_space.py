"""What ``ebu tune`` may vary: ranges and choices of settings, which each method names in its own file.

Ranges stand around the preset's own values, so that one description suits CartPole and Atari alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ebu.config import Config


@dataclass(frozen=True)
class Range:
    """Numbers between two ends, both included."""

    low: float
    high: float
    log: bool = False
    """Equal ratios are equally likely, not equal differences."""
    whole: bool = False


@dataclass(frozen=True)
class Choice:
    """One of these values."""

    values: tuple[Any, ...]


SearchSpace = Mapping[str, Range | Choice]


def around(value: float, factor: float = 10.0, highest: float = float("inf"), whole: bool = False) -> Range:
    """From a fraction of a value to a multiple of it."""
    low, high = value / factor, min(value * factor, highest)
    return Range(max(round(low), 1), round(high), log=True, whole=True) if whole else Range(low, high, log=True)


def usual_space(config: Config) -> dict[str, Range | Choice]:
    """The settings that matter for every method: step size, minibatch, exploration, and how fast targets move."""
    learner, exploration = config.learner, config.exploration
    batches = {max(learner.batch_size // 2, 1), learner.batch_size, learner.batch_size * 2}
    space: dict[str, Range | Choice] = {
        "learning_rate": around(learner.learning_rate),
        "batch_size": Choice(tuple(sorted(batches))),
        "exploration_fraction": Range(0.05, 1.0),
        "exploration_final_eps": Range(0.0, max(0.2, exploration.exploration_final_eps)),
    }
    if learner.tau < 1:
        return space | {"tau": around(learner.tau, highest=1.0)}
    return space | {"target_update_interval": around(learner.target_update_interval, whole=True)}
