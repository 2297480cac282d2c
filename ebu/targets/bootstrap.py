"""Targets that bootstrap from one state: the next one, or the one n steps ahead."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from ebu.targets.scan import next_along_time, piece_ends, scan_affine


def one_step(rewards: Tensor, discounts: Tensor, q_next: Tensor) -> Tensor:
    """y_t = R_t + γ max_a Q̂(S_{t+1}, a): Q-learning (Watkins, 1989), DQN (Mnih et al., 2015).

    ``rewards`` and ``discounts`` are ``[..., T]``, ``q_next`` is ``[..., T, A]``; the discount is 0 at termination.
    """
    return rewards + discounts * q_next.amax(-1)


def n_step(
    rewards: Tensor, discounts: Tensor, q_next: Tensor, n: int | Literal["episode"], continues: Tensor | None = None
) -> Tensor:
    """y_t = R_t + γ R_{t+1} + … + γⁿ max_a Q̂(S_{t+n}, a), uncorrected; shorter where the episode ends sooner.

    With n = "episode" the sum runs to the episode's end: a Monte-Carlo return where it terminated, bootstrapped once
    where it was truncated. ``continues[..., T]`` is as for :func:`ebu.targets.backward`.
    """
    ends = piece_ends(continues, q_next.shape[:-1], q_next.device)
    bootstrapped = one_step(rewards, discounts, q_next)
    if n == "episode":
        constant = torch.where(ends, bootstrapped, rewards)
        return scan_affine(constant, torch.where(ends, 0.0, discounts))
    y = bootstrapped
    for _ in range(min(n, rewards.shape[-1]) - 1):
        y = torch.where(ends, bootstrapped, rewards + discounts * next_along_time(y))
    return y
