"""A training loop ↔ a nested state for a checkpoint. What is loaded is checked: a file may be damaged or hostile."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ebu.memory.episodes import EpisodeMemory
from ebu.training.loop import TrainingLoop
from ebu.training.open_episode import OpenEpisode


def state_of(loop: TrainingLoop) -> dict[str, Any]:
    """Everything but the environment and the stored episodes."""
    return {
        "step": loop.step,
        "episodes": loop.episodes,
        "updates": loop.updates,
        "planned_steps": loop.planned_steps,
        "plan_start": loop.plan_start,
        "due": list(loop.due),
        "streams": loop.streams.state_dict(),
        "learner": loop.learner.state_dict(),
        "memory": loop.memory.state_dict(),
        "sampler": loop.sampler.state_dict(),
        "backlog": loop.backlog.state_dict(),
        "rotation": loop.rotation.state_dict(),
        **loop.statistics.state_dict(),
        "open": loop.open.state_dict() if loop.open is not None else None,
    }


def restore(loop: TrainingLoop, state: dict[str, Any], episodes: Iterable[tuple[int, bytes]]) -> None:
    """Back to a saved state. The environment is brought back by the caller, who may have to drop the open episode."""
    loop.plan(int(state["planned_steps"]), _count(state, "plan_start"))
    loop.step, loop.episodes, loop.updates = (_count(state, key) for key in ("step", "episodes", "updates"))
    loop.due = list(state["due"])
    if unknown := set(loop.due) - loop.phases.keys():
        raise ValueError(f"unknown phase {min(unknown)!r}")
    loop.streams.load_state_dict(state["streams"])
    loop.learner.load_state_dict(state["learner"])
    loop.memory.restart(int(state["memory"]["first_episode"]), int(state["memory"]["first_step"]))
    for number, packed in episodes:
        loop.memory.unpack(number, packed)
    loop.sampler.load_state_dict(state["sampler"])
    loop.backlog.load_state_dict(state["backlog"], loop.rotation.learners, loop.interface.actions)
    loop.rotation.load_state_dict(state["rotation"])
    loop.statistics.load_state_dict(state)
    if state["open"] is not None:
        spec = loop.interface.spec
        loop.open = OpenEpisode.from_state_dict(state["open"], spec.shape, spec.dtype, loop.interface.actions)
        loop.state = loop.frame_stack.rebuild(loop.open.observations)


def forget_before(
    state: dict[str, Any], episode: int, kept: Iterable[tuple[int, bytes]], end_step: int | None
) -> tuple[dict[str, Any], int]:
    """A loop's state as if its memory had forgotten all episodes before this number, and how many steps they had.

    ``kept`` are the stored episodes from there on, ``end_step`` the number of the step after the last stored one.
    Priorities need no change: they follow the memory by the numbers of steps.
    """
    memory, opened = state["memory"], state["open"]
    if end_step is None:  # of a checkpoint that did not record it: so many, if no open episode was ever dropped
        end_step = int(state["step"]) - (0 if opened is None else len(opened["actions"]))
    kept_steps = sum(EpisodeMemory.steps_of(packed) for _, packed in kept)
    first_step = end_step - kept_steps
    lost = first_step - int(memory["first_step"])
    if lost < 0:
        raise ValueError("the episodes have more steps than the run has taken")
    due = [phase for phase in state["due"] if phase != "learn" or kept_steps]  # nothing can be sampled from no memory
    return {**state, "due": due, "memory": {**memory, "first_episode": episode, "first_step": first_step}}, lost


def _count(state: dict[str, Any], key: str) -> int:
    value = int(state[key])
    if value < 0:
        raise ValueError(f"{key} < 0")
    return value
