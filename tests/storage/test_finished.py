"""The end of a run: nothing is removed before what replaces it is on the disk, and a changed byte is noticed afterwards."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from ebu.config import Config, override
from ebu.experiments.sweeps.adoption import adopt_finished
from ebu.experiments.sweeps.store import Store
from ebu.experiments.sweeps.sweep import Job
from ebu.experiments.sweeps.trials import trial
from ebu.experiments.sweeps.worker import carry_out
from ebu.storage import files, finished
from ebu.storage.files import Damaged, FileRecord
from ebu.storage.finished import is_finished
from ebu.storage.run_folder import RunFolder
from ebu.storage.verify import verify_run
from tests.conftest import ebu_
from tests.storage.test_files import Journal

TRIAL = trial("ebu", "maze", 0, hidden_sizes=(8,), learning_starts=20, eval_episodes=1, log_every=20, steps=60, eval_every=0)
FLAGS = "--env maze --hidden-sizes 8 --learning-starts 20 --eval-episodes 1 --log-every 20 --steps 60 --quiet True"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "run"
    assert ebu_("train", *FLAGS.split(), "--run", folder) == 0
    return folder


@pytest.fixture
def run(made, tmp_path):
    return shutil.copytree(made, tmp_path / "run")


# ---------------------------------------------------------------------- the order


def test_checkpoints_go_when_everything_else_is_on_the_disk(tmp_path, monkeypatch):
    disk = Journal()
    monkeypatch.setattr(files, "DISK", disk)
    assert carry_out(tmp_path / "run", TRIAL.config()).state == "finished"
    calls = disk.calls
    begin = calls.index(("rename", "policy.ebu"))
    ends = [
        call
        for call in calls[begin:]
        if call[0] in ("rename", "unlink", "remove") or call in (("sync", "metrics.jsonl"), ("sync", "timing.jsonl"))
    ]
    first = [
        *[("rename", name) for name in ("policy.ebu", "curve.png", "maze.png")],
        *[("sync", name) for name in ("metrics.jsonl", "timing.jsonl")],
        *[("rename", name) for name in ("files.json", "summary.json", "aside")],
    ]
    assert ends[: len(first)] == first
    assert {call[0] for call in ends[len(first) :]} == {"unlink", "remove"}
    for i, (call, name) in enumerate(calls):
        if call == "rename" and name != "aside" and not name.startswith(("generation", "episodes")):
            assert calls[i - 1] == ("sync", "aside") and calls[i + 1] == ("sync", "run"), name
    away = calls.index(("rename", "aside"), begin)
    assert calls[away + 1] == ("sync", "run")  # the name is gone for good before the files go
    assert not (tmp_path / "run" / "checkpoints").exists()
    assert not [name for name in os.listdir(tmp_path / "run") if name.endswith(".part")]


@pytest.mark.parametrize("name", ["config.json", "versions.json"])
def test_the_settings_are_on_the_disk_before_a_run_begins(tmp_path, monkeypatch, name):
    disk = Journal()
    monkeypatch.setattr(files, "DISK", disk)
    RunFolder.create(tmp_path / "a" / "run", Config())
    at = disk.calls.index(("rename", name))
    assert disk.calls[at - 1] == ("sync", "aside") and disk.calls[at + 1] == ("sync", "run")
    assert disk.calls.index(("sync", "a")) < at  # the folder itself, too


def test_a_run_that_cannot_be_summarised_keeps_its_checkpoints(tmp_path, monkeypatch):
    class NoSummary(Journal):
        def rename(self, old, new):
            if new.name == "summary.json":
                raise OSError(28, "No space left on device")
            super().rename(old, new)

    monkeypatch.setattr(files, "DISK", NoSummary())
    assert carry_out(tmp_path / "run", TRIAL.config()).state == "failed"
    assert list((tmp_path / "run" / "checkpoints").glob("generation-*"))
    monkeypatch.setattr(files, "DISK", files.Disk())
    assert carry_out(tmp_path / "run", TRIAL.config()).state == "finished"
    assert verify_run(RunFolder(tmp_path / "run")) == []


# ---------------------------------------------------------------------- what counts as finished

TORN = [b"", b"\0" * 40, b'{"algo": "e', b"[]", b"{}", b"null", b"\xff\xfe", b"[" * 100_000]


@pytest.mark.parametrize("content", TORN, ids=range(len(TORN)))
def test_a_torn_summary_does_not_count(run, content):
    assert is_finished(run)
    (run / "summary.json").write_bytes(content)
    assert not is_finished(run) and not Job(TRIAL, run).is_complete
    RunFolder(run).drop_checkpoints()
    assert (run / "checkpoints").is_dir()
    assert verify_run(RunFolder(run)) != []


def test_a_trial_with_a_torn_summary_is_carried_out_again_and_not_adopted(tmp_path):
    config = TRIAL.config()
    place = tmp_path / "one" / "trials" / TRIAL.id
    assert carry_out(place, config).state == "finished"
    rows = (place / "metrics.jsonl").read_bytes()
    (place / "summary.json").write_bytes(b"")
    adopt_finished([TRIAL], tmp_path / "two")
    assert not (tmp_path / "two").exists()
    assert carry_out(place, config).state == "finished"
    assert is_finished(place) and (place / "metrics.jsonl").read_bytes() == rows
    adopt_finished([TRIAL], tmp_path / "two")
    assert verify_run(RunFolder(tmp_path / "two" / "trials" / TRIAL.id)) == []
    assert os.listdir(tmp_path / "two" / "trials") == [TRIAL.id]


def test_a_store_with_a_torn_summary_does_not_count(run, tmp_path):
    store = Store(f"file://{tmp_path / 'store'}")
    assert not store.is_finished()
    store.push(run)
    assert store.is_finished()
    (tmp_path / "store" / "summary.json").write_bytes(b"")
    assert not store.is_finished()


@pytest.mark.parametrize("content", [b"", b"\0" * 40, b'{"algo": "e'])
def test_a_trial_with_torn_settings_is_carried_out(tmp_path, content):
    """After a power cut of an older version: nothing but an empty config.json and no checkpoint yet."""
    config = TRIAL.config()
    RunFolder.create(tmp_path / "run", config)
    (tmp_path / "run" / "config.json").write_bytes(content)
    assert carry_out(tmp_path / "run", config).state == "finished"
    assert RunFolder(tmp_path / "run").read_config() == config


# ---------------------------------------------------------------------- settings that were lost


@pytest.mark.parametrize("content", [b"", b"\0" * 500, b'{"algo": "ebu", "s', b"\xff\xfe", b"[]", None])
def test_lost_settings_are_taken_from_the_checkpoint(run, capsys, content):
    before = (run / "config.json").read_bytes()
    (run / "config.json").unlink()
    if content is not None:
        (run / "config.json").write_bytes(content)
    assert RunFolder.open(run).config() == RunFolder.open(run).restore_config(lambda text: None)
    assert (run / "config.json").read_bytes() == before
    (run / "config.json").write_bytes(content or b"")
    assert ebu_("verify", run) == 1
    assert "config.json is damaged" in capsys.readouterr().out
    assert ebu_("resume --quiet True --tensorboard False", run) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if "config.json" in line]
    assert len(said) == 1 and said[0].endswith("written again from the checkpoint of step 60")
    assert (run / "config.json").read_bytes() == before
    assert ebu_("verify", run) == 0


def test_settings_that_nobody_has_are_one_line(run, capsys):
    shutil.rmtree(run / "checkpoints")
    (run / "summary.json").unlink()
    (run / "config.json").write_bytes(b"")
    assert ebu_("resume", run) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "there is no checkpoint to take its settings from" in line


def test_a_link_in_the_place_of_the_settings_is_not_repaired_but_refused(run, tmp_path, capsys):
    (run / "config.json").rename(tmp_path / "elsewhere")
    (run / "config.json").symlink_to(tmp_path / "elsewhere")
    for command in ("resume", "verify", "report"):
        assert ebu_(command, run) in (1, 2)
        words = capsys.readouterr()
        assert "is a link, which is not followed" in words.out + words.err


# ---------------------------------------------------------------------- verify

FILES = ["config.json", "versions.json", "metrics.jsonl", "timing.jsonl", "policy.ebu", "curve.png", "maze.png"]


def test_a_finished_run_lists_all_its_files(made):
    records = finished.parse((made / "files.json").read_text())
    listed = {record.name for record in records}
    assert {*FILES, "summary.json"} <= listed and any(name.startswith("events.out.tfevents") for name in listed)
    there = {path.name for path in made.iterdir() if path.is_file()}
    assert there - listed == {"files.json", "lock"}
    assert verify_run(RunFolder(made)) == []


@pytest.mark.parametrize("name", [*FILES, "summary.json", "files.json"])
def test_any_flipped_bit_of_a_finished_run_is_noticed(run, name):
    content = (run / name).read_bytes()
    for at in {0, 1, len(content) // 3, len(content) // 2, len(content) - 2, len(content) - 1}:
        for bit in (0, 3, 5):
            damaged = bytearray(content)
            damaged[at] ^= 1 << bit
            (run / name).write_bytes(damaged)
            problems = verify_run(RunFolder(run))
            assert problems and name in problems[-1], (at, bit, problems)
    for shorter in (b"", content[:-1], content + b"\n"):
        (run / name).write_bytes(shorter)
        assert any(name in problem for problem in verify_run(RunFolder(run)))
    (run / name).write_bytes(content)
    assert verify_run(RunFolder(run)) == []


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_of_a_finished_run_is_noticed(run, name):
    (run / name).unlink()
    assert any(name in problem for problem in verify_run(RunFolder(run)))


def test_other_settings_than_the_checkpoints_are_noticed(run, capsys):
    """Also while a run is going, when there is no list of its files yet."""
    (run / "summary.json").unlink()
    settings = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps({**settings, "gamma": 0.5}))
    assert ebu_("verify", run) == 1
    assert "holds other settings than the checkpoint of step 60" in capsys.readouterr().out


def test_a_run_of_an_older_version_is_called_good_with_its_limits(run, capsys):
    (run / "files.json").unlink()
    assert ebu_("verify", run) == 0
    assert "good as far as it can be checked" in capsys.readouterr().out


def test_a_finished_run_that_is_resumed_stays_good(run):
    assert ebu_("resume --quiet True", run) == 0
    assert verify_run(RunFolder(run)) == []


LIES = [
    "", "{}", "[]", '{"files": 3}', '{"files": [{}]}',
    finished.render([FileRecord("../../etc/passwd", 1, "0" * 64)]),
    finished.render([FileRecord("config.json", -1, "0" * 64)]),
    finished.render([FileRecord("events.out.tfevents./../x", 1, "0" * 64)]),
    finished.render([FileRecord("config.json", 1, "x")]),
    finished.render([]).replace("ebu-files-1", "ebu-files-2"),
]  # fmt: skip


@pytest.mark.parametrize("text", LIES, ids=range(len(LIES)))
def test_a_list_of_files_that_nobody_wrote_is_refused(run, text):
    with pytest.raises(Damaged):
        finished.parse(text)
    (run / "files.json").write_text(text)
    assert any("files.json" in problem for problem in verify_run(RunFolder(run)))


# ---------------------------------------------------------------------- a stranger's folder


@pytest.mark.parametrize(
    "name", ["metrics.jsonl", "timing.jsonl", "curve.png", "policy.ebu", "summary.json", "files.json", "lock"]
)
def test_nothing_is_written_through_a_link(run, tmp_path, name):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (run / name).unlink()
    (run / name).symlink_to(victim)
    for part in (f"{name}.part", f".{name}.part"):
        (run / part).symlink_to(victim)
    ebu_("resume --quiet True --tensorboard False", run)
    assert victim.read_text() == "precious"
    (run / name).unlink()
    victim.unlink()
    (run / name).symlink_to(victim)  # to nothing, which must not be made
    ebu_("resume --quiet True --tensorboard False", run)
    assert not victim.exists()


def test_checkpoints_elsewhere_are_neither_read_nor_written_nor_removed(run, tmp_path, capsys):
    (run / "checkpoints").rename(tmp_path / "elsewhere")
    (run / "checkpoints").symlink_to(tmp_path / "elsewhere")
    before = sorted(path for path in (tmp_path / "elsewhere").rglob("*"))
    for command in ("resume --quiet True", "verify"):
        assert ebu_(command, run) == 2
        assert "is a link, which is not followed" in capsys.readouterr().err
    RunFolder(run).drop_checkpoints()
    assert sorted(path for path in (tmp_path / "elsewhere").rglob("*")) == before


def test_what_a_killed_process_left_aside_goes_with_the_next_one(run):
    (run / ".config.json.0123456789abcdef.part").write_text("half")
    (run / "policy.ebu.part").write_text("half, by an older version")
    (run / "notes.part").write_text("the user's")
    assert ebu_("resume --quiet True --tensorboard False", run) == 0
    assert [path.name for path in run.iterdir() if path.name.endswith(".part")] == ["notes.part"]


def test_versions_are_those_that_were_asked_for(tmp_path):
    folder = RunFolder.create(tmp_path / "run", override(Config(), env="CartPole-v1"), packages=("pytest", "nosuchpackage"))
    versions = json.loads(folder.versions.read_text())
    assert versions["pytest"] == pytest.__version__ and "nosuchpackage" not in versions
    folder.versions.write_text(json.dumps({**versions, "pytest": "0.1", "\x1b[2J": "1", "numpy": "1\n\x1b[2J", "torch": 3}))
    assert folder.changed_software() == []  # of a file that is not ours, nothing is told
    folder.versions.write_text(json.dumps({**versions, "pytest": "0.1"}))
    assert folder.changed_software() == [f"pytest 0.1 → {pytest.__version__}"]
