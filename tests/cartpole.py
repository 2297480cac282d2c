"""Observations of CartPole-v1 for tests that compare two agents on them."""

from __future__ import annotations

import numpy as np

import ebu


def states(count=5):
    return list(np.random.default_rng(0).uniform(-0.1, 0.1, (count, 4)).astype(np.float32))


def loaded_as_saved(agent, path):
    """What was loaded from the agent's policy file, once it has given the same values."""
    agent.save(path)
    loaded = ebu.load(path)
    np.testing.assert_array_equal(loaded.q_values(states()), agent.q_values(states()))
    return loaded
