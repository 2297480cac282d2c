"""The policies of K learners: which one acts on each turn, and which one is evaluated."""

from __future__ import annotations

from collections.abc import Sequence

from ebu.learning.learner import Learner
from ebu.learning.policy import Policy, mean_of


class Policies:
    """One policy for each learner, and for an ensemble one that is greedy in the mean of all. They follow the weights."""

    def __init__(
        self, learner: Learner, learners: int, actions: int, knows_probability: bool, *, ensemble: bool, acts_by_mean: bool
    ) -> None:
        self._each = [policy_of(learner, [k], actions, knows_probability) for k in range(learners)]
        self.mean = policy_of(learner, range(learners), actions, knows_probability) if ensemble else None
        self._acts_by_mean = acts_by_mean

    def __getitem__(self, learner: int) -> Policy:
        return self._each[learner]

    def acting(self, learner: int) -> Policy:
        """The policy that acts when it is this learner's turn."""
        return self._each[learner] if self.mean is None or not self._acts_by_mean else self.mean

    def judged(self, leader: int) -> Policy:
        """The policy to be evaluated: the ensemble's, or of K learners, the one that leads and would be copied to all."""
        return self._each[leader] if self.mean is None else self.mean

    def judged_learners(self, leader: int) -> list[int]:
        """The learners whose mean that policy is greedy in."""
        return [leader] if self.mean is None else list(range(len(self._each)))


def policy_of(learner: Learner, numbers: Sequence[int], actions: int, knows_probability: bool) -> Policy:
    """The policy of one of the learners, or of the mean of several."""
    online = learner.online
    of_state, of_batch = ([make(number) for number in numbers] for make in (online.state_values, online.batch_values))
    return Policy(mean_of(of_state), actions, knows_probability, mean_of(of_batch))
