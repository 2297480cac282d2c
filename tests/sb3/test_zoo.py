"""The RL Zoo's own commands train, play and tune with our algorithms."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.waiting import PATIENCE

pytestmark = pytest.mark.slow
ZOO = "rl_zoo3"


def zoo(folder, *words):
    command = [sys.executable, "-m", "ebu.sb3.zoo", *words]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_it_trains_with_the_settings_for_dqn_and_plays(tmp_path):
    pytest.importorskip(ZOO, reason="pip install 'episodic-backward-update[zoo]'")
    trained = zoo(tmp_path, "train", "--algo", "ebu", "--env", "CartPole-v1", "-n", "1500", "--seed", "0")
    assert "('learning_rate', 0.0023)" in trained  # the Zoo's tuned value for DQN on CartPole
    played = zoo(tmp_path, "enjoy", "--algo", "ebu", "--env", "CartPole-v1", "--folder", "logs", "-n", "100", "--no-render")
    assert "Loading logs/ebu/CartPole-v1_1/CartPole-v1.zip" in played


def test_it_tunes_the_setting_that_the_method_adds(tmp_path):
    pytest.importorskip(ZOO, reason="pip install 'episodic-backward-update[zoo]'")
    settings = ("-n", "400", "--optimize", "--n-trials", "1", "--eval-freq", "200", "--n-evaluations", "1")
    tuned = zoo(tmp_path, "train", "--algo", "peng", "--env", "CartPole-v1", "--seed", "0", *settings)
    assert "trace_lambda:" in tuned


def test_a_file_of_settings_is_used_where_one_is_named(tmp_path):
    pytest.importorskip(ZOO, reason="pip install 'episodic-backward-update[zoo]'")
    (tmp_path / "own.yml").write_text("CartPole-v1:\n  n_timesteps: 300\n  policy: 'MlpPolicy'\n  beta: 0.25\n")
    assert "('beta', 0.25)" in zoo(tmp_path, "train", "--algo", "ebu", "--env", "CartPole-v1", "-conf", "own.yml")


def test_without_the_zoo_one_line_names_the_extra(tmp_path):
    (tmp_path / "rl_zoo3.py").write_text("raise ImportError('not there')")
    command = [sys.executable, "-m", "ebu.sb3.zoo", "train"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
    assert result.returncode == 1
    assert result.stderr.rstrip().endswith("pip install 'episodic-backward-update[zoo]'")
