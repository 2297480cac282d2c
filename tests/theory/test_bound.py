"""Theorem 2: the printed bounds, where they fail, and the corrected ones."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebu.errors import UserError
from ebu.theory.bound import bound_for, bounds
from ebu.theory.mdp import optimal_values
from ebu.theory.operator import PathSet, any_behaviour
from ebu.theory.toys import late_coin, noisy_optimal_arm, noisy_suboptimal_arm, random_mdp, tied_coins

seeds = st.integers(0, 2**32 - 1)


def bias(mdp, beta, gamma=1.0, behaviour=None):
    """E[y] − Q* of every pair with Q* in the table, over every path."""
    behaviour = behaviour or any_behaviour(np.random.default_rng(0), mdp.actions)
    best = optimal_values(mdp, gamma)
    return PathSet.of(mdp, behaviour, horizon=mdp.states + 1).apply(best, beta, gamma) - best


def noisy_arm_with(chance, arm):
    return lambda state: np.eye(2)[arm] * chance + np.eye(2)[1 - arm] * (1 - chance)


@pytest.mark.parametrize("chance", [0.2, 0.5, 1.0])
@pytest.mark.parametrize("beta", [0.0, 0.2, 2 / 7, 0.3, 0.6, 1.0])
def test_a_noisy_suboptimal_arm_biases_the_target_beyond_two_sevenths(beta, chance):
    expected = 0.3 * chance * max(0.0, 0.7 * beta - 0.2)
    assert bias(noisy_suboptimal_arm(), beta, behaviour=noisy_arm_with(chance, 1))[0] == pytest.approx(expected)


@pytest.mark.parametrize("chance", [0.2, 0.5, 1.0])
@pytest.mark.parametrize("beta", [0.0, 0.2, 0.4, 0.41, 0.6, 1.0])
def test_a_noisy_optimal_arm_biases_the_target_beyond_two_fifths(beta, chance):
    expected = 0.5 * chance * max(0.0, 0.5 * beta - 0.2)
    assert bias(noisy_optimal_arm(), beta, behaviour=noisy_arm_with(chance, 0))[0] == pytest.approx(expected)


def test_the_printed_bounds_are_right_about_the_two_exact_examples():
    first, second = bounds(noisy_suboptimal_arm(), 1.0), bounds(noisy_optimal_arm(), 1.0)
    assert first.printed == pytest.approx(2 / 7) and first.corrected == pytest.approx(2 / 7)
    assert second.printed == pytest.approx(2 / 5) and second.corrected == pytest.approx(2 / 5)
    assert first.exact == pytest.approx(2 / 7, abs=1e-6) and second.exact == pytest.approx(2 / 5, abs=1e-6)


def test_counterexample_a_theorem_2_allows_any_beta_and_the_target_is_biased_beyond_one_fifth():
    mdp = late_coin()
    found = bounds(mdp, 1.0)
    assert found.printed == np.inf
    assert found.corrected == pytest.approx(0.2) and found.exact == pytest.approx(0.2, abs=1e-6)
    take_the_coin = noisy_arm_with(1.0, 0)
    assert bias(mdp, 0.2, behaviour=take_the_coin)[0] == pytest.approx(0, abs=1e-12)
    assert bias(mdp, 0.21, behaviour=take_the_coin)[0, 0] > 1e-3
    assert bias(mdp, 1.0, behaviour=take_the_coin)[0] == pytest.approx(0.2)  # E[y] = 0.7 for Q* = 0.5


def test_counterexample_b_tied_coins_are_biased_for_every_positive_beta():
    found = bounds(tied_coins(), 1.0)
    assert found.printed == np.inf
    assert found.corrected == 0 and found.exact == 0 and found.random_ties == 1
    for beta in (0.01, 0.1, 1.0):
        assert bias(tied_coins(), beta)[0] == pytest.approx(beta / 4)


def test_learning_on_counterexample_a_ends_at_the_biased_value():
    """The operator contracts, so it has one fixed point; with β = 1 that is 0.7 where the optimum is 0.5."""
    paths = PathSet.of(late_coin(), noisy_arm_with(0.999, 0), horizon=4)
    for beta, value in ((0.2, 0.5), (1.0, 0.7)):
        q = np.zeros(paths.shape)
        for _ in range(20):
            q = paths.apply(q, beta, 1.0)
        assert q[0, 0] == pytest.approx(value, abs=1e-3)


@settings(max_examples=60, deadline=None)
@given(seeds, st.floats(0.3, 1.0))
def test_the_target_is_unbiased_at_the_optimum_up_to_the_corrected_and_the_exact_bound(seed, gamma):
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, 5, 2, 2)
    found = bounds(mdp, gamma)
    assert min(1.0, found.corrected) <= found.exact + 1e-6
    for beta in (min(1.0, found.corrected), found.exact, found.exact * rng.random()):
        assert np.abs(bias(mdp, beta, gamma, any_behaviour(rng, 2))).max() < 1e-6


@settings(max_examples=60, deadline=None)
@given(seeds, st.floats(0.3, 1.0))
def test_the_target_is_biased_upwards_just_beyond_the_exact_bound(seed, gamma):
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, 5, 2, 2)
    exact = bounds(mdp, gamma).exact
    if exact < 0.98:
        found = bias(mdp, exact + 0.02, gamma, any_behaviour(rng, 2))
        assert found.max() > 1e-9
        assert found.min() > -1e-9


@settings(max_examples=30, deadline=None)
@given(seeds, st.floats(0.1, 0.95), st.booleans())
def test_deterministic_mdps_have_no_bound(seed, gamma, acyclic):
    mdp = random_mdp(np.random.default_rng(seed), 6, 3, 1, acyclic)
    found = bounds(mdp, gamma)
    assert (found.printed, found.corrected, found.exact, found.binding) == (np.inf, np.inf, 1.0, None)


@settings(max_examples=10, deadline=None)
@given(seeds)
def test_cycles_keep_the_corrected_bound_below_the_exact_one(seed):
    found = bounds(random_mdp(np.random.default_rng(seed), 6, 2, 2, acyclic=False), 0.9)
    assert min(1.0, found.corrected) <= found.exact + 1e-6


def test_paths_cut_off_in_a_cyclic_mdp_stay_unbiased_up_to_the_exact_bound():
    rng = np.random.default_rng(8)
    mdp = random_mdp(rng, 5, 2, 2, acyclic=False)
    best, exact = optimal_values(mdp, 0.8), bounds(mdp, 0.8).exact
    paths = PathSet.of(mdp, any_behaviour(rng, 2), horizon=5)
    np.testing.assert_allclose(paths.apply(best, exact, 0.8), best, atol=1e-6)


def test_frozen_lake_has_tied_actions_so_no_positive_beta_is_safe():
    found = bound_for("FrozenLake-v1")
    assert found.exact == 0 and found.random_ties > 0 and found.printed > 0
    assert "no β > 0 is safe" in found.describe()


def test_the_description_names_every_bound():
    text = bound_for("example-a").describe()
    assert "printed" in text and "corrected" in text and "largest safe β          0.2" in text
    assert "larger, biased β" in text


def test_cycles_without_discount_are_refused():
    with pytest.raises(UserError, match="choose γ below 1"):
        bound_for("FrozenLake-v1", gamma=1.0)
