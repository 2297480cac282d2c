"""The gated Q(λ) against numbers by hand, the mixture of n-step returns, and the rules it lies between."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ebu.targets.backward import backward
from ebu.targets.bootstrap import n_step, one_step
from ebu.targets.double import chosen_by
from ebu.targets.retrace import gated, peng, watkins
from tests.reference.multistep import gated_return, random_stream

F64 = torch.float64
NAMES = ("rewards", "discounts", "actions", "q_next")
SHARP = 1e6  # of gaps of the order of 1: nothing passes that is not greedy


def arguments(seed, **shape):
    s = random_stream(np.random.default_rng(seed), **shape)
    return s, s.tensors(*NAMES), s.tensors("continues")[0]


def tensor(numbers):
    return torch.tensor(numbers, dtype=F64)


def test_a_hand_computed_target():
    # y_3 = 8. At S_2 the best is 4, the action taken is worth 3: g = e^(−ln 2 · 1) = 1/2, y_2 = 1 + .5 (4 + .8 · .5 (8 − 4)).
    # At S_1 the action taken is the best, 6: g = 1, y_1 = .5 (6 + .8 (3.8 − 6)).
    y = gated(
        tensor([0.0, 1.0, 8.0]),
        tensor([0.5, 0.5, 0.0]),
        torch.tensor([0, 0, 1]),
        tensor([[6.0, 2.0], [4.0, 3.0], [9.0, 9.0]]),
        0.8,
        float(np.log(2)),
    )
    np.testing.assert_allclose(y, [2.12, 3.8, 8.0], rtol=1e-15)


def test_at_a_truncated_end_it_bootstraps_from_the_best_action():
    y = gated(tensor([1.0]), tensor([0.5]), torch.tensor([1]), tensor([[7.0, 2.0]]), 0.9, 3.0)
    assert y.tolist() == [4.5]


@pytest.mark.parametrize("sharpness", [0.0, 0.7, 5.0])
@pytest.mark.parametrize("trace_lambda", [0.0, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("shape", [{"actions": 3}, {"actions": 1}, {"actions": 18, "learners": 3}, {"ties": True}], ids=str)
def test_it_equals_the_mixture_of_n_step_returns(trace_lambda, sharpness, shape):
    s, known, continues = arguments(1, episodes=100, **shape)
    expected = s.by_episode(
        lambda k, i: gated_return(
            s.rewards[i], s.discounts[i], s.actions[i], s.q_next[k, i], trace_lambda, sharpness
        )
    )  # fmt: skip
    np.testing.assert_allclose(gated(*known, trace_lambda, sharpness, continues), expected, atol=1e-12)


# ---------------------------------------------------------------------- the rules it lies between


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("trace_lambda", [0.0, 0.5, 0.7, 1.0])
def test_an_open_gate_is_pengs_to_the_last_bit(trace_lambda, dtype):
    _, (rewards, discounts, actions, q_next), continues = arguments(2)
    rewards, discounts, q_next = (x.to(dtype) for x in (rewards, discounts, q_next))
    y = gated(rewards, discounts, actions, q_next, trace_lambda, 0.0, continues)
    assert torch.equal(y, peng(rewards, discounts, q_next, trace_lambda, continues))


@pytest.mark.parametrize("ties", [False, True])
def test_a_sharp_gate_is_watkins(ties):
    _, known, continues = arguments(3, ties=ties)
    torch.testing.assert_close(gated(*known, 0.9, SHARP, continues), watkins(*known, 0.9, continues))


def test_lambda_0_is_one_step_and_lambda_1_with_an_open_gate_the_monte_carlo_return():
    _, (rewards, discounts, actions, q_next), continues = arguments(4)
    y = gated(rewards, discounts, actions, q_next, 0.0, 0.7, continues)
    torch.testing.assert_close(y, one_step(rewards, discounts, q_next))
    y = gated(rewards, discounts, actions, q_next, 1.0, 0.0, continues)
    torch.testing.assert_close(y, n_step(rewards, discounts, q_next, "episode", continues))


@pytest.mark.parametrize("sharpness", [0.0, 2.0, SHARP])
def test_good_news_along_greedy_actions_is_backward_updates(sharpness):
    """Rewards so large that every y is above every value: EBU's maximum is then the diffused value, and the gate is open."""
    s, _, continues = arguments(5, learners=1)
    s.actions, s.rewards = s.q_now[0].argmax(-1), np.abs(s.rewards) + 100.0
    known = s.tensors(*NAMES)
    torch.testing.assert_close(gated(*known, 0.6, sharpness, continues), backward(*known, 0.6, continues))


def test_bad_news_through_actions_that_are_not_greedy_is_backward_updates_where_the_gate_is_sharp():
    """Neither passes it: EBU because another action is better, the gate because this one is worse."""
    s, _, continues = arguments(6, learners=1)
    s.actions, s.rewards = s.q_now[0].argmin(-1), -np.abs(s.rewards) - 100.0
    known = s.tensors(*NAMES)
    expected = one_step(known[0], known[1], known[3])
    torch.testing.assert_close(gated(*known, 0.6, SHARP, continues), expected)
    torch.testing.assert_close(backward(*known, 0.6, continues), expected)
    assert not torch.allclose(gated(*known, 0.6, 0.0, continues), expected)


def test_with_double_q_the_online_network_chooses_and_the_target_network_values():
    s, (rewards, discounts, actions, q_next), continues = arguments(7)
    online = torch.from_numpy(np.random.default_rng(70).normal(size=s.q_next.shape))
    y = gated(rewards, discounts, actions, q_next, 0.7, 0.0, continues, online)
    assert torch.equal(y, peng(rewards, discounts, chosen_by(q_next, online), 0.7, continues))
    # An action that is better than the chosen one passes fully, and no more than that.
    better = gated(tensor([0.0, 1.0]), tensor([1.0, 0.0]), torch.tensor([0, 1]), tensor([[2.0, 5.0], [0.0, 0.0]]), 1.0, 3.0,
                   None, tensor([[1.0, 0.0], [0.0, 0.0]]))  # fmt: skip
    assert better.tolist() == [1.0, 1.0]


# ---------------------------------------------------------------------- learners


def test_learners_have_their_own_lambda_and_sharpness_over_common_or_own_values():
    _, (rewards, discounts, actions, q_next), continues = arguments(8, learners=3)
    lambdas, sharpness = tensor([0.2, 0.6, 1.0]), tensor([0.0, 1.0, 4.0])
    for table in (q_next, q_next.mean(0)):  # each its own values, or those of their mean
        y = gated(rewards, discounts, actions, table, lambdas, sharpness, continues)
        assert y.shape == (3, len(rewards))
        for k in range(3):
            own = table[k] if table.ndim == 3 else table
            alone = gated(rewards, discounts, actions, own, lambdas[k].item(), sharpness[k].item(), continues)
            torch.testing.assert_close(y[k], alone)


# ---------------------------------------------------------------------- what holds for any numbers

numbers = st.floats(-100, 100)


@st.composite
def episodes(draw):
    length, actions = draw(st.integers(1, 10)), draw(st.integers(1, 4))

    def column(element, size=length):
        return np.array(draw(st.lists(element, min_size=size, max_size=size)))

    return {
        "rewards": torch.from_numpy(column(numbers)),
        "discounts": torch.from_numpy(column(st.sampled_from([0.0, 0.5, 0.9, 1.0]))),
        "actions": torch.from_numpy(column(st.integers(0, actions - 1))),
        "q_next": torch.from_numpy(column(numbers, length * actions).reshape(length, actions)),
        "trace_lambdas": draw(st.floats(0, 1)),
        "sharpness": draw(st.floats(0, 10)),
    }


@settings(max_examples=100)
@given(episodes())
def test_any_episode_equals_the_mixture(case):
    named = {name: value.numpy() if torch.is_tensor(value) else value for name, value in case.items()}
    named["trace_lambda"] = named.pop("trace_lambdas")
    np.testing.assert_allclose(gated(**case).numpy(), gated_return(**named), rtol=1e-12, atol=1e-9)


@settings(max_examples=100)
@given(episodes(), st.floats(0.01, 100))
def test_another_unit_of_reward_is_another_unit_of_the_target(case, unit):
    """The gate is read in units of the values, so its sharpness is one over that unit."""
    scaled = case | {
        "rewards": case["rewards"] * unit,
        "q_next": case["q_next"] * unit,
        "sharpness": case["sharpness"] / unit,
    }
    torch.testing.assert_close(gated(**scaled), gated(**case) * unit, rtol=1e-9, atol=1e-9 * unit)


@settings(max_examples=100)
@given(episodes(), st.floats(0, 100), st.data())
def test_a_larger_reward_never_lowers_a_target(case, more, data):
    where = data.draw(st.integers(0, len(case["rewards"]) - 1))
    rewards = case["rewards"].clone()
    rewards[where] += more
    change = gated(**case | {"rewards": rewards}) - gated(**case)
    assert (change >= -1e-9).all() and (change <= more + 1e-9).all()
    assert (change[where + 1 :] == 0).all()


@settings(max_examples=50)
@given(episodes())
def test_values_that_are_right_stay_whatever_the_gate_lets_pass(case):
    """Where each y_{t+1} equals V, there is no news: the target is one-step's."""
    case["discounts"] = torch.full_like(case["discounts"], 0.9)
    best = case["q_next"].amax(-1)
    case["rewards"] = torch.cat([best[:1] * 0, best[:-1]]) - 0.9 * best  # y_t = V(S_t), the end's bootstrap included
    torch.testing.assert_close(
        gated(**case), one_step(case["rewards"], case["discounts"], case["q_next"]), rtol=1e-9, atol=1e-9
    )
