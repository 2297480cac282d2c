"""Returns that follow the stored path for as long as a trace lasts: Retrace(λ), Peng's, Watkins' and a gated Q(λ).

All are one recursion from the episode's end,

    y_t = R_t + γ [ V_{t+1} + c_{t+1} (y_{t+1} − Q̂(S_{t+1}, A_{t+1})) ],      y_t = R_t + γ V_{t+1} at the last step,

and differ in V and c alone:

    Retrace   V = Σ_a π(a | S) Q̂(S, a)   c = λ min(1, π(A | S) / μ(A | S))
    Watkins   V = max_a Q̂(S, a)          c = λ where A is greedy, else 0
    Peng      V = max_a Q̂(S, a)          c = λ, with V in the place of Q̂(S, A)
    gated     V = max_a Q̂(S, a)          c = λ exp(−κ (V − Q̂(S, A))), with V in the place of Q̂(S, A)

Each step is an affine map of y_{t+1}, so a whole episode for all learners is ⌈log₂ T⌉ vector steps. Every value is one
of a next state: the network is never asked about S_t.

Shapes throughout: ``rewards, discounts, actions, behaviour`` and the optional ``continues`` are ``[..., T]`` and
broadcast against ``q_next[..., T, A]``; ``discounts`` (0 at termination) alone decides bootstrapping; ``continues``
says whether step t + 1 belongs to the same episode, and by default all but the last do.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ebu.targets.scan import next_along_time, piece_ends, scan_affine


def retrace(
    rewards: Tensor,
    discounts: Tensor,
    actions: Tensor,
    q_next: Tensor,
    policy_next: Tensor,
    behaviour: Tensor,
    trace_lambda: float,
    continues: Tensor | None = None,
) -> Tensor:
    """Targets y[..., T] of Retrace(λ): Munos et al. (2016), "Safe and efficient off-policy reinforcement learning".

    γ multiplies the carried term and λ enters once, through c; the EBU paper's appendix prints it without γ and
    with λ twice.

    Args:
      q_next: Q̂(S_{t+1}, ·), ``[..., T, A]``.
      policy_next: π(· | S_{t+1}) of the policy being evaluated, ``[..., T, A]``.
      behaviour: μ(A_t | S_t), the probability with which the stored action was taken, ``[..., T]``.
      trace_lambda: λ in [0, 1]; 0 is one-step expected Sarsa of π.
    """
    pi = _of_next_action(policy_next, actions)
    mu = next_along_time(behaviour)
    ratio = torch.where(pi >= mu, 1.0, pi / mu)  # min(1, π / μ), without a division by zero in padding
    expected = (policy_next * q_next).sum(-1)
    return _follow(rewards, discounts, expected, _of_next_action(q_next, actions), trace_lambda * ratio, continues)


def peng(rewards: Tensor, discounts: Tensor, q_next: Tensor, trace_lambda: float, continues: Tensor | None = None) -> Tensor:
    """Targets of Peng's Q(λ): y_t = R_t + γ [(1 − λ) max_a Q̂(S_{t+1}, a) + λ y_{t+1}]. Peng and Williams (1996).

    Never cut, not corrected: λ = 0 is one-step, λ = 1 the Monte-Carlo return of an episode that terminated.
    """
    best = q_next.amax(-1)
    return _follow(rewards, discounts, best, best, torch.full_like(best, trace_lambda), continues)


def watkins(
    rewards: Tensor,
    discounts: Tensor,
    actions: Tensor,
    q_next: Tensor,
    trace_lambda: float,
    continues: Tensor | None = None,
    q_online_next: Tensor | None = None,
) -> Tensor:
    """Targets of Watkins' Q(λ) (1989): Peng's, cut before the first action that is not greedy in ``q_next``.

    A tie counts as greedy. The action of step t itself never cuts y_t. With ``q_online_next[..., T, A]`` the online
    network says which action is greedy and ``q_next`` gives its value, as in double Q-learning.
    """
    chooser = q_next if q_online_next is None else q_online_next
    best = q_next.gather(-1, chooser.argmax(-1, keepdim=True)).squeeze(-1)
    is_greedy = _of_next_action(chooser, actions) >= chooser.amax(-1)
    taken = _of_next_action(q_next, actions)
    return _follow(rewards, discounts, best, taken, trace_lambda * is_greedy.to(best.dtype), continues)


def gated(
    rewards: Tensor,
    discounts: Tensor,
    actions: Tensor,
    q_next: Tensor,
    trace_lambdas: float | Tensor,
    sharpness: float | Tensor = 0.0,
    continues: Tensor | None = None,
    q_online_next: Tensor | None = None,
) -> Tensor:
    """Peng's targets with a gate: y_t = R_t + γ [V + λ g (y_{t+1} − V)], g = exp(−κ (V − Q̂(S_{t+1}, A_{t+1}))).

    What followed an action counts less the worse that action looks compared with the best. κ = 0 is Peng's Q(λ), κ → ∞
    Watkins', λ = 0 one-step, and λ = 1 with κ = 0 the Monte-Carlo return of an episode that terminated.

    Args:
      trace_lambdas: λ in [0, 1]; a number, or one per leading index, ``[...]``.
      sharpness: κ ≥ 0, one over the gap at which g is 1/e; a number, or one per leading index, ``[...]``.
      q_online_next: as for :func:`watkins`. The gap is then that to the action chosen online, and never below 0.
    """
    chooser = q_next if q_online_next is None else q_online_next
    best = q_next.gather(-1, chooser.argmax(-1, keepdim=True)).squeeze(-1)
    trace, kappa = (
        torch.as_tensor(number, dtype=best.dtype, device=best.device).unsqueeze(-1) for number in (trace_lambdas, sharpness)
    )
    gap = (best - _of_next_action(q_next, actions)).clamp(min=0.0)
    return _follow(rewards, discounts, best, best, trace * torch.exp(-kappa * gap), continues)


def epsilon_greedy(q: Tensor, epsilon: float) -> Tensor:
    """π(· | s) = ε / A for every action and 1 − ε more for the greedy one, ``[..., A]``.

    Of tied actions the first is greedy, as for the actor, so that π and the stored μ are the same policy.
    """
    policy = torch.full_like(q, epsilon / q.shape[-1])
    return policy.scatter_add(-1, q.argmax(-1, keepdim=True), torch.full_like(q[..., :1], 1.0 - epsilon))


def _of_next_action(table: Tensor, actions: Tensor) -> Tensor:
    """The entry of A_{t+1} in each row of ``table[..., T, A]``; the last row's is never used."""
    next_actions = next_along_time(actions).expand(table.shape[:-1])
    return table.gather(-1, next_actions.unsqueeze(-1)).squeeze(-1)


def _follow(
    rewards: Tensor, discounts: Tensor, values: Tensor, taken: Tensor, traces: Tensor, continues: Tensor | None
) -> Tensor:
    """The recursion at the top: V, Q̂(S, A) and c of the next state and action at each step, all ``[..., T]``."""
    ends = piece_ends(continues, values.shape, values.device)
    traces = torch.where(ends, 0.0, traces)
    return scan_affine(rewards + discounts * (values - traces * taken), discounts * traces)
