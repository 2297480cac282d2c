"""Which phases of the loop follow the steps just played."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ebu.training.loop import TrainingLoop


def due_after(loop: TrainingLoop, before: int, episodes_before: int) -> list[str]:
    """The names of the phases due since step ``before``: learning as after each of the steps, the rest once."""
    learner, evaluation, run, now = loop.config.learner, loop.config.evaluation, loop.config.run, loop.step
    due = []
    for step in range(before + 1, now + 1):
        if step > learner.learning_starts and step % learner.train_freq == 0 and loop.memory.episodes:
            due += ["learn"] * learner.gradient_steps
        if step % learner.target_update_interval == 0:
            due.append("update_target")
    by_episodes = passed(run.log_interval, episodes_before, loop.episodes)
    if by_episodes if run.log_interval else passed(run.log_every, before, now):
        due.append("log")
    if passed(evaluation.eval_every, before, now) and loop.evaluation_environment is not None:
        due.append("evaluate")
    return due


def why_no_update(loop: TrainingLoop) -> str | None:
    """Where steps were taken and no update has ever been made: a line that says why."""
    learner = loop.config.learner
    if loop.updates or not loop.step:
        return None
    if loop.step <= learner.learning_starts:
        return f"no update was made: learning_starts is {learner.learning_starts:,}, and the steps so far are {loop.step:,}"
    if not loop.memory.episodes:
        return f"no update was made: no episode has ended in {loop.step:,} steps, and only whole episodes are learned from"
    return f"no update was made: train_freq is {learner.train_freq:,}, learning_starts {learner.learning_starts:,}"


def passed(interval: int, before: int, now: int) -> bool:
    """Whether a multiple of the interval lies after ``before`` and not after ``now``; an interval of 0 has none."""
    return bool(interval) and now // interval > before // interval
