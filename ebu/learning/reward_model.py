"""Rewards that are paid only at the end of an episode, redistributed over its steps.

A network r̂(s, a) learns to sum up to the return of each such episode (return decomposition by least squares: Efroni, Merlis
and Mannor, 2021; the idea of RUDDER: Arjona-Medina et al., 2019). Its predictions replace the rewards as far as they explain
the returns: with the share c of the variance of returns that the model explains, the reward of a step becomes
c · r̂(s, a) + (1 − c) · r, and what the sum of the predictions lacks is added at the last step, so that every episode keeps its
return. An episode with a reward before its last step keeps its rewards.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from ebu.learning.learner import Learner
from ebu.learning.span_values import FORWARD_ROWS, SpanValues
from ebu.types import Array, Batch, Span

LEARNING_RATE = 1e-3  # of the model, with Adam
SMALLEST_WEIGHT = 0.02  # of the newest span in the running averages, once there are many
GROWTH = 10.0  # returns that vary this many times as much as the model's unit give it a new unit


@dataclass(frozen=True)
class ReturnStatistics:
    """Running averages over episodes that are paid at their end: how much of the variance of returns the model explains."""

    spans: int = 0
    mean: float = 0.0  # of returns
    square: float = 0.0  # of returns
    error: float = 0.0  # squared, of predicted returns
    unit: float = 0.0  # of the network's outputs; 0 until two returns differ

    def added(self, returns: Array, predicted: Array) -> ReturnStatistics:
        """With the episodes of one more span."""
        spans = self.spans + 1
        weight = max(SMALLEST_WEIGHT, 1 / spans)

        def moved(average: float, values: Array) -> float:
            return average + weight * (float(values.mean()) - average)

        mean, square = moved(self.mean, returns), moved(self.square, returns**2)
        error = moved(self.error, (returns - predicted) ** 2)
        return ReturnStatistics(spans, mean, square, error, self.unit)._in_a_fitting_unit()

    def _in_a_fitting_unit(self) -> ReturnStatistics:
        """Outputs of about 1 are learned fastest, whether a reward is 1 or 1,000."""
        deviation = math.sqrt(self.variance)
        return replace(self, unit=deviation) if deviation > GROWTH * self.unit else self

    @property
    def variance(self) -> float:
        return max(self.square - self.mean**2, 0.0)

    @property
    def explained(self) -> float:
        """1 where the model accounts for every difference between returns; 0 where it does not, or where none differ."""
        return max(1 - self.error / self.variance, 0.0) if self.variance > 0 else 0.0


@dataclass(frozen=True)
class Redistribution:
    """A span with its new rewards, and what the model is to learn from it."""

    span: Span
    statistics: ReturnStatistics
    steps: Array  # [M] positions of the steps of episodes that are paid at their end
    targets: Array  # [M] float32, what the model should have predicted there, in its unit


class RewardModel:
    """A network of the agent's form, one learner, with the statistics that say how far it is trusted."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self.statistics = ReturnStatistics()

    def redistribute(self, span: Span, should_stop: Callable[[], bool] = lambda: False) -> Redistribution:
        """Of a span of whole episodes. Changes nothing in the model: what it gives is to be passed to ``learn``."""
        episode, episodes = episode_of_step(span.continues)
        is_late = paid_at_the_end(span.rewards, span.continues)
        steps = np.flatnonzero(is_late[episode])
        if not len(steps):
            return Redistribution(span, self.statistics, steps, np.empty(0, np.float32))
        outputs = SpanValues(span, self.learner, should_stop=should_stop).online_taken[0].numpy(force=True).astype(float)

        lengths, returns, sums = (np.bincount(episode, numbers, episodes) for numbers in (None, span.rewards, outputs))
        unit = self.statistics.unit
        statistics = self.statistics.added(returns[is_late], unit * sums[is_late])
        lacking = (returns / (statistics.unit or 1.0) - sums) / lengths
        rewards = redistributed(span.rewards, unit * outputs, span.continues, statistics.explained)
        targets = (outputs + lacking[episode])[steps].astype(np.float32)
        return Redistribution(replace(span, rewards=rewards), statistics, steps, targets)

    def learn(self, lesson: Redistribution) -> None:
        """Every prediction of an episode moves by the same share of what its sum lacks."""
        self.statistics = lesson.statistics
        if not self.statistics.unit:
            return
        span = lesson.span
        values = SpanValues(span, self.learner)
        for start in range(0, len(lesson.steps), FORWARD_ROWS):
            part = slice(start, start + FORWARD_ROWS)
            steps = lesson.steps[part]
            targets = values.tensor(lesson.targets[part]).unsqueeze(0)
            actions = values.tensor(span.actions[steps])
            self.learner.update(Batch(values.states(span.rows[steps]), actions, targets, span.steps[steps]))

    def state_dict(self) -> dict[str, Any]:
        return {"learner": self.learner.state_dict(), "statistics": asdict(self.statistics)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.learner.load_state_dict(state["learner"])
        numbers = {name: float(number) for name, number in state["statistics"].items()}
        if not all(map(math.isfinite, numbers.values())) or numbers["spans"] < 0 or numbers["unit"] < 0:
            raise ValueError(f"impossible statistics of returns: {numbers}")
        self.statistics = ReturnStatistics(int(numbers.pop("spans")), **numbers)


def episode_of_step(continues: Array) -> tuple[Array, int]:
    """To which episode of a span each step belongs, [N], and how many episodes there are."""
    is_last = ~continues
    return is_last.cumsum() - is_last, int(is_last.sum())


def paid_at_the_end(rewards: Array, continues: Array) -> Array:
    """Which episodes of a span have no reward before their last step."""
    episode, episodes = episode_of_step(continues)
    return np.bincount(episode, (rewards != 0) & continues, episodes) == 0


def redistributed(rewards: Array, predicted: Array, continues: Array, explained: float) -> Array:
    """New rewards: those predicted, as far as they explain the returns, in episodes that are paid at their end.

    What the predictions of an episode lack is added at its last step: the sum of its rewards stays the same.
    """
    episode, episodes = episode_of_step(continues)
    is_late = paid_at_the_end(rewards, continues)
    lacking = np.bincount(episode, rewards - predicted, episodes)
    complete = predicted + np.where(continues, 0.0, lacking[episode])
    return np.where(is_late[episode], explained * complete + (1 - explained) * rewards, rewards).astype(np.float32)
