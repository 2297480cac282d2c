"""A new target rule is two files beside those of the package: the recurrence, and the method that uses it."""

from __future__ import annotations

import importlib
import pkgutil

import numpy as np
import pytest
import torch

import ebu
from ebu import algorithms, targets
from ebu.presets import configure
from tests.conftest import ebu_
from tests.registries import registries_restored

RULE = '''
import math


def soft_one_step(rewards, discounts, q_next, temperature):
    """y_t = R_t + γ τ log mean_a exp(Q(S_{t+1}, a) / τ): between the mean and the maximum over actions."""
    soft = temperature * ((q_next / temperature).logsumexp(-1) - math.log(q_next.shape[-1]))
    return rewards + discounts * soft
'''
METHOD = '''
"""DQN with a soft maximum. Changes from DQN: the target."""

from ebu.agent import Agent
from ebu.algorithms.dqn import sampler
from ebu.registry import Method
from ebu.types import Targets


def rule(config):
    from ebu.targets.soft import soft_one_step

    return lambda span: Targets(soft_one_step(span.rewards, span.discounts, span.target_next, 0.1))


class SoftDQN(Agent):
    """One-step targets with a soft maximum."""

    method = Method(name="soft", title="DQN with a soft maximum", sampler=sampler, rule=rule)
'''


@pytest.fixture
def two_files(tmp_path, monkeypatch):
    """The two files as if they lay in ebu/targets and ebu/algorithms; found as the others are."""
    for package, name, text in ((targets, "soft.py", RULE), (algorithms, "soft.py", METHOD)):
        folder = tmp_path / package.__name__
        folder.mkdir()
        (folder / name).write_text(text)
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])
    with registries_restored("ebu.targets.soft", "ebu.algorithms.soft"):
        for module in pkgutil.iter_modules(algorithms.__path__):  # as the package does when it is imported
            importlib.import_module(f"ebu.algorithms.{module.name}")
        yield


def test_the_method_is_found_listed_trained_and_resumed(two_files, tmp_path, capsys):
    assert ebu_("list") == 0
    assert "DQN with a soft maximum" in capsys.readouterr().out
    small = "--learning-starts 50 --batch-size 8 --hidden-sizes 8 --eval-every 0 --eval-episodes 1 --quiet --tensorboard False"
    assert ebu_(f"train CartPole-v1 --algo soft --steps 150 {small} --run", tmp_path / "run") == 0
    assert ebu.load(tmp_path / "run/policy.ebu").algo == "soft"
    agent = ebu.SoftDQN("CartPole-v1", seed=0, learning_starts=50, batch_size=8, hidden_sizes=(8,), eval_every=0)
    agent.learn(150, run=tmp_path / "other", callback=lambda event: event.step < 100)
    assert ebu.resume(tmp_path / "other").loop.updates > 0
    assert configure("soft", "CartPole-v1").algo == "soft"


def test_the_rule_has_its_row(two_files):
    """Between one step with the mean and one step with the maximum, which is what a small temperature gives."""
    from ebu.targets.soft import soft_one_step

    rng = np.random.default_rng(0)
    rewards, discounts = (torch.from_numpy(rng.random(5)) for _ in range(2))
    values = torch.from_numpy(rng.normal(size=(1, 5, 3)))
    hard = targets.one_step(rewards, discounts, values)
    soft = soft_one_step(rewards, discounts, values, 1.0)
    assert (soft < hard).all() and (soft > rewards + discounts * values.mean(-1)).all()
    torch.testing.assert_close(soft_one_step(rewards, discounts, values, 1e-6), hard, atol=1e-5, rtol=0)
