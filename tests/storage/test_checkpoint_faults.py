"""Whatever fails while a checkpoint is written – a call, the disk's space, the power, the process – one can be loaded."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from ebu.errors import RunFailure
from ebu.storage import files
from ebu.storage.checkpoints import POINTS, CheckpointStore
from ebu.storage.verify import verify_checkpoints as verify
from tests.storage.test_checkpoints import Episodes, QuietDisk, assert_holds, fill, names, quiet_load, state
from tests.waiting import PATIENCE

STEPS = (10, 20, 30)
ROOM = 8


class FaultyDisk(QuietDisk):
    """Fails at call number ``at``: before it acts, after it has acted, or with half of a write on the disk."""

    def __init__(self, at, manner, error, lasting=False):
        super().__init__()
        self.at, self.manner, self.error, self.lasting = at, manner, error, lasting
        self.failed = 0

    def guard(self, call, path, act, halve=None):
        self.touch(call, path)
        due = len(self.calls) == self.at or (self.lasting and self.at <= len(self.calls))
        if due:
            self.failed += 1
            if self.manner == "after":
                act()
            elif self.manner == "torn" and halve is not None:
                halve()
            raise OSError(self.error, os.strerror(self.error), str(path))
        return act()

    def create(self, path):
        return self.guard("create", path, lambda: files.Disk.create(self, path))

    def write(self, file, data):
        view = memoryview(data)
        self.guard("write", file.name, lambda: file.write(view), lambda: file.write(view[: len(view) // 2]))

    def sync(self, file):
        self.guard("sync", file.name, file.flush)

    def sync_folder(self, path):
        self.guard("sync_folder", path, lambda: None)

    def make_folder(self, path):
        self.guard("make_folder", path, lambda: files.Disk.make_folder(self, path))

    def rename(self, old, new):
        self.guard("rename", old, lambda: old.replace(new))

    def unlink(self, path):
        self.guard("unlink", path, path.unlink)

    def remove_folder(self, path):
        self.guard("remove_folder", path, path.rmdir)


@pytest.fixture
def base(tmp_path, monkeypatch):
    """A folder with two checkpoints, and the debris of a third that was killed."""
    monkeypatch.setattr(files, "DISK", QuietDisk())
    folder = tmp_path / "base"
    fill(folder, STEPS[:2], ROOM)
    (folder / "generation-00000003.part").mkdir()
    (folder / "generation-00000003.part" / "state.json").write_bytes(b"half of i")
    (folder / "episodes-00000003-000000000010.bin").write_bytes(b"renamed, but its generation was not")
    return folder


def debris(folder):
    """Whatever belongs to no checkpoint."""
    store = CheckpointStore(folder)
    referred = store._referred()
    return [name for name in names(folder) if name.endswith(".part") or ("episodes" in name and name not in referred)]


def attempt(base, folder, disk, monkeypatch):
    """Resume and save a third checkpoint on a disk that may fail; returns the failure, None if there was none."""
    shutil.copytree(base, folder)
    monkeypatch.setattr(files, "DISK", QuietDisk())
    store, episodes = CheckpointStore(folder), Episodes(15, ROOM)
    store.load(pytest.fail)
    monkeypatch.setattr(files, "DISK", disk)
    failure = None
    try:
        store.save(STEPS[2], state(STEPS[2]), episodes)
    except RunFailure as error:
        failure = error
    monkeypatch.setattr(files, "DISK", QuietDisk())
    return store, failure


def assert_one_is_whole(folder):
    """The checkpoint before, or the new one, exactly; returns its step."""
    loaded = quiet_load(folder)
    assert_holds(loaded, loaded.step, Episodes({20: 10, 30: 15}[loaded.step], ROOM))
    assert verify(folder) == []
    return loaded.step


@pytest.mark.parametrize("manner", ["before", "after", "torn"])
@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
def test_a_fault_at_every_call_leaves_a_checkpoint_and_no_debris(base, tmp_path, monkeypatch, manner, lasting):
    calls = 0
    kinds = set()
    for at in range(1, 1000):
        folder = tmp_path / f"fault-{at}"
        disk = FaultyDisk(at, manner, errno.EIO, lasting)
        store, failure = attempt(base, folder, disk, monkeypatch)
        if not disk.failed:
            break
        calls += 1
        kinds.add(disk.calls[at - 1][0])
        step = assert_one_is_whole(folder)
        assert failure is not None or step == STEPS[2]
        if failure is not None:
            assert "the checkpoint of step 20 is intact" in str(failure) and "\n" not in str(failure)
            if not lasting:
                assert debris(folder) == []
        # The next save goes through and tidies up, whatever was left behind.
        episodes = Episodes(17, ROOM)
        store.save(40, state(40), episodes)
        assert_holds(quiet_load(folder), 40, episodes)
        assert verify(folder) == [] and debris(folder) == []
        assert len([name for name in names(folder) if "generation" in name]) == 2
        shutil.rmtree(folder)
    assert calls > 30
    every = {"create", "write", "sync", "sync_folder", "make_folder", "rename", "unlink", "remove_folder"}
    assert kinds == every


def test_an_interrupt_in_the_middle_of_a_save_leaves_no_debris(base, tmp_path, monkeypatch):
    class Interrupted(QuietDisk):
        def write(self, file, data):
            if "tensors" in file.name:
                raise KeyboardInterrupt
            super().write(file, data)

    with pytest.raises(KeyboardInterrupt):
        attempt(base, tmp_path / "run", Interrupted(), monkeypatch)
    monkeypatch.setattr(files, "DISK", QuietDisk())
    assert assert_one_is_whole(tmp_path / "run") == 20 and debris(tmp_path / "run") == []


# ---------------------------------------------------------------------- no space


class SmallDisk(QuietDisk):
    """Has room for so many more bytes."""

    def __init__(self, room, error=errno.ENOSPC):
        super().__init__()
        self.room, self.error = room, error

    def write(self, file, data):
        view = memoryview(data)
        part = view[: max(self.room, 0)]
        self.room -= len(view)
        super().write(file, part)
        if len(part) < len(view):
            raise OSError(self.error, os.strerror(self.error))


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_fills_up_is_a_clear_line_and_the_checkpoint_before_is_intact(base, tmp_path, monkeypatch, error):
    failures = 0
    for room in range(0, 6000, 200):
        folder = tmp_path / f"room-{room}"
        store, failure = attempt(base, folder, SmallDisk(room, error), monkeypatch)
        step = assert_one_is_whole(folder)
        assert debris(folder) == []
        if failure is None:
            assert step == 30
            break
        failures += 1
        assert step == 20
        assert str(failure) == (
            f"the disk is full: the checkpoint of step 30 could not be written to {folder}; "
            "the checkpoint of step 20 is intact"
        )
        store.save(30, state(30), Episodes(15, ROOM))  # once there is space again
        assert assert_one_is_whole(folder) == 30
    assert failures > 5


def test_a_first_checkpoint_that_finds_no_space_says_that_there_is_none_before(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "DISK", SmallDisk(100))
    with pytest.raises(RunFailure, match=r"the disk is full: the checkpoint of step 10 .*; there is none before it"):
        CheckpointStore(tmp_path / "checkpoints").save(10, state(10), Episodes(5))
    assert names(tmp_path / "checkpoints") == []
    assert quiet_load(tmp_path / "checkpoints") is None


# ---------------------------------------------------------------------- no power


class PowerCut(BaseException):
    pass


class FragileDisk(QuietDisk):
    """Keeps only what was synced: at call number ``at`` the power goes, unsynced bytes and names with it."""

    def __init__(self, at):
        super().__init__()
        self.at, self.dead = at, False
        self.unsynced = set()  # files whose bytes are not on the disk
        self.renames = []  # not on the disk yet, oldest first

    def touch(self, call, path):
        super().touch(call, path)
        if self.dead or len(self.calls) == self.at:
            self.dead = True
            raise PowerCut

    def create(self, path):
        file = super().create(path)
        self.unsynced.add(path)
        return file

    def sync(self, file):
        super().sync(file)
        self.unsynced.discard(Path(file.name))

    def sync_folder(self, path):
        super().sync_folder(path)
        self.renames = [(old, new) for old, new in self.renames if new.parent != path]

    def rename(self, old, new):
        super().rename(old, new)
        self.renames.append((old, new))

    def lose_power(self, keep_renames):
        for path in self.unsynced:
            if path.exists():
                os.truncate(path, path.stat().st_size // 2)
        if not keep_renames:
            for old, new in reversed(self.renames):
                new.replace(old)


@pytest.mark.parametrize("keep_renames", [False, True], ids=["names lost", "names kept"])
def test_power_lost_at_any_call_leaves_a_checkpoint(base, tmp_path, monkeypatch, keep_renames):
    seen = set()
    for at in range(1, 1000):
        folder = tmp_path / f"power-{at}"
        disk = FragileDisk(at)
        with contextlib.suppress(PowerCut):
            attempt(base, folder, disk, monkeypatch)
        monkeypatch.setattr(files, "DISK", QuietDisk())
        if not disk.dead:
            break
        disk.lose_power(keep_renames)
        seen.add(assert_one_is_whole(folder))
        store, episodes = CheckpointStore(folder), Episodes(17, ROOM)
        store.load(pytest.fail)
        store.save(40, state(40), episodes)
        assert_holds(quiet_load(folder), 40, episodes)
        assert debris(folder) == [] and verify(folder) == []
        shutil.rmtree(folder)
    assert seen == {20, 30} and at > 30


# ---------------------------------------------------------------------- no process

KILLED = textwrap.dedent("""
    import os, signal, sys
    from pathlib import Path
    from ebu.storage.checkpoints import POINTS, CheckpointStore
    from tests.storage.test_checkpoints import Episodes, state

    for point in POINTS:
        child = os.fork()
        if not child:
            os.environ["EBU_KILL_AT"] = f"{point}:3"
            folder = Path(sys.argv[1]) / point.partition(":")[2]
            store, episodes = CheckpointStore(folder), Episodes(room=8)
            for step in (10, 20, 30):
                episodes.end += 5
                store.save(step, state(step), episodes)
            os._exit(1)
        _, status = os.waitpid(child, 0)
        print(point, os.WTERMSIG(status) if os.WIFSIGNALED(status) else "lived")
""")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the test forks")
def test_a_process_killed_at_any_named_point_leaves_a_checkpoint(tmp_path):
    result = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], capture_output=True, text=True, timeout=PATIENCE)
    assert result.stdout.split() == [word for point in POINTS for word in (point, str(int(signal.SIGKILL)))], result.stderr
    steps = {}
    for point in POINTS:
        folder = tmp_path / point.partition(":")[2]
        steps[point] = assert_one_is_whole(folder)
        store, episodes = CheckpointStore(folder), Episodes(18, ROOM)
        store.load(pytest.fail)
        store.save(40, state(40), episodes)
        assert_holds(quiet_load(folder), 40, episodes)
        assert debris(folder) == [] and len(list(folder.glob("generation*"))) == 2
    before = POINTS.index("checkpoint:before-rename")
    assert all(step == (20 if i <= before else 30) for i, step in enumerate(steps.values()))


# ---------------------------------------------------------------------- a folder that is gone


@pytest.mark.parametrize("gone", ["run", "generation", "segment"])
def test_a_checkpoint_before_that_is_gone_is_not_called_intact(tmp_path, monkeypatch, gone):
    run = tmp_path / "run"
    run.mkdir()
    store, episodes = fill(run / "checkpoints")
    if gone == "run":
        shutil.rmtree(run)
    else:
        pattern = {"generation": "generation-00000002", "segment": "episodes-00000002-*"}[gone]
        [path] = (run / "checkpoints").glob(pattern)
        files.remove(path)
        monkeypatch.setattr(files, "DISK", SmallDisk(100))
    with pytest.raises(RunFailure) as failure:
        store.save(30, state(30), episodes)
    assert "intact" not in str(failure.value)
    assert str(failure.value).endswith("; the checkpoint of step 20 is gone, too")
