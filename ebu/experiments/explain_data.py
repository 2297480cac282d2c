"""The numbers behind `ebu explain`: one stored episode, replayed again and again, under four shipped target rules.

An update is one pass over the episode: every step's target from the table as it stands, then each pair of state and
action takes the mean target of its visits, as a network trained to the end on them would. How much of the last reward
has arrived at a step is measured, not assumed: the same learning is done once more without that reward, and the
difference of the two targets is the reward's share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ebu import targets
from ebu.envs.maze_layout import MOVES
from ebu.envs.mnist_maze import MNISTMaze
from ebu.theory.mdp import MDP
from ebu.theory.toys import episode, figure1_chain, figure1_episode
from ebu.types import Array, Episode

BETAS = tuple(round(0.05 * i, 2) for i in range(21))
UPDATES = 15
GAMMA, N_STEPS, TRACE_LAMBDA = 0.9, 3, 1.0
POLICY_EPSILON = 0.1  # Retrace evaluates the greedy policy with this much chance
BEHAVIOUR_EPSILON = 0.5  # the maze's episode: half the moves random, half along a shortest way
GUESSES = 0.3  # the other start: guesses between 0 and this share of the reward
MAZE_SEED, WALK_SEED = 8, 0  # 17 steps with a bump and two detours: long enough to see, short enough to follow


@dataclass(frozen=True)
class ExampleEpisode:
    """A small MDP and one episode stored from it."""

    id: str
    title: str
    words: str
    episode: Episode  # observations are state numbers
    actions: tuple[str, ...]
    names: tuple[str, ...]  # of the states, as a column's head has room for
    places: tuple[str, ...]  # the same in words
    goal: int
    step: Callable[[int, int], int]  # state, action → next state
    picture: dict[str, Any]  # what the page draws

    def discounts(self) -> Array:
        discounts = np.full(len(self.episode), GAMMA)
        discounts[-1] = 0.0  # both episodes reach their goal
        return discounts


Rule = Callable[[ExampleEpisode, Array, Tensor], Tensor]  # example, rewards [T], q_next [T, A] → targets [T]


def scenes() -> list[dict[str, Any]]:
    """Everything the page needs, ready for JSON."""
    return [scene(example) for example in (chain(), maze())]


def scene(example: ExampleEpisode) -> dict[str, Any]:
    played = example.episode
    rng = np.random.default_rng(0)
    scale = float(played.rewards[-1])
    nothing = np.zeros((len(example.names), len(example.actions)))
    guesses = rng.uniform(0, GUESSES * scale, nothing.shape).round(2 if scale < 10 else 0)
    guesses[example.goal] = 0.0
    return {
        "id": example.id,
        "title": example.title,
        "words": example.words,
        "actions": list(example.actions),
        "names": list(example.names),
        "places": list(example.places),
        "states": played.observations.tolist(),
        "taken": played.actions.tolist(),
        "rewards": played.rewards.tolist(),
        "gamma": GAMMA,
        "n": N_STEPS,
        "betas": list(BETAS),
        "updates": UPDATES,
        "scale": scale,
        "picture": example.picture,
        "starts": {"nothing": _start(example, nothing), "guesses": _start(example, guesses)},
    }


def _start(example: ExampleEpisode, q: Array) -> dict[str, Any]:
    """All methods from one first table. EBU's entries have one more axis at the front: β."""
    played = example.episode
    by_beta = [replay(example, q, backward(beta)) for beta in BETAS]
    own = np.array([[_mixed(played, table, y, beta) for table, y in zip(*run[:2])] for beta, run in zip(BETAS, by_beta)])
    others = {name: replay(example, q, rule) for name, rule in RULES.items()}
    return {
        "ebu": {
            "table": _short([run[0] for run in by_beta]),  # [β, update, T, A], what the network says of the next state
            "mixed": _short(own),  # [β, update, T], what replaces the taken action's entry
            "y": _short([run[1] for run in by_beta]),  # [β, update, T]
            "share": _short([run[2] for run in by_beta]),
            "found": [run[3] for run in by_beta],  # [β, update]
        },
        **{name: {"y": _short(y), "share": _short(share), "found": found} for name, (_, y, share, found) in others.items()},
        "trust": _short([_trust(played, table) for table in others["retrace"][0]]),  # [update, T]
    }


# ---------------------------------------------------------------------- the rules, as shipped


def backward(beta: float) -> Rule:
    def rule(example: ExampleEpisode, rewards: Array, q_next: Tensor) -> Tensor:
        discounts, actions = torch.from_numpy(example.discounts()), torch.from_numpy(example.episode.actions)
        return targets.backward(torch.from_numpy(rewards), discounts, actions, q_next, beta)

    return rule


def one_step(example: ExampleEpisode, rewards: Array, q_next: Tensor) -> Tensor:
    return targets.one_step(torch.from_numpy(rewards), torch.from_numpy(example.discounts()), q_next)


def n_step(example: ExampleEpisode, rewards: Array, q_next: Tensor) -> Tensor:
    return targets.n_step(torch.from_numpy(rewards), torch.from_numpy(example.discounts()), q_next, N_STEPS)


def retrace(example: ExampleEpisode, rewards: Array, q_next: Tensor) -> Tensor:
    discounts, actions = torch.from_numpy(example.discounts()), torch.from_numpy(example.episode.actions)
    policy, behaviour = targets.epsilon_greedy(q_next, POLICY_EPSILON), torch.from_numpy(example.episode.behaviour)
    return targets.retrace(torch.from_numpy(rewards), discounts, actions, q_next, policy, behaviour, TRACE_LAMBDA)


RULES: dict[str, Rule] = {"one_step": one_step, "n_step": n_step, "retrace": retrace}


def replay(example: ExampleEpisode, q: Array, rule: Rule) -> tuple[Array, Array, Array, list[int | None]]:
    """Tables of next states [update, T, A], targets [update, T], the reward's share in them [update, T], and how many
    steps the greedy path takes to the goal after each update (None: it does not arrive)."""
    rewards = example.episode.rewards
    without = rewards.copy()
    without[-1] = 0.0
    tables, ys, found = _learn(example, q, rule, rewards)
    _, plain, _ = _learn(example, q, rule, without)
    return tables, ys, (ys - plain) / rewards[-1], found


def _learn(example: ExampleEpisode, q: Array, rule: Rule, rewards: Array) -> tuple[Array, Array, list[int | None]]:
    q, played = q.copy(), example.episode
    pairs = list(zip(played.observations[:-1].tolist(), played.actions.tolist()))
    tables, ys, found = [], [], []
    for _ in range(UPDATES):
        q_next = q[played.observations[1:]]
        y = rule(example, rewards, torch.from_numpy(q_next)).numpy()
        for pair in set(pairs):
            q[pair] = np.mean([value for value, other in zip(y, pairs) if other == pair])
        tables.append(q_next)
        ys.append(y)
        found.append(greedy_steps(example, q))
    return np.array(tables), np.array(ys), found


def greedy_steps(example: ExampleEpisode, q: Array) -> int | None:
    """Steps from the start to the goal along the best actions (the first of equals), None if that goes in circles."""
    state = int(example.episode.observations[0])
    for steps in range(len(example.names) + 1):
        if state == example.goal:
            return steps
        state = example.step(state, int(q[state].argmax()))
    return None


def _mixed(played: Episode, q_next: Array, y: Array, beta: float) -> Array:
    """β y_{k+1} + (1 − β) Q̂(S_{k+1}, A_{k+1}): the entry that the rule puts into column k; NaN in the last column."""
    own = q_next[np.arange(len(y) - 1), played.actions[1:]]
    return np.append(beta * y[1:] + (1 - beta) * own, np.nan)


def _trust(played: Episode, q_next: Array) -> Array:
    """Retrace's c for the action after each step: λ min(1, π / μ); NaN after the last."""
    policy = targets.epsilon_greedy(torch.from_numpy(q_next), POLICY_EPSILON).numpy()
    pi = policy[np.arange(len(q_next) - 1), played.actions[1:]]
    return np.append(TRACE_LAMBDA * np.minimum(1.0, pi / played.behaviour[1:]), np.nan)


# ---------------------------------------------------------------------- the two examples


def chain() -> ExampleEpisode:
    """Figure 1: s1 … s4, a reward for entering s4, and the one stored episode."""
    mdp: MDP = figure1_chain()
    return ExampleEpisode(
        id="chain",
        title="The chain of Figure 1",
        words="Four states in a row. The agent wandered: right, right, back, right, right. Only the last move paid.",
        episode=figure1_episode(),
        actions=("←", "→"),
        names=("s₁", "s₂", "s₃", "s₄"),
        places=("s₁", "s₂", "s₃", "s₄"),
        goal=3,
        step=lambda state, action: mdp.outcomes(state, action)[0][1],
        picture={"kind": "chain"},
    )


def maze() -> ExampleEpisode:
    """A small maze of the package, and a walk through it that is half random."""
    env = MNISTMaze(size=6, maze_seed=MAZE_SEED)
    layout, size = env.maze, env.maze.size
    cells = env.all_positions()
    number = {cell: i for i, cell in enumerate(cells)}
    rng = np.random.default_rng(WALK_SEED)
    _, info = env.reset(seed=0)
    states, actions, rewards, behaviour, over = [number[info["position"]]], [], [], [], False
    while not over:
        row, column = info["position"]
        nearer = [layout.free(c) and layout.distances[c] < layout.distances[row, column] for c in _around(row, column)]
        guide = nearer.index(True)
        action = int(rng.integers(4)) if rng.random() < BEHAVIOUR_EPSILON else guide
        _, reward, terminated, truncated, info = env.step(action)
        states.append(number[info["position"]])
        actions.append(action)
        rewards.append(float(reward))
        behaviour.append(BEHAVIOUR_EPSILON / 4 + (1 - BEHAVIOUR_EPSILON) * (action == guide))
        over = terminated or truncated
    played = episode(states, actions, rewards, terminated=True)

    def step(state: int, action: int) -> int:
        after = _around(*cells[state])[action]
        return number[after] if layout.free(after) else state

    return ExampleEpisode(
        id="maze",
        title="A walk through a maze",
        words="Reaching the star pays 1,000, walking into a wall costs 1. Half of the moves were made at random.",
        episode=Episode(played.observations, played.actions, played.rewards, np.array(behaviour), True),
        actions=("↑", "↓", "←", "→"),
        names=tuple(f"{row + 1},{column + 1}" for row, column in cells),
        places=tuple(f"row {row + 1}, column {column + 1}" for row, column in cells),
        goal=number[layout.goal],
        step=step,
        picture={"kind": "maze", "size": size, "walls": layout.lines(), "cells": [list(cell) for cell in cells]},
    )


def _around(row: int, column: int) -> Sequence[tuple[int, int]]:
    return [(row + down, column + right) for down, right in MOVES]


def _short(values: Any) -> Any:
    """Nested lists with four digits; NaN becomes None."""
    if isinstance(values, list | tuple):
        return [_short(value) for value in values]
    if isinstance(values, np.ndarray):
        return _short(values.tolist())
    return None if np.isnan(values) else float(f"{values:.4g}")
