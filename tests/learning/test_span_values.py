"""Values of a span's states, however many there are: images go through the network in numbers that come often."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import ebu
from ebu.learning.span_values import IMAGE_ROWS, SpanValues
from ebu.memory.samplers import whole_episodes
from ebu.types import Episode
from tests.tolerance import assert_within, in_double, value_bound

SETTINGS = {"seed": 0, "eval_every": 0, "network": "nature", "learning_starts": 10**6, "steps": 100}


@pytest.fixture(scope="module")
def loop():
    """A memory with episodes of images, of 5, 31, 32, 33 and 70 steps."""
    with in_double():
        yield filled_loop()


def filled_loop():
    loop = ebu.EBU("ALE/Pong-v5", preset="paper", **SETTINGS).loop
    rng = np.random.default_rng(0)
    for length in (5, 31, 32, 33, 70):
        frames = rng.integers(256, size=(length + 1, *loop.memory.frame_shape)).astype(np.uint8)
        actions = rng.integers(loop.interface.actions, size=length)
        loop.memory.add(Episode(frames, actions, np.zeros(length, np.float32), np.ones(length, np.float32), True))
    return loop


@pytest.mark.parametrize("rows_at_most", [128, 64])
@pytest.mark.parametrize("number", range(5))
def test_images_are_valued_in_multiples_of_some_and_as_they_are(loop, number, rows_at_most, monkeypatch):
    monkeypatch.setattr(loop.learner.target, "images_at_once", rows_at_most)
    span = whole_episodes(loop.memory, np.array([number]))
    seen, values = [], loop.learner.target.values
    monkeypatch.setattr(loop.learner.target, "values", lambda states: seen.append(len(states)) or values(states))
    found = SpanValues(span, loop.learner).target_next
    assert found.shape[1] == len(span)
    assert all(count % IMAGE_ROWS == 0 and count <= rows_at_most for count in seen)
    states = torch.from_numpy(span.states(span.rows + 1))
    assert_within(found, values(states), value_bound(loop.learner.target, states))
