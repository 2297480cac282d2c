"""Every method as a composition: which spans are sampled, which rule makes their targets, how many learners."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ebu import targets
from ebu.config import Config, override
from ebu.errors import UserError
from ebu.learning.span_values import SpanValues
from ebu.memory.priorities import PrioritySampler
from ebu.memory.samplers import EpisodeSampler, Sampler, TransitionSampler, WindowSampler
from ebu.types import Targets

Rule = Callable[[SpanValues], Targets]


@dataclass(frozen=True)
class Algorithm:
    """One method. What it does not state is DQN's."""

    title: str
    sampler: Callable[[Config], Sampler]
    rule: Callable[[Config], Rule]
    learners: Callable[[Config], int] = lambda config: 1
    overrides: Callable[[Config], dict[str, Any]] = lambda config: {}
    needs_behaviour: bool = False  # the probability of each action is recorded, which costs a forward pass every step


# ---------------------------------------------------------------------- samplers

MINIBATCHES_AHEAD = 8
FEW_UPDATES = 100  # between copies of the target network: then what was drawn ahead would often be out of date


def _episodes(config: Config) -> Sampler:
    return EpisodeSampler()


def _transitions(config: Config) -> Sampler:
    return TransitionSampler(minibatches=_minibatches_ahead(config))


def _minibatches_ahead(config: Config) -> int:
    """How many minibatches of single steps are drawn and given targets at once.

    Between two copies of the target network a target does not depend on when it is computed, and many stacks of images go
    through the network faster than a few. The original DQN draws 16 ahead. Where targets move with every update, one.
    """
    learner = config.learner
    updates_between_copies = learner.target_update_interval * learner.gradient_steps // learner.train_freq
    moves = learner.tau < 1.0 or config.target.double_q or updates_between_copies < FEW_UPDATES
    return 1 if moves or config.memory.stack == 1 else MINIBATCHES_AHEAD


def _n_steps(config: Config) -> Sampler:
    n = config.target.n_steps
    return EpisodeSampler() if n == "episode" else TransitionSampler(n, _minibatches_ahead(config))


def _ranked(config: Config) -> Sampler:
    memory = config.memory
    return PrioritySampler(memory.priority_alpha, memory.priority_beta, memory.priority_sort_interval)


def _windows(config: Config) -> Sampler:
    return WindowSampler(before=config.target.tightening_neighbours, after=config.target.tightening_neighbours - 1)


# ---------------------------------------------------------------------- rules


def _backward(betas: Callable[[Config], float | tuple[float, ...]]) -> Callable[[Config], Rule]:
    def make(config: Config) -> Rule:
        beta = torch.tensor(betas(config))

        def rule(s: SpanValues) -> Targets:
            if config.target.double_q:
                tables = (s.target_next, s.online_next)
                return Targets(targets.double_backward(s.rewards, s.discounts, s.actions, *tables, beta, s.continues))
            return Targets(targets.backward(s.rewards, s.discounts, s.actions, s.target_next, beta, s.continues))

        return rule

    return make


def _best_next(s: SpanValues, config: Config) -> Tensor:
    """The table a rule takes the maximum of: all next values, or with double Q the one the online network chose."""
    return targets.chosen_by(s.target_next, s.online_next) if config.target.double_q else s.target_next


def _one_step(config: Config) -> Rule:
    return lambda s: Targets(targets.one_step(s.rewards, s.discounts, _best_next(s, config)))


def _n_step(config: Config) -> Rule:
    n = config.target.n_steps
    return lambda s: Targets(targets.n_step(s.rewards, s.discounts, _best_next(s, config), n, s.continues))


def _retrace(config: Config) -> Rule:
    def rule(s: SpanValues) -> Targets:
        policy = targets.epsilon_greedy(s.online_next, s.epsilon)
        behaviour = s.tensor(s.span.behaviour)
        trace = config.target.trace_lambda
        return Targets(
            targets.retrace(s.rewards, s.discounts, s.actions, s.target_next, policy, behaviour, trace, s.continues)
        )

    return rule


def _peng(config: Config) -> Rule:
    trace = config.target.trace_lambda
    return lambda s: Targets(targets.peng(s.rewards, s.discounts, _best_next(s, config), trace, s.continues))


def _watkins(config: Config) -> Rule:
    trace = config.target.trace_lambda

    def rule(s: SpanValues) -> Targets:
        online = s.online_next if config.target.double_q else None
        y = targets.watkins(s.rewards, s.discounts, s.actions, s.target_next, trace, s.continues, online)
        return Targets(y)

    return rule


def _tightening(config: Config) -> Rule:
    def rule(s: SpanValues) -> Targets:
        taken, beyond = s.target_taken_and_next
        if config.target.double_q:
            beyond = targets.chosen_by(beyond, s.online_next)
        returns = s.tensor(s.span.returns)
        neighbours = config.target.tightening_neighbours
        return Targets(*targets.tightening(s.rewards, s.discounts, taken, beyond, returns, s.continues, neighbours))

    return rule


# ---------------------------------------------------------------------- the methods

ALGORITHMS: dict[str, Algorithm] = {
    "ebu": Algorithm("Episodic Backward Update", _episodes, _backward(lambda config: (config.target.beta,))),
    "adaptive-ebu": Algorithm(
        "EBU with K learners; the best diffusion factor is copied to all",
        _episodes,
        _backward(lambda config: config.target.betas),
        learners=lambda config: len(config.target.betas),
    ),
    "dqn": Algorithm("DQN: one-step targets, uniform replay", _transitions, _one_step),
    "n-step": Algorithm("DQN with n-step returns", _n_steps, _n_step),
    "per": Algorithm(
        "DQN with rank-based prioritised replay",
        _ranked,
        _one_step,
        overrides=lambda config: {"learning_rate": config.learner.learning_rate * config.memory.priority_lr_scale},
    ),
    # Retrace's policy comes from the online network and its values from the target network, with double_q or without.
    "retrace": Algorithm("Retrace(λ)", _episodes, _retrace, needs_behaviour=True),
    "peng": Algorithm("Peng's Q(λ)", _episodes, _peng),
    "watkins": Algorithm("Watkins' Q(λ)", _episodes, _watkins),
    "optimality-tightening": Algorithm("Optimality Tightening", _windows, _tightening),
}


def find(name: str) -> Algorithm:
    if name not in ALGORITHMS:
        raise UserError(f"there is no algorithm {name!r}; choose from {', '.join(ALGORITHMS)}")
    return ALGORITHMS[name]


def composition(config: Config) -> dict[str, Any]:
    """What a training loop is given for this method: its settings and parts."""
    algorithm = find(config.algo)
    return {
        "config": override(config, **algorithm.overrides(config)),
        "sampler": algorithm.sampler(config),
        "rule": algorithm.rule(config),
        "learners": algorithm.learners(config),
        "needs_behaviour": algorithm.needs_behaviour,
    }
