"""Copies, interrupts, second threads, and files that name modules: refused in one line, or done right; never silent."""

from __future__ import annotations

import _thread
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


@pytest.mark.parametrize("how", ["a signal", "two signals"])
def test_after_an_interrupt_no_transition_is_stored_that_did_not_happen(how):
    env = Slow()
    agent = ebu.EBU(env, **{**SMALL, "learning_starts": 10**6}).learn(1)
    rng = np.random.default_rng(0)
    interrupted = 0
    for _ in range(40):
        timer = threading.Timer(0.002 + 0.02 * rng.random(), os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        second = threading.Timer(timer.interval + 0.0003, _thread.interrupt_main)
        if how == "two signals":
            second.start()
        try:
            agent.learn(400)
        except KeyboardInterrupt:
            interrupted += 1
        try:
            timer.join()
            if how == "two signals":
                second.join()
            time.sleep(0.001)
        except KeyboardInterrupt:  # the second one came late
            pass
    assert interrupted >= 20
    memory = agent.loop.memory
    for number in range(memory.first_episode, memory.end_episode):
        length = memory.lengths(np.array([number]))
        span = memory.read(np.array([number]), np.array([0]), length)
        for row, action in zip(span.rows, span.actions):
            step = (tuple(span.frames[row]), int(action), tuple(span.frames[row + 1]))
            assert step in env.happened, "a transition that did not happen"


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


COMMANDS = ["eval run --episodes 1", "eval run/policy.ebu --episodes 1", "resume run", "verify run --prove True"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_module_named_by_a_file_is_imported_only_when_it_is_trusted(stranger, command, capsys):
    assert main(command.split()) == 2
    told = capsys.readouterr().err
    assert "names the environment helpers_of_a_stranger:Stranger-v0" in told and "--trust-env" in told
    assert not (stranger / "it-ran").exists()
    if "prove" not in command:
        assert main([*command.split(), "--trust-env", "True"]) == 0
        assert (stranger / "it-ran").exists()


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
