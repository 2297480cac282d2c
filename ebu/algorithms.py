"""Every method as a composition: which spans are sampled, which rule makes their targets, how many learners."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ebu import targets
from ebu.agent.valued import ValuedSpan
from ebu.config import Config
from ebu.errors import UserError
from ebu.memory.samplers import EpisodeSampler, Sampler, TransitionSampler
from ebu.types import Targets

Rule = Callable[[ValuedSpan], Targets]


@dataclass(frozen=True)
class Algorithm:
    title: str
    sampler: Callable[[Config], Sampler]
    rule: Callable[[Config], Rule]


def _backward(config: Config) -> Rule:
    def rule(s: ValuedSpan) -> Targets:
        return Targets(
            targets.backward(s.rewards, s.discounts, s.actions, s.target_next, config.target.beta, s.continues)
        )

    return rule


def _one_step(config: Config) -> Rule:
    return lambda s: Targets(targets.one_step(s.rewards, s.discounts, s.target_next))


ALGORITHMS: dict[str, Algorithm] = {
    "ebu": Algorithm("Episodic Backward Update", lambda config: EpisodeSampler(), _backward),
    "dqn": Algorithm("DQN: one-step targets, uniform replay", lambda config: TransitionSampler(), _one_step),
}


def find(name: str) -> Algorithm:
    if name not in ALGORITHMS:
        raise UserError(f"there is no algorithm {name!r}; choose from {', '.join(ALGORITHMS)}")
    return ALGORITHMS[name]


def composition(config: Config) -> dict[str, Any]:
    """The parts a training loop is given for this method."""
    algorithm = find(config.algo)
    return {"sampler": algorithm.sampler(config), "rule": algorithm.rule(config)}
