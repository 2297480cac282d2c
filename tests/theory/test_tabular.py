"""Tabular learners: the toy numbers of the paper, identities between methods, convergence."""

import numpy as np
import pytest

from ebu.theory import tabular
from ebu.theory.mdp import is_optimal, optimal_values
from ebu.theory.tabular import (
    BackwardReplay,
    EpisodeLearner,
    EpisodeReplay,
    OnlineWatkins,
    QLearning,
    Simulator,
    UniformReplay,
    constant,
    robbins_monro,
)
from ebu.theory.toys import (
    branching_chain,
    branching_episodes,
    branching_rewards,
    episode,
    figure1_episode,
    random_mdp,
)

GAMMA = 0.9


def random_episode(rng, states=6, actions=3, length=9, terminated=True):
    return episode(
        rng.integers(states, size=length + 1), rng.integers(actions, size=length), rng.normal(size=length), terminated
    )


def test_algorithm_1_solves_figure_1_in_five_moves_with_the_papers_values():
    learner = BackwardReplay(4, 2, GAMMA, constant(1.0))
    learner.finish(figure1_episode())
    np.testing.assert_allclose(learner.q[:3], [[0, GAMMA**2], [0, GAMMA], [GAMMA**2, 1]])
    assert learner.moves.sum() == 5


@pytest.mark.parametrize("beta", [0.5, 1.0])
def test_algorithm_2_on_figure_1_does_not_share_moves_between_revisits(beta):
    y = tabular.backward(beta)(np.zeros((4, 2)), figure1_episode(), GAMMA)
    np.testing.assert_allclose(y, (beta * GAMMA) ** np.arange(4, -1, -1), atol=1e-15)


def test_algorithm_2_without_revisits_equals_algorithm_1():
    rng = np.random.default_rng(1)
    for _ in range(20):
        once = episode(rng.permutation(8), rng.integers(3, size=7), rng.normal(size=7))
        first, second = BackwardReplay(8, 3, GAMMA, constant(1.0)), None
        first.q[:] = rng.normal(size=(8, 3))
        second = EpisodeLearner(8, 3, GAMMA, constant(1.0), rule=tabular.backward(1.0))
        second.q[:] = first.q
        first.finish(once)
        second.finish(once)
        np.testing.assert_allclose(first.q, second.q, atol=1e-12)


@pytest.mark.parametrize(
    "n, ebu, watkins, small, large", [(3, 3, 5, 5, 3), (5, 5, 12, 12, 5), (8, 8, 24, 24, 8), (12, 12, 44, 44, 12)]
)
def test_appendix_f_episode_counts(n, ebu, watkins, small, large):
    rewards = branching_rewards(n)
    mdp = branching_chain(rewards)
    best, episodes = optimal_values(mdp, 1.0), branching_episodes(rewards)

    def count(rule):
        learner = EpisodeLearner(mdp.states, 2, 1.0, constant(1.0), rule=rule)
        for k in range(1, 100):
            learner.finish(episodes[(k - 1) % n])
            if is_optimal(learner.q, best):
                return k

    assert count(tabular.backward(1.0)) == ebu
    assert count(tabular.watkins(1.0)) == watkins
    assert count(tabular.retrace(1.0)) == watkins
    assert count(tabular.n_step(1)) == watkins
    assert count(tabular.q_star(0.005)) == small
    assert count(tabular.q_star(1.0)) == large


def test_q_star_with_lambda_1_overshoots_on_appendix_f():
    rewards = branching_rewards(3)
    learner = EpisodeLearner(2, 2, 1.0, constant(1.0), rule=tabular.q_star(1.0))
    overshoot = []
    for k in range(6):
        learner.finish(branching_episodes(rewards)[k % 3])
        overshoot.append(learner.q[0, 1])
    assert overshoot[2] == 4.0 > 3.0
    assert overshoot[4] == 3.0


def test_watkins_trace_to_the_first_step_is_cut_at_the_second_state_not_the_first():
    """Appendix F says updating (s1, s2) is cut because s1 prefers s1'. It is cut by s2 preferring s2'."""
    last = branching_episodes(branching_rewards(3))[2]
    prefers_exit_at_s1 = np.array([[2.0, 0.0], [0.0, 0.0]])
    prefers_exit_at_s2 = np.array([[0.0, 0.0], [1.0, 0.0]])
    assert tabular.watkins(1.0)(prefers_exit_at_s1, last, 1.0)[0] == 3.0
    assert tabular.watkins(1.0)(prefers_exit_at_s2, last, 1.0)[0] == 1.0


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 4, 0, 3, 1]])
def test_ebu_is_exact_after_one_pass_over_appendix_f_in_any_order(order):
    rewards = branching_rewards(5)
    learner = EpisodeLearner(4, 2, 1.0, constant(1.0), rule=tabular.backward(1.0))
    for i in order:
        learner.finish(branching_episodes(rewards)[i])
    np.testing.assert_allclose(learner.q.max(1), 5.0)


def test_rules_agree_where_their_definitions_do():
    rng = np.random.default_rng(2)
    for terminated in (True, False):
        q, path = rng.normal(size=(6, 3)), random_episode(rng, terminated=terminated)
        one = tabular.n_step(1)(q, path, GAMMA)
        for rule in (tabular.backward(0.0), tabular.watkins(0.0), tabular.q_star(0.0), tabular.retrace(0.0)):
            np.testing.assert_allclose(rule(q, path, GAMMA), one, atol=1e-12)
        greedy = episode(path.observations, q[path.observations[:-1]].argmax(1), path.rewards, terminated)
        monte_carlo = tabular.n_step("episode")(q, greedy, GAMMA)
        np.testing.assert_allclose(tabular.watkins(1.0)(q, greedy, GAMMA), monte_carlo, atol=1e-12)
        np.testing.assert_allclose(tabular.q_star(1.0)(q, greedy, GAMMA), monte_carlo, atol=1e-12)


def test_retrace_cuts_like_watkins_when_every_greedy_action_was_likely_enough():
    rng = np.random.default_rng(3)
    q, path = rng.normal(size=(6, 3)), random_episode(rng)
    np.testing.assert_allclose(tabular.retrace(0.8)(q, path, GAMMA), tabular.watkins(0.8)(q, path, GAMMA), atol=1e-12)


def test_lins_replay_with_full_recency_and_unit_steps_learns_monte_carlo_returns():
    once = episode(range(6), [0, 1, 0, 1, 0], [1.0, -2.0, 0.5, 0.0, 3.0])
    learner = BackwardReplay(6, 2, GAMMA, constant(1.0), recency=1.0)
    learner.finish(once)
    returns = tabular.n_step("episode")(np.zeros((6, 2)), once, GAMMA)
    np.testing.assert_allclose(learner.q[np.arange(5), once.actions], returns)


def test_a_planted_overestimation_fades_by_beta_gamma_per_step():
    length, beta, error = 12, 0.5, 10.0
    path = episode(range(length + 1), [1] * length, [0.0] * length)
    q = np.zeros((length + 1, 2))
    q[:, 1] = 1.0  # the action taken is the greedy one, so the recursion follows the path
    clean = tabular.backward(beta)(q, path, GAMMA)
    q[length - 1, 0] = 1.0 + error
    planted = tabular.backward(beta)(q, path, GAMMA) - clean
    ratios = planted[: length - 2] / planted[1 : length - 1]
    np.testing.assert_allclose(ratios, beta * GAMMA, rtol=1e-10)


def test_online_watkins_equals_q_learning_without_traces():
    rng = np.random.default_rng(4)
    first, second = QLearning(6, 3, GAMMA, constant(0.3)), OnlineWatkins(6, 3, GAMMA, constant(0.3), trace_lambda=0.0)
    for _ in range(300):
        s, a, following = (int(rng.integers(n)) for n in (6, 3, 6))
        step = (s, a, float(rng.normal()), following, bool(rng.random() < 0.1))
        first.observe(*step)
        second.observe(*step)
    np.testing.assert_allclose(first.q, second.q, atol=1e-12)


def test_online_watkins_sends_a_reward_back_along_greedy_steps_only():
    learner = OnlineWatkins(5, 2, 1.0, constant(1.0), trace_lambda=1.0)
    learner.q[1, 1] = 0.5  # leaving state 1 by action 0 is not greedy
    for step in [(0, 0, 0.0, 1, False), (1, 0, 0.0, 2, False), (2, 0, 0.0, 3, False), (3, 0, 1.0, 4, True)]:
        learner.observe(*step)
    np.testing.assert_allclose(learner.q[1:4, 0], 1.0)
    assert learner.q[0, 0] == 0.5


def test_the_same_seed_gives_the_same_table():
    def run():
        rng = np.random.default_rng(7)
        mdp = random_mdp(np.random.default_rng(1), 8, 2, 2)
        learner = EpisodeReplay(8, 2, 1.0, robbins_monro(), rule=tabular.backward(0.5), rng=rng)
        simulator = Simulator(mdp, rng, 0.5, 20)
        for _ in range(50):
            simulator.episode(learner)
        return learner.q

    np.testing.assert_array_equal(run(), run())


def test_the_simulator_records_the_chance_of_each_action():
    mdp = random_mdp(np.random.default_rng(2), 8, 4)
    learner = tabular.TabularLearner(8, 4, 1.0, constant(1.0))
    learner.q[:, 2] = 1.0
    simulator = Simulator(mdp, np.random.default_rng(0), 0.2, 20)
    for _ in range(30):
        path = simulator.episode(learner)
        np.testing.assert_allclose(path.behaviour, np.where(path.actions == 2, 0.85, 0.05))


LEARNERS = {
    "ebu 0.5": lambda *common, rng: EpisodeLearner(*common, rule=tabular.backward(0.5)),
    "ebu 1.0": lambda *common, rng: EpisodeLearner(*common, rule=tabular.backward(1.0)),
    "ebu replay": lambda *common, rng: EpisodeReplay(*common, rule=tabular.backward(1.0), rng=rng),
    "algorithm 1": lambda *common, rng: BackwardReplay(*common),
    "uniform": lambda *common, rng: UniformReplay(*common, rng=rng),
    "watkins": lambda *common, rng: EpisodeLearner(*common, rule=tabular.watkins(1.0)),
}


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("acyclic", [True, False])
def test_robbins_monro_steps_reach_the_optimum_of_a_random_deterministic_mdp(name, acyclic):
    """Theorem 1, at tolerance 0.01 of the largest value after 1500 uniformly random episodes."""
    mdp = random_mdp(np.random.default_rng(11), 7, 2, 1, acyclic)
    rng = np.random.default_rng(0)
    learner = LEARNERS[name](7, 2, 0.8, robbins_monro(), rng=rng)
    simulator = Simulator(mdp, rng, 1.0, 30)
    for _ in range(1500):
        simulator.episode(learner)
    best = optimal_values(mdp, 0.8)
    assert np.abs(learner.q - best).max() < 0.01 * np.abs(best).max()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_robbins_monro_steps_reach_the_optimum_of_many_random_deterministic_mdps(seed):
    """Theorem 1 at tolerance 0.02 for β = 0, ¼ … 1 on twenty MDPs with cycles, γ = 0.8, 4000 episodes."""
    mdp = random_mdp(np.random.default_rng(seed), 10, 3, 1, acyclic=False)
    best = optimal_values(mdp, 0.8)
    for beta in (0.0, 0.25, 0.5, 0.75, 1.0):
        rng = np.random.default_rng(seed)
        learner = EpisodeLearner(10, 3, 0.8, robbins_monro(), rule=tabular.backward(beta))
        simulator = Simulator(mdp, rng, 1.0, 30)
        for _ in range(4000):
            simulator.episode(learner)
        assert np.abs(learner.q - best).max() < 0.02 * np.abs(best).max()
