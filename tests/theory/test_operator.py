"""The episodic backward operator: closed form, contraction, fixed point."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebu.errors import UserError
from ebu.theory.mdp import optimal_values
from ebu.theory.operator import PathSet, any_behaviour, candidates, closed_form, modulus, uniform_behaviour
from ebu.theory.tabular import backward
from ebu.theory.toys import episode, random_mdp, tied_coins

seeds = st.integers(0, 2**32 - 1)
betas = st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0, 1))
gammas = st.floats(0.05, 0.99)


@settings(max_examples=80, deadline=None)
@given(seeds, betas, gammas, st.integers(1, 4), st.integers(1, 12), st.booleans())
def test_the_deep_rules_recursion_is_the_best_of_the_papers_candidates(seed, beta, gamma, actions, length, terminated):
    rng = np.random.default_rng(seed)
    q = rng.normal(size=(5, actions))
    path = episode(rng.integers(5, size=length + 1), rng.integers(actions, size=length), rng.normal(size=length), terminated)
    y = backward(beta)(q, path, gamma)
    for t in range(length):
        rest = episode(path.observations[t:], path.actions[t:], path.rewards[t:], terminated)
        assert y[t] == pytest.approx(closed_form(q, rest, beta, gamma), abs=1e-12)


def test_candidates_by_hand():
    q = np.array([[0.0, 0.0], [5.0, 2.0], [1.0, 3.0], [0.0, 0.0]])
    path = episode([0, 1, 2, 3], [0, 1, 0], [1.0, 1.0, 4.0])
    beta, gamma = 0.5, 0.8
    leave_at_1 = 5.0
    leave_at_2 = (0.5 * 1 + 0.5 * 2) + 0.4 * 3
    stay = (0.5 * 1 + 0.5 * 2) + 0.4 * (0.5 * 4 + 0.5 * 1)
    np.testing.assert_allclose(candidates(q, path, beta, gamma), [leave_at_1, leave_at_2, stay])
    assert closed_form(q, path, beta, gamma) == 1 + 0.8 * 5


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 30), st.floats(0, 1), st.floats(0, 0.999))
def test_a_candidate_never_amplifies_a_difference(j, beta, gamma):
    weights = (1 - beta) * sum((beta * gamma) ** k for k in range(j - 1)) + (beta * gamma) ** (j - 1)
    assert modulus(j, beta, gamma) == pytest.approx(weights, abs=1e-12)
    assert modulus(j, beta, gamma) <= 1 + 1e-12
    assert modulus(1, beta, gamma) == pytest.approx(1)


def path_set(seed, acyclic, outcomes=1, rescheduled=True):
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, 5, 2, outcomes, acyclic)
    paths = PathSet.of(mdp, any_behaviour(rng, 2), horizon=5 if outcomes == 1 else 4)
    return rng, mdp, paths.rescheduled(rng) if rescheduled else paths


@settings(max_examples=40, deadline=None)
@given(seeds, betas, gammas, st.booleans())
def test_the_operator_contracts_by_gamma_on_deterministic_mdps_for_any_schedule(seed, beta, gamma, acyclic):
    rng, _, paths = path_set(seed, acyclic)
    first, second = rng.normal(size=(2, *paths.shape)) * rng.exponential(5)
    apart = np.abs(first - second).max()
    assert np.abs(paths.apply(first, beta, gamma) - paths.apply(second, beta, gamma)).max() <= gamma * apart + 1e-12


@settings(max_examples=40, deadline=None)
@given(seeds, betas, gammas, st.booleans())
def test_the_optimum_is_the_operators_fixed_point_on_deterministic_mdps_for_any_schedule(seed, beta, gamma, acyclic):
    """Paths with cycles are cut off and bootstrap there, which leaves the fixed point where it is."""
    _, mdp, paths = path_set(seed, acyclic)
    best = optimal_values(mdp, gamma)
    np.testing.assert_allclose(paths.apply(best, beta, gamma), best, atol=1e-10)


def test_applying_operators_of_changing_schedules_reaches_the_optimum():
    rng, mdp, paths = path_set(5, acyclic=False)
    best, q = optimal_values(mdp, 0.9), np.zeros(paths.shape)
    for _ in range(250):
        q = paths.rescheduled(rng).apply(q, beta=float(rng.random()), gamma=0.9)
    np.testing.assert_allclose(q, best, atol=1e-9)


@settings(max_examples=30, deadline=None)
@given(seeds, betas, gammas, st.booleans())
def test_the_operator_contracts_on_stochastic_mdps_too(seed, beta, gamma, acyclic):
    """So it has one fixed point there as well; only that need not be the optimum."""
    rng, _, paths = path_set(seed, acyclic, outcomes=2, rescheduled=False)
    first, second = rng.normal(size=(2, *paths.shape))
    apart = np.abs(first - second).max()
    assert np.abs(paths.apply(first, beta, gamma) - paths.apply(second, beta, gamma)).max() <= gamma * apart + 1e-12


@settings(max_examples=20, deadline=None)
@given(seeds, gammas, st.booleans())
def test_without_diffusion_the_operator_is_bellmans(seed, gamma, acyclic):
    rng, mdp, paths = path_set(seed, acyclic, outcomes=2, rescheduled=False)
    q = rng.normal(size=paths.shape)
    np.testing.assert_allclose(paths.apply(q, 0.0, gamma), mdp.expect(mdp.after(q.max(1), gamma)), atol=1e-12)


def test_weights_of_the_paths_from_each_pair_sum_to_one():
    _, _, paths = path_set(3, acyclic=False, outcomes=2, rescheduled=False)
    np.testing.assert_allclose(paths._sums(paths.weights), 1.0)
    np.testing.assert_allclose(paths._sums(paths.rescheduled(np.random.default_rng(0)).weights), 1.0)


def test_the_optimum_is_not_a_fixed_point_when_equal_coins_are_tied():
    mdp = tied_coins()
    paths = PathSet.of(mdp, uniform_behaviour(2), horizon=5)
    best = optimal_values(mdp, 1.0)
    assert paths.apply(best, 1.0, 1.0)[0, 0] == pytest.approx(0.75)


def test_too_many_paths_are_refused_with_the_way_out():
    with pytest.raises(UserError, match="lower the horizon"):
        PathSet.of(random_mdp(np.random.default_rng(0), 6, 3, 3, False, 0.0), uniform_behaviour(3), 12, limit=1000)
