"""Episodic Backward Update, Algorithm 2 of Lee, Choi and Chung (2019), as an exact associative scan.

The paper walks an episode from its end. It replaces the taken action's entry of a temporary table by a mixture of what
was just learned and what the table held, and takes the maximum:

    y_T = R_T,    Q̃[A_{k+1}, k] ← β y_{k+1} + (1 − β) Q̃[A_{k+1}, k],    y_k ← R_k + γ max_a Q̃[a, k].

Only one entry of each column changes, so each step is a map  y_{k+1} ↦ max(c_k, e_k + m_k y_{k+1})  with

    c_k = R_k + γ max_{a ≠ A_{k+1}} Q̂(S_{k+1}, a),   e_k = R_k + γ (1 − β) Q̂(S_{k+1}, A_{k+1}),   m_k = β γ ≥ 0,

and such maps compose into the same form. A whole episode for all learners is then ⌈log₂ T⌉ vector steps.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ebu.targets.scan import ABSENT, piece_ends, scan_max_affine


def backward(
    rewards: Tensor,
    discounts: Tensor,
    actions: Tensor,
    q_next: Tensor,
    beta: float | Tensor,
    continues: Tensor | None = None,
) -> Tensor:
    """Targets y[..., T] of episodic backward update.

    Args:
      rewards: R_t, ``[..., T]``.
      discounts: γ, or 0 where the episode terminated, ``[..., T]``; this alone decides bootstrapping.
      actions: A_t, the action taken at each step, ``[..., T]`` integers.
      q_next: Q̂(S_{t+1}, ·) of the target network, ``[..., T, A]``.
      beta: diffusion factor in [0, 1]; a number, or one per leading index, ``[...]``.
      continues: whether step t + 1 belongs to the same episode, ``[..., T]``; by default all but the last do.
    """
    beta = torch.as_tensor(beta, dtype=q_next.dtype, device=q_next.device).unsqueeze(-1)  # [..., 1]
    shape = q_next.shape[:-1]
    ends = piece_ends(continues, shape, q_next.device)
    next_actions = actions.roll(-1, -1).expand(shape).unsqueeze(-1)  # A_{t+1}; the last one is never used

    own = q_next.gather(-1, next_actions).squeeze(-1)
    others = q_next.scatter(-1, next_actions, ABSENT).amax(-1)
    mixed = torch.where(ends, 0.0, beta)  # nothing was learned beyond an end: all actions are as the table has them
    return scan_max_affine(rewards + discounts * others, rewards + discounts * (1 - mixed) * own, discounts * mixed)
