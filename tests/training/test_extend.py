"""A finished run is extended: exactly, with its rows and schedules continued."""

from __future__ import annotations

import json
import shutil

import pytest

import ebu
from ebu.config import from_json
from ebu.errors import UserError
from ebu.storage.run_folder import RunFolder
from ebu.storage.verify import verify_run
from tests.conftest import ebu_

SMALL = {
    "learning_starts": 50,
    "batch_size": 16,
    "log_every": 50,
    "hidden_sizes": (16,),
    "eval_every": 100,
    "eval_episodes": 1,
}
FIRST, LAST = 200, 400


def agent():
    return ebu.EBU("CartPole-v1", seed=3, **SMALL)


def files(folder):
    return {name: (folder / name).read_bytes() for name in ("metrics.jsonl", "policy.ebu", "config.json")}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("extended") / "run"
    agent().learn(FIRST, run=folder)
    return folder


@pytest.fixture(scope="module")
def extended(finished, tmp_path_factory):
    folder = tmp_path_factory.mktemp("extended") / "run"
    shutil.copytree(finished, folder)
    assert ebu_(f"resume {folder} --steps {LAST} --quiet --no-tensorboard") == 0
    return folder


def test_an_extended_run_is_what_learning_on_over_the_sum_gives(finished, extended):
    twice = agent().learn(FIRST).learn(LAST - FIRST, reset_num_timesteps=False)
    again = agent().learn(FIRST).learn(LAST - FIRST)
    state = [[0.01, 0.02, 0.03, 0.04]]
    assert (ebu.load(extended / "policy.ebu").q_values(state) == twice.q_values(state)).all()
    assert (ebu.load(extended / "policy.ebu").q_values(state) != again.q_values(state)).any()  # ε would start at 1 again


def test_its_rows_continue_and_its_files_say_so(finished, extended):
    before, after = ((folder / "metrics.jsonl").read_bytes() for folder in (finished, extended))
    assert after.startswith(before)
    rows = [json.loads(line) for line in after.splitlines()]
    assert [row["step"] for row in rows if row["kind"] == "train"] == list(range(50, LAST + 1, 50))
    assert [row["step"] for row in rows if row["kind"] == "eval"] == [100, 200, 300, 400]
    assert json.loads((extended / "summary.json").read_text())["steps"] == LAST
    assert from_json((extended / "config.json").read_text()).steps == LAST
    assert verify_run(RunFolder.open(extended)) == []


def test_a_run_without_curves_goes_on_without(finished, tmp_path, capsys):
    """And one with curves goes on with them."""
    for name, more in (("with", 2), ("without", 0)):
        folder = tmp_path / name
        shutil.copytree(finished, folder)
        if not more:
            for events in folder.glob("events.out.tfevents.*"):
                events.unlink()
            (folder / "files.json").unlink()
        assert ebu_(f"resume {folder} --steps {FIRST + 50} --quiet") == 0
        assert len(list(folder.glob("events.out.tfevents.*"))) == more
        assert ("live curves" in capsys.readouterr().err) == bool(more)


@pytest.mark.parametrize("stop_at", [FIRST + 1, 290])
def test_an_extension_that_is_interrupted_continues_exactly(finished, extended, tmp_path, stop_at):
    shutil.copytree(finished, tmp_path / "run")
    folder = tmp_path / "run"
    ebu.resume(folder, steps=LAST, callback=lambda event: event.step < stop_at, announce=lambda text: None)
    assert not RunFolder.open(folder).is_finished and verify_run(RunFolder.open(folder)) == []
    assert ebu_(f"resume {folder} --steps {LAST} --quiet --no-tensorboard") == 0  # the same command again
    assert files(folder) == files(extended)


def test_an_extension_that_ended_before_its_first_step_continues_exactly(finished, extended, tmp_path):
    shutil.copytree(finished, tmp_path / "run")
    folder = RunFolder.open(tmp_path / "run")
    folder.extend(folder.extended_config(LAST))  # and then the power fails
    assert verify_run(folder) == []
    assert ebu_(f"resume {folder.path} --quiet --no-tensorboard") == 0
    assert files(folder.path) == files(extended)


def test_a_damaged_last_checkpoint_costs_an_extended_run_nothing(extended, tmp_path):
    """The one before it belongs to the shorter plan, which is finished first."""
    folder = tmp_path / "run"
    agent_ = ebu.EBU("CartPole-v1", seed=3, **SMALL, checkpoint_every=150)
    agent_.learn(FIRST, run=folder)
    newest = max((folder / "checkpoints").glob("generation-*"))
    (newest / "state.json").write_bytes(b"")
    told = []
    ebu.resume(folder, steps=LAST, announce=told.append)
    assert any("falling back to the checkpoint of step 150" in line for line in told)
    assert files(folder)["metrics.jsonl"] == files(extended)["metrics.jsonl"]


def test_two_extensions_follow_each_other(extended, tmp_path):
    shutil.copytree(extended, tmp_path / "run")
    ebu.resume(tmp_path / "run", steps=LAST + 50, announce=lambda text: None)
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["steps"] == LAST + 50


@pytest.mark.parametrize(
    ("steps", "words"), [(FIRST, "steps must be more than that, got 200"), (10**13, "at most"), (0, "must be more")]
)
def test_what_is_no_extension_is_refused_and_changes_nothing(finished, tmp_path, steps, words, capsys):
    shutil.copytree(finished, tmp_path / "run")
    before = files(tmp_path / "run")
    assert ebu_(f"resume {tmp_path / 'run'} --steps {steps}") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line
    assert files(tmp_path / "run") == before and RunFolder.open(tmp_path / "run").is_finished


def test_an_unfinished_run_is_resumed_before_it_is_extended(tmp_path):
    agent().learn(FIRST, run=tmp_path / "run", callback=lambda event: event.step < 100)
    with pytest.raises(UserError, match="has not finished its 200 steps; `ebu resume"):
        ebu.resume(tmp_path / "run", steps=LAST)


def test_a_finished_trial_without_checkpoints_cannot_be_extended(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "run", ignore=shutil.ignore_patterns("checkpoints"))
    with pytest.raises(UserError, match="cannot be extended"):
        ebu.resume(tmp_path / "run", steps=LAST)
