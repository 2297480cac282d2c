import numpy as np
import pytest
import torch

from ebu import targets
from tests.reference.double import double_algorithm_2


def random_case(rng, steps, actions):
    discounts = np.where(rng.random(steps) < 0.1, 0.0, 0.95)
    continues = (rng.random(steps) < 0.85) & (discounts > 0)
    return (
        rng.normal(size=steps),
        discounts,
        rng.integers(actions, size=steps),
        rng.normal(size=(steps, actions)),
        rng.normal(size=(steps, actions)),
        continues,
    )


@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0])
def test_double_backward_equals_the_two_tables_on_random_episodes(beta):
    rng = np.random.default_rng(5)
    for _ in range(300):
        steps, actions = int(rng.integers(1, 30)), int(rng.integers(1, 5))
        r, d, a, q, online, c = random_case(rng, steps, actions)
        expected = double_algorithm_2(r, d, a, q, online, beta, c)
        tensors = [torch.from_numpy(x) for x in (r, d, a, q, online)]
        y = targets.double_backward(*tensors, beta, torch.from_numpy(c))
        np.testing.assert_allclose(y.numpy(), expected, atol=1e-12)


def test_with_beta_zero_it_is_double_dqn():
    rng = np.random.default_rng(0)
    r, d, a, q, online, _ = (torch.from_numpy(x) for x in random_case(rng, 40, 3))
    expected = targets.one_step(r, d, targets.chosen_by(q, online))
    torch.testing.assert_close(targets.double_backward(r, d, a, q, online, 0.0), expected)


def test_with_one_network_for_both_it_is_the_plain_rule():
    rng = np.random.default_rng(1)
    r, d, a, q, _, c = (torch.from_numpy(x) for x in random_case(rng, 60, 4))
    for beta in (0.0, 0.5, 1.0):
        torch.testing.assert_close(targets.double_backward(r, d, a, q, q, beta, c), targets.backward(r, d, a, q, beta, c))


def test_watkins_with_the_online_network_cuts_and_chooses_by_it():
    """Two steps by hand: online prefers action 1 at S_1, which was taken, so the trace goes on; target values count."""
    r, d, a = torch.tensor([1.0, 2.0]), torch.tensor([0.5, 0.0]), torch.tensor([0, 1])
    q, online = torch.tensor([[9.0, 4.0], [0.0, 0.0]]), torch.tensor([[0.0, 1.0], [0.0, 0.0]])
    y = targets.watkins(r, d, a, q, 0.5, q_online_next=online)
    # y_1 = 2; y_0 = 1 + 0.5 · (4 + 0.5 · (2 − 4)) = 2.5; without online the greedy 9 cuts: 1 + 0.5 · 9
    torch.testing.assert_close(y, torch.tensor([2.5, 2.0]))
    torch.testing.assert_close(targets.watkins(r, d, a, q, 0.5), torch.tensor([5.5, 2.0]))


def test_learners_have_their_own_beta_and_values():
    rng = np.random.default_rng(2)
    r, d, a, _, _, _ = (torch.from_numpy(x) for x in random_case(rng, 20, 3))
    q, online = torch.randn(3, 20, 3, dtype=torch.float64), torch.randn(3, 20, 3, dtype=torch.float64)
    betas = torch.tensor([0.0, 0.5, 1.0], dtype=torch.float64)
    together = targets.double_backward(r, d, a, q, online, betas)
    for k in range(3):
        torch.testing.assert_close(together[k], targets.double_backward(r, d, a, q[k], online[k], float(betas[k])))
