"""Episodes and evaluations that no environment ends: cut, learned from, told once; checkpoints are written meanwhile."""

from __future__ import annotations

import itertools
import time

import gymnasium
import numpy as np
import pytest

import ebu
from ebu.agent import create_run
from ebu.presets import configure
from ebu.storage.checkpoints import CheckpointStore
from ebu.storage.lock import RunLock
from ebu.training.events import EpisodeEnded
from tests.conftest import Corridor

SMALL = {"learning_starts": 20, "batch_size": 8, "hidden_sizes": (8,), "eval_every": 0, "eval_episodes": 1}


@pytest.fixture(autouse=True)
def endless():
    """A corridor without an end and without a limit."""
    gymnasium.register("Endless-v0", lambda **_: Corridor(length=10**9, limit=10**9))
    yield
    del gymnasium.registry["Endless-v0"]


@pytest.mark.parametrize(("settings", "bound"), [({"max_episode_steps": 30}, 30), ({"buffer_size": 50}, 50)], ids=str)
def test_an_episode_without_end_is_cut_at_the_bound_and_learned_from(settings, bound):
    events = []
    agent = ebu.EBU("Endless-v0", **SMALL, **settings)
    with pytest.warns(UserWarning, match=f"an episode was truncated at {bound} steps") as told:
        agent.learn(200, callback=events.append)
    assert len(told) == 1  # once
    ended = [event for event in events if isinstance(event, EpisodeEnded)]
    assert [event.length for event in ended] == [bound] * (200 // bound)
    assert all(event.was_cut and not event.terminated for event in ended)
    assert agent.loop.updates > 50
    assert agent.loop.memory.steps <= 200
    span = agent.loop.memory.read(np.array([agent.loop.memory.first_episode]), np.array([0]), np.array([bound]))
    assert span.discounts[-1] > 0  # the value beyond the cut is bootstrapped


def test_the_default_bound_is_27000_steps_or_the_memory():
    assert ebu.EBU("Endless-v0").loop.longest_episode == 27_000
    assert ebu.EBU("Endless-v0", buffer_size=1_000).loop.longest_episode == 1_000


def test_an_evaluation_without_end_is_cut_too():
    agent = ebu.EBU("Endless-v0", max_episode_steps=40, **SMALL)
    assert agent.loop.evaluate().evaluation.lengths == (40,)
    assert ebu.evaluate(agent, episodes=2).lengths == (40, 40)


def test_learning_on_after_a_run_writes_nothing_into_its_folder(tmp_path, monkeypatch):
    agent = ebu.EBU("CartPole-v1", **{**SMALL, "eval_every": 50, "checkpoint_minutes": 1.0})
    agent.learn(60, run=tmp_path / "r")
    before = {path: path.read_bytes() for path in (tmp_path / "r").rglob("*") if path.is_file()}
    clock = itertools.count(10**6, 61.0)  # a checkpoint of the run before would be due at every look
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    agent.learn(60)
    assert {path: path.read_bytes() for path in (tmp_path / "r").rglob("*") if path.is_file()} == before


def test_an_environment_that_ends_is_not_touched():
    events = []
    ebu.EBU("CartPole-v1", **SMALL).learn(300, callback=events.append)
    assert not any(event.was_cut for event in events if isinstance(event, EpisodeEnded))


def test_checkpoints_are_written_during_an_evaluation_and_the_run_resumes_exactly(tmp_path, monkeypatch):
    """The clock says that a checkpoint is due at every look; the one in the evaluation has it as still due."""
    config = configure("ebu", "CartPole-v1", **{**SMALL, "steps": 60, "eval_every": 30, "checkpoint_minutes": 1.0})
    clock = itertools.count(0, 61.0)
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    saved, save = [], CheckpointStore.save

    def noted(self, step, tree, episodes):
        saved.append((step, tree["loop"]["due"]))
        return save(self, step, tree, episodes)

    monkeypatch.setattr(CheckpointStore, "save", noted)
    agent, folder = ebu.Agent.from_config(config), create_run(tmp_path / "r", config)
    with RunLock(folder.path):
        agent.train_in(folder, tensorboard=False)
    assert (30, ["evaluate"]) in saved
    monkeypatch.undo()
    straight = ebu.Agent.from_config(config)
    other = create_run(tmp_path / "s", config)
    with RunLock(other.path):
        straight.train_in(other, tensorboard=False)
    assert folder.metrics.read_bytes() == other.metrics.read_bytes()
