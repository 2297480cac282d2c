"""Presets as files: what they give, what stands above them, and one line for everything that is wrong with one."""

from __future__ import annotations

import tomllib
from typing import Literal, get_args, get_origin

import pytest

import ebu
from ebu.config import Config, field_names, flat, from_json, override
from ebu.config_check import check
from ebu.envs.families import families
from ebu.preset_files import preset_text, read_preset
from ebu.presets import configure, differences
from tests.conftest import ebu_
from tests.training.test_anything import HINTS

SMALL = "--steps 60 --learning-starts 20 --eval-episodes 1 --hidden-sizes 8 --batch-size 8 --tensorboard False"
TUNED = 'algo = "peng"\nenv = "CartPole-v1"\nlearning_rate = 2e-3\nhidden_sizes = [16, 8]\n'


@pytest.fixture
def tuned(tmp_path):
    path = tmp_path / "tuned.toml"
    path.write_text(TUNED)
    return path


def settings_of(run):
    return from_json((run / "config.json").read_text())


def test_a_file_names_method_environment_and_settings(tuned, tmp_path):
    assert (
        ebu_(
            "train --steps 60 --learning-starts 20 --eval-episodes 1 --tensorboard False --preset",
            tuned,
            "--run",
            tmp_path / "run",
        )
        == 0
    )
    expected = configure(
        "peng", "CartPole-v1", steps=60, learning_starts=20, eval_episodes=1, learning_rate=2e-3, hidden_sizes=(16, 8)
    )
    assert settings_of(tmp_path / "run") == expected
    assert expected.preset == "quick" and expected.target.trace_lambda == 0.7  # the run folder does not need the file again


def test_flags_stand_above_the_file(tuned, tmp_path):
    line = f"train {SMALL} --algo dqn --env Acrobot-v1 --max-episode-steps 50 --preset"
    assert ebu_(line, tuned, "--run", tmp_path / "run") == 0
    config = settings_of(tmp_path / "run")
    assert (config.algo, config.environment.env, config.network.hidden_sizes) == ("dqn", "Acrobot-v1", (8,))
    assert config.learner.learning_rate == 2e-3


def test_python_takes_the_same_file(tuned):
    agent = ebu.PengQ("CartPole-v1", preset=str(tuned), batch_size=8)
    assert agent.config == configure("peng", "CartPole-v1", batch_size=8, learning_rate=2e-3, hidden_sizes=(16, 8))


def test_arguments_of_the_environment_are_added_to_the_preset_s(tmp_path):
    path = tmp_path / "slippery.toml"
    path.write_text("env_args = {slip = 0.25}\n")
    pairs = configure("ebu", "maze", str(path)).environment.env_args
    assert pairs == (*configure("ebu", "maze").environment.env_args, "slip=0.25")


def another(value, hint):
    if get_origin(hint) is Literal:
        return next(word for word in get_args(hint) if word != value)
    if isinstance(value, tuple):
        return tuple(another(one, get_args(hint)[0]) for one in value)
    return (not value) if isinstance(value, bool) else value + 1 if isinstance(value, int) else value / 3 + 1e-5


def odd_values():
    """Another possible value for every setting; by its type, but for words and what other settings depend on."""
    other = {"env": "Acrobot-v1", "algo": "dqn", "preset": "quick", "device": "cpu", "network": "mlp", "n_steps": "episode"}
    other |= {
        "env_args": ('say="a \\\x7f ü"', "n=1"),
        "env_wrappers": ('ClipReward {"max_reward": 1}',),
        "betas": (0.25, 1e-7),
    }
    return {name: another(value, HINTS[name]) for name, value in flat(Config()).items() if name not in other} | other


def test_every_setting_survives_the_file(tmp_path):
    config = override(Config(), **odd_values())
    check(config)
    (tmp_path / "odd.toml").write_text(preset_text(flat(config), "a comment\nof two lines"), encoding="utf-8")
    assert configure("dqn", "Acrobot-v1", str(tmp_path / "odd.toml")) == config
    assert all(value != flat(Config())[name] for name, value in odd_values().items() if name != "preset")


@pytest.mark.parametrize("kind", families(), ids=lambda kind: kind.name)
def test_every_preset_shown_is_a_file_that_gives_it(kind, tmp_path, capsys):
    env = next(iter(kind.examples))
    for preset in kind.presets:
        for more in ("", " --all"):
            assert ebu_(f"presets show {preset} --env {env} --algo n-step{more}") == 0
            (tmp_path / "shown.toml").write_text(capsys.readouterr().out, encoding="utf-8")
            assert configure("n-step", env, str(tmp_path / "shown.toml")) == configure("n-step", env, preset)


def test_a_run_is_shown_as_a_file_that_gives_its_settings(tuned, tmp_path, capsys):
    assert ebu_(f"train {SMALL} --seed 3 --preset", tuned, "--run", tmp_path / "run") == 0
    capsys.readouterr()
    assert ebu_("presets show", tmp_path / "run") == 0
    (tmp_path / "shown.toml").write_text(capsys.readouterr().out)
    shown = read_preset(tmp_path / "shown.toml")
    assert (shown["algo"], shown["env"], shown["learning_rate"]) == ("peng", "CartPole-v1", 2e-3) and "seed" not in shown
    assert configure("peng", "CartPole-v1", str(tmp_path / "shown.toml"), seed=3) == settings_of(tmp_path / "run")
    assert ebu_("presets show", tuned) == 0
    assert tomllib.loads(capsys.readouterr().out).items() >= read_preset(tuned).items()


def test_differences_leave_out_what_belongs_to_whoever_runs_it():
    config = configure("ebu", "CartPole-v1", beta=0.25, seed=9, device="cpu", threads=3)
    assert differences(config) == {"preset": "quick", "algo": "ebu", "env": "CartPole-v1", "beta": 0.25}
    assert {"seed", "device", "threads"} <= {name for name, stage in field_names().items() if stage == "run"}


def test_presets_lists_those_of_each_family(capsys):
    assert ebu_("presets") == 0
    shown = capsys.readouterr().out
    assert all(kind.name in shown and ", ".join(kind.presets) in shown for kind in families())
    assert ebu_("presets --help") == 0 and "ebu presets show" in capsys.readouterr().out


WRONG = {
    "an unknown setting": ("learning_rat = 1", "there is no setting 'learning_rat'; did you mean learning_rate?"),
    "no TOML": ("learning_rate", "is not a preset file"),
    "a table": ("[learner]\nlearning_rate = 1", "there is no setting 'learner'"),
    "a value out of range": ("gamma = 7", "gamma must be between 0 and 1, got 7"),
    "a text for a number": ('batch_size = "many"', "batch_size must be a whole number"),
    "a date": ("learning_rate = 2020-01-01", "learning_rate must be greater than 0"),
    "a number for a name": ("algo = 3", "algo must be a name, got 3"),
    "another file": ('preset = "other.toml"', "starts from a preset of the environment, not from 'other.toml'"),
    "a preset there is not": ('preset = "fast"', "there is no preset 'fast' for maze"),
    "a method there is not": ('algo = "sarsa"', "there is no algorithm 'sarsa'"),
    "a module": ('env = "antigravity:Env-v0"', "name it yourself: --env antigravity:Env-v0"),
    "no text": (b"\xff\xfe", "is not a preset file"),
    "deep": ("env_args = " + "[" * 5_000, "is not a preset file"),
}


@pytest.mark.parametrize(("content", "words"), WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("command", ["train --tensorboard False --run {folder}/run --preset", "presets show"])
def test_a_file_that_is_wrong_is_refused_in_one_line(command, content, words, tmp_path, capsys):
    path = tmp_path / "wrong.toml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert ebu_(command.format(folder=tmp_path), path) == 2
    error = capsys.readouterr().err
    assert words in error and len(error.splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_a_file_that_is_not_there_says_how_to_get_one(capsys):
    assert ebu_("train --preset nowhere.toml") == 2
    assert (
        "there is no preset file nowhere.toml; `ebu presets show quick > nowhere.toml` writes one" in capsys.readouterr().err
    )
    assert ebu_("presets hide") == 2
    assert "ebu presets takes no arguments, or show PRESET, got hide" in capsys.readouterr().err
