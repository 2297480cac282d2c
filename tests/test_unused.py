"""A setting that a user gives and that nothing reads draws one line; settings of presets, files and trials draw none."""

from __future__ import annotations

import dataclasses
import warnings

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

import ebu
from ebu.agent import AGENTS, Agent
from ebu.agent.unused import unused_settings
from ebu.config import TargetConfig, flat, override
from ebu.experiments.sweeps.trials import trial
from ebu.registry import methods
from tests.conftest import Corridor, ebu_
from tests.networks import own
from tests.registries import registries_restored

SMALL = {"hidden_sizes": (8,), "batch_size": 8, "learning_starts": 20, "eval_every": 0, "threads": 1}


class Pictures(gymnasium.Env):
    observation_space, action_space = spaces.Box(0, 255, (3, 10, 10), np.uint8), spaces.Discrete(2)


class PicturesAndNumbers(gymnasium.Env):
    observation_space = spaces.Dict(seen=Pictures.observation_space, speed=spaces.Box(-1, 1, (2,)))
    action_space = spaces.Discrete(2)


class TwoPictures(gymnasium.Env):
    observation_space = spaces.Dict(left=Pictures.observation_space, right=Pictures.observation_space)
    action_space = spaces.Discrete(2)


def lines(make):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        make()
    assert all(w.category is UserWarning and w.filename == __file__ for w in said)
    return [str(w.message) for w in said]


def test_settings_of_other_methods_draw_a_line_each_that_names_their_users():
    assert lines(lambda: ebu.DQN("CartPole-v1", n_steps=5, beta=0.3, trace_lambda=0.4, priority_alpha=0.9, tau=0.1)) == [
        "beta has no effect on dqn; ebu.EBU uses it",
        "n_steps has no effect on dqn; ebu.NStepDQN uses it",
        "priority_alpha has no effect on dqn; ebu.PrioritizedDQN uses it",
        "trace_lambda has no effect on dqn; ebu.PengQ, ebu.RedistributedQ, ebu.Retrace and ebu.WatkinsQ use it",
    ]


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: ebu.EBU("CartPole-v1", betas=[0.1, 0.2]), ["betas has no effect on ebu; ebu.AdaptiveEBU uses it"]),
        (lambda: ebu.Retrace("CartPole-v1", double_q=True), ["double_q has no effect on retrace"]),
        (lambda: ebu.EBU("CartPole-v1", stack=4), ["stack has no effect on vector observations; "]),
        (lambda: ebu.EBU("FrozenLake-v1", stack=4), ["stack has no effect on onehot observations; "]),
        (lambda: ebu.EBU("CartPole-v1", features_dim=8), ["features_dim has no effect on the network mlp; hidden_sizes"]),
        (lambda: ebu.EBU(Pictures(), hidden_sizes=(8,)), ["hidden_sizes has no effect on the network minatar; features_dim"]),
        (lambda: ebu.EBU(Pictures(), network="mlp", features_dim=8), ["features_dim has no effect on the network mlp"]),
        (lambda: ebu.EBU(TwoPictures(), hidden_sizes=(8,)), ["hidden_sizes has no effect on the network images alone"]),
        (
            lambda: ebu.EBU("CartPole-v1", network=own.normalised, hidden_sizes=(8,)),
            ["hidden_sizes has no effect on a net"],
        ),
        (lambda: ebu.EBU("CartPole-v1", value_head="histogram", loss="mse"), ["loss has no effect on value_head=histogram"]),
        (lambda: ebu.EBU("CartPole-v1", optimizer_decay=0.9), ["optimizer_decay has no effect on optimizer=adam"]),
        (lambda: ebu.EBU("CartPole-v1", learning_rate_final=0.9), ["learning_rate_final has no effect on"]),
        (
            lambda: ebu.EBU("CartPole-v1", whole_episode=True, batch_size=8),
            ["batch_size has no effect on whole_episode=True; a minibatch is an episode"],
        ),
        (
            lambda: ebu.EnsembleQ("CartPole-v1", horizon_updates=0, initial_lambda=0.5, initial_horizon=0.5),
            ["initial_horizon has no effect on horizon_updates=0; ", "initial_lambda has no effect on horizon_updates=0; "],
        ),
        (
            lambda: ebu.EBU("CartPole-v1", horizon_updates=0, initial_lambda=0.5),
            ["horizon_updates has no effect on ebu; ebu.EnsembleQ", "initial_lambda has no effect on ebu; ebu.EnsembleQ"],
        ),
        (lambda: ebu.EBU("CartPole-v1", log_interval=4, log_every=50), ["log_every has no effect on log_interval=4; "]),
        (lambda: ebu.EBU("CartPole-v1", vectorization="async"), ["vectorization has no effect on one environment"]),
        (lambda: ebu.EBU("CartPole-v1", steps=500), ["steps has no effect here; learn(steps) takes their number"]),
        (
            lambda: ebu.RedistributedQ("CartPole-v1", tau=0.1, target_update_interval=90),
            ["target_update_interval has no effect on redistributed-q; here it follows from other settings and is 1"],
        ),
    ],
)
def test_a_setting_without_effect_draws_one_line(make, expected):
    said = lines(make)
    assert len(said) == len(expected) and all(line.startswith(start) for line, start in zip(said, expected)), said


@pytest.mark.parametrize(
    "make",
    [
        lambda: ebu.EBU("CartPole-v1", beta=0.3, hidden_sizes=(8,), double_q=True, target_update_interval=500),
        lambda: ebu.DQN("CartPole-v1", double_q=False, stack=1, features_dim=0),
        lambda: ebu.NStepDQN("CartPole-v1", n_steps="episode", episode_choice="errors", priority_alpha=0.9),
        lambda: ebu.EBU("CartPole-v1", episode_choice="errors", priority_alpha=0.9),
        lambda: ebu.PrioritizedDQN("CartPole-v1", learning_rate=1e-3, priority_beta=0.1, priority_lr_scale=0.5),
        lambda: ebu.RedistributedQ("CartPole-v1", target_update_interval=90),
        lambda: ebu.RedistributedQ("CartPole-v1", tau=0.1, train_freq=4, target_update_interval=4),  # as it is in any case
        lambda: ebu.EBU("CartPole-v1", whole_episode=False, batch_size=8, log_every=50),
        lambda: ebu.EnsembleQ("CartPole-v1", initial_lambda=0.5, initial_horizon=0.5),
        lambda: ebu.EBU(Pictures(), features_dim=8, stack=2),
        lambda: ebu.EBU(Pictures(), network="mlp", hidden_sizes=(8,)),
        lambda: ebu.EBU(PicturesAndNumbers(), features_dim=8, hidden_sizes=(8,), stack=2),
        lambda: ebu.EBU("CartPole-v1", learning_rate_schedule="exponential", learning_rate_final=0.1, optimizer="rmsprop"),
        lambda: ebu.EBU([Corridor, Corridor], vectorization="async"),
        lambda: ebu.AdaptiveEBU("CartPole-v1", "quick"),
    ],
)
def test_a_setting_with_an_effect_draws_no_line(make):
    assert lines(make) == []


def test_presets_files_trials_and_loaded_policies_draw_no_line(tmp_path):
    (tmp_path / "all.toml").write_text("beta = 0.2\nn_steps = 5\nstack = 4\nlearning_rate_final = 0.5\nsteps = 50\n")
    assert lines(lambda: ebu.DQN("CartPole-v1", preset=str(tmp_path / "all.toml"))) == []
    assert lines(lambda: Agent.from_config(trial("dqn", "CartPole-v1", 0, beta=0.2, n_steps=5).config())) == []
    assert lines(lambda: ebu.DQN("maze")) == []
    agent = ebu.DQN("CartPole-v1", preset=str(tmp_path / "all.toml"))
    agent.save(tmp_path / "policy.ebu")
    assert lines(lambda: ebu.load(tmp_path / "policy.ebu")) == []


def test_the_command_line_draws_its_lines_on_standard_error(tmp_path, capsys):
    small = "--steps 40 --learning-starts 10 --batch-size 8 --hidden-sizes 8 --eval-episodes 1 --tensorboard False --quiet"
    assert ebu_(f"train CartPole-v1 --algo dqn --n-steps 5 --trace_lambda=0.2 {small} --run", tmp_path / "run") == 0
    shown = capsys.readouterr()
    assert [line for line in shown.err.splitlines() if "no effect" in line] == [
        "warning: --n-steps has no effect on dqn; --algo n-step uses it",
        "warning: --trace-lambda has no effect on dqn; --algo peng, redistributed-q, retrace and watkins use it",
    ]
    assert "no effect" not in shown.out
    (tmp_path / "all.toml").write_text("beta = 0.2\nn_steps = 5\n")
    assert ebu_(f"train CartPole-v1 --algo dqn {small} --preset", tmp_path / "all.toml", "--run", tmp_path / "file") == 0
    assert ebu_("resume", tmp_path / "run", "--steps", "60", "--quiet") == 0
    assert "no effect" not in capsys.readouterr().err


def test_a_method_of_one_s_own_that_does_not_say_what_it_uses_draws_no_line():
    with registries_restored():
        dqn = methods()["dqn"]
        Half = ebu.register(dataclasses.replace(dqn, name="half", uses=None))
        assert lines(lambda: Half("CartPole-v1", n_steps=5, beta=0.3)) == []
        Whole = ebu.register(dataclasses.replace(dqn, name="whole", uses=("beta",)))
        assert lines(lambda: Whole("CartPole-v1", n_steps=5, beta=0.3)) == [
            "n_steps has no effect on whole; ebu.NStepDQN uses it"
        ]


# ---------------------------------------------------------------------- the lines are true

OTHER = {  # a value that differs from the default, and changes something where it is read
    "beta": 0.9,
    "n_steps": 7,
    "trace_lambda": 0.3,
    "betas": (0.3, 0.7),
    "sync_interval": 25,
    "sync_score": "sum",
    "trace_lambdas": (0.2, 0.9),
    "bootstrap": "own",
    "acting": "mean",
    "horizon_updates": 5,
    "initial_lambda": 0.2,
    "initial_horizon": 0.9,
    "gate": 1.0,
    "return_bound": 1.0,
    "double_q": False,
    "tightening_weight": 0.7,
    "tightening_neighbours": 2,
    "priority_alpha": 0.9,
    "priority_beta": 0.5,
    "priority_lr_scale": 0.5,
    "priority_sort_interval": 10,
}
OF_ALL_METHODS = {"gamma", "truncation_is_terminal", "redistribute_rewards"}


def test_every_setting_of_some_methods_is_declared_by_those_that_read_it():
    package = [method for method in methods().values() if method.sampler.__module__.startswith("ebu.")]
    declared = {name for method in package for name in method.uses}
    of_targets = {field.name for field in dataclasses.fields(TargetConfig)} - OF_ALL_METHODS
    assert declared == OTHER.keys() == of_targets | {name for name in OTHER if name.startswith("priority_")}
    assert all(set(method.settings) <= set(method.uses) for method in package)


def weights(algo, **settings):
    agent = AGENTS[algo]("CartPole-v1", **SMALL | {"log_every": 10} | settings).learn(120)
    assert agent.loop.updates > 50
    return agent.loop.learner.online.state_dict()["parameters"].clone()


@pytest.mark.filterwarnings("ignore:.*has no effect")
@pytest.mark.parametrize("algo", list(AGENTS))
def test_what_is_said_to_have_no_effect_on_a_method_has_none(algo):
    few = {"betas": (0.0, 1.0)} if algo == "adaptive-ebu" else {"trace_lambdas": (0.5, 1.0)} if algo == "ensemble-q" else {}
    agent = AGENTS[algo]("CartPole-v1", **SMALL | few)
    config = override(agent.config, **OTHER | {"double_q": True})
    said = [found.name for found in unused_settings(agent.method, config, agent.interface.spec, OTHER)]
    assert said == sorted(OTHER.keys() - {*agent.method.uses})
    others = {name: (not flat(agent.config)["double_q"] if name == "double_q" else OTHER[name]) for name in said}
    assert torch.equal(weights(algo, **few), weights(algo, **few, **others))
