"""Runs that fail: what is left in the folder, what a report says about it, and how they go on when the cause is gone."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import gymnasium
import pytest

import ebu
from ebu.cli import main
from ebu.errors import EnvironmentFailure, RunFailure
from ebu.presets import configure
from ebu.report.page import build_page
from ebu.report.rows import read_run
from ebu.storage.checkpoints import CheckpointStore
from ebu.storage.run_folder import RunFolder, software_versions
from ebu.storage.verify import verify_checkpoints as verify
from ebu.training.environment_state import bring_back, comes_back_exactly
from ebu.training.open_episode import OpenEpisode
from ebu.training.trainer import Trainer
from tests.conftest import Corridor

SMALL = {"learning_starts": 40, "batch_size": 8, "log_every": 20, "hidden_sizes": (8,), "eval_episodes": 2}
FLAGS = "--learning-starts 40 --batch-size 8 --log-every 20 --hidden-sizes 8 --eval-episodes 2 --quiet True"


class Moody(Corridor):
    """Raises once ``broken`` has been set and so many steps of the episode were taken."""

    broken = False

    def step(self, action):
        if type(self).broken and self.steps == 3:
            raise OSError("the simulator\nfell over")
        return super().step(action)


@pytest.fixture
def moody():
    gymnasium.register("Moody-v0", entry_point=Moody)
    Moody.broken = False
    yield Moody
    gymnasium.registry.pop("Moody-v0")


def session_of(path, config):
    folder = RunFolder.open(path) if path.exists() else RunFolder.create(path, config)
    agent = ebu.Agent.from_config(config)
    return agent, Trainer(agent.loop, config.steps, folder=folder)


def train(session, listeners=()):
    return session.run(list(listeners), tensorboard=False)


# ---------------------------------------------------------------------- failure.json


def test_a_failure_is_left_in_the_folder_until_the_run_continues(tmp_path, moody):
    config = configure("dqn", "Moody-v0", steps=200, eval_every=0, **SMALL)
    agent, session = session_of(tmp_path / "r", config)

    def break_at(event):
        moody.broken = event.step >= 100

    with pytest.raises(EnvironmentFailure) as error:
        train(session, [break_at])
    recorded = json.loads((tmp_path / "r" / "failure.json").read_text())
    assert recorded == {"error": str(error.value)}
    assert "raised OSError at step" in recorded["error"] and "the simulator fell over" in recorded["error"]
    run = read_run(tmp_path / "r")
    assert (run.state, run.error) == ("failed", str(error.value))

    moody.broken = False
    again, session = session_of(tmp_path / "r", config)
    session.resume()
    assert again.loop.step == agent.loop.step and again.loop.actors.open == [None]  # the damaged episode is dropped
    assert train(session)
    assert not (tmp_path / "r" / "failure.json").exists()
    assert read_run(tmp_path / "r").state == "unfinished"  # until the summary is written


def test_a_run_that_fails_again_says_why_it_failed_last(tmp_path):
    folder = RunFolder.create(tmp_path / "r", configure("dqn", "CartPole-v1"))
    for words in ("first", "second\nand more"):
        with pytest.raises(RunFailure), folder.failures_recorded():
            assert not folder.failure.exists()
            raise RunFailure(words)
        assert json.loads(folder.failure.read_text()) == {"error": " ".join(words.split())}
    with pytest.raises(ZeroDivisionError), folder.failures_recorded():
        raise ZeroDivisionError("oops")
    assert json.loads(folder.failure.read_text()) == {"error": "ZeroDivisionError: oops"}
    with folder.failures_recorded():
        pass
    assert not folder.failure.exists()


def test_what_is_no_failure_is_not_recorded(tmp_path):
    folder = RunFolder.create(tmp_path / "r", configure("dqn", "CartPole-v1"))
    with pytest.raises(KeyboardInterrupt), folder.failures_recorded():
        raise KeyboardInterrupt
    assert not folder.failure.exists()


# ---------------------------------------------------------------------- environments that raise


def test_an_evaluation_that_raises_leaves_a_checkpoint_and_is_done_again(tmp_path, moody):
    config = configure("ebu", "Moody-v0", steps=200, eval_every=100, **SMALL)
    _, session = session_of(tmp_path / "straight", config)
    assert train(session)

    agent, session = session_of(tmp_path / "r", config)
    evaluation_env = agent.loop.evaluation_environment.env.unwrapped

    def refuse(action):
        raise ValueError("not today")

    evaluation_env.step = refuse
    with pytest.raises(EnvironmentFailure, match=r"raised ValueError in an evaluation, after action .: not today"):
        train(session)
    _, session = session_of(tmp_path / "r", config)
    session.resume()
    assert train(session)
    metrics = [(tmp_path / name / "metrics.jsonl").read_bytes() for name in ("straight", "r")]
    assert metrics[0] == metrics[1]  # nothing was lost: the training's own environment was sound


def test_an_environment_that_raises_in_the_probe_is_reported_by_the_run(tmp_path, moody, capsys):
    moody.broken = True
    assert comes_back_exactly(Moody())
    assert main(["train", "--env", "Moody-v0", *FLAGS.split(), "--run", str(tmp_path / "r")]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("ebu: the environment Moody-v0 raised OSError at step 4, after action")
    assert verify(tmp_path / "r" / "checkpoints") == []


def test_an_environment_that_refuses_its_old_actions_is_not_restored(moody):
    env = Moody()
    first, _ = env.reset(seed=0)
    episode = OpenEpisode(0, [first])
    for _ in range(5):
        episode.actions.append(0)
        episode.observations.append(env.step(0)[0])
    assert bring_back(Moody(), None, episode)
    moody.broken = True
    assert not bring_back(Moody(), None, episode)


# ---------------------------------------------------------------------- versions.json, and the report


def test_a_new_folder_records_the_software_it_begins_with(tmp_path):
    import torch

    folder = RunFolder.create(tmp_path / "r", configure("dqn", "CartPole-v1"))
    versions = json.loads(folder.versions.read_text())
    assert versions == software_versions() == read_run(folder.path).versions
    assert versions["ebu"] == ebu.__version__
    assert versions["torch"].partition("+")[0] == torch.__version__.partition("+")[0]  # +cu132 may be in one of them only
    assert {"python", "numpy", "scipy", "gymnasium"} <= versions.keys()
    assert folder.changed_software() == []


def test_other_software_on_resume_is_announced(tmp_path):
    config = configure("dqn", "CartPole-v1", steps=60, eval_every=0, **SMALL)
    _, session = session_of(tmp_path / "r", config)
    assert train(session)
    folder = RunFolder.open(tmp_path / "r")
    then = json.loads(folder.versions.read_text())
    folder.versions.write_text(json.dumps({**then, "torch": "0.4.1"}))
    said = []
    agent = ebu.Agent.from_config(config)
    Trainer(agent.loop, config.steps, folder=folder, announce=said.append).resume()
    assert f"the run began with other software (torch 0.4.1 → {then['torch']})" in said[0]
    for damaged in ("", "[]", "7"):
        folder.versions.write_text(damaged)
        assert folder.changed_software() == []


def test_a_report_shows_the_failure_and_the_versions(tmp_path, moody):
    moody.broken = True
    for name in ("a", "b"):
        assert main(["train", "--env", "Moody-v0", *FLAGS.split(), "--run", str(tmp_path / "runs" / name)]) == 1
    page = build_page([tmp_path / "runs"], tmp_path / "page.html").read_text(encoding="utf-8")
    assert "2 failed" in page and "failed: the environment Moody-v0 raised OSError at step 4" in page
    assert "Software of the runs (2 of 2 recorded it)" in page and software_versions()["torch"] in page


# ---------------------------------------------------------------------- a disk that fills up

STRAIGHT = "--env CartPole-v1 --steps 900 --checkpoint-every 100 --learning-starts 50 --batch-size 16 --log-every 5"
STRAIGHT += " --hidden-sizes 32 --eval-every 400 --eval-episodes 2 --quiet True"


@pytest.fixture
def small_disk(tmp_path):
    """A real file system of so many KiB, which can be made larger."""
    place = tmp_path / "disk"
    place.mkdir()

    def mount(kilobytes):
        mounted = os.path.ismount(place)
        options = f"{'remount,' if mounted else ''}size={kilobytes}k"
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], capture_output=True)
        if done.returncode:
            pytest.skip(f"a tmpfs cannot be mounted here: {done.stderr.decode().strip()}")
        return place

    try:
        yield mount
    finally:
        if os.path.ismount(place):
            subprocess.run(["umount", str(place)], check=True)


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    folder = tmp_path_factory.mktemp("straight") / "r"
    assert main(["train", *STRAIGHT.split(), "--run", str(folder)]) == 0
    return folder


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a tmpfs is Linux's")
@pytest.mark.parametrize("kilobytes", [170, 200, 230, 260])
def test_a_disk_that_really_fills_up_is_one_line_and_costs_nothing_that_was_saved(small_disk, straight, capfd, kilobytes):
    folder = small_disk(kilobytes) / "r"
    assert main(["train", *STRAIGHT.split(), "--run", str(folder)]) == 1
    errors = capfd.readouterr().err
    assert "Traceback" not in errors
    assert errors.splitlines()[-1].startswith("ebu: the disk is full: ")

    checkpoints = folder / "checkpoints"
    assert verify(checkpoints) == []
    assert CheckpointStore(checkpoints).load(pytest.fail).step >= 100
    assert [path for path in folder.rglob("*") if path.name.endswith(".part")] == []
    referred = CheckpointStore(checkpoints)._referred()
    assert {path.name for path in checkpoints.glob("episodes-*")} == referred

    small_disk(20_000)
    assert main(["resume", str(folder), "--quiet", "True"]) == 0
    for name in ("policy.ebu", "metrics.jsonl"):
        assert (folder / name).read_bytes() == (straight / name).read_bytes()
    assert not (folder / "failure.json").exists()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a tmpfs is Linux's")
def test_a_disk_without_any_room_is_refused_before_there_is_a_run(small_disk, capfd):
    place = small_disk(16)
    (place / "ballast").write_bytes(bytes(16 << 10))
    assert main(["train", *STRAIGHT.split(), "--run", str(place / "r")]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(f"ebu: cannot write to {place / 'r'}: No space left on device")
    assert not (place / "r" / "config.json").exists()
