"""Rewards that are paid only at the end of an episode, redistributed over its steps.

A network r̂(s, a) learns to sum up to the return of each such episode (return decomposition by least squares: Efroni, Merlis
and Mannor, 2021; the idea of RUDDER: Arjona-Medina et al., 2019). Its predictions replace the rewards as far as they can be
trusted: the reward of a step becomes c · r̂(s, a) + (1 − c) · r, where c = max(0, 2e − 1) and e is the share of the variance of
returns that the model explains in new episodes, before it has learned from them. What the sum of the predictions lacks is
added at the last step, so that every episode keeps its return. An episode with a reward before its last step keeps its
rewards. Predictions are those of averaged weights: a step of learning moves all predictions of a long episode together, and
their sum by many times as much.

Why in new episodes: a policy finds the states whose predictions are too high and returns to them. In the episodes that it
then plays, the model explains little, and the rewards are again those that were paid.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
import torch

from ebu.learning.learner import LocalLearner
from ebu.learning.span_values import FORWARD_ROWS, IMAGE_ROWS, SpanValues
from ebu.memory.episodes import EpisodeMemory
from ebu.memory.samplers import whole_episodes
from ebu.types import Array, Batch, Span

LEARNING_RATE = 1e-3  # of the model, with Adam
AVERAGING = 0.1  # how far its averaged weights move to the latest at each update
SMALLEST_WEIGHT = 0.02  # of the newest episode in the running averages, once there are many
GROWTH = 10.0  # returns that vary this many times as much as the model's unit give it a new unit
GROUP_BYTES = 2**27  # of frames that are judged together: before the first update, and of recorded episodes, many are new


@dataclass(frozen=True)
class ReturnStatistics:
    """Running averages over new episodes that are paid at their end: what returns were obtained, and what was predicted."""

    episodes: int = 0
    mean: float = 0.0  # of returns
    square: float = 0.0  # of returns
    error: float = 0.0  # squared, of predicted returns
    unit: float = 0.0  # of the network's outputs; 0 until two returns differ

    def added(self, obtained: float, predicted: float) -> ReturnStatistics:
        """With one more episode."""
        episodes = self.episodes + 1
        weight = max(SMALLEST_WEIGHT, 1 / episodes)
        mean = self.mean + weight * (obtained - self.mean)
        square = self.square + weight * (obtained**2 - self.square)
        error = self.error + weight * ((obtained - predicted) ** 2 - self.error)
        return ReturnStatistics(episodes, mean, square, error, self.unit)._in_a_fitting_unit()

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

    @property
    def trust(self) -> float:
        """How much of a prediction is used: nothing where at most half of the variance is explained, all where all is."""
        return max(2 * self.explained - 1, 0.0)


@dataclass(frozen=True)
class Redistribution:
    """A span with its new rewards, and what the model is to learn from it."""

    span: Span
    steps: Array  # [M] positions of the steps of episodes that are paid at their end
    targets: Array  # [M] float32, what the model should have predicted there, in its unit


class RewardModel:
    """A network of the agent's form, one learner, with the statistics that say how far it is trusted."""

    def __init__(self, learner: LocalLearner) -> None:
        self.learner = learner
        self.statistics = ReturnStatistics()
        self.judged = 0  # the memory's number of the first episode that is new

    def initialise(self, generator: torch.Generator, scheme: Literal["torch", "he"]) -> None:
        """Starting weights; the last layer is 0, so that sums over long episodes are not far off at first."""
        self.learner.initialise(generator, scheme)
        self.learner.renew_outputs(torch.zeros_like(self.learner.online.parameters))

    def judge(self, memory: EpisodeMemory, should_stop: Callable[[], bool] = lambda: False) -> None:
        """Compare the model with the episodes that have ended since the last call, none of which it has learned from."""
        new = np.arange(max(self.judged, memory.first_episode), memory.end_episode)
        if not len(new):
            return
        statistics = self.statistics
        for episodes in in_groups(new, memory):
            span = whole_episodes(memory, episodes)
            is_late = paid_at_the_end(span.rewards, span.continues)
            if not is_late.any():
                continue
            values = SpanValues(span, self.learner, should_stop=should_stop)
            returns, sums = per_episode(span.continues, span.rewards, as_array(values.target_taken))
            for obtained, predicted in zip(returns[is_late].tolist(), sums[is_late].tolist()):
                statistics = statistics.added(obtained, self.statistics.unit * predicted)
        self._keep_predictions(self.statistics.unit, statistics.unit)
        self.statistics, self.judged = statistics, memory.end_episode

    def _keep_predictions(self, old_unit: float, unit: float) -> None:
        """A new unit changes the outputs, not what they mean."""
        if old_unit and unit != old_unit:
            for network in (self.learner.online, self.learner.target):
                network.renew_outputs(network.parameters * (old_unit / unit))

    def redistribute(self, span: Span, should_stop: Callable[[], bool] = lambda: False) -> Redistribution:
        """Of a span of whole episodes. Changes nothing in the model: what it gives is to be passed to ``learn``."""
        is_late = paid_at_the_end(span.rewards, span.continues)
        episode, _ = episode_of_step(span.continues)
        steps = np.flatnonzero(is_late[episode])
        unit = self.statistics.unit
        if not len(steps) or not unit:  # there are no late rewards, or all returns are equal so far
            return Redistribution(span, steps[:0], np.empty(0, np.float32))
        values = SpanValues(span, self.learner, should_stop=should_stop)
        rewards = redistributed(span.rewards, unit * as_array(values.target_taken), span.continues, self.statistics.trust)
        outputs = as_array(values.online_taken)
        lengths, returns, sums = per_episode(span.continues, np.ones(len(span)), span.rewards, outputs)
        lacking = (returns / unit - sums) / lengths
        targets = (outputs + lacking[episode])[steps].astype(np.float32)
        return Redistribution(replace(span, rewards=rewards), steps, targets)

    def learn(self, lesson: Redistribution) -> None:
        """Every prediction of an episode moves by the same share of what their sum lacks."""
        span = lesson.span
        values = SpanValues(span, self.learner)
        for start in range(0, len(lesson.steps), FORWARD_ROWS):
            part = slice(start, start + FORWARD_ROWS)
            chosen, weights = self._filled_up(np.arange(len(lesson.steps))[part])
            steps = lesson.steps[chosen]
            targets = values.tensor(lesson.targets[chosen]).unsqueeze(0)
            states, actions = values.states(span.rows[steps]), values.tensor(span.actions[steps])
            placed = None if weights is None else values.tensor(weights)
            self.learner.update(Batch(states, actions, targets, span.steps[steps], weights=placed))
            self.learner.update_target()

    def _filled_up(self, chosen: Array) -> tuple[Array, Array | None]:
        """Images in numbers that come often, as ``IMAGE_ROWS`` says: the last one again, which then does not count."""
        count = len(chosen)
        missing = -count % IMAGE_ROWS if self.learner.online.keeps_work_space else 0
        if not missing:
            return chosen, None
        weights = np.full(count + missing, (count + missing) / count, np.float32)  # the loss is a mean over all
        weights[count:] = 0.0
        return np.concatenate([chosen, chosen[-1:].repeat(missing)]), weights

    def renumber(self, kept: Array, first: int) -> None:
        """Some episodes were lost in a damaged file: the one that had the number ``kept[i]`` now has ``first + i``."""
        self.judged = first + int(np.searchsorted(kept, self.judged))

    def state_dict(self) -> dict[str, Any]:
        return {"learner": self.learner.state_dict(), "statistics": asdict(self.statistics), "judged": self.judged}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.learner.load_state_dict(state["learner"])
        self.judged = int(state["judged"])
        numbers = {name: float(number) for name, number in state["statistics"].items()}
        counts_and_sizes = (numbers["episodes"], numbers["error"], numbers["unit"], self.judged)
        if not all(map(math.isfinite, numbers.values())) or min(counts_and_sizes) < 0:
            raise ValueError(f"impossible statistics of returns: {numbers}")
        self.statistics = ReturnStatistics(int(numbers.pop("episodes")), **numbers)


def in_groups(episodes: Array, memory: EpisodeMemory) -> list[Array]:
    """Consecutive episodes, so many together that their frames are about ``GROUP_BYTES``."""
    frame = math.prod(memory.frame_shape) * memory.frame_dtype.itemsize
    group = memory.lengths(episodes).cumsum() * frame // GROUP_BYTES
    return np.split(episodes, np.flatnonzero(np.diff(group)) + 1)


def as_array(values: torch.Tensor) -> Array:
    """The values of the one learner, [N], in double precision for sums over long episodes."""
    return values[0].numpy(force=True).astype(np.float64)


def episode_of_step(continues: Array) -> tuple[Array, int]:
    """To which episode of a span each step belongs, [N], and how many episodes there are."""
    is_last = ~continues
    return is_last.cumsum() - is_last, int(is_last.sum())


def per_episode(continues: Array, *columns: Array) -> list[Array]:
    """The sum over each episode of a span, of some columns [N]."""
    episode, episodes = episode_of_step(continues)
    return [np.bincount(episode, column, episodes) for column in columns]


def paid_at_the_end(rewards: Array, continues: Array) -> Array:
    """Which episodes of a span have no reward before their last step."""
    (early,) = per_episode(continues, (rewards != 0) & continues)
    return early == 0


def redistributed(rewards: Array, predicted: Array, continues: Array, trust: float) -> Array:
    """New rewards: those predicted, as far as they are trusted, in episodes that are paid at their end.

    What the predictions of an episode lack is added at its last step: the sum of its rewards stays the same.
    """
    episode, _ = episode_of_step(continues)
    is_late = paid_at_the_end(rewards, continues)
    (lacking,) = per_episode(continues, rewards - predicted)
    complete = predicted + np.where(continues, 0.0, lacking[episode])
    return np.where(is_late[episode], trust * complete + (1 - trust) * rewards, rewards).astype(np.float32)
