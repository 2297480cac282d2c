"""The checkpoint store as a run uses it: save, keep, refer again, load, fall back, verify."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from ebu.errors import UserError
from ebu.memory.episodes import STEP
from ebu.storage import checkpoints, codec, files, lock, manifest, segments
from ebu.storage.checkpoints import CheckpointStore
from ebu.storage.files import FileRecord
from ebu.storage.manifest import Manifest
from ebu.storage.segments import MAX_SEGMENTS, Segment, plan
from ebu.storage.verify import verify_checkpoints as verify
from tests.storage.test_codec import same


class QuietDisk(files.Disk):
    """Writes as usual but does not wait for the disk; counts what is done."""

    def __init__(self):
        self.calls = []

    def touch(self, call, path):
        self.calls.append((call, path))

    def create(self, path):
        self.touch("create", path)
        return super().create(path)

    def write(self, file, data):
        self.touch("write", file.name)
        super().write(file, data)

    def sync(self, file):
        self.touch("sync", file.name)
        file.flush()

    def sync_folder(self, path):
        self.touch("sync_folder", path)

    def make_folder(self, path):
        self.touch("make_folder", path)
        super().make_folder(path)

    def rename(self, old, new):
        self.touch("rename", old)
        super().rename(old, new)

    def unlink(self, path):
        self.touch("unlink", path)
        super().unlink(path)

    def remove_folder(self, path):
        self.touch("remove_folder", path)
        super().remove_folder(path)


@pytest.fixture
def quiet(monkeypatch):
    disk = QuietDisk()
    monkeypatch.setattr(files, "DISK", disk)
    return disk


class Episodes:
    """A memory of the last ``room`` episodes; each is a few hundred bytes that follow from its number."""

    def __init__(self, end=0, room=10**9, size=300):
        self.end, self.room, self.size = end, room, size
        self.packed = []

    @property
    def first(self):
        return max(self.end - self.room, 0)

    def pack(self, number):
        assert self.first <= number < self.end
        self.packed.append(number)
        return self.content(number)

    def content(self, number):
        return np.random.default_rng(number).bytes(number % self.size)

    def contents(self):
        return [(number, self.content(number)) for number in range(self.first, self.end)]


def state(step):
    rng = np.random.default_rng(step)
    rows = np.zeros(step % 7, STEP)
    rows["reward"] = rng.random(len(rows))
    return {
        "learner": {"parameters": torch.from_numpy(rng.random((2, 50), np.float32)), "steps": step},
        "memory": rows,
        "random": {"state": 2**100 + step, "name": "PCG64"},
        "environment": rng.bytes(100),
        "scores": [float("nan"), float("-inf"), 0.1 * step],
    }


def quiet_load(folder):
    """The newest checkpoint, which must be whole."""
    return CheckpointStore(folder).load(pytest.fail)


def assert_holds(loaded, step, episodes):
    assert loaded.step == step
    assert same(loaded.tree, state(step))
    assert list(loaded.episodes) == episodes.contents()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def fingerprint(folder):
    """Every file's name, content and time of change."""
    return {
        path: (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else None) for path in sorted(folder.rglob("*"))
    }


def fill(folder, steps=(10, 20), room=6):
    """A store with a checkpoint for each step, five episodes apart; and its episodes at the end."""
    store, episodes = CheckpointStore(folder), Episodes(room=room)
    for step in steps:
        episodes.end += 5
        store.save(step, state(step), episodes)
    return store, episodes


# ---------------------------------------------------------------------- saving and loading


def test_a_folder_without_checkpoints_holds_none(tmp_path):
    assert quiet_load(tmp_path) is None
    assert quiet_load(tmp_path / "missing") is None
    assert verify(tmp_path) == []


def test_what_is_saved_is_loaded_with_all_its_episodes(tmp_path):
    _, episodes = fill(tmp_path / "checkpoints", steps=(10, 20, 30))
    assert_holds(quiet_load(tmp_path / "checkpoints"), 30, episodes)
    assert verify(tmp_path / "checkpoints") == []


def test_a_checkpoint_without_episodes_is_one(tmp_path, quiet):
    CheckpointStore(tmp_path).save(0, state(0), Episodes())
    assert_holds(quiet_load(tmp_path), 0, Episodes())


def test_everything_is_synced_before_it_is_renamed_and_its_folder_after(tmp_path):
    journal = []

    class Journal(files.Disk):
        def create(self, path):
            journal.append(("create", path.name))
            return super().create(path)

        def sync(self, file):
            journal.append(("sync", Path(file.name).name))
            super().sync(file)

        def sync_folder(self, path):
            journal.append(("sync", path.name))
            super().sync_folder(path)

        def rename(self, old, new):
            journal.append(("rename", new.name))
            super().rename(old, new)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "DISK", Journal())
        CheckpointStore(tmp_path / "checkpoints").save(1, state(1), Episodes(3))
    expected = ["state.json", "tensors.safetensors", "blocks.bin", "manifest.json"]
    segment = "episodes-00000001-000000000000.bin"
    assert journal == [
        ("sync", tmp_path.name),
        *[(call, f"{segment}.part") for call in ("create", "sync")],
        *[(call, name) for name in expected for call in ("create", "sync")],
        ("sync", "generation-00000001.part"),
        ("rename", segment),
        ("sync", "checkpoints"),
        ("rename", "generation-00000001"),
        ("sync", "checkpoints"),
        ("sync", "checkpoints"),  # after generations that are old
    ]


def test_saving_tells_the_bytes_it_wrote(tmp_path, quiet):
    store = CheckpointStore(tmp_path)
    written = store.save(1, state(1), Episodes(5))
    assert written == sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())


def test_reading_changes_nothing_on_the_disk(tmp_path, quiet):
    fill(tmp_path)
    (tmp_path / "episodes-00000009-000000000001.bin").write_bytes(b"of a save that another process is at")
    (tmp_path / "generation-00000009.part").mkdir()
    before = fingerprint(tmp_path)
    quiet.calls.clear()
    list(quiet_load(tmp_path).episodes)
    assert verify(tmp_path) == []
    assert fingerprint(tmp_path) == before and quiet.calls == []


def test_two_generations_are_kept(tmp_path, quiet):
    fill(tmp_path, steps=(10, 20, 30, 40))
    assert [name for name in names(tmp_path) if "generation" in name] == ["generation-00000003", "generation-00000004"]


def test_more_are_kept_on_request_and_fewer_never(tmp_path, quiet):
    store = CheckpointStore(tmp_path, keep=3)
    for step in range(5):
        store.save(step, state(step), Episodes(1))
    assert len([name for name in names(tmp_path) if "generation" in name]) == 3
    with pytest.raises(ValueError, match="at least two"):
        CheckpointStore(tmp_path, keep=1)


# ---------------------------------------------------------------------- only what is new


def test_only_new_episodes_are_packed_and_written(tmp_path, quiet):
    store, episodes = CheckpointStore(tmp_path), Episodes(1000, size=2000)
    assert store.save(1, {}, episodes) > 500_000
    episodes.packed.clear()
    episodes.end += 3
    written = store.save(2, {}, episodes)
    assert episodes.packed == [1000, 1001, 1002]
    new = sum(1000 + i for i in range(3)) + 3 * 8
    assert new < written < new + 3000  # the rest is state and manifest
    episodes.packed.clear()
    assert store.save(3, {}, episodes) < 3000 and episodes.packed == []
    assert list(quiet_load(tmp_path).episodes) == episodes.contents()


def test_a_resumed_run_refers_to_the_segments_it_loaded(tmp_path, quiet):
    fill(tmp_path, steps=(10, 20), room=100)
    store, episodes = CheckpointStore(tmp_path), Episodes(12, room=100)
    store.load(pytest.fail)
    store.save(30, state(30), episodes)
    assert episodes.packed == [10, 11]
    assert_holds(quiet_load(tmp_path), 30, episodes)


def test_segments_are_dropped_when_no_kept_generation_needs_them(tmp_path, quiet):
    store, episodes = CheckpointStore(tmp_path), Episodes(room=10)
    for step in range(12):
        episodes.end += 4
        store.save(step, state(step), episodes)
        assert_holds(quiet_load(tmp_path), step, episodes)
        assert len([name for name in names(tmp_path) if "episodes" in name]) <= 4
    assert all(episodes.packed.count(number) == 1 for number in range(episodes.end))


def test_many_small_segments_are_merged_and_each_byte_is_written_about_twice(tmp_path, quiet):
    store, episodes = CheckpointStore(tmp_path), Episodes(room=400)
    for step in range(300):
        episodes.end += 2
        store.save(step, {}, episodes)
        segments = [name for name in names(tmp_path) if "episodes" in name]
        assert len(segments) <= MAX_SEGMENTS + 34  # the kept generation before may refer to those just merged
    assert list(quiet_load(tmp_path).episodes) == episodes.contents()
    assert len(episodes.packed) < 2.2 * episodes.end
    assert verify(tmp_path) == []


def test_the_cheapest_neighbours_are_merged():
    def segment(i, size):
        return Segment(i, i + 1, FileRecord(f"{i}", size, ""))

    big = [segment(i, 1000) for i in range(30)]
    small = [segment(i, 1) for i in range(30, 64)]
    assert plan((*big, *small), 0, 65) == [*big, *small[:2], Segment(32, 65, None)]
    assert plan((*small, *big), 0, 65) == [Segment(30, 63, None), small[-1], *big, Segment(30, 65, None)]


def test_episodes_that_do_not_continue_the_last_checkpoint_are_written_anew(tmp_path, quiet):
    store, _ = fill(tmp_path, steps=(10, 20), room=100)
    for other in (Episodes(4), Episodes(50, room=3)):
        other.packed.clear()
        store.save(30, state(30), other)
        assert other.packed == list(range(other.first, other.end))
        assert_holds(quiet_load(tmp_path), 30, other)


@pytest.mark.parametrize("victim", ["generation", "episodes"])
def test_segments_that_have_vanished_are_written_anew(tmp_path, quiet, victim):
    store, episodes = fill(tmp_path, steps=(10, 20), room=100)
    for path in tmp_path.glob(f"{victim}*"):
        files.remove(path)
    store.save(30, state(30), episodes)
    assert_holds(quiet_load(tmp_path), 30, episodes)
    assert len(verify(tmp_path)) == (0 if victim == "generation" else 1)  # what the older one needs stays lost


# ---------------------------------------------------------------------- falling back


def damage(path, place=None):
    """One bit of a file changed, by default in its middle."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2 if place is None else place] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("name", ["manifest.json", "state.json", "tensors.safetensors", "blocks.bin"])
def test_a_damaged_checkpoint_is_passed_over_and_announced_in_one_line(tmp_path, quiet, name):
    fill(tmp_path)
    damage(tmp_path / "generation-00000002" / name)
    said = []
    loaded = CheckpointStore(tmp_path).load(said.append)
    assert_holds(loaded, 10, Episodes(5, room=6))
    assert len(said) == 1 and "\n" not in said[0]
    assert re.search(r"generation-00000002 is damaged .*falling back to the checkpoint of step 10", said[0])
    assert len(verify(tmp_path)) == 1


def test_without_a_good_checkpoint_the_run_cannot_continue(tmp_path, quiet):
    fill(tmp_path)
    for generation in (1, 2):
        damage(tmp_path / f"generation-0000000{generation}" / "tensors.safetensors")
    with pytest.raises(UserError, match=r"no checkpoint in .* can be used: generation-00000002") as refusal:
        CheckpointStore(tmp_path).load(pytest.fail)
    assert "\n" not in str(refusal.value)
    assert len(verify(tmp_path)) == 2


def test_a_damaged_generation_does_not_count_as_kept(tmp_path, quiet):
    fill(tmp_path)
    damage(tmp_path / "generation-00000002" / "manifest.json")
    store, episodes = CheckpointStore(tmp_path), Episodes(9, room=6)
    store.load(lambda line: None)
    store.save(20, state(20), episodes)
    assert [name for name in names(tmp_path) if "generation" in name] == ["generation-00000001", "generation-00000003"]
    assert_holds(quiet_load(tmp_path), 20, episodes)
    assert verify(tmp_path) == []
    referred = {s.file.name for n in (1, 3) for s in store._manifest(n).segments}
    assert {name for name in names(tmp_path) if "episodes" in name} == referred


def test_a_missing_segment_is_found(tmp_path, quiet):
    fill(tmp_path, room=100)
    os.unlink(tmp_path / "episodes-00000002-000000000005.bin")
    said = []
    assert CheckpointStore(tmp_path).load(said.append).step == 10
    assert "episodes-00000002-000000000005.bin cannot be read: No such file" in said[0]


def test_a_manifest_is_read_only_as_it_was_written(tmp_path, quiet):
    fill(tmp_path)
    text = (tmp_path / "generation-00000002" / "manifest.json").read_bytes()
    assert Manifest.parse(text).render() == text
    for other in (text + b"\n", text.replace(b"\n", b"\r\n"), text.replace(b'"step": 20', b'"step": 21'), text[:-1]):
        with pytest.raises(UserError):
            Manifest.parse(other)


def test_the_manifest_can_be_checked_by_hand(tmp_path, quiet):
    store, _ = fill(tmp_path)
    manifest = store._manifest(2)
    for folder, record in (
        *((tmp_path / "generation-00000002", file) for file in manifest.files),
        *((tmp_path, segment.file) for segment in manifest.segments),
    ):
        data = (folder / record.name).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (record.size, record.sha256)


def test_nothing_that_reads_or_writes_checkpoints_can_pickle():
    for module in (checkpoints, manifest, segments, files, codec, lock):
        source = Path(module.__file__).read_text(encoding="utf-8")
        assert not re.search(r"import pickle|torch\.(load|save)\b|np\.(load|save)|allow_pickle|marshal|shelve|eval\(", source)
