"""One environment or several that take their steps together, as the actors see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ebu.training.environment import Environment, Step
from ebu.training.environment_state import bring_back, capture
from ebu.training.open_episode import OpenEpisode
from ebu.types import Array

Snapshot = dict[str, Any] | None  # None where an open episode has to be played again


class Environments(Protocol):
    """``count`` environments, numbered from 0. ``when`` is for the message if something fails."""

    count: int

    def reset(self, seeds: Mapping[int, int], when: str) -> dict[int, Array]:
        """Begin an episode in some of them; their first frames."""

    def step(self, actions: Sequence[int], when: str) -> list[Step]:
        """An action in each of them; every one is in an episode."""

    def capture(self) -> list[Snapshot]:
        """Their snapshots."""

    def bring_back(self, snapshots: Sequence[Snapshot], episodes: Sequence[OpenEpisode | None]) -> list[bool]:
        """Restore them; False where that is not exact and the open episode must be dropped."""


class SingleEnvironment:
    """One environment in this process."""

    count = 1

    def __init__(self, environment: Environment) -> None:
        self.environment = environment

    def reset(self, seeds: Mapping[int, int], when: str) -> dict[int, Array]:
        return {number: self.environment.reset(seed, when) for number, seed in seeds.items()}

    def step(self, actions: Sequence[int], when: str) -> list[Step]:
        return [self.environment.step(action, when) for action in actions]

    def capture(self) -> list[Snapshot]:
        return [capture(self.environment.env)]

    def bring_back(self, snapshots: Sequence[Snapshot], episodes: Sequence[OpenEpisode | None]) -> list[bool]:
        return [bring_back(self.environment.env, *saved) for saved in zip(snapshots, episodes)]
