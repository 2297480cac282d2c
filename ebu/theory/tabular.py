"""Learners with a table of values, under one interface: given every step, and the end of each episode.

Target rules that compute all of an episode's targets from the current table are one function each, below;
those that are also shipped for networks call :mod:`ebu.targets`. Everything else is about when the table moves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from ebu.targets.backward import backward as backward_targets
from ebu.targets.bootstrap import n_step as n_step_targets
from ebu.theory.mdp import MDP
from ebu.types import Array, Episode

StepSize = Callable[[int], float]  # α at the n-th move of a pair, n = 1, 2, …
EpisodeRule = Callable[[Array, Episode, float], Array]  # table [S, A], episode, γ → targets [T]


def constant(alpha: float) -> StepSize:
    return lambda n: alpha


def robbins_monro(power: float = 0.55) -> StepSize:
    """α_n = n^−power; for powers in (½, 1] the sum diverges and the sum of squares does not."""
    return lambda n: n**-power


# --- targets of a whole episode from a frozen table ---


def _tensors(q: Array, episode: Episode, gamma: float) -> tuple[Tensor, Tensor, Tensor]:
    discounts = np.full(len(episode), gamma)
    discounts[-1] = 0.0 if episode.terminated else gamma
    q_next = q[episode.observations[1:]]  # [T, A]
    return torch.from_numpy(episode.rewards), torch.from_numpy(discounts), torch.from_numpy(q_next)


def backward(beta: float) -> EpisodeRule:
    """EBU, Algorithm 2."""

    def rule(q: Array, episode: Episode, gamma: float) -> Array:
        rewards, discounts, q_next = _tensors(q, episode, gamma)
        return backward_targets(rewards, discounts, torch.from_numpy(episode.actions), q_next, beta).numpy()

    return rule


def n_step(n: int | Literal["episode"]) -> EpisodeRule:
    """Uncorrected n-step returns; n = 1 is Q-learning's target, "episode" the Monte-Carlo return."""

    def rule(q: Array, episode: Episode, gamma: float) -> Array:
        return n_step_targets(*_tensors(q, episode, gamma), n).numpy()

    return rule


def traces(coefficient: Callable[[Array, Episode], Array]) -> EpisodeRule:
    """G_t = r_t + γ [V(s_{t+1}) + c_{t+1} (G_{t+1} − Q(s_{t+1}, a_{t+1}))]: the methods differ in c ``[T]`` alone."""

    def rule(q: Array, episode: Episode, gamma: float) -> Array:
        states, actions = episode.observations, episode.actions
        own, value, c = q[states[:-1], actions], q[states].max(1), coefficient(q, episode)
        value[-1] = 0.0 if episode.terminated else value[-1]
        returns = episode.rewards + gamma * value[1:]
        for t in range(len(episode) - 2, -1, -1):
            returns[t] += gamma * c[t + 1] * (returns[t + 1] - own[t + 1])
        return returns

    return rule


def _is_greedy(q: Array, episode: Episode) -> Array:
    """Whether each action taken is greedy in the table as it stands; a tie counts as greedy."""
    rows = q[episode.observations[:-1]]  # [T, A]
    return rows[np.arange(len(rows)), episode.actions] >= rows.max(1)


def watkins(trace_lambda: float) -> EpisodeRule:
    """Q(λ), Watkins 1989: the trace is cut where the path left the greedy policy."""
    return traces(lambda q, episode: trace_lambda * _is_greedy(q, episode))


def q_star(trace_lambda: float) -> EpisodeRule:
    """Q*(λ), Harutyunyan et al. 2016: never cut; guaranteed to converge for λ < (1 − γ) / 2γ only."""
    return traces(lambda q, episode: np.full(len(episode), trace_lambda))


def retrace(trace_lambda: float) -> EpisodeRule:
    """Retrace(λ), Munos et al. 2016, for the greedy policy (spread over ties): c = λ min(1, π(a|s) / μ(a|s))."""

    def coefficient(q: Array, episode: Episode) -> Array:
        rows = q[episode.observations[:-1]]
        ties = (rows >= rows.max(1, keepdims=True)).sum(1)
        return trace_lambda * np.minimum(1.0, _is_greedy(q, episode) / ties / episode.behaviour)

    return traces(coefficient)


# --- learners ---


@dataclass
class TabularLearner:
    """A table that moves by α(n) at the n-th move of each pair. This one never learns."""

    states: int
    actions: int
    gamma: float
    step_size: StepSize
    q: Array = field(init=False)
    moves: Array = field(init=False)

    def __post_init__(self) -> None:
        self.q = np.zeros((self.states, self.actions))
        self.moves = np.zeros((self.states, self.actions), dtype=np.int64)

    def move(self, state: int, action: int, target: float) -> None:
        self.moves[state, action] += 1
        self.q[state, action] += self.step_size(int(self.moves[state, action])) * (target - self.q[state, action])

    def one_step(self, reward: float, following: int, terminal: bool) -> float:
        return reward if terminal else reward + self.gamma * float(self.q[following].max())

    def observe(self, state: int, action: int, reward: float, following: int, terminal: bool) -> None:
        """One step was taken."""

    def finish(self, episode: Episode) -> None:
        """The episode those steps made is over."""


class QLearning(TabularLearner):
    """One-step Q-learning as it goes."""

    def observe(self, state: int, action: int, reward: float, following: int, terminal: bool) -> None:
        self.move(state, action, self.one_step(reward, following, terminal))


@dataclass
class OnlineWatkins(TabularLearner):
    """Watkins' Q(λ) as it goes, with replacing traces: the cuts of :func:`watkins`, learned from at every step.

    One error moves many pairs, so counting moves would mean little: α is what the schedule says for the first move.
    """

    trace_lambda: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        self.trace: dict[tuple[int, int], float] = {}

    def observe(self, state: int, action: int, reward: float, following: int, terminal: bool) -> None:
        if self.q[state, action] < self.q[state].max():
            self.trace.clear()
        error = self.one_step(reward, following, terminal) - self.q[state, action]
        fade = self.gamma * self.trace_lambda
        self.trace = {pair: fade * e for pair, e in self.trace.items() if fade * e > 1e-4}
        self.trace[state, action] = 1.0
        if error != 0:
            for (s, a), e in self.trace.items():
                self.q[s, a] += self.step_size(1) * error * e

    def finish(self, episode: Episode) -> None:
        self.trace.clear()


@dataclass
class UniformReplay(TabularLearner):
    """Q-learning from transitions drawn uniformly, with replacement, from all that was seen."""

    rng: np.random.Generator = field(kw_only=True)
    moves_per_step: int = field(kw_only=True, default=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.memory: list[tuple[int, int, float, int, bool]] = []

    def observe(self, state: int, action: int, reward: float, following: int, terminal: bool) -> None:
        self.memory.append((state, action, reward, following, terminal))
        for _ in range(self.moves_per_step):
            self.update()

    def update(self) -> None:
        s, a, r, following, terminal = self.memory[int(self.rng.random() * len(self.memory))]
        self.move(s, a, self.one_step(r, following, terminal))


@dataclass
class BackwardReplay(TabularLearner):
    """Lin's backward replay (1991): each finished episode from its end, in place, with recency factor λ.

    u_t = r_t + γ [(1 − λ) max_a Q(s_{t+1}, a) + λ u_{t+1}]. With λ = 0 and α = 1 this is the paper's Algorithm 1.
    """

    recency: float = 0.0

    def finish(self, episode: Episode) -> None:
        states, actions, rewards = (x.tolist() for x in (episode.observations, episode.actions, episode.rewards))
        last = len(actions) - 1
        u = self.one_step(rewards[last], states[-1], episode.terminated)
        self.move(states[last], actions[last], u)
        for t in range(last - 1, -1, -1):
            value = float(self.q[states[t + 1]].max())
            u = rewards[t] + self.gamma * ((1 - self.recency) * value + self.recency * u)
            self.move(states[t], actions[t], u)


@dataclass
class EpisodeLearner(TabularLearner):
    """All targets of a finished episode from the table as it was, then one move each, from the episode's end."""

    rule: EpisodeRule = field(kw_only=True)

    def finish(self, episode: Episode) -> None:
        self.learn(episode)

    def learn(self, episode: Episode) -> None:
        y = self.rule(self.q, episode, self.gamma)
        states, actions = episode.observations.tolist(), episode.actions.tolist()
        for t in range(len(actions) - 1, -1, -1):
            self.move(states[t], actions[t], float(y[t]))


@dataclass
class EpisodeReplay(EpisodeLearner):
    """The same from episodes drawn uniformly from all finished ones, as Algorithm 2 does.

    A drawn episode costs as many moves as it is long; over time that comes to ``moves_per_step`` for each step taken.
    """

    rng: np.random.Generator = field(kw_only=True)
    moves_per_step: int = field(kw_only=True, default=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.memory: list[Episode] = []
        self.due = 0

    def observe(self, state: int, action: int, reward: float, following: int, terminal: bool) -> None:
        self.due += self.moves_per_step
        while self.due > 0 and self.memory:
            drawn = self.memory[int(self.rng.random() * len(self.memory))]
            self.learn(drawn)
            self.due -= len(drawn)

    def finish(self, episode: Episode) -> None:
        self.memory.append(episode)


# --- acting ---


class Simulator:
    """Episodes of an MDP under ε-greedy behaviour with ties broken at random; plain Python, for its speed."""

    def __init__(self, mdp: MDP, rng: np.random.Generator, epsilon: float, horizon: int) -> None:
        self.table = [[mdp.outcomes(s, a) for a in range(mdp.actions)] for s in range(mdp.states)]
        self.starts = np.cumsum(mdp.start)
        self.actions, self.rng, self.epsilon, self.horizon = mdp.actions, rng, epsilon, horizon

    def episode(self, learner: TabularLearner) -> Episode:
        """Act with the learner's table until the end or ``horizon`` steps, showing it every step and then the whole."""
        uniform = self.rng.random
        state = int(np.searchsorted(self.starts, uniform() * self.starts[-1], side="right"))
        states, actions = [state], list[int]()
        rewards, behaviour = list[float](), list[float]()
        terminal = False
        while not terminal and len(actions) < self.horizon:
            row = learner.q[state].tolist()
            highest = max(row)
            greedy = [a for a, value in enumerate(row) if value == highest]
            if uniform() < self.epsilon:
                action = int(uniform() * self.actions)
            else:
                action = greedy[int(uniform() * len(greedy))]
            chance = self.epsilon / self.actions + (1 - self.epsilon) * (row[action] == highest) / len(greedy)
            following, reward, terminal = self._outcome(state, action, uniform())
            learner.observe(state, action, reward, following, terminal)
            states.append(following)
            actions.append(action)
            rewards.append(reward)
            behaviour.append(chance)
            state = following
        episode = Episode(np.array(states), np.array(actions), np.array(rewards), np.array(behaviour), terminal)
        learner.finish(episode)
        return episode

    def _outcome(self, state: int, action: int, u: float) -> tuple[int, float, bool]:
        outcomes = self.table[state][action]
        for p, following, reward, terminal in outcomes:
            u -= p
            if u < 0:
                return following, reward, terminal
        return outcomes[-1][1:]
