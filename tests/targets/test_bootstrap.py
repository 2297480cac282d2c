"""One-step and n-step targets against the sums that define them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ebu.targets import scan
from ebu.targets.bootstrap import n_step, one_step
from tests.reference.backward import n_step_return
from tests.tolerance import sum_bound

F64 = torch.float64
REWARDS = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=F64)
Q_NEXT = torch.tensor([[10.0, 0.0], [0.0, 20.0], [30.0, 5.0], [40.0, 1.0]], dtype=F64)
HALF = torch.full((4,), 0.5, dtype=F64)


@pytest.fixture(params=["loop", "vector"])
def path(request, monkeypatch):
    monkeypatch.setattr(scan, "SCALAR_LOOP_ELEMENTS", 10**9 if request.param == "loop" else 0)


def random_stream(rng, length, actions, learners):
    continues = rng.random(length) < 0.85
    discounts = np.where(~continues & (rng.random(length) < 0.5), 0.0, 0.95)
    discounts[rng.random(length) < 0.03] = 0.0
    return rng.normal(size=length), discounts, rng.normal(size=(learners, length, actions)), continues


def test_one_step_by_hand():
    assert one_step(REWARDS, HALF, Q_NEXT).tolist() == [6.0, 12.0, 18.0, 24.0]


def test_one_step_takes_no_value_beyond_termination():
    discounts = torch.tensor([0.5, 0.0, 0.5, 0.0], dtype=F64)
    assert one_step(REWARDS, discounts, Q_NEXT).tolist() == [6.0, 2.0, 18.0, 4.0]


def test_one_step_of_many_learners_and_spans_of_length_one():
    rng = np.random.default_rng(0)
    rewards, discounts, q_next = rng.normal(size=(32, 1)), rng.random((32, 1)), rng.normal(size=(3, 32, 1, 4))
    y = one_step(*map(torch.from_numpy, (rewards, discounts, q_next)))
    np.testing.assert_allclose(y, rewards + discounts * q_next.max(-1), rtol=1e-15)


def test_two_steps_by_hand():
    y = n_step(REWARDS, HALF, Q_NEXT, 2)
    assert y.tolist() == [1 + 0.5 * 2 + 0.25 * 20, 2 + 0.5 * 3 + 0.25 * 30, 3 + 0.5 * 4 + 0.25 * 40, 4 + 0.5 * 40]


def test_the_whole_episode_by_hand(path):
    truncated = n_step(REWARDS, HALF, Q_NEXT, "episode")
    assert truncated.tolist() == [1 + 0.5 * (2 + 0.5 * (3 + 0.5 * 24)), 2 + 0.5 * (3 + 0.5 * 24), 3 + 0.5 * 24, 24.0]
    discounts = torch.tensor([0.5, 0.5, 0.5, 0.0], dtype=F64)
    terminated = n_step(REWARDS, discounts, Q_NEXT, "episode")
    assert terminated.tolist() == [1 + 0.5 * (2 + 0.5 * (3 + 0.5 * 4)), 2 + 0.5 * (3 + 0.5 * 4), 5.0, 4.0]


def test_a_stream_of_two_episodes_by_hand(path):
    continues = torch.tensor([True, False, True, False])
    discounts = torch.tensor([0.5, 0.0, 0.5, 0.5], dtype=F64)  # the first terminates, the second is cut off
    for n in (2, 3, "episode"):
        y = n_step(REWARDS, discounts, Q_NEXT, n, continues)
        assert y.tolist() == [1 + 0.5 * 2, 2.0, 3 + 0.5 * 4 + 0.25 * 40, 4 + 0.5 * 40]


@pytest.mark.parametrize("n", [1, 2, 3, 5, 10, 200, "episode"])
def test_random_streams_equal_the_written_out_sum(path, n):
    rng = np.random.default_rng(5)
    for _ in range(100):
        rewards, discounts, q_next, continues = random_stream(rng, int(rng.integers(1, 40)), int(rng.integers(1, 5)), 2)
        y = n_step(*(torch.from_numpy(x) for x in (rewards, discounts, q_next)), n, torch.from_numpy(continues))
        expected = [n_step_return(rewards, discounts, q, n, continues) for q in q_next]
        np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-12)


def test_single_precision_stays_close_and_keeps_its_dtype(path):
    rng = np.random.default_rng(6)
    rewards, discounts, q_next, continues = (
        x.astype(np.float32) if x.dtype == np.float64 else x for x in random_stream(rng, 300, 4, 3)
    )
    for n in (4, "episode"):
        y = n_step(*(torch.from_numpy(x) for x in (rewards, discounts, q_next)), n, torch.from_numpy(continues))
        assert y.dtype == torch.float32
        expected = np.array([n_step_return(rewards, discounts, q, n, continues) for q in q_next])
        absolute = np.array([n_step_return(abs(rewards), discounts, abs(q), n, continues) for q in q_next])
        assert (np.abs(y.numpy() - expected) <= sum_bound(2 * 300, absolute)).all()  # a factor and an addition a step


def test_one_step_is_n_step_of_one():
    rng = np.random.default_rng(7)
    rewards, discounts, q_next, continues = map(torch.from_numpy, random_stream(rng, 50, 3, 2))
    assert torch.equal(n_step(rewards, discounts, q_next, 1, continues), one_step(rewards, discounts, q_next))


@given(st.integers(1, 30), st.integers(0, 30), st.integers(0, 2**32 - 1))
def test_n_of_the_length_or_more_is_the_whole_episode(length, more, seed):
    rewards, discounts, q_next, continues = map(torch.from_numpy, random_stream(np.random.default_rng(seed), length, 3, 2))
    whole = n_step(rewards, discounts, q_next, "episode", continues)
    assert torch.allclose(n_step(rewards, discounts, q_next, length + more, continues), whole, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n", [2, 7, "episode"])
def test_nothing_leaks_across_the_end_of_a_piece(path, n):
    rewards, discounts, q_next, continues = map(torch.from_numpy, random_stream(np.random.default_rng(8), 40, 3, 2))
    continues[19] = False
    before = n_step(rewards, discounts, q_next, n, continues)
    rewards[20:], q_next[:, 20:] = 1e6, 1e6
    assert torch.equal(before[:, :20], n_step(rewards, discounts, q_next, n, continues)[:, :20])


def test_a_long_episode_stays_finite():
    length = 5000
    rewards, discounts = torch.ones(length), torch.full((length,), 0.99)
    y = n_step(rewards, discounts, torch.full((length, 2), 3.0), "episode")
    assert torch.isfinite(y).all()
    assert y[0].item() == pytest.approx(100.0, rel=1e-4)
