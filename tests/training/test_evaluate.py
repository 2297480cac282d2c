"""Whole episodes, every one counted, raw rewards, from a generator of their own."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from ebu.learning.policy import Policy
from ebu.training.environment import Environment
from ebu.training.evaluate import discounted_returns, evaluate
from tests.conftest import Corridor, Script


def judge(values_of, env, **settings):
    given = {
        "episodes": 3,
        "epsilon": 0.0,
        "gamma": 0.9,
        "stack": 1,
        "random_first_actions": 0,
        "rng": np.random.default_rng(0),
    }
    clip = settings.pop("reward_clip", 0.0)
    return evaluate(Policy(values_of, env.action_space.n), Environment(env, clip), **given | settings)


def always(action, actions=2):
    return lambda state: np.eye(actions, dtype=np.float32)[action]


def test_discounted_returns_by_hand():
    assert discounted_returns([1.0, 0.0, 2.0], 0.5) == [1.5, 1.0, 2.0]
    assert discounted_returns([], 0.5) == []


def test_the_greedy_walk_down_a_corridor():
    result = judge(always(1), Corridor(length=5))
    assert result.returns == (1.0, 1.0, 1.0)
    assert result.lengths == (4, 4, 4)
    assert result.relative_lengths == (1.0, 1.0, 1.0)
    assert (result.mean, result.std, result.median) == (1.0, 0.0, 1.0)
    assert result.mean_q == 1.0
    assert result.mean_discounted_return == pytest.approx(np.mean([0.9**3, 0.9**2, 0.9, 1.0]))


def test_an_episode_cut_by_its_limit_counts():
    result = judge(always(0), Corridor(length=5, limit=7), episodes=2)
    assert result.returns == (0.0, 0.0)
    assert result.lengths == (7, 7)
    assert result.relative_lengths == (7 / 4, 7 / 4)


def test_scores_are_raw_and_discounted_returns_are_as_learned():
    result = judge(always(0), Script([5.0, -7.0]), reward_clip=1.0, episodes=1)
    assert result.returns == (-2.0,)
    assert result.mean_discounted_return == pytest.approx(np.mean([1 - 0.9, -1.0]))


def test_the_value_is_that_of_the_action_taken():
    env = Script([0.0] * 400)
    result = judge(lambda state: np.array([10.0, 0.0], np.float32), env, epsilon=1.0, episodes=1)
    share = env.taken.count(0) / 400
    assert 0.4 < share < 0.6
    assert result.mean_q == pytest.approx(10.0 * share)


def test_without_epsilon_the_generator_gives_seeds_and_nothing_else():
    rng, twin = np.random.default_rng(3), np.random.default_rng(3)
    env = Corridor()
    judge(always(1), env, rng=rng, episodes=4)
    assert env.seeds == [int(twin.integers(2**31 - 1)) for _ in range(4)]
    assert rng.bit_generator.state == twin.bit_generator.state


def test_the_same_generator_gives_the_same_episodes():
    runs = []
    for seed in (1, 1, 2):
        env = Corridor(limit=50)
        judge(always(1), env, epsilon=0.5, rng=np.random.default_rng(seed))
        runs.append(env.seeds)
    assert runs[0] == runs[1] != runs[2]


def test_random_first_actions_open_each_episode():
    env = Script([0.0] * 5, actions=3)
    judge(always(2, 3), env, random_first_actions=2, episodes=50)
    taken = np.array(env.taken).reshape(50, 5)
    assert set(taken[:, :2].reshape(-1).tolist()) == {0, 1, 2}
    assert (taken[:, 2:] == 2).all()


def test_states_are_stacked_and_begin_anew_with_every_episode():
    frames = np.stack([np.full((8, 8, 1), t + 1, np.uint8) for t in range(4)])
    env = Script([0.0] * 3, frames, space=spaces.Box(0, 255, (8, 8, 1), np.uint8))
    seen = []

    def values_of(state):
        seen.append(state[:, 0, 0].tolist())
        return np.zeros(2)

    judge(values_of, env, stack=3, episodes=2)
    assert seen == [[0, 0, 1], [0, 1, 2], [1, 2, 3]] * 2


def test_an_environment_that_knows_no_shortest_path_has_no_relative_lengths():
    assert judge(always(0), Script([1.0])).relative_lengths == ()
