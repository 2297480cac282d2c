"""A training loop restored from a checkpoint some of whose episodes are damaged, without those.

Numbers of episodes and steps leave no gaps, so the episodes before a lost one move up into its place. The last number stays.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ebu.memory.episodes import EpisodeMemory
from ebu.memory.frames import ranges
from ebu.training.loop import TrainingLoop
from ebu.training.loop_state import restore


def restore_without_lost(loop: TrainingLoop, tree: dict[str, Any], intact: Iterable[tuple[int, bytes]]) -> tuple[int, int]:
    """Back to a saved state with the intact episodes only; returns how many episodes and steps are left out."""
    state = tree["loop"]
    memory = state["memory"]
    first_episode, first_step, end_step = int(memory["first_episode"]), int(memory["first_step"]), _end_step(tree)
    end_episode = first_episode + int(memory["episodes"])

    found = [(number, EpisodeMemory.steps_of(packed)) for number, packed in intact]
    numbers, lengths = np.array(found, np.int64).reshape(-1, 2).T
    if (starts := tree.get("episode_starts")) is not None:
        steps = _steps(np.asarray(starts)[numbers - first_episode], lengths)
    else:  # of an earlier version: the steps that lost episodes had are not known, only those of the episodes after them
        skipped = len(numbers) - int((numbers[::-1] == end_episode - 1 - np.arange(len(numbers))).cumprod().sum())
        numbers, lengths = numbers[skipped:], lengths[skipped:]
        steps = _steps(end_step - lengths[::-1].cumsum()[::-1], lengths)
    if (np.diff(steps) <= 0).any() or (len(steps) and not first_step <= steps[0] <= steps[-1] < end_step):
        raise ValueError("the episodes have more steps than the run has taken")

    moved_to = dict(zip(numbers.tolist(), range(end_episode - len(numbers), end_episode)))
    kept = (
        (moved_to[number], EpisodeMemory.renumbered(moved_to[number], packed))
        for number, packed in intact
        if number in moved_to
    )
    first_kept = end_step - len(steps)
    changed = {
        **state,
        "memory": {**memory, "first_episode": end_episode - len(numbers), "first_step": first_kept},
        "due": [phase for phase in state["due"] if phase != "learn" or len(steps)],  # there must be something to sample
    }
    if loop.sampler.wants_errors:  # of steps under their former numbers
        changed["backlog"] = {"pending": []}
    restore(loop, changed, kept)
    loop.sampler.renumber(steps, first_kept)
    if loop.reward_model is not None:
        loop.reward_model.renumber(numbers, end_episode - len(numbers))
    return end_episode - first_episode - len(numbers), first_kept - first_step


def _end_step(tree: dict[str, Any]) -> int:
    """The number of the step after the last stored one."""
    if (recorded := tree.get("memory_end_step")) is not None:
        return int(recorded)
    state = tree["loop"]  # of an earlier version: so many, if no open episode was ever dropped
    return int(state["step"]) - sum(len(episode["actions"]) for episode in state["open"] if episode is not None)


def _steps(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The numbers of all steps of these episodes."""
    return ranges(starts, lengths) if len(lengths) else np.zeros(0, np.int64)
