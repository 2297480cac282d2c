import numpy as np
import pytest
import torch

import ebu
from ebu.learning.rotation import Rotation
from ebu.training.events import Synchronised
from tests.tolerance import RUN


def test_learners_take_turns_by_episode():
    rotation = Rotation(3, interval=10)
    turns = []
    for _ in range(7):
        turns += rotation.playing
        rotation.episode_ended(1.0)
    assert turns == [0, 1, 2, 0, 1, 2, 0]


def test_the_sum_of_scores_decides_by_default_and_the_mean_on_request():
    by_sum, by_mean = Rotation(2, 10, "sum"), Rotation(2, 10, "mean")
    for rotation in (by_sum, by_mean):
        for score in (3.0, 5.0, 3.0):  # learner 0 plays twice: sum 6, mean 3; learner 1 once: 5
            rotation.episode_ended(score)
    assert by_sum.leader() == 0
    assert by_mean.leader() == 1


def test_a_learner_without_a_finished_episode_cannot_be_chosen_even_when_all_scores_are_negative():
    rotation = Rotation(3, 10)
    rotation.episode_ended(-20.0)
    rotation.episode_ended(-5.0)
    assert rotation.leader() == 1


def test_synchronisation_waits_for_the_interval_and_for_a_finished_episode():
    rotation = Rotation(2, interval=100)
    assert not rotation.is_due(150)
    rotation.episode_ended(1.0)
    assert not rotation.is_due(99)
    assert rotation.is_due(100)
    rotation.synchronised(130)
    rotation.episode_ended(1.0)
    assert not rotation.is_due(199)
    assert rotation.is_due(200)


def test_the_recorder_is_reset_and_the_last_choice_remembered():
    rotation = Rotation(2, 10)
    rotation.episode_ended(1.0)
    rotation.episode_ended(2.0)
    rotation.synchronised(10)
    assert rotation.chosen == rotation.leader() == 1
    assert rotation.scores() == {"score_sums": [None, None], "score_means": [None, None]}


def test_one_learner_is_never_synchronised():
    rotation = Rotation(1, 1)
    rotation.episode_ended(1.0)
    assert not rotation.is_due(1_000)


def test_rotation_survives_saving():
    rotation = Rotation(3, 10)
    for score in (1.0, 7.0, 2.0, 4.0):
        rotation.episode_ended(score)
    other = Rotation(3, 10)
    other.load_state_dict(rotation.state_dict())
    assert other.state_dict() == rotation.state_dict()
    assert (other.playing, other.leader()) == ([1], 1)


SETTINGS = {"seed": 3, "learning_starts": 100, "eval_every": 0, "log_every": 200, "hidden_sizes": (32,)}


def test_adaptive_with_one_learner_reproduces_ebu_bit_for_bit():
    lone = ebu.EBU("CartPole-v1", beta=0.7, **SETTINGS).learn(350)
    adaptive = ebu.AdaptiveEBU("CartPole-v1", betas=(0.7,), sync_interval=100, **SETTINGS).learn(350)
    assert torch.equal(lone.loop.learner.online.parameters, adaptive.loop.learner.online.parameters)
    assert torch.equal(lone.loop.learner.target.parameters, adaptive.loop.learner.target.parameters)


@pytest.mark.parametrize("env", ["CartPole-v1", "MinAtar/Breakout-v1"])
def test_each_of_eleven_learners_updates_as_a_lone_learner_with_its_beta_would(double, env):
    """The same episodes, the same starting weights, three updates: only β differs."""
    betas = tuple(k / 10 for k in range(11))
    options = {"seed": 1, "learning_starts": 10**6, "eval_every": 0, "batch_size": 16, "hidden_sizes": (32,)}
    options |= {"exploration_initial_eps": 1.0, "exploration_final_eps": 1.0}
    together = ebu.AdaptiveEBU(env, betas=betas, **options).learn(400)
    start = together.loop.learner.online.parameters.clone()
    for _ in range(3):
        together.loop._learn()
    for k in (0, 3, 10):
        alone = ebu.EBU(env, beta=betas[k], **options).learn(400)
        for network in (alone.loop.learner.online, alone.loop.learner.target):
            network.parameters.copy_(start[k : k + 1])
        for _ in range(3):
            alone.loop._learn()
        assert not torch.equal(alone.loop.learner.online.parameters[0], start[k])
        torch.testing.assert_close(together.loop.learner.online.parameters[k], alone.loop.learner.online.parameters[0], **RUN)


@pytest.mark.parametrize("score", ["sum", "mean"])
def test_synchronisation_copies_the_best_learner_to_all_and_says_so(score):
    events = []
    agent = ebu.AdaptiveEBU("CartPole-v1", betas=(0.0, 0.5, 1.0), sync_interval=200, sync_score=score, **SETTINGS)
    agent.learn(500, callback=events.append)
    syncs = [event for event in events if isinstance(event, Synchronised)]
    assert len(syncs) == 2
    for sync in syncs:
        scores = [-np.inf if s is None else s for s in sync.scores[f"score_{score}s"]]
        assert sync.learner == int(np.argmax(scores))
        assert sync.beta == (0.0, 0.5, 1.0)[sync.learner]


def test_copying_one_learner_to_all_makes_both_networks_equal_and_keeps_each_accumulator():
    learner = ebu.AdaptiveEBU("CartPole-v1", betas=(0.0, 1.0), **SETTINGS).learn(300).loop.learner
    before = learner.state_dict()["optimiser"]["square"].clone()
    best = learner.online.parameters[1].clone()
    assert not torch.equal(learner.online.parameters[0], best)
    learner.copy_to_all(1)
    for network in (learner.online, learner.target):
        assert torch.equal(network.parameters[0], network.parameters[1])
    assert torch.equal(learner.online.parameters[0], best)
    assert torch.equal(learner.state_dict()["optimiser"]["square"], before)
