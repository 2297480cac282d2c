"""Retrace(λ), Peng's and Watkins' Q(λ) against the sums of their papers, and the identities that connect the rules."""

import numpy as np
import pytest
import torch

from ebu.targets.backward import backward
from ebu.targets.bootstrap import n_step, one_step
from ebu.targets.retrace import epsilon_greedy, peng, retrace, watkins
from tests.reference.multistep import peng_return, random_stream, retrace_return, watkins_return
from tests.tolerance import sum_bound

LAMBDAS = [0.0, 0.3, 0.9, 1.0]
SHAPES = [{"actions": 3}, {"actions": 1}, {"actions": 18, "learners": 3}, {"actions": 2, "states": 1}]
CASES = [pytest.param(lam, shape, id=f"lambda={lam}-{shape}") for lam in LAMBDAS for shape in SHAPES]


def random_policy(rng, values):
    """Probabilities [..., A], some of them 0."""
    weights = rng.random(values.shape) * (rng.random(values.shape) < 0.8) + 1e-3
    return weights / weights.sum(-1, keepdims=True)


@pytest.mark.parametrize("trace_lambda, shape", CASES)
def test_retrace_equals_the_general_sum_of_its_paper(trace_lambda, shape):
    rng = np.random.default_rng(1)
    s = random_stream(rng, **shape)
    policy = random_policy(rng, s.q_states)
    now, following = policy[:, s.rows], policy[:, s.rows + 1]
    expected = s.by_episode(
        lambda k, i: retrace_return(
            s.rewards[i],
            s.discounts[i],
            s.actions[i],
            s.q_now[k, i],
            s.q_next[k, i],
            now[k, i],
            following[k, i],
            s.behaviour[i],
            trace_lambda,
        )
    )
    tensors = s.tensors("rewards", "discounts", "actions", "q_next")
    behaviour, continues = s.tensors("behaviour", "continues")
    y = retrace(*tensors, torch.from_numpy(following), behaviour, trace_lambda, continues)
    np.testing.assert_allclose(y, expected, atol=1e-12)


@pytest.mark.parametrize("trace_lambda, shape", CASES)
def test_peng_equals_the_mixture_of_all_n_step_returns(trace_lambda, shape):
    s = random_stream(np.random.default_rng(2), **shape)
    expected = s.by_episode(lambda k, i: peng_return(s.rewards[i], s.discounts[i], s.q_next[k, i], trace_lambda))
    rewards, discounts, q_next, continues = s.tensors("rewards", "discounts", "q_next", "continues")
    np.testing.assert_allclose(peng(rewards, discounts, q_next, trace_lambda, continues), expected, atol=1e-12)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("trace_lambda, shape", CASES)
def test_watkins_equals_the_mixture_cut_at_the_first_action_that_is_not_greedy(trace_lambda, shape, ties):
    s = random_stream(np.random.default_rng(3), ties=ties, **shape)
    expected = s.by_episode(
        lambda k, i: watkins_return(s.rewards[i], s.discounts[i], s.actions[i], s.q_now[k, i], s.q_next[k, i], trace_lambda)
    )
    tensors = s.tensors("rewards", "discounts", "actions", "q_next")
    y = watkins(*tensors, trace_lambda, s.tensors("continues")[0])
    np.testing.assert_allclose(y, expected, atol=1e-12)


def every_rule(s, trace_lambda):
    """name → y[..., T] for a dictionary of one episode's arguments, without ``continues``."""
    first = (s["rewards"], s["discounts"])
    return {
        "retrace": retrace(*first, s["actions"], s["q_next"], s["policy"], s["behaviour"], trace_lambda),
        "peng": peng(*first, s["q_next"], trace_lambda),
        "watkins": watkins(*first, s["actions"], s["q_next"], trace_lambda),
    }


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_episodes_end_to_end_give_what_each_gives_alone(dtype):
    rng = np.random.default_rng(4)
    s = random_stream(rng, episodes=300, learners=2)
    names = ["rewards", "discounts", "actions", "q_next", "behaviour", "continues"]
    whole = {n: t.to(dtype) if t.is_floating_point() else t for n, t in zip(names, s.tensors(*names))}
    whole["policy"] = epsilon_greedy(whole["q_next"], 0.3)
    together = {
        "retrace": retrace(
            *(whole[n] for n in ["rewards", "discounts", "actions", "q_next", "policy", "behaviour"]),
            0.9,
            whole["continues"],
        ),
        "peng": peng(whole["rewards"], whole["discounts"], whole["q_next"], 0.9, whole["continues"]),
        "watkins": watkins(whole["rewards"], whole["discounts"], whole["actions"], whole["q_next"], 0.9, whole["continues"]),
    }
    # Twelve steps of some eight operations, on numbers whose absolute values add up to what a discount of 0.9 allows.
    bound = sum_bound(12 * 8, (whole["rewards"].abs().max() + 2 * whole["q_next"].abs().max()).item() / (1 - 0.9), dtype)
    for piece in s.pieces:
        lone = {n: t[..., piece, :] if n in ("q_next", "policy") else t[..., piece] for n, t in whole.items()}
        for name, y in every_rule(lone, 0.9).items():
            assert y.dtype == dtype
            torch.testing.assert_close(together[name][:, piece], y, atol=bound, rtol=0)


def tensors_of(s):
    return s.tensors("rewards", "discounts", "actions", "q_next", "behaviour", "continues")


def test_retrace_with_lambda_0_is_one_step_with_the_expectation_under_the_policy():
    rng = np.random.default_rng(5)
    s = random_stream(rng)
    rewards, discounts, actions, q_next, behaviour, continues = tensors_of(s)
    policy = torch.from_numpy(random_policy(rng, s.q_next))
    y = retrace(rewards, discounts, actions, q_next, policy, behaviour, 0.0, continues)
    torch.testing.assert_close(y, rewards + discounts * (policy * q_next).sum(-1))


def test_max_based_rules_with_lambda_0_are_one_step():
    rewards, discounts, actions, q_next, _, continues = tensors_of(random_stream(np.random.default_rng(6)))
    expected = one_step(rewards, discounts, q_next)
    torch.testing.assert_close(peng(rewards, discounts, q_next, 0.0, continues), expected)
    torch.testing.assert_close(watkins(rewards, discounts, actions, q_next, 0.0, continues), expected)


def test_peng_with_lambda_1_on_a_terminated_episode_is_the_monte_carlo_return():
    s = random_stream(np.random.default_rng(7))
    rewards, discounts, _, q_next, _, continues = tensors_of(s)
    y = peng(rewards, discounts, q_next, 1.0, continues)
    for piece, terminated in zip(s.pieces, s.terminated):
        if terminated:
            length = piece.stop - piece.start
            returns = [(0.9 ** np.arange(length - t) * s.rewards[piece][t:]).sum() for t in range(length)]
            np.testing.assert_allclose(y[:, piece], np.broadcast_to(returns, (2, length)), atol=1e-12)
    torch.testing.assert_close(y, n_step(rewards, discounts, q_next, "episode", continues))


@pytest.mark.parametrize("trace_lambda", LAMBDAS)
def test_on_spans_of_one_step_all_max_based_rules_are_one_step(trace_lambda):
    rewards, discounts, actions, q_next, _, _ = tensors_of(random_stream(np.random.default_rng(8)))
    nothing = torch.zeros(len(rewards), dtype=torch.bool)
    expected = one_step(rewards, discounts, q_next)
    for y in (
        peng(rewards, discounts, q_next, trace_lambda, nothing),
        watkins(rewards, discounts, actions, q_next, trace_lambda, nothing),
        backward(rewards, discounts, actions, q_next, trace_lambda, nothing),
        n_step(rewards, discounts, q_next, 3, nothing),
    ):
        torch.testing.assert_close(y, expected)


@pytest.mark.parametrize("trace_lambda", LAMBDAS)
def test_retrace_of_the_greedy_policy_is_watkins_where_nothing_ties(trace_lambda):
    rewards, discounts, actions, q_next, behaviour, continues = tensors_of(random_stream(np.random.default_rng(9)))
    greedy = epsilon_greedy(q_next, 0.0)
    torch.testing.assert_close(
        retrace(rewards, discounts, actions, q_next, greedy, behaviour, trace_lambda, continues),
        watkins(rewards, discounts, actions, q_next, trace_lambda, continues),
    )


def test_watkins_on_a_path_that_is_always_greedy_is_peng():
    s = random_stream(np.random.default_rng(10), learners=1)
    s.actions = s.q_now[0].argmax(-1)
    rewards, discounts, actions, q_next, _, continues = tensors_of(s)
    torch.testing.assert_close(
        watkins(rewards, discounts, actions, q_next, 0.8, continues), peng(rewards, discounts, q_next, 0.8, continues)
    )


def test_backward_update_is_peng_with_lambda_beta_where_there_is_one_action():
    rewards, discounts, actions, q_next, _, continues = tensors_of(random_stream(np.random.default_rng(11), actions=1))
    for beta in (0.0, 0.5, 1.0):
        torch.testing.assert_close(
            backward(rewards, discounts, actions, q_next, beta, continues),
            peng(rewards, discounts, q_next, beta, continues),
        )


def test_a_tie_is_greedy_for_watkins_whichever_action_was_taken():
    rewards, discounts = torch.tensor([0.0, 1.0]), torch.tensor([0.5, 0.0])
    q_next = torch.tensor([[2.0, 2.0], [0.0, 0.0]])
    for action in (0, 1):
        y = watkins(rewards, discounts, torch.tensor([0, action]), q_next, 1.0)
        torch.testing.assert_close(y, torch.tensor([0.5, 1.0]))


def test_a_hand_computed_retrace_target():
    # y_2 = 1. At S_2: V = .5·2 + .5·4 = 3, c = .8·min(1, .5 / .25) = .8, Q(S_2, A_2) = 4; y_1 = .9 (3 + .8 (1 − 4)).
    y = retrace(
        torch.tensor([0.0, 1.0]),
        torch.tensor([0.9, 0.0]),
        torch.tensor([0, 1]),
        torch.tensor([[2.0, 4.0], [7.0, 7.0]]),
        torch.full((2, 2), 0.5),
        torch.tensor([1.0, 0.25]),
        0.8,
    )
    torch.testing.assert_close(y, torch.tensor([0.54, 1.0]))


def test_padding_with_probability_0_does_not_poison_the_targets():
    y = retrace(
        torch.ones(3),
        torch.tensor([0.9, 0.0, 0.0]),
        torch.zeros(3, dtype=torch.int64),
        torch.ones(3, 2),
        epsilon_greedy(torch.ones(3, 2), 0.1),
        torch.tensor([0.5, 0.5, 0.0]),
        1.0,
        torch.tensor([True, False, False]),
    )
    assert torch.isfinite(y).all()


def test_epsilon_greedy_gives_ties_to_the_first_action_and_sums_to_1():
    q = torch.tensor([[1.0, 3.0, 3.0, 0.0], [2.0, 2.0, 2.0, 2.0]])
    policy = epsilon_greedy(q, 0.2)
    torch.testing.assert_close(policy, torch.tensor([[0.05, 0.85, 0.05, 0.05], [0.85, 0.05, 0.05, 0.05]]))
    torch.testing.assert_close(epsilon_greedy(q[:, :1], 0.2), torch.ones(2, 1))


def test_a_long_episode_in_single_precision_equals_the_loop_in_double():
    rng = np.random.default_rng(12)
    steps, actions = 5_000, 18
    rewards, q_next = rng.normal(size=steps), rng.normal(size=(1, steps, actions))
    discounts, taken, mu = np.full(steps, 0.99), rng.integers(actions, size=steps), 1 - rng.random(steps)
    policy = random_policy(rng, q_next)
    expected = np.zeros(steps)
    for t in range(steps - 1, -1, -1):
        v = (policy[0, t] * q_next[0, t]).sum()
        if t < steps - 1:
            a = taken[t + 1]
            v += min(1.0, policy[0, t, a] / mu[t + 1]) * (expected[t + 1] - q_next[0, t, a])
        expected[t] = rewards[t] + discounts[t] * v
    y = retrace(
        *(torch.from_numpy(x.astype(np.float32)) for x in (rewards, discounts)),
        torch.from_numpy(taken),
        *(torch.from_numpy(x.astype(np.float32)) for x in (q_next, policy, mu)),
        1.0,
    )
    np.testing.assert_allclose(y[0], expected, atol=1e-3)
