"""The episodic backward operator of Appendix G, on explicit sets of paths.

Along a path (s_0, a_0), (s_1, a_1), …, s_J the paper writes the value that comes back as the best of J candidates,

    T(j) = Σ_{k<j} (βγ)^{k−1} [β r_k + (1 − β) Q(s_k, a_k)] + (βγ)^{j−1} max_{a ≠ a_j} Q(s_j, a),

"follow the path to s_j and leave it there"; :func:`candidates` is that line. The operator averages r_0 + γ max_j T(j)
over the paths from each pair, with weights the paper calls a schedule; :class:`PathSet` computes it with the shipped
target rule :func:`ebu.targets.backward`, whose recursion unrolls into the same maximum.

For stochastic transitions a weight is the chance of the path: what the environment does times what the behaviour does.
The printed definition multiplies by P(s'|s, a) a second time, which does not average anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch

from ebu.errors import UserError
from ebu.targets.backward import backward
from ebu.theory.mdp import MDP
from ebu.types import Array, Episode

# From the state an agent is in to the chances of its actions [A]. It is asked once at every node of the tree of paths,
# so it may answer differently each time: a behaviour that depends on the history.
Behaviour = Callable[[int], Array]


def candidates(q: Array, path: Episode, beta: float, gamma: float) -> Array:
    """T(1) … T(J) of a path: J is its length, s_J its last state, worth 0 if terminal and max_a Q(s_J, a) if cut off.

    A state with a single action offers no way to leave the path; its candidate is −∞.
    """
    states, actions, rewards = path.observations, path.actions, path.rewards
    length = len(path)
    values = np.empty(length)
    followed = 0.0
    for j in range(1, length):
        decay = (beta * gamma) ** (j - 1)
        leave = np.max(np.delete(q[states[j]], actions[j]), initial=-np.inf)
        values[j - 1] = followed + decay * leave if np.isfinite(leave) else -np.inf  # 0 · ∞ is not a number
        followed += decay * (beta * rewards[j] + (1 - beta) * q[states[j], actions[j]])
    end = 0.0 if path.terminated else q[states[length]].max()
    values[-1] = followed + (beta * gamma) ** (length - 1) * end
    return values


def closed_form(q: Array, path: Episode, beta: float, gamma: float) -> float:
    """r_0 + γ max_j T(j), the paper's target of the first step of a path."""
    return float(path.rewards[0] + gamma * candidates(q, path, beta, gamma).max())


def modulus(j: int, beta: float, gamma: float) -> float:
    """How much T(j) can amplify a difference of two tables: (1 − β) Σ_{k<j} (βγ)^{k−1} + (βγ)^{j−1} ≤ 1."""
    if beta * gamma == 1:
        return 1.0
    return 1 + (1 - gamma) * (beta**j * gamma ** (j - 1) - beta) / (1 - beta * gamma)


def any_behaviour(rng: np.random.Generator, actions: int) -> Behaviour:
    """Positive probabilities redrawn at every node: an arbitrary schedule."""
    return lambda state: 0.98 * rng.dirichlet(np.ones(actions)) + 0.02 / actions


def uniform_behaviour(actions: int) -> Behaviour:
    return lambda state: np.full(actions, 1 / actions)


@dataclass(frozen=True)
class PathSet:
    """Paths from every pair (s, a) with their weights: N paths padded to L steps. Weights sum to 1 for each pair."""

    weights: Array  # [N]
    states: Array  # [N, L + 1]; the first state and action of a path are the pair it belongs to
    actions: Array  # [N, L]
    rewards: Array  # [N, L]
    lengths: Array  # [N]
    terminated: Array  # [N] bool; a path that is cut off instead bootstraps from its last state
    shape: tuple[int, int]  # S, A

    @classmethod
    def of(cls, mdp: MDP, behaviour: Behaviour, horizon: int, limit: int = 500_000) -> PathSet:
        """Every path of at most ``horizon`` steps; longer ones are cut there."""
        found: list[tuple[float, list[int], list[int], list[float], bool]] = []
        for s in range(mdp.states):
            for a in range(mdp.actions):
                for path in _walk(mdp, behaviour, horizon, 1.0, [s], [a], []):
                    found.append(path)
                    if len(found) > limit:
                        raise UserError(f"more than {limit} paths; lower the horizon (now {horizon}) or use fewer states")
        length = max(len(actions) for _, _, actions, _, _ in found)

        def padded(rows: list[list[int]] | list[list[float]], width: int, dtype: type) -> Array:
            return np.array([row + [0] * (width - len(row)) for row in rows], dtype=dtype)

        weights, states, actions, rewards, terminated = zip(*found)
        return cls(
            np.array(weights),
            padded(list(states), length + 1, np.int64),
            padded(list(actions), length, np.int64),
            padded(list(rewards), length, np.float64),
            np.array([len(row) for row in actions]),
            np.array(terminated),
            (mdp.states, mdp.actions),
        )

    def __len__(self) -> int:
        return len(self.weights)

    def path(self, i: int) -> Episode:
        n = int(self.lengths[i])
        end = bool(self.terminated[i])
        return Episode(self.states[i, : n + 1], self.actions[i, :n], self.rewards[i, :n], np.ones(n), end)

    def rescheduled(self, rng: np.random.Generator) -> PathSet:
        """The same paths with arbitrary positive weights: any schedule of a deterministic MDP."""
        raw = rng.exponential(size=len(self)) + 1e-3
        return PathSet(
            raw / self._sums(raw)[self._pairs],
            *(self.states, self.actions, self.rewards, self.lengths, self.terminated, self.shape),
        )

    def targets(self, q: Array, beta: float, gamma: float) -> Array:
        """The backward target of each path's first step, ``[N]``, by the shipped rule."""
        step = np.arange(self.actions.shape[1])  # [L]
        last = step == self.lengths[:, None] - 1
        discounts = np.where(last & self.terminated[:, None], 0.0, gamma)
        y = backward(
            torch.from_numpy(self.rewards),
            torch.from_numpy(discounts),
            torch.from_numpy(self.actions),
            torch.from_numpy(q[self.states[:, 1:]]),
            beta,
            torch.from_numpy(~last),
        )
        return y[:, 0].numpy()

    def apply(self, q: Array, beta: float, gamma: float) -> Array:
        """(H Q)(s, a) = the weighted mean of the targets of the paths from (s, a), ``[S, A]``."""
        return self._sums(self.weights * self.targets(q, beta, gamma)).reshape(self.shape)

    @property
    def _pairs(self) -> Array:
        return self.states[:, 0] * self.shape[1] + self.actions[:, 0]

    def _sums(self, values: Array) -> Array:
        return np.bincount(self._pairs, weights=values, minlength=self.shape[0] * self.shape[1])


def _walk(
    mdp: MDP,
    behaviour: Behaviour,
    horizon: int,
    weight: float,
    states: list[int],
    actions: list[int],
    rewards: list[float],
) -> Iterator[tuple[float, list[int], list[int], list[float], bool]]:
    """All continuations after the last action has been chosen."""
    for p, following, r, terminal in mdp.outcomes(states[-1], actions[-1]):
        far = [*states, following]
        paid = [*rewards, r]
        if terminal or len(actions) == horizon:
            yield weight * p, far, actions, paid, terminal
            continue
        for a, chance in enumerate(behaviour(following)):
            yield from _walk(mdp, behaviour, horizon, weight * p * float(chance), far, [*actions, a], paid)
