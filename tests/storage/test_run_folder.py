"""The run folder: made once, never overwritten, readable again, and clear about what is wrong with one that is not."""

from __future__ import annotations

import json

import pytest

from ebu.config import Config, override
from ebu.errors import UserError
from ebu.storage.run_folder import RunFolder, evaluations
from ebu.training.events import Evaluated, Trained
from ebu.training.listeners import Recorder
from ebu.types import Evaluation

CONFIG = override(Config(), env="CartPole-v1", seed=7, hidden_sizes=(8,))


def test_a_new_folder_holds_its_settings(tmp_path):
    folder = RunFolder.create(tmp_path / "deep" / "run", CONFIG)
    assert RunFolder.open(folder.path).config() == CONFIG
    assert json.loads((folder.path / "config.json").read_text())["seed"] == 7


def test_an_empty_folder_may_become_a_run(tmp_path):
    assert RunFolder.create(tmp_path, CONFIG).config() == CONFIG


def test_a_folder_that_holds_a_run_is_never_written_into(tmp_path):
    RunFolder.create(tmp_path, CONFIG)
    before = (tmp_path / "config.json").read_bytes()
    with pytest.raises(UserError, match="already holds a run; continue it with `ebu resume"):
        RunFolder.create(tmp_path, Config())
    assert (tmp_path / "config.json").read_bytes() == before


def test_a_file_in_the_way_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write to"):
        RunFolder.create(tmp_path / "file", CONFIG)
    with pytest.raises(UserError, match="cannot write to"):
        RunFolder.create(tmp_path / "file" / "below", CONFIG)


def test_a_folder_without_a_run_is_not_one(tmp_path):
    with pytest.raises(UserError, match="is not a run folder"):
        RunFolder.open(tmp_path)
    with pytest.raises(UserError, match="is not a run folder"):
        RunFolder.open(tmp_path / "nowhere")
    RunFolder.create(tmp_path / "nowhere" / "run", CONFIG)
    with pytest.raises(UserError, match=f"name a run in it, such as {tmp_path / 'nowhere' / 'run'}"):
        RunFolder.open(tmp_path / "nowhere")


@pytest.mark.parametrize("content", ["", "{", "[]", "3", "null", '{"unheard_of": 1}', '{"seed": '])
def test_damaged_settings_are_refused_in_one_line(tmp_path, content):
    folder = RunFolder.create(tmp_path, CONFIG)
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(UserError) as error:
        folder.config()
    assert "\n" not in str(error.value)


def test_a_recorder_writes_rows_times_and_curves(tmp_path):
    folder = RunFolder.create(tmp_path, CONFIG)
    with Recorder(folder) as recorder:
        recorder(Trained(100, {"epsilon": 0.5}))
        recorder(Evaluated(100, Evaluation((2.0,), (5,), 0.0, 0.0)))
    assert [r["kind"] for r in folder.rows()] == ["train", "eval"]
    assert evaluations(folder.rows()) == [folder.rows()[1]]
    assert len((tmp_path / "timing.jsonl").read_text().splitlines()) == 2
    assert list(tmp_path.glob("events.out.tfevents.*"))


def test_tensorboard_can_be_left_out(tmp_path):
    with Recorder(RunFolder.create(tmp_path, CONFIG), tensorboard=False) as recorder:
        recorder(Trained(100, {"epsilon": 0.5}))
    assert not list(tmp_path.glob("events.out.tfevents.*"))
    assert (tmp_path / "metrics.jsonl").read_text().count("\n") == 1


def test_missing_or_damaged_rows_are_refused_in_one_line(tmp_path):
    folder = RunFolder.create(tmp_path, CONFIG)
    with pytest.raises(UserError, match=r"metrics\.jsonl cannot be read"):
        folder.rows()
    folder.metrics.write_text('{"kind": "train"}\n{"kind": ')
    with pytest.raises(UserError, match=r"metrics\.jsonl cannot be read") as error:
        folder.rows()
    assert "\n" not in str(error.value)


def test_the_summary_is_json(tmp_path):
    folder = RunFolder.create(tmp_path, CONFIG)
    folder.write_summary({"steps": 5})
    assert json.loads(folder.summary.read_text()) == {"steps": 5}
