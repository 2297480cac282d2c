"""Every preset builds, is possible, and says what the paper says."""

from __future__ import annotations

import gymnasium
import pytest

import ebu
from ebu.agent import AGENTS
from ebu.commands.train import TrainArguments, read_settings
from ebu.config import field_names, flat
from ebu.config_check import check
from ebu.env_arguments import environment_arguments
from ebu.envs.families import families, family
from ebu.envs.make import make_environment
from ebu.envs.spaces import count_actions, describe
from ebu.errors import UserError
from ebu.presets import configure, preset_names
from ebu.registry import find_method, methods

REPRESENTATIVES = {
    "maze": "maze",
    "minatar": "MinAtar/Breakout-v1",
    "minigrid": "MiniGrid-Empty-5x5-v0",
    "atari": "ALE/Breakout-v5",
    "other": "CartPole-v1",
}
PRESETS = {kind.name: kind.presets for kind in families()}
ALL = [(kind, name) for kind, presets in PRESETS.items() for name in presets]


def test_every_family_has_presets_and_quick_among_them():
    assert PRESETS.keys() == REPRESENTATIVES.keys()
    assert {kind: family(env).name for kind, env in REPRESENTATIVES.items()} == {kind: kind for kind in PRESETS}
    assert all("quick" in presets for presets in PRESETS.values())


@pytest.mark.parametrize(("kind", "preset"), ALL)
def test_a_preset_names_settings_that_exist_and_are_possible(kind, preset):
    assert PRESETS[kind][preset].keys() <= field_names().keys()
    for algo in methods():
        config = configure(algo, REPRESENTATIVES[kind], preset)
        check(config)
        assert (config.algo, config.preset, config.environment.env) == (algo, preset, REPRESENTATIVES[kind])
        find_method(algo).sampler(config)
        find_method(algo).rule(config)


@pytest.mark.parametrize(("kind", "preset"), ALL)
def test_a_preset_builds_an_agent_that_knows_what_to_do(kind, preset):
    """Environment, network and memory, with the environment arguments the preset gives."""
    if kind == "atari":
        pytest.importorskip("ale_py")
    agent = AGENTS["ebu"](REPRESENTATIVES[kind], preset)
    observation, _ = agent.env.reset(seed=0)
    action, _ = agent.predict(observation)
    assert 0 <= action < count_actions(agent.env.action_space)
    assert agent.loop.memory.frame_shape == describe(agent.env.observation_space).spec.shape


def test_the_maze_of_the_paper_is_appendix_d():
    config = configure("ebu", "maze", "paper")
    values = flat(config)
    assert environment_arguments(config.environment.env_args)["redraw_digits"] is True
    expected = {
        "steps": 200_000,
        "gamma": 0.9,
        "beta": 1.0,
        "n_steps": "episode",
        "truncation_is_terminal": True,
        "train_freq": 50,
        "batch_size": 350,
        "buffer_size": 30_000,
        "optimizer": "rmsprop",
        "learning_rate": 1e-3,
        "loss": "mse",
        "target_update_interval": 2_000,
        "exploration_schedule": "quadratic",
        "exploration_initial_eps": 1.0,
        "exploration_final_eps": 0.0,
        "reward_clip": 0.0,
        "whole_episode": False,
    }
    assert {name: values[name] for name in expected} == expected
    maze = make_environment("maze", environment_arguments(config.environment.env_args)).unwrapped
    assert (maze.maze.size, maze.cap, maze.slip, maze.redraw_digits) == (10, 1000, 0.0, True)


def test_atari_of_the_paper_is_nature_dqn_with_beta_a_half():
    values = flat(configure("ebu", "ALE/Breakout-v5", "paper"))
    expected = {
        "steps": 2_500_000,
        "stack": 4,
        "buffer_size": 1_000_000,
        "gamma": 0.99,
        "beta": 0.5,
        "reward_clip": 1.0,
        "learning_starts": 50_000,
        "train_freq": 4,
        "batch_size": 32,
        "optimizer": "deepmind-rmsprop",
        "optimizer_decay": 0.95,
        "optimizer_eps": 0.01,
        "learning_rate": 2.5e-4,
        "loss": "huber-sum",
        "target_update_interval": 10_000,
        "tau": 1.0,
        "exploration_schedule": "delayed-linear",
        "exploration_final_eps": 0.1,
        "eval_every": 62_500,
        "eval_episodes": 30,
        "eval_epsilon": 0.05,
    }
    assert {name: values[name] for name in expected} == expected


def test_settings_given_stand_above_the_preset():
    assert configure("ebu", "maze", "paper", batch_size=7, gamma=0.5).learner.batch_size == 7


def test_an_unknown_preset_lists_those_of_the_environment():
    with pytest.raises(UserError, match="there is no preset 'fast' for maze; choose from quick, paper"):
        configure("ebu", "maze", "fast")
    with pytest.raises(UserError, match="there is no preset 'paper' for CartPole-v1; choose from quick"):
        configure("ebu", "CartPole-v1", "paper")
    assert preset_names("maze") == ["quick", "paper"]


def test_one_argument_of_the_maze_leaves_the_preset_s_others_in_place():
    """`ebu train --env-args maze_seed=3` asks for another maze, not for digits redrawn at every look."""
    config = configure("ebu", "maze", "quick", env_args=("maze_seed=3",))
    arguments = environment_arguments(config.environment.env_args)
    assert arguments == {"redraw_digits": False, "wall_density": 0.3, "maze_seed": 3}


@pytest.mark.parametrize("given", [{"slip": 0.1}, ["slip=0.1"], ("slip=0.1",)], ids=str)
def test_environment_arguments_mean_the_same_in_every_form(given):
    config = configure("ebu", "maze", env_args=given)
    assert config == configure("ebu", "maze", env_args=("slip=0.1",))
    assert environment_arguments(config.environment.env_args) == {"redraw_digits": False, "wall_density": 0.3, "slip": 0.1}


@pytest.mark.parametrize("given", ["slip=0.1", 5, {"slip": object()}, [3]], ids=["text", "number", "object", "list"])
def test_other_environment_arguments_are_refused(given):
    with pytest.raises(UserError, match="env_args"):
        configure("ebu", "maze", env_args=given)


# ---------------------------------------------------------------------- an interval between target updates means hard copies


def test_a_long_interval_between_target_updates_that_is_given_alone_means_hard_copies():
    for agent in (ebu.EBU, ebu.DQN, ebu.RedistributedQ):
        assert agent("CartPole-v1", target_update_interval=500).config.learner.tau == 1.0
    on_an_object = ebu.EBU(gymnasium.make("CartPole-v1"), target_update_interval=500)
    assert on_an_object.config.learner.tau == 1.0
    copies = ebu.RedistributedQ("CartPole-v1", target_update_interval=500).loop.config.learner
    assert (copies.tau, copies.target_update_interval) == (1.0, 500)


def test_on_the_command_line_a_long_interval_between_target_updates_means_hard_copies_too():
    for given in (["--target-update-interval", "500"], ["--target_update_interval=500"]):
        assert read_settings(TrainArguments, ["CartPole-v1", *given], "ebu train").config.learner.tau == 1.0
        with_tau = read_settings(TrainArguments, ["CartPole-v1", *given, "--tau", "0.1"], "ebu train")
        assert with_tau.config.learner.tau == 0.1


@pytest.mark.parametrize(
    ("given", "tau"),
    [
        ({"target_update_interval": 500, "tau": 0.02}, 0.02),
        ({"target_update_interval": 1}, 0.02),
        ({"target_update_interval": 4, "train_freq": 4}, 0.02),  # a move at every update, as the preset has it
        ({"target_update_interval": 5, "train_freq": 4}, 1.0),
        ({"train_freq": 4}, 0.02),
    ],
    ids=str,
)
def test_what_is_said_of_the_target_network_is_done(given, tau):
    assert ebu.EBU("CartPole-v1", **given).config.learner.tau == tau


def test_trials_and_preset_files_mean_what_they_say(tmp_path):
    assert configure("ebu", "CartPole-v1", target_update_interval=500).learner.tau == 0.02
    (tmp_path / "slow.toml").write_text("target_update_interval = 500\n")
    assert ebu.EBU("CartPole-v1", preset=str(tmp_path / "slow.toml")).config.learner.tau == 0.02


def test_an_impossible_interval_is_refused_in_one_line():
    with pytest.raises(UserError, match="target_update_interval must be a whole number"):
        ebu.EBU("CartPole-v1", target_update_interval="often")
