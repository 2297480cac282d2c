"""Copies, interrupts, second threads, and files that name modules: refused in one line, or done right; never silent."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import sys
import threading
import time

import gymnasium
import numpy as np
import pytest

import ebu
from ebu.cli import main
from ebu.networks.policy_file import load_policy
from tests.conftest import Corridor

SMALL = {"learning_starts": 50, "batch_size": 8, "hidden_sizes": (8,), "eval_every": 0}


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, pickle.dumps], ids=lambda way: way.__name__)
def test_an_agent_is_not_copied_behind_its_back(way):
    with pytest.raises(ebu.UserError, match=r"cannot be copied or pickled; use agent\.save\(path\) and ebu\.load\(path\)"):
        way(ebu.EBU("CartPole-v1", **SMALL))


def test_two_learns_at_once_are_refused():
    agent = ebu.EBU("CartPole-v1", **SMALL)
    errors = []

    def again(event):
        try:
            agent.learn(10)
        except ebu.UserError as error:
            errors.append(str(error))
        return False

    agent.learn(2_000, callback=again)
    assert errors and "already learning" in errors[0]
    agent.learn(10)  # the first one is over


class Slow(Corridor):
    """Remembers what really happened: (observation before, action, observation after) of every step."""

    def __init__(self):
        super().__init__(length=60, limit=50)
        self.happened = set()

    def reset(self, **options):
        observation, info = super().reset(**options)
        self.last = tuple(observation)
        return observation, info

    def step(self, action):
        result = super().step(action)
        time.sleep(0.0005)
        self.happened.add((self.last, int(action), tuple(result[0])))
        self.last = tuple(result[0])
        return result


def stored(memory):
    """Every stored transition."""
    for number in range(memory.first_episode, memory.end_episode):
        span = memory.read(np.array([number]), np.array([0]), memory.lengths(np.array([number])))
        for row, action in zip(span.rows, span.actions):
            yield tuple(span.frames[row]), int(action), tuple(span.frames[row + 1])


def test_a_signal_stops_learn_between_two_steps_and_it_continues_exactly():
    env = Slow()
    agent = ebu.EBU(env, **{**SMALL, "learning_starts": 10**6}).learn(1)
    rng = np.random.default_rng(0)
    interrupted = 0
    for _ in range(40):
        timer = threading.Timer(0.002 + 0.02 * rng.random(), os.kill, (os.getpid(), signal.SIGINT))
        try:
            timer.start()
            agent.learn(400)
            timer.join()
        except KeyboardInterrupt:
            interrupted += 1
    assert interrupted >= 20
    steps = list(stored(agent.loop.memory))
    assert len(steps) >= agent.loop.step - 50  # nothing was dropped but the open episode, which is not stored yet
    assert set(steps) <= env.happened


def test_an_interrupt_inside_the_environment_s_step_drops_the_open_episode():
    """It falls between what the environment did and what the loop noted: that episode cannot be continued."""

    class Interrupted(Slow):
        def step(self, action):
            result = super().step(action)
            if len(self.happened) > 5 and self.np_random.random() < 0.02:
                raise KeyboardInterrupt
            return result

    env = Interrupted()
    agent = ebu.EBU(env, **{**SMALL, "learning_starts": 10**6})
    interrupted = 0
    while interrupted < 40:
        try:
            agent.learn(400)
        except KeyboardInterrupt:
            interrupted += 1
            assert agent.loop.actors.open == [None]
    assert set(stored(agent.loop.memory)) <= env.happened


# ---------------------------------------------------------------------- modules that files name

STRANGER = """
import pathlib
pathlib.Path("it-ran").touch()
import gymnasium
from tests.conftest import Corridor
gymnasium.register("Stranger-v0", Corridor)
"""


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    """A run whose files name an environment as helpers_of_a_stranger:Stranger-v0, in a process that knows nothing of it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "helpers_of_a_stranger.py").write_text(STRANGER)
    name = "helpers_of_a_stranger:Stranger-v0"
    line = f"train --env {name} --steps 120 --learning-starts 50 --hidden-sizes 8 --eval-every 0 --eval-episodes 1"
    assert main([*line.split(), "--quiet", "True", "--tensorboard", "False", "--run", "run"]) == 0  # one's own command line
    forget()
    (tmp_path / "it-ran").unlink()
    yield tmp_path
    forget()


def forget():
    sys.modules.pop("helpers_of_a_stranger", None)
    gymnasium.registry.pop("Stranger-v0", None)


COMMANDS = [
    "eval run --episodes 1",
    "eval run/policy.ebu --episodes 1",
    "resume run",
    "verify run --prove True",
    "rescue run --out out.ebu",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_module_named_by_a_file_is_imported_only_when_it_is_trusted(stranger, command, capsys):
    assert main(command.split()) == 2
    told = capsys.readouterr().err
    assert "names the environment helpers_of_a_stranger:Stranger-v0" in told and "--trust-env" in told
    assert not (stranger / "it-ran").exists()
    if "prove" not in command:
        assert main([*command.split(), "--trust-env", "True"]) == 0
        assert (stranger / "it-ran").exists()


def test_the_command_that_a_training_names_next_is_taken(stranger, capsys):
    assert main(["resume", "run", "--trust-env", "--quiet"]) == 0
    following = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("next"))
    forget()
    words = following.removeprefix("next").split()
    assert words[:2] == ["ebu", "eval"] and main([*words[1:], "--episodes", "1"]) == 0


def test_the_same_from_python(stranger):
    for attempt in (lambda: ebu.load("run/policy.ebu"), lambda: ebu.resume("run")):
        with pytest.raises(ebu.UserError, match="trust_env=True"):
            attempt()
    assert not (stranger / "it-ran").exists()
    assert load_policy(stranger / "run" / "policy.ebu").config.environment.env.startswith("helpers_of_a_stranger:")
    agent = ebu.load("run/policy.ebu", env=Corridor())  # with an environment of one's own nothing has to be imported
    assert not (stranger / "it-ran").exists()
    assert ebu.evaluate(agent, Corridor(), episodes=1).lengths
    assert ebu.evaluate(ebu.load("run/policy.ebu", trust_env=True), episodes=1).lengths
