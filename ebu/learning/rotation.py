"""Which of K learners acts next, and adaptive EBU's recorder (Appendix A): how well each played, which is copied."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np


class Rotation:
    """K learners take turns by training episode; every ``interval`` steps the one with the best score is copied to all.

    With several actors each begins with its own learner, and after an episode an actor continues with the learner whose
    turn is next, so that all learners play equally many episodes whichever environment is faster.
    A learner that has finished no episode since the last synchronisation cannot be chosen: a score of 0 would win in
    games of negative rewards. With one learner, or without an interval, nothing is ever copied.
    """

    def __init__(self, learners: int, interval: int | None, score: Literal["sum", "mean"] = "sum", actors: int = 1) -> None:
        self.learners = learners
        self._interval = interval
        self._by_mean = score == "mean"
        self.playing = [actor % learners for actor in range(actors)]  # the learner of each actor's episode
        self._next = actors % learners  # plays the next episode that begins
        self.chosen = 0  # copied to all at the last synchronisation
        self._last_sync = 0  # step
        self._sums = np.zeros(learners)
        self._episodes = np.zeros(learners, np.int64)

    def episode_ended(self, score: float, actor: int = 0) -> None:
        """Record the score of the learner that played, and give the next one its turn."""
        played = self.playing[actor]
        self._sums[played] += score
        self._episodes[played] += 1
        self.playing[actor] = self._next
        self._next = (self._next + 1) % self.learners

    def is_due(self, step: int) -> bool:
        """Whether the learners are to be synchronised, now that an episode has ended."""
        if self.learners == 1 or self._interval is None:
            return False
        return step - self._last_sync >= self._interval and bool(self._episodes.any())

    def leader(self) -> int:
        """The learner with the best score since the last synchronisation; the last one chosen while there is none."""
        if not self._episodes.any():
            return self.chosen
        scores = self.means() if self._by_mean else np.where(self._episodes > 0, self._sums, -np.inf)
        return int(np.argmax(scores))

    def means(self) -> np.ndarray:
        """Mean score of an episode by learner, −∞ for one without any."""
        return np.where(self._episodes > 0, self._sums / np.maximum(self._episodes, 1), -np.inf)

    def synchronised(self, step: int) -> None:
        """The leader was copied to all: reset the recorder."""
        assert self._interval is not None
        self.chosen = self.leader()
        self._last_sync = step - step % self._interval  # epochs are counted from the start of the run
        self._sums[:] = 0.0
        self._episodes[:] = 0

    def scores(self) -> dict[str, list[float | None]]:
        """Sum and mean by learner, for the record; None where a learner has not played."""
        played = self._episodes > 0
        return {
            "score_sums": [float(s) if p else None for s, p in zip(self._sums, played)],
            "score_means": [float(m) if p else None for m, p in zip(self.means(), played)],
        }

    def state_dict(self) -> dict[str, Any]:
        return {
            "playing": list(self.playing),
            "next": self._next,
            "chosen": self.chosen,
            "last_sync": self._last_sync,
            "sums": self._sums.tolist(),
            "episodes": self._episodes.tolist(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        actors = len(self.playing)
        self.playing, self._next = [int(learner) for learner in state["playing"]], int(state["next"])
        self.chosen = int(state["chosen"])
        self._last_sync = int(state["last_sync"])
        self._sums = np.array(state["sums"], float)
        self._episodes = np.array(state["episodes"], np.int64)
        turns = all(learner in range(self.learners) for learner in (*self.playing, self._next, self.chosen))
        counts = self._sums.shape == self._episodes.shape == (self.learners,) and len(self.playing) == actors
        if not turns or not counts:
            raise ValueError(f"scores or turns do not match {self.learners} learners")
