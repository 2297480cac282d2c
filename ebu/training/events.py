"""What the loop tells its listeners. Progress bar, metrics, TensorBoard and callbacks see these and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from inspect import isclass, signature
from typing import Any

from ebu.errors import UserError
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
    recorded: dict[str, float] = field(default_factory=dict)  # by ``agent.logger.record``


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
"""Called with every event; False asks the training to stop.

One with a method ``begin(agent)`` is given the agent first, one with ``advance(step)`` is told of every step, too.
"""


Callbacks = Listener | Sequence[Listener] | None
"""What a user gives as ``callback``: one, several, or none."""


def as_listeners(callback: Callbacks) -> list[Listener]:
    several = callback if isinstance(callback, Sequence) else [] if callback is None else [callback]
    for listener in several:
        words = "a callback is a function of one event (docs/callbacks.md)"
        if not callable(listener):
            raise UserError(f"{words}, got {type(listener).__module__}.{type(listener).__name__}")
        if isclass(listener) and listener.__module__ != "builtins":
            raise UserError(f"{words}, or an object with a state; pass an instance: {listener.__name__}(...)")
        if not _takes_one_argument(listener):
            raise UserError(f"{words}, got {getattr(listener, '__name__', type(listener).__name__)}{signature(listener)}")
    return list(several)


def _takes_one_argument(function: Callable[..., Any]) -> bool:
    try:
        signature(function).bind(None)
    except TypeError:
        return False
    except ValueError:  # some built-in functions have no signature
        return True
    return True
