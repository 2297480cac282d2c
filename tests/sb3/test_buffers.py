"""Whole episodes in Stable-Baselines3's ring: compared with a plain list of episodes."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("stable_baselines3")
import torch
from gymnasium import spaces
from stable_baselines3 import DQN
from stable_baselines3.common.envs import SimpleMultiObsEnv

from ebu.errors import UserError
from ebu.sb3 import DictEpisodeReplayBuffer, EpisodeReplayBuffer
from ebu.sb3.backlog import Backlog, backward_order

BOX = spaces.Box(-1e6, 1e6, (1,), np.float32)
ACTIONS = spaces.Discrete(5)


def number(env, t):
    """An observation that says whose and when it was."""
    return np.array([1_000 * env + t], np.float32)


def fill(buffer, ends, steps, n_envs=1):
    """Steps of some environments; ``ends[env]`` maps a time to "terminated" or "truncated". Returns the naive episodes."""
    episodes, open_ = [], [[] for _ in range(n_envs)]
    for t in range(steps):
        how = [ends[env].get(t) for env in range(n_envs)]
        infos = [{"TimeLimit.truncated": end == "truncated"} for end in how]
        obs, following = ([number(env, t + d) for env in range(n_envs)] for d in (0, 1))
        actions = np.array([(env + t) % 5 for env in range(n_envs)])
        rewards = np.array([env + t / 7 for env in range(n_envs)], np.float32)
        buffer.add(np.stack(obs), np.stack(following), actions, rewards, np.array([end is not None for end in how]), infos)
        for env in range(n_envs):
            open_[env].append(t)
            if how[env]:
                episodes.append((env, open_[env], how[env]))
                open_[env] = []
    return episodes


def drawn(buffer, steps=1, count=200):
    """The distinct episodes that are sampled: (environment, times, whether it terminated)."""
    rng, found = np.random.default_rng(0), set()
    for _ in range(count):
        episodes = buffer.sample_episodes(steps, rng)
        start = 0
        for end in (~episodes.continues).nonzero().flatten().tolist():
            rows = slice(start, end + 1)
            seen = episodes.observations[rows].flatten().tolist()
            env, times = int(seen[0] // 1_000), tuple(int(value % 1_000) for value in seen)
            assert episodes.next_observations[rows].flatten().tolist() == [1_000 * env + t + 1 for t in times]
            assert episodes.actions[rows].tolist() == [(env + t) % 5 for t in times]
            np.testing.assert_array_equal(episodes.rewards[rows], np.array([env + t / 7 for t in times], np.float32))
            assert episodes.terminated[rows][:-1].sum() == 0
            found.add((env, times, bool(episodes.terminated[end])))
            start = end + 1
    return found


@pytest.mark.parametrize("size", [100, 20, 13])
def test_episodes_come_back_as_they_were_and_leave_as_wholes(size):
    ends = [{4: "terminated", 9: "truncated", 16: "terminated"}, {2: "truncated", 11: "terminated", 18: "truncated"}]
    buffer = EpisodeReplayBuffer(2 * size, BOX, ACTIONS, device="cpu", n_envs=2)
    naive = fill(buffer, ends, 20, n_envs=2)
    expected = {(env, tuple(times), how == "terminated") for env, times, how in naive if times[0] >= 20 - size}
    assert expected and drawn(buffer) == expected
    assert buffer.episodes == len(expected)


def test_episodes_are_equally_likely_whatever_their_lengths():
    buffer = EpisodeReplayBuffer(100, BOX, ACTIONS, device="cpu")
    fill(buffer, [{1: "terminated", 39: "terminated"}], 40)
    rng = np.random.default_rng(0)
    short = sum(len(buffer.sample_episodes(1, rng)) == 2 for _ in range(1_000))
    assert abs(short - 500) < 5 * np.sqrt(1_000 / 4)  # five standard deviations


def test_enough_episodes_are_drawn_for_the_steps_asked_for():
    buffer = EpisodeReplayBuffer(100, BOX, ACTIONS, device="cpu")
    fill(buffer, [dict.fromkeys(range(2, 60, 3), "terminated")], 60)
    episodes = buffer.sample_episodes(16, np.random.default_rng(0))
    assert len(episodes) == 18 and (~episodes.continues).sum() == 6


def test_until_an_episode_is_whole_the_one_in_progress_is_replayed_as_cut():
    buffer = EpisodeReplayBuffer(100, BOX, ACTIONS, device="cpu")
    with pytest.raises(UserError, match="there is nothing to replay"):
        buffer.sample_episodes(1, np.random.default_rng(0))
    fill(buffer, [{}], 6)
    assert drawn(buffer) == {(0, (0, 1, 2, 3, 4, 5), False)} and buffer.episodes == 0


def test_of_an_episode_longer_than_the_buffer_the_part_that_is_left_is_replayed():
    buffer = EpisodeReplayBuffer(8, BOX, ACTIONS, device="cpu")
    fill(buffer, [{19: "terminated"}], 20)
    assert drawn(buffer) == {(0, tuple(range(12, 20)), True)}


def test_an_episode_that_was_left_is_cut_and_not_joined_with_the_next():
    buffer = EpisodeReplayBuffer(100, BOX, ACTIONS, device="cpu")
    fill(buffer, [{}], 3)
    buffer.end_open_episodes()
    buffer.end_open_episodes()  # nothing is open any more
    fill(buffer, [{4: "terminated"}], 5)
    assert drawn(buffer) == {(0, (0, 1, 2), False), (0, (0, 1, 2, 3, 4), True)}


def test_without_the_handling_of_timeouts_a_cut_is_an_end():
    buffer = EpisodeReplayBuffer(100, BOX, ACTIONS, device="cpu", handle_timeout_termination=False)
    fill(buffer, [{4: "truncated"}], 5)
    assert drawn(buffer) == {(0, (0, 1, 2, 3, 4), True)}


def test_a_reset_buffer_is_empty():
    buffer = EpisodeReplayBuffer(100, BOX, ACTIONS, device="cpu")
    fill(buffer, [{4: "terminated"}], 8)
    buffer.reset()
    assert buffer.episodes == 0
    fill(buffer, [{1: "terminated"}], 2)
    assert drawn(buffer) == {(0, (0, 1), True)}


def test_memory_optimised_storage_is_refused_in_one_line():
    with pytest.raises(UserError, match="whole episodes are replayed without optimize_memory_usage"):
        EpisodeReplayBuffer(100, BOX, ACTIONS, optimize_memory_usage=True)


@pytest.mark.parametrize("policy", ["MlpPolicy", "MultiInputPolicy"])
def test_sb3_s_own_dqn_takes_the_buffers(policy):
    env, kind = "CartPole-v1", EpisodeReplayBuffer
    if policy == "MultiInputPolicy":
        env, kind = SimpleMultiObsEnv(random_start=False), DictEpisodeReplayBuffer
    model = DQN(policy, env, replay_buffer_class=kind, buffer_size=500, learning_starts=40, seed=0, device="cpu").learn(60)
    assert model._n_updates == 5 and len(model.replay_buffer.sample(7).rewards) == 7


def test_the_backlog_hands_out_each_episode_from_its_end():
    continues = torch.tensor([1, 1, 0, 0, 1, 0], dtype=torch.bool)
    assert backward_order(continues).tolist() == [2, 1, 0, 3, 5, 4]
    buffer = EpisodeReplayBuffer(100, BOX, ACTIONS, device="cpu")
    fill(buffer, [{3: "terminated"}], 4)
    backlog, rng = Backlog(), np.random.default_rng(0)
    for first in (0.0, 10.0):
        backlog.push(buffer.sample_episodes(1, rng), first + torch.arange(4.0))
    observations, actions, targets = backlog.pop(6)
    assert targets.tolist() == [3, 2, 1, 0, 13, 12] and observations.flatten().tolist() == [3, 2, 1, 0, 3, 2]
    assert actions.tolist() == [3, 2, 1, 0, 3, 2] and len(backlog) == 2
    assert backlog.pop(2)[2].tolist() == [11, 10] and len(backlog) == 0
