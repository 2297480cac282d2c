"""Finite MDPs: exact values, generators, and the way to and from Gymnasium."""

import gymnasium
import numpy as np
import pytest

from ebu.errors import UserError
from ebu.theory.mdp import MDP, TabularEnv, from_gymnasium, greedy_policy, is_optimal, optimal_values, policy_value
from ebu.theory.toys import (
    branching_chain,
    branching_episodes,
    branching_rewards,
    figure1_chain,
    late_coin,
    named_mdp,
    random_mdp,
)


def test_figure_1_values_are_powers_of_the_discount():
    g = 0.9
    left, right = optimal_values(figure1_chain(), g)[:3].T
    np.testing.assert_allclose(right, [g**2, g, 1], atol=1e-12)
    np.testing.assert_allclose(left, [g**3, g**3, g**2], atol=1e-12)


@pytest.mark.parametrize("n", [3, 5, 12])
def test_branching_chain_is_worth_its_far_end_everywhere(n):
    rewards = branching_rewards(n)
    q = optimal_values(branching_chain(rewards), 1.0)
    np.testing.assert_allclose(q[:, 0], rewards[:-1])
    np.testing.assert_allclose(q[:, 1], n)


def test_branching_episodes_are_possible_in_the_branching_chain():
    rewards = branching_rewards(6)
    mdp = branching_chain(rewards)
    for episode in branching_episodes(rewards):
        for t in range(len(episode)):
            outcome = (1.0, *(int(episode.observations[t + 1]), float(episode.rewards[t]), t == len(episode) - 1))
            assert mdp.outcomes(int(episode.observations[t]), int(episode.actions[t])) == [outcome]


def test_counterexample_a_has_the_values_its_text_says():
    q = optimal_values(late_coin(), 1.0)
    np.testing.assert_allclose(q, [[0.5, 0.5], [0.5, 0.4], [1, 1], [0, 0]])


def test_values_solve_the_bellman_equation_on_random_mdps():
    rng = np.random.default_rng(0)
    for acyclic, outcomes in [(True, 1), (True, 3), (False, 1), (False, 3)]:
        mdp = random_mdp(rng, 7, 3, outcomes, acyclic)
        q = optimal_values(mdp, 0.95)
        np.testing.assert_allclose(q, mdp.expect(mdp.after(q.max(1), 0.95)), atol=1e-11)
        assert mdp.deterministic == (outcomes == 1)
        if acyclic:
            assert mdp.acyclic


def test_a_cycle_is_noticed():
    assert not figure1_chain().acyclic
    assert branching_chain(branching_rewards(4)).acyclic


def test_undiscounted_cycles_are_refused_with_the_way_out():
    with pytest.raises(UserError, match="choose γ below 1"):
        optimal_values(figure1_chain(), 1.0)


def test_probabilities_that_do_not_sum_to_one_are_refused():
    with pytest.raises(UserError, match=r"state 0, action 0 sum to 0\.9"):
        MDP.from_table({0: {0: [(0.9, 0, 0.0, True)]}})


@pytest.mark.parametrize("name", ["FrozenLake-v1", "CliffWalking-v1"])
def test_an_mdp_survives_the_way_to_gymnasium_and_back(name):
    if name not in gymnasium.registry:
        pytest.skip(f"this Gymnasium has no {name}")
    first = from_gymnasium(name)
    second = from_gymnasium(TabularEnv(first))
    assert second.table() == first.table()
    np.testing.assert_array_equal(second.start, first.start)


def test_the_environment_made_of_an_mdp_follows_its_table():
    env = TabularEnv(late_coin())
    counts = np.zeros(4)
    for seed in range(300):
        state, _ = env.reset(seed=seed)
        assert state == 0
        env.step(0)
        state, reward, terminated, truncated, _ = env.step(0)
        assert (reward, terminated, truncated) == (0.0, False, False)
        counts[state] += 1
    assert counts[:2].sum() == 0 and abs(counts[2] - 150) < 40


def test_an_environment_without_a_table_is_refused():
    with pytest.raises(UserError, match="does not expose its outcomes"):
        from_gymnasium("CartPole-v1")


def test_an_unknown_name_lists_the_toys():
    with pytest.raises(UserError, match="example-a"):
        named_mdp("NoSuchEnv-v0")


def test_policy_value_of_the_optimal_policy_is_the_optimal_value():
    mdp = from_gymnasium("FrozenLake-v1")
    q = optimal_values(mdp, 0.9)
    assert policy_value(mdp, greedy_policy(q), 0.9, horizon=400) == pytest.approx(mdp.start @ q.max(1), abs=1e-10)


def test_ties_share_the_greedy_policy():
    np.testing.assert_allclose(
        greedy_policy(np.array([[0.0, 0, 0], [1, 0, 1], [0, 0, 2]])), [[1 / 3] * 3, [0.5, 0, 0.5], [0, 0, 1]]
    )


def test_a_tie_with_a_suboptimal_action_is_not_an_optimal_policy():
    best = np.array([[1.0, 0.5]])
    assert not is_optimal(np.zeros((1, 2)), best)
    assert is_optimal(np.array([[0.1, 0.0]]), best)
    assert is_optimal(np.zeros((1, 2)), np.ones((1, 2)))
