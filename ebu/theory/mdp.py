"""Finite Markov decision processes: a table of outcomes, exact values, and the way to and from Gymnasium.

Shape letters: S states, A actions, O possible outcomes of one action. An outcome is (probability, next state, reward,
terminal). Termination belongs to the outcome, as in Gymnasium's toy-text tables, so a reward may be random at the end
of an episode without a state for every possible payment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import gymnasium
import numpy as np

from ebu.errors import UserError
from ebu.types import Array

Outcome = tuple[float, int, float, bool]


@dataclass(frozen=True)
class MDP:
    """A finite MDP; outcomes that do not exist are padded with probability 0."""

    probability: Array  # [S, A, O]
    next_state: Array  # [S, A, O] int
    reward: Array  # [S, A, O]
    terminal: Array  # [S, A, O] bool: the episode ends with this outcome
    start: Array  # [S] distribution of the first state
    name: str = "MDP"

    def __post_init__(self) -> None:
        if not np.allclose(self.probability.sum(-1), 1.0):
            s, a = np.argwhere(~np.isclose(self.probability.sum(-1), 1.0))[0]
            total = self.probability[s, a].sum()
            raise UserError(f"outcome probabilities of state {s}, action {a} sum to {total:g}; make them sum to 1")

    @classmethod
    def from_table(
        cls, table: Mapping[int, Mapping[int, Iterable[Outcome]]], start: Array | None = None, name: str = "MDP"
    ) -> MDP:
        """From Gymnasium's form, ``table[state][action] = [(probability, next state, reward, terminal), …]``."""
        outcomes = [[_merged(table[s][a]) for a in sorted(table[s])] for s in sorted(table)]
        widest = max(len(o) for row in outcomes for o in row)
        shape = (len(outcomes), len(outcomes[0]), widest)
        probability, reward = np.zeros(shape), np.zeros(shape)
        next_state, terminal = np.zeros(shape, dtype=np.int64), np.ones(shape, dtype=bool)
        for s, row in enumerate(outcomes):
            for a, several in enumerate(row):
                for o, (p, following, r, end) in enumerate(several):
                    probability[s, a, o], next_state[s, a, o] = p, following
                    reward[s, a, o], terminal[s, a, o] = r, end
        if start is None:
            start = np.eye(shape[0])[0]
        return cls(probability, next_state, reward, terminal, np.asarray(start, dtype=np.float64), name)

    def table(self) -> dict[int, dict[int, list[Outcome]]]:
        """The outcomes in Gymnasium's form, without the padding."""
        return {s: {a: self.outcomes(s, a) for a in range(self.actions)} for s in range(self.states)}

    def outcomes(self, state: int, action: int) -> list[Outcome]:
        columns = (self.probability, self.next_state, self.reward, self.terminal)
        several = zip(*(c[state, action].tolist() for c in columns))
        return [outcome for outcome in several if outcome[0] > 0]

    @property
    def states(self) -> int:
        return self.probability.shape[0]

    @property
    def actions(self) -> int:
        return self.probability.shape[1]

    @cached_property
    def possible(self) -> Array:
        return self.probability > 0  # [S, A, O]

    @cached_property
    def deterministic(self) -> bool:
        return bool((self.possible.sum(-1) == 1).all())

    @cached_property
    def entered(self) -> Array:
        """States some step leads into, ``[S]``: only there is a maximum over actions ever taken."""
        entered = np.zeros(self.states, dtype=bool)
        entered[self.next_state[self.possible & ~self.terminal]] = True
        return entered

    @cached_property
    def acyclic(self) -> bool:
        """Whether every episode ends by itself because no state can be met twice."""
        follows = np.zeros((self.states, self.states), dtype=bool)
        s, a, o = np.nonzero(self.possible & ~self.terminal)
        follows[s, self.next_state[s, a, o]] = True
        alive = np.ones(self.states, dtype=bool)
        while alive.any():  # peel off the states that lead to none of those still alive
            last = alive & ~follows[:, alive].any(1)
            if not last.any():
                return False
            alive &= ~last
        return True

    def after(self, values: Array, gamma: float) -> Array:
        """r + γ·v(s') of every outcome, ``[S, A, O]``; beyond a terminal outcome the value is 0."""
        return self.reward + gamma * np.where(self.terminal, 0.0, values[self.next_state])

    def expect(self, outcomes: Array) -> Array:
        return (self.probability * outcomes).sum(-1)  # [S, A]

    def largest(self, outcomes: Array) -> Array:
        return np.where(self.possible, outcomes, -np.inf).max(-1)  # [S, A]

    def smallest(self, outcomes: Array) -> Array:
        return np.where(self.possible, outcomes, np.inf).min(-1)  # [S, A]


def _merged(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Equal outcomes added up: a step against FrozenLake's wall lists the same next state twice."""
    total: dict[tuple[int, float, bool], float] = {}
    for p, following, r, end in outcomes:
        key = (int(following), float(r), bool(end))
        total[key] = total.get(key, 0.0) + float(p)
    return [(p, *key) for key, p in total.items() if p > 0]


def fixed_point(
    update: Callable[[Array], Array], first: Array, gamma: float, acyclic: bool, tolerance: float = 1e-13
) -> Array:
    """Iterate ``update`` until nothing moves. Refuses γ = 1 with cycles, where returns need not be bounded."""
    if gamma >= 1 and not acyclic:
        raise UserError(f"γ = {gamma:g} in an MDP with cycles leaves returns unbounded; choose γ below 1")
    value = first
    while True:
        following = update(value)
        if np.abs(following - value).max() <= tolerance * max(1.0, np.abs(following).max()):
            return following
        value = following


def optimal_values(mdp: MDP, gamma: float) -> Array:
    """Q* ``[S, A]`` by value iteration to machine precision."""
    zero = np.zeros((mdp.states, mdp.actions))
    return fixed_point(lambda q: mdp.expect(mdp.after(q.max(1), gamma)), zero, gamma, mdp.acyclic)


def greedy_policy(q: Array) -> Array:
    """Chances ``[S, A]`` of the greedy actions, equal among ties."""
    greedy = q >= q.max(1, keepdims=True)
    return greedy / greedy.sum(1, keepdims=True)


def policy_value(mdp: MDP, policy: Array, gamma: float, horizon: int) -> float:
    """Expected return of the first ``horizon`` steps under ``policy[S, A]``, from the start distribution."""
    chances = policy[..., None] * mdp.probability  # [S, A, O]
    expected = (chances * mdp.reward).sum((1, 2))
    s, a, o = np.nonzero((chances > 0) & ~mdp.terminal)
    weight, following = gamma * chances[s, a, o], mdp.next_state[s, a, o]
    values = np.zeros(mdp.states)
    for _ in range(horizon):
        values = expected + np.bincount(s, weights=weight * values[following], minlength=mdp.states)
    return float(mdp.start @ values)


def is_optimal(q: Array, best: Array, states: Sequence[int] | None = None, tolerance: float = 1e-9) -> bool:
    """Whether every action that is greedy in ``q`` is optimal under ``best`` = Q*, in the given states (or in all).

    Ties count against the learner: a table of zeros has not found anything.
    """
    rows = slice(None) if states is None else list(states)
    greedy = q[rows] >= q[rows].max(1, keepdims=True) - tolerance
    optimal = best[rows] >= best[rows].max(1, keepdims=True) - tolerance
    return bool((optimal | ~greedy).all())


def from_gymnasium(env: str | gymnasium.Env, **options: Any) -> MDP:
    """The table of a toy-text environment (FrozenLake, Taxi, CliffWalking, or anything with ``P`` of that form)."""
    if isinstance(env, str):
        try:
            env = gymnasium.make(env, **options)
        except gymnasium.error.Error as error:
            raise UserError(f"cannot make {env!r}: {error}") from error
    inner: Any = env.unwrapped
    name = env.spec.id if env.spec is not None else type(inner).__name__
    if not isinstance(getattr(inner, "P", None), Mapping):
        raise UserError(f"{name} does not expose its outcomes as a table P; use FrozenLake, Taxi or CliffWalking")
    return MDP.from_table(inner.P, getattr(inner, "initial_state_distrib", None), name)


class TabularEnv(gymnasium.Env[int, int]):
    """An MDP as a Gymnasium environment with the attributes of a toy-text one."""

    def __init__(self, mdp: MDP) -> None:
        self.P = mdp.table()
        self.initial_state_distrib = mdp.start
        self.observation_space = gymnasium.spaces.Discrete(mdp.states)  # type: ignore[assignment]
        self.action_space = gymnasium.spaces.Discrete(mdp.actions)  # type: ignore[assignment]
        self.state = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.state = int(self.np_random.choice(len(self.initial_state_distrib), p=self.initial_state_distrib))
        return self.state, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        outcomes = self.P[self.state][int(action)]
        chances = np.array([outcome[0] for outcome in outcomes])
        _, self.state, reward, terminal = outcomes[self.np_random.choice(len(outcomes), p=chances / chances.sum())]
        return self.state, reward, terminal, False, {}
