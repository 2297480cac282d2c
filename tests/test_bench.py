"""The benchmarks name parts of the loop that exist."""

from __future__ import annotations

import pytest

import ebu
from bench.atari import ours
from bench.profile import parts


@pytest.mark.slow
def test_every_part_that_the_profile_times_is_there():
    loop = ours(ebu.DQN, "Pong").__self__.loop
    assert all(callable(getattr(owner, method)) for _, owner, method in parts(loop))
