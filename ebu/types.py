"""The values that travel along the chain. Frozen, named, shapes stated.

Time convention, used everywhere: step t holds the state S_t the agent saw, the action A_t it took there, the reward R_t
that came back and, as state T of an episode with T steps, the observation after the last action. So an episode has T
steps and T + 1 observations, and "next" means index t + 1.

Shape letters: T steps of an episode, N steps of a span (several episodes end to end), A actions, K learners,
F the shape of one stored frame, C × H × W an image.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch

Array = np.ndarray


@dataclass(frozen=True)
class Episode:
    """One finished training episode, as the actor hands it to the memory: every observation exactly once."""

    observations: Array  # [T + 1, *F]
    actions: Array  # [T] int64
    rewards: Array  # [T] float32, as learned from (clipped where the setting says so)
    behaviour: Array  # [T] float32, probability μ(A_t | S_t) with which the action was taken
    terminated: bool  # the environment reached a terminal state, the value beyond is 0; else it was cut off by a limit

    def __len__(self) -> int:
        return len(self.actions)


@dataclass(frozen=True)
class Span:
    """Consecutive steps of one or more episodes, laid end to end on one time axis of N steps.

    Length 1 is DQN, n is n-step, T is EBU. ``continues[i]`` says that step i + 1 follows step i in the same episode.
    Frames are stored once; ``stack_index[i]`` lists the rows whose frames form the state of row i (−1: zero padding);
    without stacking it is None and a state is its frame.
    """

    frames: Array  # [R, *F], R ≥ N + number of pieces
    stack_index: Array | None  # [R, stack] rows of ``frames``, oldest first, −1 before the episode's first frame
    rows: Array  # [N] row of S_t; the row of S_{t+1} is rows + 1
    actions: Array  # [N] int64
    rewards: Array  # [N] float32
    discounts: Array  # [N] float32: 0 at termination, γ elsewhere
    behaviour: Array  # [N] float32
    continues: Array  # [N] bool
    returns: Array  # [N] float32, discounted return to the episode's end; −1e30 where it was cut off
    steps: Array  # [N] int64, the memory's growing number of each step
    trained: Array  # [M] positions that are learned from, in the order they are handed out
    weights: Array | None = None  # [N] importance weights, float32

    def __len__(self) -> int:
        return len(self.actions)

    def states(self, rows: Array) -> Array:
        """The stacked states of some rows: [len(rows), *F] without a stack, [len(rows), stack · C, H, W] with one."""
        if self.stack_index is None:
            return self.frames.take(rows, axis=0)  # in a third of the time of an index
        index = self.stack_index[rows]  # [B, stack]
        stacked = self.frames[index]  # [B, stack, *F]; −1 picks some frame, blanked below
        if (index < 0).any():
            stacked[index < 0] = 0
        return stacked.reshape(len(rows), -1, *stacked.shape[-2:])


@dataclass(frozen=True)
class Targets:
    """What a target rule hands to the backlog for the N steps of a span and K learners."""

    values: torch.Tensor  # [K, N]
    columns: Mapping[str, torch.Tensor] = field(default_factory=dict)  # [K, N] each: what the method's correction needs


@dataclass(frozen=True)
class Batch:
    """A minibatch as the learner takes it: B states with the action taken and the value to move towards."""

    states: torch.Tensor  # [B, *state]
    actions: torch.Tensor  # [B]
    targets: torch.Tensor  # [K, B]
    steps: Array  # [B] the memory's number of each step
    columns: Mapping[str, torch.Tensor] = field(default_factory=dict)  # [K, B] each, as the rule gave them
    weights: torch.Tensor | None = None  # [B]


@dataclass(frozen=True)
class Evaluation:
    """Scores of whole evaluation episodes, raw rewards."""

    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    mean_q: float  # mean over all steps of Q(s, a) for the action taken
    mean_discounted_return: float  # mean over all steps of the discounted return that followed
    relative_lengths: tuple[float, ...] = ()  # length over the shortest path, where the environment knows it

    @cached_property
    def mean(self) -> float:
        return float(np.mean(self.returns))

    @cached_property
    def std(self) -> float:
        return float(np.std(self.returns))

    @cached_property
    def median(self) -> float:
        return float(np.median(self.returns))
