"""Episodes that were recorded elsewhere, as the memory stores them. Everything is checked here, before any of it is stored."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ebu.envs.spaces import InvalidValue, shown
from ebu.errors import UserError
from ebu.training.environment import LARGEST_REWARD, Environment, clip_reward
from ebu.types import Array, Episode

TRANSITION = "(observation, action, reward, terminated, truncated[, next_observation])"
ACCEPTED = f"Episodes, lists of transitions {TRANSITION}, or a Minari data set"


class EpisodeReader:
    """Turns what a user recorded in an environment into episodes of that environment."""

    def __init__(self, environment: Environment, actions: int, frame_shape: tuple[int, ...], frame_dtype: str) -> None:
        self._environment = environment
        self._actions = actions
        self._frame = (frame_shape, np.dtype(frame_dtype))

    def read(self, given: Any) -> list[Episode]:
        """All episodes of an Episode, transitions, a Minari data set or its name, or a list of any of these."""
        episodes = list(self._episodes(load_minari(given) if isinstance(given, str) else given))
        if not episodes:
            raise UserError("there are no episodes to remember: the list is empty")
        return episodes

    def _episodes(self, given: Any) -> Iterator[Episode]:
        if isinstance(given, Episode):
            yield self._stored(given)
        elif hasattr(given, "iterate_episodes"):
            for episode in given.iterate_episodes():
                yield self._of_minari(episode)
        elif hasattr(given, "terminations") and hasattr(given, "observations"):
            yield self._of_minari(given)
        elif isinstance(given, Iterable) and not isinstance(given, Array | dict):
            yield from self._of_list(list(given))
        else:
            raise UserError(f"remember takes {ACCEPTED}, got {shown(given)}")

    def _of_list(self, items: list[Any]) -> Iterator[Episode]:
        if not any(isinstance(item, tuple) for item in items):
            for item in items:
                yield from self._episodes(item)
            return
        steps: list[Sequence[Any]] = []
        for i, item in enumerate(items):
            if not isinstance(item, tuple) or len(item) not in (5, 6):
                raise UserError(f"transition {i} is not a tuple {TRANSITION}, got {shown(item)}")
            steps.append(item)
            if _truth(item[3], f"terminated of transition {i}") | _truth(item[4], f"truncated of transition {i}"):
                yield self._of_transitions(steps, i + 1 - len(steps))
                steps = []
        if steps:  # the recording stopped here: as if cut by a limit
            yield self._of_transitions(steps, len(items) - len(steps))

    # ------------------------------------------------------------------ each form

    def _stored(self, episode: Episode) -> Episode:
        """An episode of this environment, whether its observations are as stored or as the environment gives them."""
        observations = np.asarray(episode.observations)
        shape, dtype = self._frame
        as_stored = observations.shape[1:] == shape and observations.dtype == dtype
        if as_stored and not (dtype.kind == "f" and not np.isfinite(observations).all()):
            frames = list(observations)
        else:
            frames = [self._encode(o, i) for i, o in enumerate(observations)]
        return self._checked(frames, episode.actions, episode.rewards, episode.behaviour, bool(episode.terminated))

    def _of_minari(self, episode: Any) -> Episode:
        count = len(episode.actions)
        frames = [self._encode(_row(episode.observations, t), t) for t in range(count + 1)]
        terminated = bool(np.asarray(episode.terminations)[-1]) if count else False
        return self._checked(frames, episode.actions, episode.rewards, None, terminated)

    def _of_transitions(self, steps: list[Sequence[Any]], first: int) -> Episode:
        frames = [self._encode(step[0], first + i) for i, step in enumerate(steps)]
        for i, step in enumerate(steps[:-1]):
            if len(step) == 6 and not np.array_equal(self._encode(step[5], first + i), frames[i + 1]):
                raise UserError(
                    f"transition {first + i + 1} does not begin where transition {first + i} ends: "
                    "give the steps of an episode in order, and mark its end as terminated or truncated"
                )
        last, terminated = steps[-1], bool(steps[-1][3])
        if len(last) == 6:
            frames.append(self._encode(last[5], first + len(steps) - 1))
        elif terminated:
            frames.append(frames[-1])  # nothing is ever read from a state beyond the end but its place
        else:
            raise UserError(
                f"transition {first + len(steps) - 1} ends its episode without terminating: "
                "give the observation after it as sixth entry, its value is bootstrapped"
            )
        return self._checked(frames, [step[1] for step in steps], [step[2] for step in steps], None, terminated)

    # ------------------------------------------------------------------ checks

    def _encode(self, observation: Any, index: int) -> Array:
        try:
            return self._environment.encode(observation)
        except InvalidValue as error:
            name = self._environment.name
            raise UserError(f"observation {index} of a recorded episode is not one of {name}: {error}") from error

    def _checked(self, frames: list[Array], actions: Any, rewards: Any, behaviour: Any, terminated: bool) -> Episode:
        taken, count = np.asarray(actions), len(frames) - 1
        if count < 1:
            raise UserError("a recorded episode has no steps")
        if taken.shape != (count,) or np.shape(rewards) != (count,):
            found = f"{list(taken.shape)} actions and {list(np.shape(rewards))} rewards"
            raise UserError(f"a recorded episode has {count + 1} observations but {found}; it takes {count} of each")
        if taken.dtype.kind not in "iu" or ((taken < 0) | (taken >= self._actions)).any():
            wrong = next((a for a in taken.tolist() if type(a) is not int or not 0 <= a < self._actions), taken.dtype)
            raise UserError(f"a recorded action is {wrong!r}; actions are whole numbers from 0 to {self._actions - 1}")
        return Episode(
            observations=np.stack(frames),
            actions=taken.astype(np.int64),
            rewards=np.array([self._reward(reward) for reward in np.asarray(rewards).tolist()], np.float32),
            behaviour=_probabilities(behaviour, count),
            terminated=terminated,
        )

    def _reward(self, reward: Any) -> float:
        if isinstance(reward, bool) or not isinstance(reward, int | float) or not math.isfinite(reward):
            raise UserError(f"a recorded reward is {shown(reward)} instead of a finite number")
        learned = clip_reward(float(reward), self._environment.reward_clip)
        if abs(learned) > LARGEST_REWARD:
            raise UserError(f"a recorded reward is {reward}, more than {LARGEST_REWARD:.1e}")
        return learned


def load_minari(name: str) -> Any:
    """A Minari data set on this machine by its id, with or without ``minari:`` before it; nothing is downloaded."""
    try:
        import minari
    except ImportError as error:
        words = "pip install 'episodic-backward-update[minari]'"
        raise UserError(f"the data set {name!r} needs an extra; install it with: {words}") from error
    ident = name.removeprefix("minari:")
    try:
        return minari.load_dataset(ident)
    except Exception as error:  # of any kind: a missing file, a damaged one, a name that is none
        reason = " ".join(str(error).split())
        raise UserError(
            f"the Minari data set {ident!r} cannot be read ({type(error).__name__}: {reason}); "
            f"`minari list local` names those on this machine, `minari download {ident}` fetches one"
        ) from error


def _row(observations: Any, t: int) -> Any:
    """The observation of one step from the arrays of an episode, in whatever dictionaries and tuples they are."""
    if isinstance(observations, dict):
        return {key: _row(part, t) for key, part in observations.items()}
    if isinstance(observations, tuple):
        return tuple(_row(part, t) for part in observations)
    if not 0 <= t < len(observations):
        raise UserError(f"a recorded episode has {len(observations)} observations; it takes one more than its actions")
    return observations[t]


def _truth(value: Any, what: str) -> bool:
    if not isinstance(value, bool | np.bool_) and not (isinstance(value, int | np.integer) and value in (0, 1)):
        raise UserError(f"{what} is {shown(value)} instead of true or false")
    return bool(value)


def _probabilities(behaviour: Any, count: int) -> Array:
    """The probabilities with which the actions were taken; 1 if they were not recorded."""
    if behaviour is None:
        return np.ones(count, np.float32)
    given = np.asarray(behaviour, np.float32)
    if given.shape != (count,) or not ((given > 0) & (given <= 1)).all():
        raise UserError("the probabilities (behaviour) of a recorded episode must be one for each action, above 0 and up to 1")
    return given
