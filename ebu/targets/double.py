"""Double Q-learning (van Hasselt, 2010) for the target rules: the online network chooses, the target network values."""

from __future__ import annotations

import torch
from torch import Tensor

from ebu.targets.scan import ABSENT, next_along_time, piece_ends


def chosen_by(q_next: Tensor, q_online_next: Tensor) -> Tensor:
    """q_next of the action that is best online, ``[..., T, 1]``: in its place, any rule's max_a becomes double Q's."""
    return q_next.gather(-1, q_online_next.argmax(-1, keepdim=True))


def double_backward(
    rewards: Tensor,
    discounts: Tensor,
    actions: Tensor,
    q_next: Tensor,
    q_online_next: Tensor,
    beta: float | Tensor,
    continues: Tensor | None = None,
) -> Tensor:
    """Backward targets with double Q inside the maximum; arguments as for :func:`ebu.targets.backward`.

    The taken action's entry is mixed with y_{k+1} in both tables, the online one picks the action, the target one gives
    its value:

        Q̃[A_{k+1}, k] ← β y_{k+1} + (1 − β) Q̃[A_{k+1}, k] in both,   y_k ← R_k + γ Q̃_target[argmax_a Q̃_online[a, k], k].

    With β = 0 this is Double DQN. The choice jumps with y, so the steps do not compose into a scan: a loop over numbers.
    """
    shape = q_next.shape[:-1]
    beta = torch.as_tensor(beta, dtype=q_next.dtype, device=q_next.device).unsqueeze(-1)
    ends = piece_ends(continues, shape, q_next.device)
    taken = next_along_time(actions).expand(shape).unsqueeze(-1)

    rival = q_online_next.scatter(-1, taken, ABSENT).max(-1, keepdim=True)  # the best of the other actions, online
    at_end = chosen_by(q_next, q_online_next).squeeze(-1)
    columns = (
        rewards,
        discounts,
        ends,
        at_end,
        q_next.gather(-1, taken).squeeze(-1),
        q_online_next.gather(-1, taken).squeeze(-1),
        q_next.gather(-1, rival.indices).squeeze(-1),
        rival.values.squeeze(-1),
        beta,
    )
    length = shape[-1]
    streams = [column.expand(shape).reshape(-1, length).tolist() for column in columns]
    out = [_one_stream(length, *stream) for stream in zip(*streams)]
    return torch.tensor(out, dtype=q_next.dtype, device=q_next.device).reshape(shape)


def _one_stream(
    length: int,
    rewards: list[float],
    discounts: list[float],
    ends: list[bool],
    at_end: list[float],
    own: list[float],
    own_online: list[float],
    rival: list[float],
    rival_online: list[float],
    beta: list[float],
) -> list[float]:
    y = 0.0
    ys = [0.0] * length
    for t in range(length - 1, -1, -1):
        b = beta[t]
        if ends[t]:
            value = at_end[t]
        elif b * y + (1 - b) * own_online[t] >= rival_online[t]:
            value = b * y + (1 - b) * own[t]
        else:
            value = rival[t]
        y = ys[t] = rewards[t] + discounts[t] * value
    return ys
