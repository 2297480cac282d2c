"""Optimality Tightening against the authors' per-sample procedure, on whole episodes and on windows of them."""

import numpy as np
import pytest
import torch

from ebu.targets.bootstrap import one_step
from ebu.targets.scan import ABSENT
from ebu.targets.tightening import combine, tightening
from tests.reference import tightening as oracle
from tests.reference.multistep import random_stream


def returns_of(s, gamma):
    """Monte-Carlo returns [N], absent where the episode was truncated."""
    parts = [
        oracle.monte_carlo(s.rewards[piece], gamma) if terminated else [ABSENT] * (piece.stop - piece.start)
        for piece, terminated in zip(s.pieces, s.terminated)
    ]
    return np.concatenate(parts)


def taken_of(s):
    return np.take_along_axis(s.q_now, np.broadcast_to(s.actions[:, None], (*s.q_now.shape[:2], 1)), -1)[..., 0]


def oracle_targets(s, gamma, q_online, weight_of_y, neighbours=4):
    taken, result = taken_of(s), np.zeros(q_online.shape)
    for k in range(len(result)):
        best = s.q_states[k].max(-1)
        for piece, terminated in zip(s.pieces, s.terminated):
            rewards = s.rewards[piece]
            states = best[s.rows[piece.start] : s.rows[piece.stop - 1] + 2]
            for t in range(len(rewards)):
                bounds = oracle.bounds(rewards, gamma, taken[k, piece], states, terminated, t, neighbours)
                ends_here = bool(terminated) and t == len(rewards) - 1
                q = q_online[k, piece.start + t]
                result[k, piece.start + t] = oracle.target(*bounds, q, weight_of_y, ends_here, rewards[-1])
    return result


def arguments(s, gamma):
    rewards, discounts, q_next, continues = s.tensors("rewards", "discounts", "q_next", "continues")
    return rewards, discounts, torch.from_numpy(taken_of(s)), q_next, torch.from_numpy(returns_of(s, gamma)), continues


@pytest.mark.parametrize("bound_weight", [0.2, 0.8])
@pytest.mark.parametrize("gamma", [0.99, 0.5, 0.0])
@pytest.mark.parametrize("shape", [{"actions": 3}, {"actions": 1}, {"states": 1, "learners": 3}], ids=str)
def test_targets_equal_the_authors_procedure_on_whole_episodes(shape, gamma, bound_weight):
    rng = np.random.default_rng(1)
    s = random_stream(rng, gamma=gamma, **shape)
    q_online = rng.normal(size=s.q_now.shape[:2])
    values, lower, upper = tightening(*arguments(s, gamma))
    y = combine(values, lower, upper, torch.from_numpy(q_online), bound_weight)
    np.testing.assert_allclose(y, oracle_targets(s, gamma, q_online, 1 - bound_weight), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("neighbours", [1, 2, 4, 7])
def test_bounds_are_the_extremes_of_the_papers_sums(neighbours):
    s = random_stream(np.random.default_rng(2), learners=1)
    values, lower, upper = (x[0] for x in tightening(*arguments(s, 0.9), neighbours=neighbours))
    taken, best = taken_of(s)[0], s.q_states[0].max(-1)
    for piece, terminated in zip(s.pieces, s.terminated):
        states = best[s.rows[piece.start] : s.rows[piece.stop - 1] + 2]
        for t in range(piece.stop - piece.start):
            if terminated and t == piece.stop - piece.start - 1:
                expected = s.rewards[piece.stop - 1], ABSENT, -ABSENT
            else:
                y, low, high = oracle.bounds(s.rewards[piece], 0.9, taken[piece], states, terminated, t, neighbours)
                expected = y, max(low, default=ABSENT), min(high, default=-ABSENT)
            found = [x[piece.start + t].item() for x in (values, lower, upper)]
            np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_windows_around_a_centre_give_the_bounds_of_the_whole_episode():
    s = random_stream(np.random.default_rng(3), episodes=200, longest=30)
    args = arguments(s, 0.9)
    whole = tightening(*args)
    windows, centres = [], []
    for piece in s.pieces:
        for centre in range(piece.start, piece.stop):
            first, stop = max(piece.start, centre - 4), min(piece.stop, centre + 5)
            centres.append(sum(map(len, windows)) + centre - first)
            windows.append(range(first, stop))
    steps = torch.tensor(np.concatenate(windows))
    continues = torch.ones(len(steps), dtype=torch.bool)
    continues[np.cumsum([len(w) for w in windows]) - 1] = False
    rewards, discounts, taken, q_next, returns, _ = args
    cut = tightening(rewards[steps], discounts[steps], taken[:, steps], q_next[:, steps], returns[steps], continues)
    for found, expected in zip(cut, whole):
        torch.testing.assert_close(found[:, centres], expected)


def test_a_lone_step_has_no_bounds_but_its_return():
    rewards, discounts = torch.tensor([1.0]), torch.tensor([0.9])
    q_next, taken = torch.tensor([[2.0, 3.0]]), torch.tensor([5.0])
    values, lower, upper = tightening(rewards, discounts, taken, q_next, torch.tensor([ABSENT]))
    torch.testing.assert_close((values, lower, upper), (torch.tensor([3.7]), torch.tensor([ABSENT]), -lower))
    _, lower, _ = tightening(rewards, discounts, taken, q_next, torch.tensor([4.0]))
    assert lower.item() == 4.0


def test_a_step_that_terminated_is_regressed_to_its_reward_whatever_the_network_says():
    s = random_stream(np.random.default_rng(4))
    values, lower, upper = tightening(*arguments(s, 0.9))
    ends = [piece.stop - 1 for piece, terminated in zip(s.pieces, s.terminated) if terminated]
    for q in (-1e3, 0.0, 1e3):
        y = combine(values, lower, upper, torch.full_like(values, q), 0.2)[:, ends]
        torch.testing.assert_close(y, torch.from_numpy(s.rewards[ends]).expand_as(y))


def test_the_one_step_targets_are_those_of_dqn():
    s = random_stream(np.random.default_rng(5))
    rewards, discounts, _, q_next, _, _ = args = arguments(s, 0.9)
    torch.testing.assert_close(tightening(*args)[0], one_step(rewards, discounts, q_next))


def test_combine_leaves_the_target_alone_between_the_bounds_and_within_the_margin():
    y, low, high = torch.tensor(5.0), torch.tensor(1.0), torch.tensor(2.0)
    for q in (0.95, 1.0, 1.5, 2.0, 2.05):
        assert combine(y, low, high, torch.tensor(q), 0.2).item() == 5.0


@pytest.mark.parametrize(
    "q, low, high, expected",
    [
        (0.0, 1.0, 2.0, 0.8 * 5 + 0.2 * 1),  # too low: towards the lower bound
        (3.0, 1.0, 2.0, 0.8 * 5 + 0.2 * 2),  # too high: towards the upper bound
        (1.5, 3.0, 1.0, 0.8 * 5 + 0.2 * 2),  # bounds that contradict each other: towards their mean
        (0.0, ABSENT, -ABSENT, 5.0),  # no bounds
    ],
)
def test_combine_mixes_the_violated_bound_in(q, low, high, expected):
    values = [torch.tensor(x) for x in (5.0, low, high, q)]
    assert combine(*values, 0.2).item() == pytest.approx(expected, rel=1e-6)


def test_no_gradient_flows_through_the_combination():
    q = torch.zeros(3, requires_grad=True)
    assert not combine(torch.ones(3), torch.ones(3), torch.ones(3), q, 0.2).requires_grad


@pytest.mark.parametrize("gamma", [0.0, 1e-12, 1.0])
def test_extreme_discounts_give_finite_numbers_in_single_precision(gamma):
    s = random_stream(np.random.default_rng(6), gamma=gamma)
    args = [x.float() if x.is_floating_point() else x for x in arguments(s, gamma)]
    for x in tightening(*args):
        assert torch.isfinite(x).all()


def test_a_discount_of_0_within_a_piece_lets_no_bound_through():
    discounts = torch.tensor([0.9, 0.0, 0.9])
    _, lower, upper = tightening(torch.ones(3), discounts, torch.zeros(3), torch.zeros(3, 2), torch.full((3,), ABSENT))
    torch.testing.assert_close(upper, torch.tensor([-ABSENT, -ABSENT, -ABSENT]))
    torch.testing.assert_close(lower, torch.tensor([1.9, ABSENT, ABSENT]))
