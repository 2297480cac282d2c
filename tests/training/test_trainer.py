"""When a session saves, what it abandons when it is asked to stop, and that no pickle takes part in any of it."""

from __future__ import annotations

import pickle
import random
import zipfile

import pytest

import ebu
from ebu.cli import main
from ebu.presets import configure
from ebu.storage.checkpoints import CheckpointStore
from ebu.storage.run_folder import RunFolder
from ebu.training.trainer import Trainer

SMALL = {"learning_starts": 40, "batch_size": 8, "log_every": 20, "hidden_sizes": (8,), "eval_episodes": 2}


def begin(path, algo="ebu", env="CartPole-v1", **settings):
    config = configure(algo, env, **{"steps": 100, "eval_every": 0, **SMALL, **settings})
    folder = RunFolder.open(path) if path.exists() else RunFolder.create(path, config)
    agent = ebu.Agent.from_config(config)
    return agent, Trainer(agent.loop, config.steps, folder=folder)


def train(session, listeners=()):
    return session.run(list(listeners), tensorboard=False)


@pytest.fixture
def saved(monkeypatch):
    """The steps at which checkpoints are written."""
    steps, save = [], CheckpointStore.save

    def noted(self, step, *more):
        steps.append(step)
        return save(self, step, *more)

    monkeypatch.setattr(CheckpointStore, "save", noted)
    return steps


# ---------------------------------------------------------------------- when


def test_checkpoints_are_written_every_so_many_steps_and_at_the_end(tmp_path, saved):
    _, session = begin(tmp_path / "r", checkpoint_every=40)
    assert train(session)
    assert saved == [40, 80, 100]


def test_checkpoints_are_written_every_so_many_minutes(tmp_path, saved):
    _, session = begin(tmp_path / "r", checkpoint_minutes=10.0)

    def wait_long_at_60(event):
        session._saves.saved_time -= 600 * (event.step == 60)

    assert train(session, [wait_long_at_60])
    assert saved == [60, 100]


def test_what_is_saved_already_is_not_saved_again(tmp_path, saved):
    _, session = begin(tmp_path / "r", checkpoint_every=20)
    assert not train(session, [lambda event: event.step < 60])
    assert saved == [20, 40, 60]  # not twice at 60
    _, session = begin(tmp_path / "r", checkpoint_every=20)
    session.resume()
    assert train(session)
    assert saved == [20, 40, 60, 80, 100, 100]  # the last one is of the evaluation at the end
    _, session = begin(tmp_path / "r", checkpoint_every=20)
    session.resume()
    assert train(session)
    assert len(saved) == 6


# ---------------------------------------------------------------------- asked to stop in the middle of something


@pytest.mark.parametrize("algo", ["ebu", "adaptive-ebu", "optimality-tightening"])
def test_work_that_is_abandoned_at_any_moment_is_done_again_exactly(tmp_path, algo):
    """Asked between phases, in evaluations and in computations of targets: wherever the loop asks whether to stop."""
    settings = {"algo": algo, "steps": 120, "eval_every": 30, "betas": (0.0, 1.0), "sync_interval": 40}
    asked = 0

    def counting(stop_at):
        nonlocal asked
        asked = 0

        def should_stop():
            nonlocal asked
            asked += 1
            return asked == stop_at

        return should_stop

    def outcome(agent, path):
        return agent.loop.learner.online.parameters.numpy().tobytes(), (path / "metrics.jsonl").read_bytes()

    agent, session = begin(tmp_path / "straight", **settings)
    agent.loop.should_stop = counting(None)
    assert train(session)
    expected, often = outcome(agent, tmp_path / "straight"), asked
    assert often > 200
    for number, stop_at in enumerate(random.Random(algo).sample(range(1, often), 8)):
        path = tmp_path / f"stopped-{number}"
        agent, session = begin(path, **settings)
        agent.loop.should_stop = counting(stop_at)
        assert not train(session)
        agent, session = begin(path, **settings)
        session.resume()
        assert train(session)
        assert outcome(agent, path) == expected, stop_at


# ---------------------------------------------------------------------- no pickle


def test_nothing_is_pickled_and_no_file_of_a_run_is_a_pickle(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("pickle was used")

    with monkeypatch.context() as patch:
        for name in ("dump", "dumps", "load", "loads", "Pickler", "Unpickler"):
            patch.setattr(pickle, name, refuse)
        for env in ("CartPole-v1", "maze", "breakout"):
            line = f"train --env {env} --steps 60 --learning-starts 20 --batch-size 8 --eval-episodes 1 --checkpoint-every 20"
            cap = {"maze": ["--env-args", "size=3", "cap=20"], "breakout": ["--env-args", "max_episode_steps=30"]}.get(env, [])
            folder = tmp_path / env
            assert main([*line.split(), *cap, "--run", str(folder), "--quiet", "True"]) == 0
            (folder / "summary.json").unlink()
            for command in (["resume", "--quiet", "True"], ["verify"], ["eval", "--episodes", "1"]):
                assert main([command[0], str(folder), *command[1:]]) == 0
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len({path.name for path in files}) > 12
    for path in files:
        assert not zipfile.is_zipfile(path), path  # as torch.save and np.savez write
        with pytest.raises((pickle.UnpicklingError, EOFError, ValueError, IndexError, KeyError)):
            pickle.loads(path.read_bytes())
