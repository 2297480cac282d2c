"""What a newcomer writes that cannot be: one line that shows what to write instead."""

from __future__ import annotations

import zipfile

import pytest

import ebu
from ebu.agent import choose_device
from ebu.callbacks import KeepBest
from ebu.config import Config, override
from tests.conftest import ebu_

SMALL = {"hidden_sizes": (8,), "learning_starts": 10, "batch_size": 8, "eval_every": 0}


def refused(call):
    with pytest.raises(ebu.UserError) as error:
        call()
    assert "\n" not in str(error.value)
    return str(error.value)


def test_the_class_of_a_callback_in_place_of_an_instance():
    agent = ebu.EBU("CartPole-v1", **SMALL)
    for callback in (KeepBest, [KeepBest]):
        assert "pass an instance: KeepBest(...)" in refused(lambda given=callback: agent.learn(20, callback=given))
    assert agent.num_timesteps == 0


@pytest.mark.parametrize("path", [None, 3, b"policy.ebu"])
def test_something_that_is_no_path_cannot_be_loaded(path):
    assert refused(lambda: ebu.load(path)) == f"load takes the name of a file or of a run folder, got {path!r}"


def archive(path, names):
    with zipfile.ZipFile(path, "w") as file:
        for name in names:
            file.writestr(name, b"{}")
    return path


def test_a_model_of_stable_baselines3_is_named_as_one(tmp_path):
    model = archive(tmp_path / "sb.zip", ["data", "pytorch_variables.pth", "policy.pth", "_stable_baselines3_version"])
    words = refused(lambda: ebu.load(model))
    assert words.startswith(f"{model} is a model of Stable-Baselines3, not a policy of ebu; ")
    assert "docs/from-stable-baselines3.md" in words
    other = archive(tmp_path / "other.zip", ["notes.txt"])
    assert "'notes.txt', which is no part of an agent" in refused(lambda: ebu.load(other))


def test_a_real_model_of_stable_baselines3_is_named_as_one(tmp_path):
    sb3 = pytest.importorskip("stable_baselines3")
    sb3.DQN("MlpPolicy", "CartPole-v1", buffer_size=10, device="cpu").save(tmp_path / "sb")
    assert "is a model of Stable-Baselines3" in refused(lambda: ebu.load(tmp_path / "sb.zip"))


@pytest.mark.parametrize("content", [b"", b"hi", b"a text file of some length\n" * 9, bytes(100)])
def test_a_foreign_file_is_said_to_be_none_of_ours(tmp_path, capsys, content):
    path = tmp_path / "some.txt"
    path.write_bytes(content)
    assert refused(lambda: ebu.load(path)) == f"{path} is not a policy file of ebu"
    assert ebu_("eval", path) == 2
    assert capsys.readouterr().err == f"ebu: {path} is not a policy file of ebu\n"


def test_a_policy_that_is_cut_short_is_damaged_and_not_foreign(tmp_path):
    path = tmp_path / "policy.ebu"
    ebu.EBU("CartPole-v1", **SMALL).save(path)
    path.write_bytes(path.read_bytes()[:100])
    assert "invalid policy file: the header is longer than the file" in refused(lambda: ebu.load(path))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"seed": None}, "got None; every run has one: for another each time, seed=random.randrange(2**32)"),
        ({"env_wrappers": "ClipReward"}, "env_wrappers must be a tuple, got 'ClipReward'; write ('ClipReward',)"),
        ({"hidden_sizes": 64}, "hidden_sizes must be a tuple, got 64; write (64,)"),
        ({"betas": 0.5}, "betas must be a tuple, got 0.5; write (0.5,)"),
        ({"hidden_sizes": {64}}, "hidden_sizes must be a tuple, got {64}"),
        ({"buffer_size": 1.5e-1}, "buffer_size must be a whole number of at least 1, got 0.15"),
        ({"buffer_size": float("inf")}, "buffer_size must be a whole number of at least 1, at most"),
        ({"buffer_size": float("nan")}, "buffer_size must be a whole number of at least 1, got nan"),
        ({"seed": -1.0}, "seed must be a whole number between 0 and"),
    ],
    ids=str,
)
def test_an_impossible_setting_is_refused_with_what_to_write(settings, words):
    assert words in refused(lambda: ebu.EBU("CartPole-v1", **settings))


def test_counts_may_be_written_as_whole_floats_as_in_learn():
    agent = ebu.NStepDQN("CartPole-v1", buffer_size=1e5, learning_starts=2e3, n_steps=5.0)
    assert agent.config == ebu.NStepDQN("CartPole-v1", buffer_size=100_000, learning_starts=2_000, n_steps=5).config
    config = override(Config(), buffer_size=1e5, gamma=1.0, n_steps="episode")
    assert type(config.memory.buffer_size) is int and type(config.target.gamma) is float
    assert config.target.n_steps == "episode"


def test_a_device_that_is_not_there_is_refused_with_the_words_of_python_and_of_the_command_line(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert 'use device="cpu" (--device cpu)' in refused(lambda: choose_device("cuda"))
