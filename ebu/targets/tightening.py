"""Optimality Tightening: He, Liu, Schwing and Peng (2017), "Learning to play in a day".

An optimal value is at least what following the stored path brings, and at most what an earlier value leaves over:

    L_{t,k} = R_t + γ R_{t+1} + … + γᵏ R_{t+k} + γᵏ⁺¹ max_a Q̂(S_{t+k+1}, a),
    U_{t,k} = γ⁻ᵏ Q̂(S_{t−k}, A_{t−k}) − γ⁻ᵏ R_{t−k} − … − γ⁻¹ R_{t−1}.

The bounds are made with the target network when a step is sampled; the online value meets them when it is updated.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ebu.targets.bootstrap import one_step
from ebu.targets.scan import ABSENT, next_along_time, piece_ends

MARGIN = 0.1  # a bound counts as violated beyond this, as in the authors' code


def tightening(
    rewards: Tensor,
    discounts: Tensor,
    q_taken: Tensor,
    q_next: Tensor,
    returns: Tensor,
    continues: Tensor | None = None,
    neighbours: int = 4,
) -> tuple[Tensor, Tensor, Tensor]:
    """One-step targets and their bounds: values, L^max and U^min, each ``[..., T]``.

    A bound that does not exist is ``ABSENT`` below and ``−ABSENT`` above, where it has no effect. A step that
    terminated (discount 0) has none, so that its target is its reward. The pieces may be windows of an episode: with
    ``neighbours`` − 1 steps after a centre and ``neighbours`` before it, the centre's bounds are complete.

    Args:
      rewards: R_t, ``[..., T]``.
      discounts: γ, or 0 where the episode terminated, ``[..., T]``.
      q_taken: Q̂(S_t, A_t), ``[..., T]``.
      q_next: Q̂(S_{t+1}, ·), ``[..., T, A]``.
      returns: discounted return from t to the end of the episode, ``ABSENT`` where it was cut off, ``[..., T]``.
      continues: whether step t + 1 follows in the same piece, ``[..., T]``; by default all but the last do.
      neighbours: how many states ahead and behind give bounds; the first ahead gives the target itself.
    """
    values = one_step(rewards, discounts, q_next)
    ends = piece_ends(continues, values.shape, values.device)
    starts = torch.ones_like(ends)
    starts[..., 1:] = ends[..., :-1]

    neighbours = min(neighbours, values.shape[-1])  # there are no more
    # Where the piece has no further step a bound stays the shorter one it was: it is in the maximum already.
    lower, ahead = returns.expand_as(values), values  # ahead: L_{t,k}, from k = 0
    for _ in range(neighbours - 1):
        ahead = torch.where(ends, values, rewards + discounts * next_along_time(ahead))
        lower = torch.maximum(lower, ahead)

    reward_before, discount_before = _previous(rewards), _previous(discounts)
    alone = starts | (discount_before == 0)  # with γ = 0 an earlier value says nothing about this one
    upper, behind = torch.full_like(values, -ABSENT), q_taken  # behind: U_{t,k}, from k = 0
    for _ in range(neighbours):
        behind = torch.where(alone, q_taken, (_previous(behind) - reward_before) / discount_before)
        upper = torch.minimum(upper, behind)

    terminal = discounts == 0
    lower = torch.where(terminal, ABSENT, torch.where(ends, returns, lower))
    upper = torch.where(terminal | alone, -ABSENT, upper.clamp(min=ABSENT))
    return values, lower, upper


@torch.no_grad()
def combine(values: Tensor, lower: Tensor, upper: Tensor, q: Tensor, bound_weight: float, margin: float = MARGIN) -> Tensor:
    """The target of a regression, given the online values ``q`` of the same shape: (1 − w) y + w · (violated bound).

    Where both bounds are violated their mean is used; where none is, the target is y. The authors' code runs
    w = 0.2; their paper's penalty λ = 4 is w = λ / (1 + λ) = 0.8.
    """
    too_low, too_high = q < lower - margin, q > upper + margin
    bound = torch.where(too_low, lower, torch.where(too_high, upper, values))
    bound = torch.where(too_low & too_high, (lower + upper) / 2, bound)
    return values + bound_weight * (bound - values)


def _previous(x: Tensor) -> Tensor:
    """x shifted so that index t holds x[t − 1]; the first index repeats itself."""
    return torch.cat([x[..., :1], x[..., :-1]], dim=-1)
