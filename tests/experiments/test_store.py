"""Copies of run folders: what travels is what is inside the folder, and it arrives inside the folder."""

from __future__ import annotations

import os

import pytest

from ebu.errors import UserError
from ebu.experiments.sweeps.ray_engine import read_files, write_files
from ebu.experiments.sweeps.store import Store
from ebu.experiments.sweeps.sweep import look
from ebu.storage import files
from tests.storage.test_files import Journal

OUTSIDE = ["../evil", "checkpoints/../../evil", "/tmp/ebu-evil", "a/../.."]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    (tmp_path / "run" / "config.json").write_text("{}")
    (tmp_path / "run" / "checkpoints" / "episodes-00000001-000000000000.bin").write_bytes(b"episodes")
    return tmp_path / "run"


@pytest.mark.parametrize("name", OUTSIDE)
def test_keys_that_lead_out_of_the_folder_are_refused(folder, tmp_path, monkeypatch, name):
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UserError, match="is not the name of a file inside"):
        write_files(folder, {name: b"evil"})
    store = Store("memory://bucket/trial")
    monkeypatch.setattr(store, "_names", lambda: {name})
    with pytest.raises(UserError, match="is not the name of a file inside"):
        store.pull(folder)
    assert sorted(tmp_path.rglob("*")) == before


def test_files_do_not_arrive_through_a_link(folder, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (folder / "checkpoints").rename(tmp_path / "away")
    (folder / "checkpoints").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="is a link"):
        write_files(folder, {"checkpoints/x": b"evil"})
    assert os.listdir(tmp_path / "elsewhere") == []


def test_what_a_link_leads_to_does_not_travel(folder, tmp_path):
    (tmp_path / "secret").write_text("of this machine")
    (folder / "notes").symlink_to(tmp_path / "secret")
    (folder / "checkpoints" / "generation-00000001.part").mkdir()
    (folder / "checkpoints" / "generation-00000001.part" / "state.json").write_text("half")
    (folder / ".config.json.0123456789abcdef.part").write_text("half")
    there = {"config.json", "checkpoints/episodes-00000001-000000000000.bin"}
    assert read_files(folder).keys() == there
    store = Store(f"file://{tmp_path / 'store'}")
    store.push(folder)
    assert store._names() == there


def test_copies_are_on_the_disk_in_their_order(folder, tmp_path, monkeypatch):
    (folder / "summary.json").write_text('{"steps": 1}')
    store = Store(f"file://{tmp_path / 'store'}")
    store.push(folder)
    disk = Journal()
    monkeypatch.setattr(files, "DISK", disk)
    for copy, bring in (("a", store.pull), ("b", lambda path: write_files(path, read_files(folder)))):
        disk.calls.clear()
        bring(tmp_path / copy)
        renamed = [name for call, name in disk.calls if call == "rename"]
        assert renamed == ["config.json", "episodes-00000001-000000000000.bin", "summary.json"]
        for i, (call, _) in enumerate(disk.calls):
            if call == "rename":
                assert disk.calls[i - 1][0] == disk.calls[i + 1][0] == "sync"
        assert read_files(tmp_path / copy) == read_files(folder)


def test_looking_at_a_trial_does_not_wait_at_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "metrics.jsonl")
    assert look(tmp_path) == (0, None)
