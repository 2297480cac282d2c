"""ε and the learning rate as fixed functions of the absolute agent step."""

from __future__ import annotations

from dataclasses import dataclass

from ebu.config import ExplorationConfig, LearnerConfig, Schedule


@dataclass(frozen=True)
class EpsilonSchedule:
    """From ``initial`` at step ``start`` to ``final`` at step ``start + duration``, flat before and after."""

    kind: Schedule
    initial: float
    final: float
    start: int
    duration: int

    def __call__(self, step: int) -> float:
        if step <= self.start:
            return self.initial
        if step >= self.start + self.duration:
            return self.final
        left = 1 - (step - self.start) / self.duration
        share = left * left if self.kind == "quadratic" else left
        return self.final + (self.initial - self.final) * share


def epsilon_schedule(config: ExplorationConfig, total_steps: int, learning_starts: int) -> EpsilonSchedule:
    """The schedule of a run of ``total_steps``; the delayed form stays flat until learning starts."""
    return EpsilonSchedule(
        kind=config.exploration_schedule,
        initial=config.exploration_initial_eps,
        final=config.exploration_final_eps,
        start=learning_starts if config.exploration_schedule == "delayed-linear" else 0,
        duration=round(config.exploration_fraction * total_steps),
    )


def learning_rate(config: LearnerConfig, step: int, total_steps: int) -> float:
    """The learning rate at an agent step of a run of ``total_steps``; a longer run keeps the last value."""
    if config.learning_rate_schedule == "constant":
        return config.learning_rate
    if config.learning_rate_schedule == "exponential":
        return config.learning_rate * config.learning_rate_final ** min(step / total_steps, 1.0)
    return config.learning_rate * max(1 - step / total_steps, 1 / total_steps)
