"""Returns as lower bounds where learners agree: by hand."""

import numpy as np
import torch

from ebu.targets.agreement import at_least_returns
from ebu.targets.scan import ABSENT

F64 = torch.float64


def tensor(numbers):
    return torch.tensor(numbers, dtype=F64)


TARGETS = tensor([[1.0, 1.0, 5.0, 1.0], [2.0, 2.0, 5.0, 2.0]])
RETURNS = tensor([3.0, 3.0, 3.0, ABSENT])
TAKEN = tensor([[0.0, 0.0, 7.0, 7.0], [1.0, 4.0, 7.0, 7.0]])  # standard deviations 0.5, 2, 0, 0


def test_a_target_is_raised_to_the_return_where_learners_agree_and_the_episode_has_ended():
    y = at_least_returns(TARGETS, RETURNS, TAKEN, 0.5)
    np.testing.assert_array_equal(y, [[3.0, 1.0, 5.0, 1.0], [3.0, 2.0, 5.0, 2.0]])


def test_every_learner_may_have_a_tolerance_of_its_own():
    y = at_least_returns(TARGETS, RETURNS, TAKEN, tensor([2.0, 0.4]))
    np.testing.assert_array_equal(y, [[3.0, 3.0, 5.0, 1.0], [2.0, 2.0, 5.0, 2.0]])


def test_one_learner_agrees_with_itself():
    y = at_least_returns(TARGETS[:1], RETURNS, TAKEN[:1], 0.0)
    np.testing.assert_array_equal(y, [[3.0, 3.0, 5.0, 1.0]])
