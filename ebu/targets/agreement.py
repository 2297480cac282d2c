"""A lower bound that holds where several learners agree."""

from __future__ import annotations

import torch
from torch import Tensor


def at_least_returns(targets: Tensor, returns: Tensor, taken: Tensor, tolerance: float | Tensor) -> Tensor:
    """max(y_t, G_t) where the values of K learners differ little, y_t elsewhere: ``[K, T]``.

    In a deterministic world a value is at least the return G_t that was once obtained from there; elsewhere a return may
    have been luck. Learners that agree have seen enough of a step for the bound to do no harm.

    Args:
      targets: y, ``[K, T]``.
      returns: G, the discounted return from t to the end of the episode; ``ABSENT`` where it was cut off, ``[T]``.
      taken: Q̂_k(S_t, A_t) of every learner, ``[K, T]``.
      tolerance: the largest standard deviation over the learners that counts as agreement; a number, or one for each learner,
        ``[K]``. With one learner it is 0, and the bound holds everywhere.
    """
    spread = taken.std(0, correction=0)
    limit = torch.as_tensor(tolerance, dtype=targets.dtype, device=targets.device).unsqueeze(-1)
    return torch.where(spread <= limit, torch.maximum(targets, returns), targets)
