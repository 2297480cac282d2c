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

    def __init__(
        self,
        values: Callable[[Array], Array],
        actions: int,
        knows_probability: bool = False,
        batch_values: Callable[[Array], Array] | None = None,
    ) -> None:
        self.values = values  # one state → Q(s, ·), [A]
        self._batch_values = batch_values  # states [B, …] → [B, A]
        self._actions = actions
        self._knows_probability = knows_probability

    def act(self, state: Array, epsilon: float, rng: np.random.Generator) -> tuple[int, float]:
        """An action and the probability μ with which it was chosen (1 where it is not needed)."""
        explored = self.explore(epsilon, rng)
        greedy = int(self.values(state).argmax()) if self.needs_values(explored) else None
        return self.chosen(explored, greedy, epsilon)

    def explore(self, epsilon: float, rng: np.random.Generator) -> int | None:
        """A random action with probability ε."""
        return int(rng.integers(self._actions)) if epsilon > 0.0 and rng.random() < epsilon else None

    def needs_values(self, explored: int | None) -> bool:
        """A random action costs no forward pass, unless its probability has to be known."""
        return explored is None or self._knows_probability

    def greedy(self, states: Sequence[Array]) -> list[int]:
        """The best action in each state, with one forward pass."""
        if len(states) == 1 or self._batch_values is None:
            return [int(self.values(state).argmax()) for state in states]
        return self._batch_values(np.stack(states)).argmax(1).tolist()

    def chosen(self, explored: int | None, greedy: int | None, epsilon: float) -> tuple[int, float]:
        """The action and its probability."""
        action = greedy if explored is None else explored
        assert action is not None
        if not self._knows_probability:
            return action, 1.0
        return action, epsilon / self._actions + (1.0 - epsilon if action == greedy else 0.0)

    def act_and_value(self, state: Array, epsilon: float, rng: np.random.Generator) -> tuple[int, float]:
        """An action and its value Q(s, a)."""
        values = self.values(state)
        explored = self.explore(epsilon, rng)
        action = int(values.argmax()) if explored is None else explored
        return action, float(values[action])


def mean_of(functions: Sequence[Callable[[Array], Array]]) -> Callable[[Array], Array]:
    """The mean of what several networks say of one state, or of several."""
    if len(functions) == 1:
        return functions[0]
    return lambda states: np.mean([values(states) for values in functions], axis=0)


def act_together(
    policies: Sequence[Policy], states: Sequence[Array], epsilons: Sequence[float], rng: np.random.Generator
) -> list[tuple[int, float]]:
    """For each state its policy's action and the probability of that; one forward pass for all states of a policy."""
    if len(policies) == 1:  # the common case, on the path of every step
        return [policies[0].act(states[0], epsilons[0], rng)]
    explored = [policy.explore(epsilon, rng) for policy, epsilon in zip(policies, epsilons)]
    places: dict[Policy, list[int]] = {}
    for place, policy in enumerate(policies):
        if policy.needs_values(explored[place]):
            places.setdefault(policy, []).append(place)
    greedy: dict[int, int] = {}
    for policy, own in places.items():
        greedy.update(zip(own, policy.greedy([states[place] for place in own])))
    return [policy.chosen(explored[place], greedy.get(place), epsilons[place]) for place, policy in enumerate(policies)]
