"""Playing: an open episode in each environment, and one choice of actions for all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from ebu.learning.policy import FrameStack, Policy, act_together
from ebu.seeding import Streams, draw_seed
from ebu.training.environment import Step
from ebu.training.environments import Environments, Snapshot
from ebu.training.open_episode import OpenEpisode
from ebu.types import Array, Episode


class Actors:
    """One actor for each environment: the episode it is in, and the state it acts on."""

    def __init__(self, environments: Environments, stack: int, random_first_actions: int) -> None:
        self.environments = environments
        self.open: list[OpenEpisode | None] = [None] * environments.count
        self._states: list[Array | None] = [None] * environments.count
        self._frames = [FrameStack(stack) for _ in range(environments.count)]
        self._random_first_actions = random_first_actions

    def __len__(self) -> int:
        return len(self.open)

    def play(self, policies: Sequence[Policy], epsilon: float, streams: Streams, when: str) -> list[Step]:
        """One step in every environment, each with its policy; a new episode begins where none is open."""
        self._begin(streams, when)
        episodes, opening = cast(list[OpenEpisode], self.open), self._random_first_actions
        epsilons = [1.0 if len(episode.actions) < opening else epsilon for episode in episodes]
        chosen = act_together(policies, cast(list[Array], self._states), epsilons, streams.exploration)
        results = self.environments.step([action for action, _ in chosen], when)
        for actor, result in enumerate(results):
            action, probability = chosen[actor]
            episodes[actor].append(action, probability, result.frame, result.reward, result.learned_reward)
            self._states[actor] = self._frames[actor].push(result.frame)
        return results

    def _begin(self, streams: Streams, when: str) -> None:
        """Seeds are drawn in the order of the environments; each episode keeps its own."""
        if all(self.open):
            return
        idle = [actor for actor, episode in enumerate(self.open) if episode is None]
        seeds = {actor: draw_seed(streams.episodes) for actor in idle}
        for actor, frame in self.environments.reset(seeds, when).items():
            self.open[actor] = OpenEpisode(seeds[actor], [frame])
            self._states[actor] = self._frames[actor].begin(frame)

    def length(self, actor: int) -> int:
        """Steps of the open episode."""
        episode = self.open[actor]
        return 0 if episode is None else len(episode.actions)

    def finish(self, actor: int, terminated: bool) -> tuple[Episode, float]:
        """The episode that has just ended, and its score."""
        episode = self.open[actor]
        assert episode is not None
        self.drop(actor)
        return episode.finish(terminated), episode.score

    def drop(self, actor: int) -> None:
        """Forget an open episode."""
        self.open[actor] = self._states[actor] = None

    def restore(self, actor: int, episode: OpenEpisode | None) -> None:
        """Back in the middle of an episode; the environment is brought back separately."""
        self.drop(actor)
        if episode is not None:
            self.open[actor] = episode
            self._states[actor] = self._frames[actor].rebuild(episode.observations)

    def bring_back(self, snapshots: Sequence[Snapshot], announce: Callable[[str], None]) -> bool:
        """Restore every environment; an episode that cannot be continued exactly is dropped, which is announced."""
        if len(snapshots) != len(self):
            raise ValueError(f"{len(snapshots)} snapshots for {len(self)} environments")
        exact = self.environments.bring_back(snapshots, self.open)
        for actor, came_back in enumerate(exact):
            if not came_back:
                words = f"the state of environment {actor + 1}" if len(self) > 1 else "the environment's state"
                announce(f"{words} could not be restored exactly: the open episode is dropped")
                self.drop(actor)
        return all(exact)
