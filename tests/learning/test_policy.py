"""Choosing actions: stacks as the memory rebuilds them, ε-greedy, and no forward pass for a random action."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from ebu.config import NetworkConfig
from ebu.envs.spaces import ObservationSpec
from ebu.learning.policy import FrameStack, Policy
from ebu.networks.ensemble import Ensemble
from ebu.networks.modules import build_network

STATE = np.zeros(2, np.float32)


class Values:
    """Fixed action values that count how often they were asked for."""

    def __init__(self, values):
        self.answer, self.calls = np.array(values, np.float32), 0

    def __call__(self, state):
        self.calls += 1
        return self.answer


# ---------------------------------------------------------------------- frame stacks


def test_a_stack_of_one_is_the_frame_itself():
    frames = FrameStack(1)
    vector = np.arange(3.0)
    assert frames.begin(vector) is vector
    assert frames.push(vector) is vector


def test_a_stack_begins_with_zeros_and_slides():
    frames = FrameStack(3)
    shown = [frames.begin(np.full((1, 2, 2), 1, np.uint8))[:, 0, 0].tolist()]
    shown += [frames.push(np.full((1, 2, 2), t, np.uint8))[:, 0, 0].tolist() for t in (2, 3, 4)]
    assert shown == [[0, 0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4]]


def test_a_new_episode_forgets_the_last_one():
    frames = FrameStack(2)
    frames.begin(np.full((1, 2, 2), 8, np.uint8))
    frames.push(np.full((1, 2, 2), 9, np.uint8))
    assert frames.begin(np.full((1, 2, 2), 1, np.uint8))[:, 0, 0].tolist() == [0, 1]


def test_frames_of_several_channels_stay_together():
    frames = FrameStack(2)
    first, second = np.arange(8, dtype=np.uint8).reshape(2, 2, 2), np.arange(8, 16, dtype=np.uint8).reshape(2, 2, 2)
    frames.begin(first)
    state = frames.push(second)
    assert state.shape == (4, 2, 2) and state.dtype == np.uint8
    assert np.array_equal(state, np.concatenate([first, second]))


# ---------------------------------------------------------------------- ε-greedy


def test_without_exploration_the_best_action_is_taken_and_no_number_drawn():
    values, rng = Values([0.0, 3.0, 1.0]), np.random.default_rng(0)
    before = rng.bit_generator.state
    assert Policy(values, 3).act(STATE, 0.0, rng) == (1, 1.0)
    assert rng.bit_generator.state == before


def test_of_equal_actions_the_first_is_taken():
    assert Policy(Values([1.0, 1.0, 0.0]), 3).act(STATE, 0.0, np.random.default_rng(0))[0] == 0


def test_a_random_action_costs_no_forward_pass():
    values, rng = Values([0.0, 1.0]), np.random.default_rng(1)
    policy = Policy(values, 2)
    for _ in range(100):
        policy.act(STATE, 1.0, rng)
    assert values.calls == 0
    for _ in range(1000):
        policy.act(STATE, 0.9, rng)
    assert values.calls == pytest.approx(100, abs=40)


def test_on_a_real_network_too_random_actions_are_free():
    """Counted where the arithmetic happens: at the forward pass of the network's own modules."""
    spec = ObservationSpec("image", (2, 28, 28), "uint8", scale=1 / 255)
    network = Ensemble(build_network(spec, 4, 1, NetworkConfig()), 1, torch.device("cpu"))
    network.initialise(torch.Generator().manual_seed(0))
    passes = []
    policy = Policy(network.state_values(0), 4)
    network._networks[0].register_forward_hook(lambda *_: passes.append(1))
    state, rng = np.zeros((2, 28, 28), np.uint8), np.random.default_rng(0)
    for _ in range(20):
        policy.act(state, 1.0, rng)
    assert len(passes) == 0
    policy.act(state, 0.0, rng)
    assert len(passes) == 1


def test_random_actions_are_uniform():
    policy, rng = Policy(Values([0.0, 9.0, 0.0, 0.0]), 4), np.random.default_rng(2)
    counts = np.bincount([policy.act(STATE, 1.0, rng)[0] for _ in range(8000)], minlength=4)
    assert stats.chisquare(counts).pvalue > 0.01


@pytest.mark.parametrize("knows_probability", [False, True])
def test_actions_follow_the_epsilon_greedy_distribution(knows_probability):
    epsilon, actions = 0.3, 3
    policy, rng = Policy(Values([0.0, 9.0, 0.0]), actions, knows_probability), np.random.default_rng(3)
    counts = np.bincount([policy.act(STATE, epsilon, rng)[0] for _ in range(9000)], minlength=actions)
    probabilities = np.full(actions, epsilon / actions)
    probabilities[1] += 1 - epsilon
    assert stats.chisquare(counts, 9000 * probabilities).pvalue > 0.01


def test_the_probability_is_that_of_the_action_taken_when_asked_for():
    policy, rng = Policy(Values([0.0, 9.0, 0.0, 0.0]), 4, knows_probability=True), np.random.default_rng(4)
    seen = dict(policy.act(STATE, 0.4, rng) for _ in range(300))
    assert seen == {a: pytest.approx(0.1 + (0.6 if a == 1 else 0.0)) for a in range(4)}
    assert sum(seen.values()) == pytest.approx(1.0)


def test_a_fully_random_policy_knows_its_probability_too():
    policy, rng = Policy(Values([0.0, 9.0]), 2, knows_probability=True), np.random.default_rng(5)
    assert {policy.act(STATE, 1.0, rng)[1] for _ in range(50)} == {0.5}


def test_where_nobody_asks_the_probability_is_one():
    """Whatever action was chosen: half a truth in the memory is worse than none."""
    policy, rng = Policy(Values([0.0, 9.0]), 2), np.random.default_rng(6)
    assert {policy.act(STATE, 0.5, rng)[1] for _ in range(50)} == {1.0}


def test_the_same_generator_gives_the_same_actions():
    policy = Policy(Values([0.0, 9.0, 1.0]), 3)
    runs = []
    for seed in (7, 7, 8):
        rng = np.random.default_rng(seed)
        runs.append([policy.act(STATE, 0.7, rng)[0] for _ in range(50)])
    assert runs[0] == runs[1] != runs[2]
