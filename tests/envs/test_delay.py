"""Delayed rewards: when they are paid, that nothing is lost, and that runs on them resume exactly."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ebu
from ebu.envs import DelayedReward
from ebu.envs.make import make_environment
from ebu.errors import UserError
from ebu.training.environment_state import bring_back, capture, comes_back_exactly
from ebu.training.events import Trained
from ebu.training.open_episode import OpenEpisode
from tests.conftest import ebu_


class Scripted(gymnasium.Env):
    """Pays the given rewards one after the other, then ends."""

    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, rewards, truncates=False):
        self.rewards, self.truncates = rewards, truncates

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.step_number = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.step_number += 1
        over = self.step_number == len(self.rewards)
        look = np.array([self.step_number / len(self.rewards)], np.float32)
        return look, self.rewards[self.step_number - 1], over and not self.truncates, over and self.truncates, {}


def paid(env, steps=None):
    env.reset(seed=0)
    found = []
    while steps is None or len(found) < steps:
        _, reward, terminated, truncated, _ = env.step(0)
        found.append(reward)
        if terminated or truncated:
            break
    return found


@pytest.mark.parametrize(
    ("delay", "expected"),
    [
        (1, [1, 2, 3, 4, 5]),
        (2, [0, 3, 0, 7, 5]),
        (3, [0, 0, 6, 0, 9]),
        (5, [0, 0, 0, 0, 15]),
        (9, [0, 0, 0, 0, 15]),
        ("episode", [0, 0, 0, 0, 15]),
    ],
)
@pytest.mark.parametrize("truncates", [False, True])
def test_what_is_withheld_is_paid_every_so_many_steps_and_at_the_end(delay, expected, truncates):
    assert paid(DelayedReward(Scripted([1, 2, 3, 4, 5], truncates), delay)) == expected


@given(
    rewards=st.lists(st.integers(-100, 100), min_size=1, max_size=40),
    delay=st.one_of(st.integers(1, 50), st.just("episode")),
    truncates=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_the_undiscounted_return_is_unchanged_and_steps_between_pay_nothing(rewards, delay, truncates):
    found = paid(DelayedReward(Scripted(rewards, truncates), delay))
    assert sum(found) == sum(rewards)
    due = [i for i in range(1, len(rewards) + 1) if i == len(rewards) or (delay != "episode" and i % delay == 0)]
    assert all(reward == 0 for i, reward in enumerate(found, start=1) if i not in due)


def test_a_reset_forgets_what_was_withheld():
    env = DelayedReward(Scripted([1, 2, 3]), 2)
    assert paid(env, steps=1) == [0]
    assert paid(env) == [0, 3, 3]


@pytest.mark.parametrize("delay", [0, -1, 1.5, True, "game", None])
def test_a_delay_that_is_none_is_refused_in_one_line(delay):
    with pytest.raises(UserError, match='at least 1, or "episode", got'):
        DelayedReward(Scripted([1]), delay)


@pytest.mark.parametrize("name", ["maze", "CartPole-v1", "MinAtar/Breakout-v1"])
def test_any_environment_takes_it_by_name(name):
    made = make_environment(name, {"reward_delay": "episode"})
    assert isinstance(made, DelayedReward) and made.delay == "episode" and made.spec is not None
    with pytest.raises(UserError, match="reward_delay must be"):
        make_environment(name, {"reward_delay": 0})


def test_an_open_episode_is_restored_with_what_is_withheld():
    env, other = (make_environment("CartPole-v1", {"reward_delay": 4}) for _ in range(2))
    assert comes_back_exactly(env)
    observation, _ = env.reset(seed=5)
    episode = OpenEpisode(5, [observation])
    for i in range(6):
        observation, *_ = env.step(i % 2)
        episode.actions.append(i % 2)
        episode.observations.append(observation)
    assert capture(env) is None and bring_back(other, capture(env), episode)
    assert [env.step(i % 2)[1] for i in range(6)] == [other.step(i % 2)[1] for i in range(6)] == [0, 4, 0, 0, 0, 4]


def test_the_command_line_takes_it_and_a_run_resumes_exactly(tmp_path):
    """Half way, in the middle of an episode, the run is left and taken up again; its rows are those of one that was not."""
    flags = (
        "--env CartPole-v1 --env-args reward_delay=episode --hidden-sizes 8 --learning-starts 50 --log-every 50 "
        "--eval-every 150 --eval-episodes 1 --seed 1 --quiet True --steps 300"
    )
    assert ebu_(f"train {flags} --run", tmp_path / "straight") == 0
    settings = {"hidden_sizes": (8,), "learning_starts": 50, "log_every": 50, "eval_every": 150, "eval_episodes": 1}
    agent = ebu.EBU("CartPole-v1", env_args=("reward_delay=episode",), seed=1, steps=300, **settings)
    agent.learn(300, run=tmp_path / "halved", callback=lambda event: not (isinstance(event, Trained) and event.step == 200))
    assert agent.loop.step == 200 and agent.loop.actors.open[0].actions
    assert ebu_("resume --quiet True", tmp_path / "halved") == 0
    straight, halved = ((tmp_path / name / "metrics.jsonl").read_bytes() for name in ("straight", "halved"))
    assert straight == halved
