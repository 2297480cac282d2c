"""Environments by name: those that work, and one line for each way a name can go wrong."""

from __future__ import annotations

import importlib.util
import warnings

import gymnasium
import pytest

from ebu.envs.families import families, family
from ebu.envs.make import EnvironmentSource, make_environment
from ebu.envs.mnist_maze import MNISTMaze
from ebu.errors import UserError


def refusal(name, arguments=None):
    """The one line that says no, with nothing else said besides."""
    with warnings.catch_warnings(record=True) as said, pytest.raises(UserError) as error:
        warnings.simplefilter("always")
        make_environment(name, arguments)
    message = str(error.value)
    assert "\n" not in message
    assert not [str(w.message)[:80] for w in said if issubclass(w.category, UserWarning)]
    return message


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("maze", "maze"),
        ("ebu/MNISTMaze-v0", "maze"),
        ("MinAtar/Breakout-v1", "minatar"),
        ("MiniGrid-Empty-5x5-v0", "minigrid"),
        ("BabyAI-GoToObj-v0", "minigrid"),
        ("ALE/Pong-v5", "atari"),
        ("CartPole-v1", "other"),
        ("Nothing-Like-This-v0", "other"),
    ],
)
def test_a_name_says_its_family(name, kind):
    assert family(name).name == kind


@pytest.mark.parametrize(
    "name",
    [
        "maze",
        "CartPole-v1",
        "Acrobot-v1",
        "MountainCar-v0",
        "LunarLander-v3",
        "FrozenLake-v1",
        "Taxi-v4",
        "CliffWalking-v1",
        "Blackjack-v1",
        "MinAtar/Breakout-v1",
        "MinAtar/Seaquest-v1",
        "MiniGrid-Empty-5x5-v0",
    ],
)
def test_ids_work_by_name(name):
    env = make_environment(name)
    observation, _ = env.reset(seed=0)
    assert env.observation_space.contains(observation)
    assert env.observation_space.contains(env.step(env.action_space.sample())[0])
    env.close()


def test_a_minigrid_shows_its_picture_only():
    space = make_environment("MiniGrid-Empty-5x5-v0").observation_space
    assert isinstance(space, gymnasium.spaces.Box) and space.shape == (7, 7, 3)


def test_arguments_reach_the_environment():
    maze = make_environment("maze", {"size": 4, "wall_density": 0.1, "cap": 33}).unwrapped
    assert isinstance(maze, MNISTMaze)
    assert (maze.maze.size, maze.cap) == (4, 33)
    assert make_environment("FrozenLake-v1", {"map_name": "8x8"}).observation_space.n == 64


def test_a_source_makes_the_same_environment_as_often_as_needed():
    source = EnvironmentSource("maze", {"size": 5, "maze_seed": 3})
    first, second = source.make(training=True), source.make(training=False, render_mode="ansi")
    assert first is not second
    assert first.unwrapped.maze.lines() == second.unwrapped.maze.lines()
    assert second.unwrapped.render_mode == "ansi"


def test_the_examples_of_a_family_belong_to_it():
    assert [kind.name for kind in families()] == ["maze", "atari", "minatar", "minigrid", "other"]
    for kind in families():
        assert kind.examples and {family(name).name for name in kind.examples} == {kind.name}


# ---------------------------------------------------------------------- names that go wrong


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("CartPol-v1", "CartPole-v1"),
        ("CartPole-v9", "CartPole-v1"),
        ("cartpole-v1", "CartPole-v1"),
        ("FrozenLake-v7", "FrozenLake-v1"),
        ("MinAtar/Brakout-v1", "MinAtar/Breakout-v1"),
        ("MiniGrid-Emty-5x5-v0", "MiniGrid-Empty-5x5-v0"),
        ("mazee", "maze"),
    ],
)
def test_an_unknown_id_suggests_the_one_that_was_meant(name, meant):
    assert refusal(name).endswith(f"there is no environment {name!r}; did you mean {meant}?")


@pytest.mark.parametrize("name", ["", "Not an id!", "Xyzzyqwfp-v0", "nowhere/Xyzzyqwfp-v0", "no_such_module:Xyzzyqwfp-v0"])
def test_a_hopeless_id_points_to_the_list(name):
    message = refusal(name)
    assert repr(name) in message or name in message


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [
        ("MinAtar/Breakout-v1", "minatar", "minatar"),
        ("MiniGrid-Empty-5x5-v0", "minigrid", "minigrid"),
        ("ALE/Pong-v5", "ale_py", "atari"),
    ],
)
def test_a_missing_extra_says_what_to_install(name, module, extra, monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda n, *rest: None if n == module else real(n, *rest))
    message = refusal(name)
    assert message == f"{name} needs an extra; install it with: pip install 'episodic-backward-update[{extra}]'"


def test_a_package_gymnasium_misses_is_named():
    """Known to Gymnasium, but not installed here: that is not the same as unknown."""
    if importlib.util.find_spec("mujoco") is None:
        assert "mujoco" in refusal("Ant-v5").lower()
    if importlib.util.find_spec("jax") is None:
        message = refusal("phys2d/CartPole-v1")
        assert "jax" in message and "there is no environment" not in message


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("CartPole-v1", {"unheard_of": 1}),
        ("maze", {"unheard_of": 1}),
        ("maze", {"size": "large"}),
        ("maze", {"size": 99}),
        ("maze", {"wall_density": 3}),
        ("maze", {"slip": 0.9}),
        ("maze", {"layout": ["##", "##"]}),
        ("FrozenLake-v1", {"map_name": "9x9"}),
        ("MiniGrid-Empty-5x5-v0", {"size": 1}),
        ("MinAtar/Breakout-v1", {"unheard_of": 1}),
    ],
    ids=str,
)
def test_arguments_an_environment_refuses_are_one_line(name, arguments):
    message = refusal(name, arguments)
    assert next(iter(arguments)) in message or str(next(iter(arguments.values()))) in message
