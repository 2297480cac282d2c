"""Choosing actions: ε-greedy on the latest frames."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ebu.types import Array


class FrameStack:
    """The latest ``stack`` frames of an episode as one state, zeros before the first: what the memory rebuilds later."""

    def __init__(self, stack: int) -> None:
        self._stack = stack
        self._state: Array | None = None

    def begin(self, frame: Array) -> Array:
        """The state after a reset."""
        if self._stack == 1:
            return frame
        channels = len(frame)
        self._state = np.zeros((self._stack * channels, *frame.shape[1:]), frame.dtype)
        self._state[-channels:] = frame
        return self._state

    def push(self, frame: Array) -> Array:
        """The state after a step."""
        if self._stack == 1:
            return frame
        assert self._state is not None, "begin an episode first"
        channels = len(frame)
        self._state[:-channels] = self._state[channels:]
        self._state[-channels:] = frame
        return self._state

    def rebuild(self, frames: Sequence[Array]) -> Array:
        """The state after all frames of an episode so far."""
        state = self.begin(frames[0])
        for frame in frames[1:]:
            state = self.push(frame)
        return state


class Policy:
    """ε-greedy on one network: it acts in training, in evaluations, for ``predict`` and in recordings."""

    def __init__(self, values: Callable[[Array], Array], actions: int, knows_probability: bool = False) -> None:
        self.values = values  # one state → Q(s, ·), [A]
        self._actions = actions
        self._knows_probability = knows_probability

    def act(self, state: Array, epsilon: float, rng: np.random.Generator) -> tuple[int, float]:
        """An action and the probability μ with which it was chosen (1 where it is not needed).

        A random action costs no forward pass, unless its probability has to be known.
        """
        explore = epsilon > 0.0 and rng.random() < epsilon
        if explore and not self._knows_probability:
            return int(rng.integers(self._actions)), 1.0
        greedy = int(self.values(state).argmax())
        if not self._knows_probability:
            return greedy, 1.0
        action = int(rng.integers(self._actions)) if explore else greedy
        return action, epsilon / self._actions + (1.0 - epsilon if action == greedy else 0.0)

    def act_and_value(self, state: Array, epsilon: float, rng: np.random.Generator) -> tuple[int, float]:
        """An action and its value Q(s, a)."""
        values = self.values(state)
        explore = epsilon > 0.0 and rng.random() < epsilon
        action = int(rng.integers(self._actions)) if explore else int(values.argmax())
        return action, float(values[action])
