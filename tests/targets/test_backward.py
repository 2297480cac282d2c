"""Episodic Backward Update against the paper's numbers, the loop of Algorithm 2, and the identities that define it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ebu.targets import scan
from ebu.targets.backward import backward
from ebu.targets.bootstrap import n_step, one_step
from tests.reference.backward import algorithm_2
from tests.tolerance import sum_bound

PATHS = {"loop": 10**9, "vector": 0}
F64 = torch.float64


@pytest.fixture(params=PATHS, ids=str)
def path(request, monkeypatch):
    """Both ways to the same numbers: the scalar loop for small inputs, the vector scan for large ones."""
    monkeypatch.setattr(scan, "SCALAR_LOOP_ELEMENTS", PATHS[request.param])
    return request.param


def tensor(values, dtype=F64):
    return torch.tensor(values, dtype=dtype)


def random_episodes(rng, length, actions, learners=1, states=None, discount=None):
    """A stream of one or more episodes. ``states`` small makes the same state, hence the same values, come back."""
    gamma = rng.uniform(0.5, 1.0) if discount is None else discount
    continues = rng.random(length) < rng.choice([0.7, 0.95, 1.0])
    discounts = np.full(length, gamma)
    ended = rng.random(length) < 0.5
    discounts[~continues & ended] = 0.0  # some episodes terminate, the others are truncated
    discounts[rng.random(length) < 0.03] = 0.0  # and a 0 in the middle of an episode that continues
    if rng.random() < 0.5:
        discounts[-1] = 0.0
    visited = rng.integers(states or length, size=length)
    table = rng.normal(size=(learners, states or length, actions)) * rng.choice([0.1, 1.0, 30.0])
    return {
        "rewards": rng.normal(size=length) * (rng.random(length) < 0.5),
        "discounts": discounts,
        "actions": rng.integers(actions, size=length),
        "q_next": table[:, visited],  # [K, T, A]
        "beta": rng.choice([0.0, 1.0, *rng.random(3)], size=learners),
        "continues": continues,
    }


def run(case, dtype=F64):
    given_as = {name: torch.from_numpy(np.array(value)) for name, value in case.items()}
    for name in ("rewards", "discounts", "q_next", "beta"):
        given_as[name] = given_as[name].to(dtype)
    return backward(**given_as)


def expected(case):
    shared = [case[name] for name in ("rewards", "discounts", "actions")]
    return np.stack([algorithm_2(*shared, q, b, case["continues"]) for q, b in zip(case["q_next"], case["beta"])])


def single_precision_bound(case):
    """The recursion of absolute values bounds every sum on the way; a term has a factor and an addition for each step."""
    absolute = {name: np.abs(value) if name in ("rewards", "q_next") else value for name, value in case.items()}
    return sum_bound(2 * len(case["rewards"]) + 8, expected(absolute))


# ---------------------------------------------------------------------- the specification's numbers


@pytest.mark.parametrize(
    ("beta", "y"), [(0.0, [0.45, 0.36, -0.73, 1.0]), (0.5, [0.45, 0.36, -0.415, 1.0]), (1.0, [0.45, 0.36, -0.1, 1.0])]
)
def test_the_unit_vector_of_the_specification(path, beta, y):
    got = backward(
        rewards=tensor([0, 0, -1, 1]),
        discounts=tensor([0.9, 0.9, 0.9, 0.0]),
        actions=torch.tensor([0, 1, 0, 1]),
        q_next=tensor([[0.5, 0.2], [0.1, 0.4], [0.3, 0.3], [77.0, -5.0]]),  # the row after the end is ignored
        beta=beta,
    )
    np.testing.assert_allclose(got.numpy(), y, rtol=0, atol=1e-15)


@pytest.mark.parametrize("beta", [1.0, 0.5])
def test_the_chain_of_figure_1_with_zero_values(path, beta):
    """s1 → s2 → s3 → s2 → s3 → goal: columns belong to time steps, so revisited states do not share updates."""
    y = backward(
        tensor([0, 0, 0, 0, 1]),
        tensor([0.9] * 4 + [0.0]),
        torch.tensor([1, 1, 0, 1, 1]),
        torch.zeros(5, 2, dtype=F64),
        beta,
    )
    np.testing.assert_allclose(y.numpy(), [(beta * 0.9) ** k for k in (4, 3, 2, 1, 0)], rtol=1e-15)
    if beta == 0.5:
        np.testing.assert_allclose(y.numpy(), [0.0410, 0.0911, 0.2025, 0.45, 1.0], atol=5e-5)


@pytest.mark.parametrize("beta", [0.0, 0.25, 2 / 7, 0.5, 1.0])
def test_the_mean_target_of_a_noisy_suboptimal_arm(path, beta):
    """Section 9 (i): arms .5 for sure and Bernoulli(.3), the noisy one taken: E[y_0] = .5 + .3 max(0, .7β − .2)."""
    q_next = tensor([[0.5, 0.3], [0.0, 0.0]])
    outcomes = [backward(tensor([0.0, r]), tensor([1.0, 0.0]), torch.tensor([0, 1]), q_next, beta)[0].item() for r in (1, 0)]
    assert 0.3 * outcomes[0] + 0.7 * outcomes[1] == pytest.approx(0.5 + 0.3 * max(0.0, 0.7 * beta - 0.2), abs=1e-15)


# ---------------------------------------------------------------------- the loop of Algorithm 2


@pytest.mark.parametrize("seed", range(4))
def test_two_thousand_random_streams_equal_the_loop_of_algorithm_2(path, seed):
    rng = np.random.default_rng([7, seed])
    for _ in range(500):
        length = int(rng.integers(1, 201) if rng.random() < 0.05 else rng.integers(1, 25))
        case = random_episodes(rng, length, int(rng.integers(1, 7)), int(rng.integers(1, 4)), states=rng.choice([None, 1, 3]))
        np.testing.assert_allclose(run(case).numpy(), expected(case), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("length", [1, 2, 3, 31, 32, 33, 64, 199, 200])
@pytest.mark.parametrize("actions", [1, 2, 18])
def test_lengths_and_action_counts_in_single_precision(path, length, actions):
    case = random_episodes(np.random.default_rng([length, actions]), length, actions, learners=5)
    case = {name: np.float32(value) if value.dtype == np.float64 else value for name, value in case.items()}
    got = run(case, torch.float32)
    assert got.dtype == torch.float32
    assert (np.abs(got.numpy() - expected(case)) <= single_precision_bound(case)).all()


numbers = st.floats(-1e3, 1e3)


@st.composite
def streams(draw):
    length, actions = draw(st.integers(1, 12)), draw(st.integers(1, 4))

    def column(element):
        return np.array(draw(st.lists(element, min_size=length, max_size=length)))

    return {
        "rewards": column(numbers),
        "discounts": column(st.sampled_from([0.0, 0.5, 0.9, 1.0])),
        "actions": column(st.integers(0, actions - 1)),
        "q_next": np.array(draw(st.lists(numbers, min_size=length * actions, max_size=length * actions)))
        .reshape(1, length, actions)
        .astype(np.float64),
        "beta": np.array([draw(st.floats(0, 1))]),
        "continues": column(st.booleans()),
    }


@settings(max_examples=300)
@given(streams())
def test_any_stream_equals_the_loop_by_both_paths(case):
    before = scan.SCALAR_LOOP_ELEMENTS
    try:
        for scan.SCALAR_LOOP_ELEMENTS in PATHS.values():
            np.testing.assert_allclose(run(case).numpy(), expected(case), rtol=1e-12, atol=1e-10)
    finally:
        scan.SCALAR_LOOP_ELEMENTS = before


@pytest.mark.parametrize(("gamma", "beta"), [(0.99, 0.5), (0.99, 1.0), (1.0, 1.0), (0.9, 0.0), (1e-3, 1e-3)])
@pytest.mark.parametrize("actions", [1, 4])
def test_a_long_episode_stays_finite_and_exact_in_single_precision(gamma, beta, actions):
    rng = np.random.default_rng(3)
    case = random_episodes(rng, 5000, actions, learners=2)
    case |= {
        "discounts": np.full(5000, gamma),
        "continues": np.ones(5000, bool),
        "beta": np.full(2, beta),
        "rewards": np.sign(case["rewards"]),
    }
    case = {name: np.float32(value) if value.dtype == np.float64 else value for name, value in case.items()}
    got = run(case, torch.float32)
    assert torch.isfinite(got).all()
    assert (np.abs(got.numpy() - expected(case)) <= single_precision_bound(case)).all()


def test_with_one_action_and_full_diffusion_a_long_episode_is_its_return():
    rewards = torch.ones(5000, dtype=torch.float32)
    discounts = torch.ones(5000)
    discounts[-1] = 0.0
    y = backward(rewards, discounts, torch.zeros(5000, dtype=torch.int64), torch.zeros(5000, 1), 1.0)
    assert y.tolist() == list(range(5000, 0, -1))


# ---------------------------------------------------------------------- identities


def test_beta_zero_is_exactly_one_step(path):
    rng = np.random.default_rng(11)
    for _ in range(50):
        case = random_episodes(rng, int(rng.integers(1, 60)), int(rng.integers(1, 6)), learners=3)
        case["beta"] = np.zeros(3)
        single = one_step(*(torch.from_numpy(case[name]) for name in ("rewards", "discounts", "q_next")))
        assert torch.equal(run(case), single)


def test_a_span_of_one_step_makes_all_rules_equal(path):
    rng = np.random.default_rng(12)
    rewards, discounts = (torch.from_numpy(rng.random((64, 1))) for _ in range(2))
    q_next, actions = torch.from_numpy(rng.normal(size=(64, 1, 4))), torch.from_numpy(rng.integers(4, size=(64, 1)))
    single = one_step(rewards, discounts, q_next)
    for beta in (0.0, 0.3, 1.0):
        assert torch.equal(backward(rewards, discounts, actions, q_next, beta), single)
    for n in (1, 2, 5, "episode"):
        assert torch.equal(n_step(rewards, discounts, q_next, n), single)


def test_full_diffusion_is_never_below_the_observed_discounted_return(path):
    rng = np.random.default_rng(13)
    for _ in range(100):
        length = int(rng.integers(1, 80))
        case = random_episodes(rng, length, int(rng.integers(1, 5)), discount=rng.uniform(0.5, 1))
        gamma = case["discounts"].max()
        case |= {
            "continues": np.ones(length, bool),
            "beta": np.ones(1),
            "discounts": np.append(np.full(length - 1, gamma), 0.0),
        }
        observed = np.zeros(length)
        total = 0.0
        for t in range(length - 1, -1, -1):
            observed[t] = total = case["rewards"][t] + gamma * total
        y = run(case)[0].numpy()
        assert (y >= observed - 1e-12 * (1 + np.abs(observed))).all()
        assert y[-1] == observed[-1]


def test_full_diffusion_over_zero_values_and_rewards_of_one_sign(path):
    discounts, actions, zeros = tensor([0.9, 0.9, 0.0]), torch.tensor([0, 1, 0]), torch.zeros(3, 2, dtype=F64)
    gains = backward(tensor([1, 0, 2]), discounts, actions, zeros, 1.0)
    np.testing.assert_allclose(gains, [1 + 0.81 * 2, 0.9 * 2, 2], rtol=1e-15)  # the Monte-Carlo return
    losses = backward(tensor([-1, 0, -2]), discounts, actions, zeros, 1.0)
    np.testing.assert_allclose(losses, [-1, 0, -2], rtol=1e-15)  # the untried action, worth 0, is better than the loss


def test_a_better_untried_action_stops_the_diffusion(path):
    q_next = tensor([[0.0, 5.0], [0.0, 0.0]])
    for beta in (0.0, 0.5, 1.0):
        y = backward(tensor([0, 1]), tensor([0.9, 0.0]), torch.tensor([0, 0]), q_next, beta)
        np.testing.assert_allclose(y, [4.5, 1.0], rtol=1e-15)


def test_targets_rise_with_beta_where_the_future_is_better_than_its_estimate(path):
    """One action, rewards above the values: each y is the larger, the more of the future it takes in."""
    length = 30
    discounts = torch.full((length,), 0.9, dtype=F64)
    arguments = (torch.ones(length, dtype=F64), discounts, torch.zeros(length, dtype=torch.int64))
    betas = torch.linspace(0, 1, 11, dtype=F64)
    y = backward(*arguments, torch.zeros(11, length, 1, dtype=F64), betas)
    assert (y[1:, 0] > y[:-1, 0]).all()


def test_renaming_the_actions_changes_nothing(path):
    rng = np.random.default_rng(14)
    case = random_episodes(rng, 40, 5, learners=2)
    renamed = rng.permutation(5)
    other = case | {"actions": np.argsort(renamed)[case["actions"]], "q_next": case["q_next"][..., renamed]}
    assert torch.equal(run(case), run(other))


# ---------------------------------------------------------------------- ends of episodes


def test_termination_ignores_the_value_beyond_and_truncation_bootstraps(path):
    arguments = (tensor([0, 1]), torch.tensor([0, 0]), tensor([[0.0, 0.0], [10.0, 4.0]]))
    terminated = backward(arguments[0], tensor([0.9, 0.0]), *arguments[1:], 1.0)
    truncated = backward(arguments[0], tensor([0.9, 0.9]), *arguments[1:], 1.0)
    np.testing.assert_allclose(terminated, [0.9, 1.0], rtol=1e-15)
    np.testing.assert_allclose(truncated, [0.9 * 10, 10.0], rtol=1e-15)


def test_the_bootstrap_at_a_truncated_end_takes_the_best_action(path):
    """At a piece's end no action follows: whatever action happens to stand there must not be left out of the max."""
    for best in range(3):
        q_next = torch.zeros(1, 3, dtype=F64)
        q_next[0, best] = 7.0
        for action in range(3):
            assert backward(tensor([1.0]), tensor([0.5]), torch.tensor([action]), q_next, 0.5).tolist() == [4.5]


def test_episodes_end_to_end_equal_episodes_alone(path):
    rng = np.random.default_rng(15)
    for _ in range(30):
        lengths = rng.integers(1, 20, size=4)
        cases = [random_episodes(rng, int(n), 3) for n in lengths]
        for case in cases:
            case |= {"continues": np.append(np.ones(len(case["rewards"]) - 1, bool), False), "beta": np.array([0.7])}
        joined = {
            name: np.concatenate([case[name] for case in cases], axis=-2 if name == "q_next" else -1)
            for name in ("rewards", "discounts", "actions", "q_next", "continues")
        } | {"beta": np.array([0.7])}
        alone = torch.cat([run(case) for case in cases], dim=-1)
        assert torch.allclose(run(joined), alone, rtol=1e-14, atol=1e-14)


def test_nothing_leaks_across_the_end_of_a_piece(path):
    rng = np.random.default_rng(16)
    case = random_episodes(rng, 40, 3, learners=2)
    case["continues"] = np.ones(40, bool)
    case["continues"][19] = False
    before = run(case)
    other = random_episodes(rng, 40, 3, learners=2)
    disturbed = {name: np.array(value) for name, value in case.items()}
    for name in ("rewards", "discounts", "actions"):
        disturbed[name][20:] = other[name][20:] * 3
    disturbed["actions"] %= 3
    disturbed["q_next"][:, 20:] = 1e6
    after = run(disturbed)
    assert torch.equal(before[:, :20], after[:, :20])
    assert not torch.equal(before[:, 20:], after[:, 20:])


def test_whatever_continues_says_of_the_last_step_nothing_follows_it(path):
    case = random_episodes(np.random.default_rng(17), 12, 2)
    case["continues"] = np.ones(12, bool)
    claimed = run(case)
    case["continues"] = np.append(np.ones(11, bool), False)
    assert torch.equal(claimed, run(case))
    tensors = {name: torch.from_numpy(value) for name, value in case.items() if name != "continues"}
    assert torch.equal(claimed, backward(**tensors))


# ---------------------------------------------------------------------- shapes, learners, devices


def test_learners_have_their_own_beta_and_share_everything_else(path):
    case = random_episodes(np.random.default_rng(18), 50, 4, learners=11)
    case["beta"] = np.linspace(0, 1, 11)
    y = run(case)
    assert y.shape == (11, 50)
    for k in range(11):
        lone = {**case, "q_next": case["q_next"][k], "beta": np.float64(case["beta"][k])}
        assert torch.allclose(y[k], run(lone), rtol=1e-14, atol=1e-14)


def test_learners_times_padded_episodes_are_one_call(path):
    """q_next[K, E, T, A] with the episodes' columns [E, T] and one β for each learner [K, 1]."""
    rng = np.random.default_rng(19)
    learners, episodes, length = 3, 4, 15
    cases = [random_episodes(rng, length, 2, learners) for _ in range(episodes)]
    betas = rng.random(learners)

    def stacked(name):
        return torch.from_numpy(np.stack([case[name] for case in cases]))

    q_next = torch.from_numpy(np.stack([case["q_next"] for case in cases], axis=1))
    columns = [stacked(name) for name in ("rewards", "discounts", "actions")]
    y = backward(*columns, q_next, torch.from_numpy(betas)[:, None], stacked("continues"))
    assert y.shape == (learners, episodes, length)
    for e, case in enumerate(cases):
        np.testing.assert_allclose(y[:, e], expected(case | {"beta": betas}), rtol=1e-12, atol=1e-12)


def test_several_betas_over_one_networks_values_give_one_row_each(path):
    case = random_episodes(np.random.default_rng(20), 10, 3)
    betas = np.array([0.0, 0.5, 1.0])
    y = run({**case, "q_next": case["q_next"][0], "beta": betas})
    repeated = case | {"q_next": np.repeat(case["q_next"], 3, axis=0), "beta": betas}
    assert y.shape == (3, 10)
    np.testing.assert_allclose(y, expected(repeated), rtol=1e-12, atol=1e-12)


def test_the_arguments_are_left_as_they_were(path):
    case = random_episodes(np.random.default_rng(21), 30, 3, learners=2)
    tensors = {name: torch.from_numpy(np.array(value)) for name, value in case.items()}
    kept = {name: value.clone() for name, value in tensors.items()}
    backward(**tensors)
    assert all(torch.equal(tensors[name], kept[name]) for name in kept)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("beta", [0.5, "tensor"])
def test_the_dtype_of_the_values_is_kept(path, dtype, beta):
    beta = torch.tensor([0.5, 1.0], dtype=F64) if beta == "tensor" else beta
    zeros, q_next = torch.zeros(3, dtype=dtype), torch.zeros(2, 3, 2, dtype=dtype)
    y = backward(zeros, zeros, torch.zeros(3, dtype=torch.int64), q_next, beta)
    assert y.dtype == dtype and y.shape == (2, 3)


class OnlyOn(TorchDispatchMode):
    """Fails at the first operation whose result lives elsewhere."""

    def __init__(self, device):
        super().__init__()
        self.device, self.seen = device, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor) and leaf.dim() > 0:  # a single number may live on the CPU anywhere
                self.seen += 1
                assert leaf.device.type == self.device, f"{function} made a tensor on {leaf.device}"
        return result


def test_every_rule_stays_on_the_device_of_its_arguments():
    """The meta device has shapes but no data: reading a value, or mixing it with a CPU tensor, is an error there."""
    length, actions = 600, 3
    rewards = torch.zeros(length, device="meta")
    chosen = torch.zeros(length, dtype=torch.int64, device="meta")
    q_next = torch.zeros(2, length, actions, device="meta")
    continues = torch.ones(length, dtype=torch.bool, device="meta")
    with OnlyOn("meta") as watch:
        for y in (
            backward(rewards, rewards, chosen, q_next, 0.5),
            backward(rewards, rewards, chosen, q_next, torch.zeros(2, device="meta"), continues),
            one_step(rewards, rewards, q_next),
            n_step(rewards, rewards, q_next, 3, continues),
            n_step(rewards, rewards, q_next, "episode"),
        ):
            assert y.shape == (2, length) and y.device.type == "meta"
    assert watch.seen > 20


def test_short_inputs_too_stay_on_their_device():
    """The scalar loop is for the CPU: elsewhere it would wait for the device at every number."""
    one = torch.zeros(1, device="meta")
    y = backward(one, one, torch.zeros(1, dtype=torch.int64, device="meta"), torch.zeros(1, 2, device="meta"), 1.0)
    assert y.device.type == "meta"


def test_a_nan_among_the_values_is_not_hidden(path):
    """A network gone wrong must show in its targets, by whichever path they are made."""
    q_next = torch.zeros(3, 2, dtype=F64)
    q_next[1, 0] = float("nan")
    y = backward(torch.zeros(3, dtype=F64), torch.ones(3, dtype=F64), torch.tensor([0, 0, 1]), q_next, 0.5)
    assert torch.isnan(y[1])
