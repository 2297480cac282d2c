"""EBU and Peng's Q(λ) as algorithms of Stable-Baselines3, with the real library."""

from __future__ import annotations

import subprocess
import sys

import gymnasium
import numpy as np
import pytest

pytest.importorskip("stable_baselines3")
import torch
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import CheckpointCallback, EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.envs import FakeImageEnv, SimpleMultiObsEnv
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecNormalize

from ebu.errors import UserError
from ebu.sb3 import EBU, DictEpisodeReplayBuffer, EpisodeReplayBuffer, PengQ
from tests.conftest import Corridor
from tests.reference.backward import algorithm_2
from tests.waiting import PATIENCE

SMALL = {"learning_starts": 60, "buffer_size": 1_000, "seed": 0, "device": "cpu"}
TINY = {**SMALL, "policy_kwargs": {"net_arch": [8]}}
ALGORITHMS = [EBU, PengQ]


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.policy.parameters()])


def targets_by_hand(model, episodes, rule):
    """Targets of each episode on its own, from the target network's values."""
    values = model.q_net_target(episodes.next_observations).detach()
    found, start = [], 0
    for end in (~episodes.continues).nonzero().flatten().tolist():
        rows = slice(start, end + 1)
        discounts = model.gamma * (1 - episodes.terminated[rows])
        found += rule(
            episodes.rewards[rows].tolist(), discounts.tolist(), episodes.actions[rows].tolist(), values[rows].tolist()
        )
        start = end + 1
    return found


def peng_loop(rewards, discounts, trace_lambda, values):
    y, following = [], None
    for r, d, row in reversed(list(zip(rewards, discounts, values))):
        following = r + d * (max(row) if following is None else (1 - trace_lambda) * max(row) + trace_lambda * following)
        y.append(following)
    return y[::-1]


RULES = {
    EBU: lambda model: lambda r, d, a, q: algorithm_2(r, d, a, q, model.beta).tolist(),
    PengQ: lambda model: lambda r, d, a, q: peng_loop(r, d, model.trace_lambda, q),
}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("normalised", [False, True])
def test_targets_are_those_of_each_episode_with_rewards_as_they_are_normalised_now(algorithm, normalised):
    env = make_vec_env(lambda: Corridor(5, limit=9), n_envs=2, seed=0)
    env = VecNormalize(env) if normalised else env
    model = algorithm("MlpPolicy", env, **TINY)
    model.learn(120)
    episodes = model.replay_buffer.sample_episodes(50, np.random.default_rng(1), model._vec_normalize_env)
    assert episodes.terminated.sum() > 0 and (~episodes.continues).sum() > episodes.terminated.sum()  # ended, and cut
    raw = model.replay_buffer.sample_episodes(50, np.random.default_rng(1))
    assert torch.equal(raw.rewards, episodes.rewards) != normalised
    if normalised:
        np.testing.assert_allclose(env.normalize_reward(raw.rewards.numpy()), episodes.rewards, rtol=1e-6)
    expected = targets_by_hand(model, episodes, RULES[algorithm](model))
    np.testing.assert_allclose(model._targets_of(episodes), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("double_q", [False, True])
def test_without_looking_ahead_both_are_dqn(algorithm, double_q):
    """β = 0 and λ = 0 are one-step targets."""
    option = {"beta": 0.0} if algorithm is EBU else {"trace_lambda": 0.0}
    model = algorithm("MlpPolicy", "CartPole-v1", double_q=double_q, **option, **TINY)
    model.learn(100)
    episodes = model.replay_buffer.sample_episodes(50, np.random.default_rng(1))
    with torch.no_grad():
        table = model.q_net_target(episodes.next_observations)
        best = model.q_net(episodes.next_observations).argmax(1, keepdim=True) if double_q else table.argmax(1, keepdim=True)
        expected = episodes.rewards + model.gamma * (1 - episodes.terminated) * table.gather(1, best).squeeze(1)
    torch.testing.assert_close(model._targets_of(episodes), expected)


ENVIRONMENTS = {
    "MlpPolicy": lambda: gymnasium.make("CartPole-v1"),
    "CnnPolicy": lambda: FakeImageEnv(screen_height=36, screen_width=36, n_channels=1, discrete=True),
    "MultiInputPolicy": lambda: SimpleMultiObsEnv(random_start=False),
}


@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("policy", ENVIRONMENTS)
def test_every_policy_learns_with_one_environment_and_several(policy, n_envs):
    narrow = {"net_arch": [8]} | ({} if policy == "MlpPolicy" else {"features_extractor_kwargs": _narrow(policy)})
    model = EBU(policy, make_vec_env(ENVIRONMENTS[policy], n_envs=n_envs), policy_kwargs=narrow, batch_size=8, **SMALL)
    before = weights(model)
    model.learn(90)
    assert model._n_updates > 0 and not torch.equal(before, weights(model))
    kind = DictEpisodeReplayBuffer if policy == "MultiInputPolicy" else EpisodeReplayBuffer
    assert type(model.replay_buffer) is kind
    evaluate_policy(model, ENVIRONMENTS[policy](), n_eval_episodes=1, warn=False)


def _narrow(policy):
    return {"features_dim": 8} if policy == "CnnPolicy" else {"cnn_output_dim": 8}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_saved_model_acts_the_same_and_learns_on(algorithm, tmp_path):
    model = algorithm("MlpPolicy", "CartPole-v1", double_q=True, **TINY).learn(100)
    model.save(tmp_path / "model")
    model.save_replay_buffer(tmp_path / "replay")
    loaded = algorithm.load(tmp_path / "model", env=gymnasium.make("CartPole-v1"), device="cpu")
    observations = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    assert np.array_equal(*(m.predict(observations, deterministic=True)[0] for m in (model, loaded)))
    look_ahead = "beta" if algorithm is EBU else "trace_lambda"
    assert (getattr(loaded, look_ahead), loaded.double_q) == (getattr(model, look_ahead), True)
    loaded.load_replay_buffer(tmp_path / "replay")
    assert loaded.replay_buffer.size() == 100 and loaded.replay_buffer.episodes == model.replay_buffer.episodes + 1
    loaded.learn(52, reset_num_timesteps=False)
    assert loaded.num_timesteps == 152 and loaded.replay_buffer.size() == 152


def test_a_second_learn_does_not_join_the_episode_it_left_with_a_new_one():
    model = EBU("MlpPolicy", Corridor(60, limit=1_000), **TINY)
    model.learn(32)
    model.learn(20)
    assert [list(found) for found in model.replay_buffer._finished] == [[(0, 32)]]
    model.learn(20, reset_num_timesteps=False)  # which does not reset the environment
    assert [list(found) for found in model.replay_buffer._finished] == [[(0, 32)]]


def test_same_seed_same_weights():
    first, second, other = (EBU("MlpPolicy", "CartPole-v1", **{**TINY, "seed": seed}).learn(150) for seed in (3, 3, 4))
    assert torch.equal(weights(first), weights(second)) and not torch.equal(weights(first), weights(other))


def test_callbacks_and_the_logger_of_sb3_see_it(tmp_path):
    model = EBU("MlpPolicy", "CartPole-v1", tensorboard_log=str(tmp_path / "logs"), **TINY)
    evaluations = EvalCallback(gymnasium.make("CartPole-v1"), eval_freq=50, n_eval_episodes=1, verbose=0, warn=False)
    model.learn(
        100, callback=[evaluations, CheckpointCallback(50, str(tmp_path / "saved"), save_replay_buffer=True)], log_interval=1
    )
    assert evaluations.best_mean_reward > 0
    assert {path.name for path in (tmp_path / "saved").iterdir()} >= {
        "rl_model_100_steps.zip",
        "rl_model_replay_buffer_100_steps.pkl",
    }
    assert list((tmp_path / "logs" / "EBU_1").glob("events*"))
    assert "train/loss" in model.logger.name_to_value


WRONG = {
    "beta": (lambda: EBU("MlpPolicy", "CartPole-v1", beta=1.5), "beta must be between 0 and 1, got 1.5"),
    "lambda": (lambda: PengQ("MlpPolicy", "CartPole-v1", trace_lambda="1"), "trace_lambda must be between 0 and 1, got '1'"),
    "n_steps": (lambda: EBU("MlpPolicy", "CartPole-v1", n_steps=3), "n_steps must be 1, got 3"),
    "memory": (
        lambda: EBU("MlpPolicy", "CartPole-v1", optimize_memory_usage=True, buffer_size=100),
        "whole episodes are replayed without optimize_memory_usage",
    ),
    "buffer": (
        lambda: EBU("MlpPolicy", "CartPole-v1", replay_buffer_class=DQN("MlpPolicy", "CartPole-v1").replay_buffer_class),
        "its buffer must be EpisodeReplayBuffer or DictEpisodeReplayBuffer of ebu.sb3, got ReplayBuffer",
    ),
}


@pytest.mark.parametrize(("make", "words"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_is_refused_in_one_line(make, words):
    with pytest.raises(UserError) as error:
        make()
    assert words in str(error.value)


def test_a_replay_buffer_of_dqn_is_refused(tmp_path):
    DQN("MlpPolicy", "CartPole-v1", buffer_size=100).save_replay_buffer(tmp_path / "replay")
    with pytest.raises(UserError, match="EBU replays whole episodes"):
        EBU("MlpPolicy", "CartPole-v1", **TINY).load_replay_buffer(tmp_path / "replay")


def test_without_stable_baselines3_one_line_says_how_to_get_it():
    program = "import sys; sys.modules['stable_baselines3'] = None\nimport ebu.sb3"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE)
    last = result.stderr.strip().splitlines()[-1]
    assert last == "ImportError: ebu.sb3 needs Stable-Baselines3; install it with: pip install 'episodic-backward-update[sb3]'"
