"""Environments given as objects: a saved policy finds the same one again, or says in one line that it cannot."""

from __future__ import annotations

import gymnasium
import pytest
from gymnasium import wrappers

import ebu
from ebu.envs import DelayedReward
from ebu.envs.objects import REBUILT, describe_object, wrap
from tests.conftest import ebu_, one_line

SMALL = {"learning_starts": 20, "batch_size": 8, "hidden_sizes": (8,), "eval_every": 0, "seed": 0}


class Halved(gymnasium.RewardWrapper):
    def reward(self, reward):
        return reward / 2


def cartpole(**arguments):
    return gymnasium.make("CartPole-v1", disable_env_checker=True, **arguments)


def saved(env, tmp_path):
    ebu.EBU(env, **SMALL).save(tmp_path / "agent.ebu")
    return tmp_path / "agent.ebu"


@pytest.mark.parametrize(
    "env",
    [
        lambda: cartpole(max_episode_steps=50),
        lambda: wrappers.TimeLimit(cartpole(), 30),
        lambda: wrappers.TimeAwareObservation(cartpole(), normalize_time=True),
        lambda: wrappers.FrameStackObservation(wrappers.TimeAwareObservation(cartpole()), 3),
        lambda: DelayedReward(cartpole(), 5),
        lambda: gymnasium.make("FrozenLake-v1", is_slippery=False, disable_env_checker=True),
    ],
)
def test_plain_wrappers_and_arguments_are_restored(env, tmp_path):
    given = env()
    loaded = ebu.load(saved(given, tmp_path))
    assert loaded.env.spec.max_episode_steps == given.spec.max_episode_steps
    assert loaded.env.spec.additional_wrappers == given.spec.additional_wrappers
    assert loaded.make_env().spec.additional_wrappers == given.spec.additional_wrappers


@pytest.mark.parametrize(
    ("wrapper", "name"),
    [
        (Halved, "Halved"),
        (wrappers.NormalizeReward, "NormalizeReward"),  # what it has learned is in no file
        (lambda env: wrappers.TransformReward(env, abs), "TransformReward"),
    ],
)
def test_a_policy_of_a_wrapped_environment_is_not_loaded_without_it(wrapper, name, tmp_path, capsys):
    path = saved(wrapper(cartpole()), tmp_path)
    with pytest.raises(ebu.UserError, match=rf"CartPole-v1.*{name}.*pass env=") as error:
        ebu.load(path)
    one_line(error)
    agent = ebu.load(path, env=wrapper(cartpole()))
    assert agent.predict(cartpole().reset(seed=0)[0])[0] in (0, 1)
    agent.save(path)  # the words stay with the policy
    assert ebu_("eval", path) == 2
    assert name in capsys.readouterr().err


def test_an_argument_that_cannot_be_written_down_is_named(tmp_path):
    gymnasium.register("Tests/Taught-v0", entry_point=lambda teacher=None: gymnasium.make("CartPole-v1").unwrapped)
    path = saved(gymnasium.make("Tests/Taught-v0", teacher=object()), tmp_path)
    with pytest.raises(ebu.UserError, match=r"teacher.*pass env="):
        ebu.load(path)


def test_wrappers_that_only_watch_are_left_out(tmp_path):
    monitor = pytest.importorskip("stable_baselines3.common.monitor")
    watched = monitor.Monitor(wrappers.RecordEpisodeStatistics(cartpole()))
    assert describe_object(watched).wrappers == ()
    agent = ebu.EBU(watched, **SMALL)
    assert len(ebu.evaluate(agent, episodes=2).returns) == 2  # on a copy, made without the monitor
    agent.save(tmp_path / "agent.ebu")
    assert str(ebu.load(tmp_path / "agent.ebu").env) == str(cartpole())


def test_what_has_learned_from_episodes_is_not_evaluated_afresh():
    agent = ebu.EBU(wrappers.NormalizeObservation(cartpole()), **SMALL)
    with pytest.raises(ebu.UserError, match=r"NormalizeObservation.*pass env="):
        ebu.evaluate(agent, episodes=1)


def test_a_family_s_own_wrappers_are_not_put_on_twice(tmp_path):
    pytest.importorskip("minigrid")
    from minigrid.wrappers import ImgObsWrapper

    env = ImgObsWrapper(gymnasium.make("MiniGrid-Empty-5x5-v0"))
    assert describe_object(env).wrappers == ()
    assert ebu.load(saved(env, tmp_path)).env.observation_space == env.observation_space


def test_an_object_without_its_family_s_wrappers_is_not_mistaken_for_one_with_them(tmp_path):
    pytest.importorskip("ale_py")
    env = gymnasium.make("ALE/Breakout-v5", obs_type="grayscale", frameskip=4)
    with pytest.raises(ebu.UserError, match=r"ALE/Breakout-v5.*pass env="):
        ebu.load(saved(env, tmp_path))


@pytest.mark.parametrize("text", ["RecordVideo", "os:system", "ClipReward [1]", "ClipReward {", 'ClipReward {"no": 1}', "Env"])
def test_words_of_a_stranger_make_no_other_wrapper(text):
    with pytest.raises(ebu.UserError) as error:
        wrap(cartpole(), [text])
    one_line(error)


def test_wrappers_can_be_named_on_the_command_line(tmp_path):
    flags = "--env CartPole-v1 --env-wrappers TimeAwareObservation --steps 30 --eval-every 0 --hidden-sizes 8 --quiet"
    assert ebu_(f"train {flags} --run", tmp_path / "run") == 0
    assert ebu.load(tmp_path / "run" / "policy.ebu").env.observation_space.shape == (5,)


def test_every_wrapper_that_is_rebuilt_exists():
    assert all(issubclass(getattr(wrappers, name), gymnasium.Wrapper) for name in REBUILT)
