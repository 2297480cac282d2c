"""λ-returns as their papers write them, as sums over one episode, and the random episodes they are tried on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch


def retrace_return(rewards, discounts, actions, q_now, q_next, policy_now, policy_next, behaviour, trace_lambda):
    """Munos et al. (2016), equation 3: Q(x, a) + Σ_s γ^s (Π c) (r + γ E_π Q(x', ·) − Q(x, a)), for every start t."""
    steps = len(rewards)
    y = np.zeros(steps)
    for t in range(steps):
        total, product = q_now[t][actions[t]], 1.0
        for s in range(t, steps):
            if s > t:
                ratio = policy_now[s][actions[s]] / behaviour[s]
                product *= discounts[s - 1] * trace_lambda * min(1.0, ratio)
            expected = sum(p * q for p, q in zip(policy_next[s], q_next[s]))
            total += product * (rewards[s] + discounts[s] * expected - q_now[s][actions[s]])
        y[t] = total
    return y


def corrected_returns(rewards, discounts, q_next, t):
    """G⁽¹⁾, G⁽²⁾, … from step t to the episode's end: n rewards, then the best value of the state after them."""
    total, weight, returns = 0.0, 1.0, []
    for s in range(t, len(rewards)):
        total += weight * rewards[s]
        weight *= discounts[s]
        returns.append(total + weight * max(q_next[s]))
    return returns


def mixture(returns, trace_lambda):
    """(1 − λ) Σ λⁿ⁻¹ G⁽ⁿ⁾, the last one with all the weight that is left."""
    weights = [(1 - trace_lambda) * trace_lambda**n for n in range(len(returns) - 1)]
    weights.append(trace_lambda ** (len(returns) - 1))
    return sum(w * g for w, g in zip(weights, returns))


def peng_return(rewards, discounts, q_next, trace_lambda):
    """Peng and Williams (1996): the geometric mixture of all n-step returns."""
    return np.array([mixture(corrected_returns(rewards, discounts, q_next, t), trace_lambda) for t in range(len(rewards))])


def watkins_return(rewards, discounts, actions, q_now, q_next, trace_lambda):
    """Watkins (1989): the same mixture of the n-step returns up to the first later action that is not greedy."""
    y = np.zeros(len(rewards))
    for t in range(len(rewards)):
        returns = corrected_returns(rewards, discounts, q_next, t)
        for s in range(t + 1, len(rewards)):
            if q_now[s][actions[s]] < max(q_now[s]):
                returns = returns[: s - t]
                break
        y[t] = mixture(returns, trace_lambda)
    return y


def gated_return(rewards, discounts, actions, q_next, trace_lambda, sharpness):
    """The mixture of all n-step returns in which each later action lets λ exp(−κ · gap) of the weight pass."""
    y = np.zeros(len(rewards))
    for t in range(len(rewards)):
        returns = corrected_returns(rewards, discounts, q_next, t)
        total, left = 0.0, 1.0
        for n, value in enumerate(returns):
            is_last = n == len(returns) - 1
            passes = 0.0
            if not is_last:
                beyond = q_next[t + n]
                passes = trace_lambda * np.exp(-sharpness * (max(beyond) - beyond[actions[t + n + 1]]))
            total += left * (1.0 - passes) * value
            left *= passes
        y[t] = total
    return y


@dataclass
class Stream:
    """Episodes end to end, seen by K learners. Few states, so that they repeat within an episode."""

    q_states: np.ndarray  # [K, N + E, A] values of all states, episode after episode, the one after its end included
    rows: np.ndarray  # [N] row of S_t; S_{t+1} is the next row
    actions: np.ndarray  # [N]
    rewards: np.ndarray  # [N]
    discounts: np.ndarray  # [N]
    behaviour: np.ndarray  # [N]
    continues: np.ndarray  # [N]
    terminated: np.ndarray  # [E]
    pieces: list[slice]  # where each episode lies

    @cached_property
    def q_now(self):
        return self.q_states[:, self.rows]

    @cached_property
    def q_next(self):
        return self.q_states[:, self.rows + 1]

    def tensors(self, *names):
        return [torch.from_numpy(np.ascontiguousarray(getattr(self, name))) for name in names]

    def by_episode(self, oracle):
        """An oracle of one episode and one learner, applied to each: [K, N]. It is given the learner and the slice."""
        return np.stack([np.concatenate([oracle(k, piece) for piece in self.pieces]) for k in range(len(self.q_states))])


def random_stream(rng, episodes=400, learners=2, actions=3, states=5, longest=12, gamma=0.9, ties=False):
    """A third of the episodes have one step, about half terminate, the others are truncated."""
    lengths = np.where(rng.random(episodes) < 1 / 3, 1, rng.integers(1, longest + 1, episodes))
    terminated = rng.random(episodes) < 0.5
    ends = np.cumsum(lengths)
    steps = int(ends[-1])
    table = rng.normal(size=(learners, states, actions))
    if ties:
        table = np.round(table)
    visited = rng.integers(states, size=steps + episodes)
    discounts = np.full(steps, gamma)
    discounts[ends - 1] = np.where(terminated, 0.0, gamma)
    continues = np.ones(steps, bool)
    continues[ends - 1] = False
    return Stream(
        q_states=table[:, visited],
        rows=np.arange(steps) + np.repeat(np.arange(episodes), lengths),
        actions=rng.integers(actions, size=steps),
        rewards=rng.normal(size=steps),
        discounts=discounts,
        behaviour=1.0 - rng.random(steps),
        continues=continues,
        terminated=terminated,
        pieces=[slice(end - length, end) for end, length in zip(ends.tolist(), lengths.tolist())],
    )
