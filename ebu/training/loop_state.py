"""A training loop ↔ a nested state for a checkpoint. What is loaded is checked: a file may be damaged or hostile."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ebu.training.loop import TrainingLoop
from ebu.training.open_episode import OpenEpisode

LARGEST_COUNT = 2**62  # sums of two of them are still 64-bit integers


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
        "reward_model": None if loop.reward_model is None else loop.reward_model.state_dict(),
        "memory": loop.memory.state_dict(),
        "sampler": loop.sampler.state_dict(),
        "backlog": loop.backlog.state_dict(),
        "rotation": loop.rotation.state_dict(),
        **loop.statistics.state_dict(),
        "recorded": loop.logger.state_dict(),
        "open": [None if episode is None else episode.state_dict() for episode in loop.actors.open],
    }


def restore(loop: TrainingLoop, state: dict[str, Any], episodes: Iterable[tuple[int, bytes]]) -> None:
    """Restore a saved state. Environments are restored by the caller, which may have to drop an open episode."""
    loop.plan(int(state["planned_steps"]), _count(state, "plan_start"))
    loop.step, loop.episodes, loop.updates = (_count(state, key) for key in ("step", "episodes", "updates"))
    loop.due = list(state["due"])
    if unknown := set(loop.due) - loop.phases.keys():
        raise ValueError(f"unknown phase {min(unknown)!r}")
    loop.streams.load_state_dict(state["streams"])
    loop.learner.load_state_dict(state["learner"])
    if loop.reward_model is not None:
        loop.reward_model.load_state_dict(state["reward_model"])
    loop.memory.restart(_count(state["memory"], "first_episode"), _count(state["memory"], "first_step"))
    for number, packed in episodes:
        loop.memory.unpack(number, packed)
    loop.sampler.load_state_dict(state["sampler"])
    loop.backlog.load_state_dict(state["backlog"], loop.rotation.learners, loop.interface.actions)
    loop.rotation.load_state_dict(state["rotation"])
    loop.statistics.load_state_dict(state)
    loop.logger.load_state_dict(state["recorded"])
    if len(state["open"]) != len(loop.actors):
        raise ValueError(f"{len(state['open'])} open episodes for {len(loop.actors)} environments")
    spec = loop.interface.spec
    for actor, saved in enumerate(state["open"]):
        episode = None
        if saved is not None:
            episode = OpenEpisode.from_state_dict(saved, spec.shape, spec.dtype, loop.interface.actions)
        loop.actors.restore(actor, episode)


def from_earlier_version(state: dict[str, Any]) -> dict[str, Any]:
    """A state in the present form: earlier versions had one environment and no reward model, 0.1 no start of a plan."""
    rotation, opened = state["rotation"], state["open"]
    if "current" in rotation:
        current = int(rotation["current"])
        others = {key: value for key, value in rotation.items() if key != "current"}
        rotation = {"playing": [current], "next": (current + 1) % max(len(rotation["sums"]), 1), **others}
    opened = opened if isinstance(opened, list) else [opened]
    return {"plan_start": 0, "recorded": [], "reward_model": None, **state, "rotation": rotation, "open": opened}


def _count(state: dict[str, Any], key: str) -> int:
    value = int(state[key])
    if not 0 <= value < LARGEST_COUNT:
        raise ValueError(f"{key} < 0" if value < 0 else f"{key} is too large")
    return value
