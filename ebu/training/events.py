"""What the loop tells its listeners. Progress bar, metrics, TensorBoard and callbacks see these and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ebu.types import Evaluation


@dataclass(frozen=True)
class EpisodeEnded:
    """A training episode is over."""

    step: int
    episode: int
    score: float  # sum of raw rewards
    length: int
    terminated: bool
    relative_length: float | None = None  # over the shortest path, where the environment knows it
    was_cut: bool = False  # by max_episode_steps, where the environment itself knows no end
    game_score: float | None = None  # of the whole game that ended with this episode, where a game has several


@dataclass(frozen=True)
class Trained:
    """A row of training metrics, every ``log_every`` steps."""

    step: int
    metrics: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Evaluated:
    """An evaluation of the current policy."""

    step: int
    evaluation: Evaluation


@dataclass(frozen=True)
class Synchronised:
    """Adaptive EBU copied its best learner to all."""

    step: int
    learner: int
    beta: float
    scores: dict[str, list[float | None]]  # sum and mean by learner since the last time


Event = EpisodeEnded | Trained | Evaluated | Synchronised

Listener = Callable[[Event], Any]
"""Called with every event; False asks the training to stop. One with a method ``advance(step)`` hears of every step, too."""


def as_listeners(callback: Listener | list[Listener] | None) -> list[Listener]:
    """What a user gives as ``callback``: one, several, or none."""
    if callback is None:
        return []
    return list(callback) if isinstance(callback, list) else [callback]
