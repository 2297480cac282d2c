"""The largest safe β of a finite stochastic MDP: Theorem 2 as printed, corrected, and exactly.

"Safe" means unbiased at the optimum: with Q* in the table, the backward target of every pair has expectation Q*,
whatever the behaviour. Let V = max_a Q*, and let y be the target that comes back from (s, a). At the state s the
recursion takes max(best other value, (1 − β) Q*(s, a) + β y). Two things keep its expectation at V(s):

* a is suboptimal and the maximum is V(s) always:       β (y_max − Q*(s, a)) ≤ V(s) − Q*(s, a);
* a is optimal and the maximum never looks elsewhere:   β (Q*(s, a) − y_min) ≤ V(s) − best other Q*.

They are also needed: E[y] is never below Q*, and where one fails, Jensen's inequality is strict. y_max and y_min depend
on β themselves, monotonically, so the exact largest safe β is found by bisection. The closed form replaces them by the
largest and smallest return that can follow (s, a) when optimal actions are taken afterwards. "Afterwards optimal" is no
detail: with the smallest return of *any* trajectory, deterministic MDPs would be bounded too, against Theorem 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ebu.theory.mdp import MDP, fixed_point, optimal_values
from ebu.theory.toys import TOYS, named_mdp
from ebu.types import Array

TIE = 1e-9  # values closer than this, relative to the largest, are taken as equal


@dataclass(frozen=True)
class Bounds:
    """Bounds on β of one MDP; infinity means no constraint."""

    name: str
    gamma: float
    deterministic: bool
    printed_1: float  # inequality (1): optimality gap over R_max − Q* of a suboptimal action
    printed_2: float  # inequality (2): optimality gap over mean − minimum of an optimal action's immediate reward
    corrected_1: float  # (1), with returns when optimal actions follow
    corrected_2: float  # (2), with returns in place of immediate rewards
    exact: float  # the largest β in [0, 1] without bias
    binding: tuple[int, int] | None  # the state and action that set the exact bound
    random_ties: int  # states with two optimal actions, one of them with random returns: no β > 0 is safe

    @property
    def printed(self) -> float:
        return min(self.printed_1, self.printed_2)

    @property
    def corrected(self) -> float:
        return min(self.corrected_1, self.corrected_2)

    def describe(self) -> str:
        kind = "deterministic" if self.deterministic else "stochastic"
        lines = [
            f"{self.name} ({kind}, γ = {self.gamma:g})",
            f"  Theorem 2 as printed    (1) {_number(self.printed_1)}   (2) {_number(self.printed_2)}",
            f"  corrected, by returns   (1) {_number(self.corrected_1)}   (2) {_number(self.corrected_2)}",
            f"  largest safe β          {self.exact:.4g}",
        ]
        if self.binding is not None:
            lines.append(f"  set by                  state {self.binding[0]}, action {self.binding[1]}")
        if self.random_ties:
            lines.append(f"  {self.random_ties} state(s) have tied optimal actions with random returns: no β > 0 is safe")
        elif min(1.0, self.printed) > self.exact + 1e-6:
            lines.append("  the printed theorem would allow a larger, biased β")
        return "\n".join(lines)


def _number(bound: float) -> str:
    return f"{bound:<10.4g}" if np.isfinite(bound) else f"{'none':<10}"


def bound_for(name: str, gamma: float | None = None) -> Bounds:
    """Bounds of a toy by name or a Gymnasium toy-text environment by id; γ is 1 for toys and 0.99 otherwise."""
    mdp = named_mdp(name)
    if gamma is None:
        gamma = 1.0 if name in TOYS and mdp.acyclic else 0.99
    return bounds(mdp, gamma)


def bounds(mdp: MDP, gamma: float) -> Bounds:
    view = _Optimum.of(mdp, gamma)
    q, best, gap = view.q, view.best, view.gap
    mean, lowest = mdp.expect(mdp.reward), mdp.smallest(mdp.reward)
    any_action = fixed_point(lambda x: mdp.largest(mdp.after(x.max(1), gamma)), np.zeros_like(q), gamma, mdp.acyclic)
    smallest_gap = np.where(best, np.inf, gap).min(1, keepdims=True)  # [S, 1]: inf where no action is suboptimal

    exact, binding = _exact(view)
    low, high = view.range_of_returns()
    return Bounds(
        name=mdp.name,
        gamma=gamma,
        deterministic=mdp.deterministic,
        printed_1=_ratio(gap, any_action - q, ~best, view.slack),
        printed_2=_ratio(smallest_gap, mean - lowest, best, view.slack),
        corrected_1=_ratio(gap, high - q, ~best & mdp.entered[:, None], view.slack),
        corrected_2=_ratio(view.margin, q - low, best & mdp.entered[:, None], view.slack),
        exact=exact,
        binding=binding,
        random_ties=int((best & (view.margin <= 0) & (q - low > view.slack) & mdp.entered[:, None]).any(1).sum()),
    )


def _ratio(room: Array, spread: Array, where: Array, slack: float) -> float:
    """Smallest room / spread over the pairs that matter; a spread of zero constrains nothing."""
    matters = where & (spread > slack)
    room = np.broadcast_to(room, spread.shape)
    return float((room[matters] / spread[matters]).min()) if matters.any() else np.inf


@dataclass(frozen=True)
class _Optimum:
    """Q* and what the two conditions need from it; all ``[S, A]``."""

    mdp: MDP
    gamma: float
    q: Array
    best: Array  # bool: optimal, ties included
    gap: Array  # V(s) − Q*(s, a)
    margin: Array  # V(s) − best value among the other actions, 0 for ties; infinite with a single action
    others: Array  # best value among the other actions
    slack: float

    @classmethod
    def of(cls, mdp: MDP, gamma: float) -> _Optimum:
        q = optimal_values(mdp, gamma)
        slack = TIE * max(1.0, float(np.abs(q).max()))
        value = q.max(1, keepdims=True)
        gap = value - q
        best = gap <= slack
        own = np.eye(mdp.actions, dtype=bool)[None]  # [1, A, A]
        others = np.where(own, -np.inf, q[:, None, :]).max(-1)
        margin = value - others
        return cls(mdp, gamma, q, best, gap, np.where(margin <= slack, 0.0, margin), others, slack)

    def range_of_returns(self) -> tuple[Array, Array]:
        """Smallest and largest return after each pair when optimal actions follow."""
        mdp, gamma, best = self.mdp, self.gamma, self.best

        def smallest(x: Array) -> Array:
            return mdp.smallest(mdp.after(np.where(best, x, np.inf).min(1), gamma))

        def largest(x: Array) -> Array:
            return mdp.largest(mdp.after(np.where(best, x, -np.inf).max(1), gamma))

        return tuple(fixed_point(f, self.q, gamma, mdp.acyclic) for f in (smallest, largest))  # type: ignore[return-value]

    def range_of_targets(self, beta: float) -> tuple[Array, Array]:
        """Smallest and largest backward target of each pair, over every outcome and every later action."""
        mdp, gamma = self.mdp, self.gamma

        def taken(y: Array) -> Array:
            return np.maximum(self.others, (1 - beta) * self.q + beta * y)  # what the maximum gives, by action

        low = fixed_point(lambda y: mdp.smallest(mdp.after(taken(y).min(1), gamma)), self.q, gamma, mdp.acyclic)
        high = fixed_point(lambda y: mdp.largest(mdp.after(taken(y).max(1), gamma)), self.q, gamma, mdp.acyclic)
        return low, high

    def violations(self, beta: float) -> Array:
        low, high = self.range_of_targets(beta)
        too_high = ~self.best & (beta * (high - self.q) > self.gap + self.slack)
        too_low = self.best & (beta * (self.q - low) > self.margin + self.slack)
        return (too_high | too_low) & self.mdp.entered[:, None]


def _exact(view: _Optimum, precision: float = 1e-6) -> tuple[float, tuple[int, int] | None]:
    """The largest safe β and the pair that breaks first beyond it. What is safe at β is safe below it."""
    safe, unsafe = 0.0, 1.0
    broken = view.violations(1.0)
    if not broken.any():
        return 1.0, None
    while unsafe - safe > precision / 4:
        beta = (safe + unsafe) / 2
        violations = view.violations(beta)
        if violations.any():
            unsafe, broken = beta, violations
        else:
            safe = beta
    state, action = (int(i) for i in np.argwhere(broken)[0])
    return (0.0 if safe < precision else safe), (state, action)
