"""Agents' keywords as editors and type checkers see them: one source, ebu/config.py."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import ebu
from ebu.agent.settings import Settings
from ebu.config import field_names
from scripts import typed_settings


def test_the_keywords_are_the_settings_with_their_words():
    words = "run `python -m scripts.typed_settings` after a change of ebu/config.py"
    assert typed_settings.TARGET.read_text(encoding="utf-8") == typed_settings.render(), words
    assert Settings.__annotations__.keys() == field_names().keys() - typed_settings.WITHOUT


def test_every_setting_has_a_docstring():
    assert [name for name, _, text in typed_settings.settings() if not text.endswith(".") and not text.endswith("…")] == []


@pytest.mark.parametrize("agent", [ebu.EBU, ebu.DQN, ebu.Agent])
def test_notebooks_complete_every_setting(agent):
    parameters = inspect.signature(agent).parameters
    assert list(parameters)[:2] == ["env", "preset"] and Settings.__annotations__.keys() <= parameters.keys()


def test_a_subclass_with_arguments_of_its_own_shows_those():
    class Mine(ebu.DQN):
        def __init__(self, size, **settings):
            super().__init__("CartPole-v1", hidden_sizes=(size,), **settings)

    assert list(inspect.signature(Mine).parameters) == ["size", "settings"]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ebu.EBU("CartPole-v1", device="cpu"), 'EBU("CartPole-v1", steps=0, device=cpu, β=0.5)'),
        (lambda: ebu.NStepDQN("CartPole-v1", device="cpu", n_steps=5), 'NStepDQN("CartPole-v1", steps=0, device=cpu, n=5)'),
        (lambda: ebu.DQN("CartPole-v1", device="cpu"), 'DQN("CartPole-v1", steps=0, device=cpu)'),
    ],
)
def test_an_agent_says_what_it_is(make, words):
    assert repr(make()) == words


def test_an_agent_says_how_far_it_is():
    agent = ebu.DQN("CartPole-v1", device="cpu", eval_every=0, learning_starts=2_000, hidden_sizes=(4,)).learn(1_500)
    assert repr(agent) == 'DQN("CartPole-v1", steps=1_500, device=cpu)'


def test_a_loaded_policy_does_not_say_that_it_has_learned_nothing(tmp_path):
    ebu.DQN("CartPole-v1", device="cpu").save(tmp_path / "policy.ebu")
    assert repr(ebu.load(tmp_path / "policy.ebu", device="cpu")) == 'DQN("CartPole-v1", a loaded policy, device=cpu)'


@pytest.mark.slow
def test_a_type_checker_refuses_a_misspelt_keyword_and_a_wrong_type(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import ebu\n"
        'ebu.EBU("CartPole-v1", beta=0.5, hidden_sizes=(8, 8), env_args={"sutton_barto_reward": True})\n'
        'ebu.EBU("CartPole-v1", bata=0.5)\n'
        'ebu.DQN("CartPole-v1", batch_size="large")\n'
        'ebu.DQN("CartPole-v1", optimizer="sgdx")\n'
    )
    command = [sys.executable, "-m", "mypy", "--config-file", "", "--ignore-missing-imports", str(program)]
    found = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parent.parent).stdout
    for line, words in ((3, 'Unexpected keyword argument "bata"'), (4, "incompatible type"), (5, "incompatible type")):
        assert any(f"program.py:{line}: error:" in row and words in row for row in found.splitlines()), found
    assert "program.py:2:" not in found
