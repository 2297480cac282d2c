"""Ensemble Q(λ): several learners that act in turn and bootstrap from their mean. Changes from Peng's Q(λ):

- K learners, each with its own network and one of ``trace_lambdas``, learn from the same minibatches; in training they take
  turns acting, an episode each, and the policy that is evaluated and saved is greedy in the mean of their values;
- all bootstrap from that mean, V(s') = max_a mean_k Q̂_k(s', a), which is less biased than a maximum over one network's noise;
- the horizon settles: λ falls from ``initial_lambda`` and γ grows to ``gamma`` over the first ``horizon_updates`` updates;
- with a ``gate`` > 0, what followed an action counts less the worse the action looks compared with the best;
- with a ``return_bound`` > 0, a target is at least the return that was obtained, where the learners agree on the value.

Each can be switched off: one number in ``trace_lambdas``, ``bootstrap="own"``, ``horizon_updates=0``, ``gate=0``,
``return_bound=0``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ebu.agent import Agent
from ebu.algorithms.ebu import sampler
from ebu.config import Config, TargetConfig
from ebu.registry import Method
from ebu.search_space import Choice, Range, SearchSpace, usual_space
from ebu.types import Targets

if TYPE_CHECKING:
    from torch import Tensor

    from ebu.learning.span_values import SpanValues
    from ebu.registry import Rule

SMALLEST_ERROR = 1e-8  # avoids a division by 0 where all values are exact


def horizon(target: TargetConfig, updates: int) -> tuple[list[float], float]:
    """λ of every learner and γ after so many updates: straight lines from the first values to the last."""
    last, gamma = list(target.trace_lambdas), target.gamma
    if updates >= target.horizon_updates:
        return last, gamma
    left = 1 - updates / target.horizon_updates
    first_gamma = max(1 - (1 - gamma) / target.initial_horizon, 0.0)
    return [end + left * (target.initial_lambda - end) for end in last], gamma + left * (first_gamma - gamma)


def rule(config: Config) -> Rule:
    import torch

    from ebu.targets.agreement import at_least_returns
    from ebu.targets.bootstrap import n_step, one_step
    from ebu.targets.retrace import gated
    from ebu.targets.scan import ABSENT

    target = config.target

    def combined(values: Tensor) -> Tensor:
        """From every learner's values [K, ...], those to bootstrap from: the mean of all, or each learner's own."""
        return values.mean(0) if target.bootstrap == "ensemble" else values

    def make_targets(span: SpanValues) -> Targets:
        lambdas, gamma = horizon(target, span.updates)
        discounts = span.discounts if gamma == target.gamma else span.discounts * (gamma / target.gamma)
        online = combined(span.online_next) if target.double_q else None
        if not (target.gate or target.return_bound):
            known = (span.rewards, discounts, span.actions, combined(span.target_next))
            return Targets(gated(*known, torch.tensor(lambdas), 0.0, span.continues, online))

        taken, q_next = span.target_taken_and_next[0], combined(span.target_taken_and_next[1])
        errors = (one_step(span.rewards, discounts, q_next) - combined(taken)).abs().mean(-1)  # one, or one for each learner
        errors = errors.clamp(min=SMALLEST_ERROR)
        known = (span.rewards, discounts, span.actions, q_next)
        y = gated(*known, torch.tensor(lambdas), target.gate / errors, span.continues, online)
        if target.return_bound:
            obtained = n_step(span.rewards, discounts, q_next, "episode", span.continues)
            has_terminated = span.tensor(span.span.returns) > ABSENT
            y = at_least_returns(y, torch.where(has_terminated, obtained, ABSENT), taken, target.return_bound * errors)
        return Targets(y)

    return make_targets


def search(config: Config) -> SearchSpace:
    return usual_space(config) | {
        "initial_lambda": Range(0.7, 1.0),
        "gate": Choice((0.0, 0.3, 1.0, 3.0)),
        "return_bound": Choice((0.0, 0.5)),
    }


class EnsembleQ(Agent):
    """Q(λ) with one learner for each of ``trace_lambdas``; they act in turn and bootstrap from their mean."""

    method = Method(
        "ensemble-q",
        "Ensemble Q(λ): K learners act in turn and bootstrap from their mean",
        sampler,
        rule,
        settings=("trace_lambdas",),
        uses=(
            *("trace_lambdas", "bootstrap", "acting", "horizon_updates", "initial_lambda", "initial_horizon", "gate"),
            *("return_bound", "double_q"),
        ),
        search=search,
        learners=lambda config: len(config.target.trace_lambdas),
        ensemble=True,
    )
