"""Files that commit state: whole or not there, on the disk in the right order; and nothing but regular files is read."""

from __future__ import annotations

import errno
import os
import stat
import threading
from pathlib import Path

import pytest

from ebu.storage import files
from ebu.storage.files import Damaged, Missing, inside, is_aside, make_folders, open_append, read_file, write_atomically


class Journal(files.Disk):
    """Notes the calls in their order, and fails at one of them."""

    def __init__(self, fail_at=None):
        self.calls, self.fail_at = [], fail_at

    def note(self, call, path):
        name = Path(path).name
        self.calls.append((call, "aside" if is_aside(name) else name))
        if len(self.calls) == self.fail_at:
            raise OSError(errno.ENOSPC, "No space left on device")

    def create(self, path):
        self.note("create", path)
        return super().create(path)

    def append(self, path):
        self.note("append", path)
        return super().append(path)

    def write(self, file, data):
        self.note("write", file.name)
        super().write(file, data)

    def sync(self, file):
        self.note("sync", file.name)
        super().sync(file)

    def sync_folder(self, path):
        self.note("sync", path)
        super().sync_folder(path)

    def make_folder(self, path):
        self.note("make", path)
        super().make_folder(path)

    def rename(self, old, new):
        self.note("rename", new)
        super().rename(old, new)

    def unlink(self, path):
        self.calls.append(("unlink", "aside" if is_aside(path.name) else path.name))
        super().unlink(path)

    def remove_folder(self, path):
        self.calls.append(("remove", "aside" if is_aside(path.name) else path.name))
        super().remove_folder(path)


@pytest.fixture
def journal(monkeypatch):
    disk = Journal()
    monkeypatch.setattr(files, "DISK", disk)
    return disk


def test_content_is_synced_before_it_gets_its_name_and_the_name_after(journal, tmp_path):
    record = write_atomically(tmp_path / "config.json", "{}")
    expected = [("create", "aside"), ("write", "aside"), ("sync", "aside"), ("rename", "config.json"), ("sync", tmp_path.name)]
    assert journal.calls == expected
    assert (record.name, record.size) == ("config.json", 2)
    assert record == files.hash_file(tmp_path / "config.json")
    assert os.listdir(tmp_path) == ["config.json"]


@pytest.mark.parametrize("call", [1, 2, 3, 4])
def test_whatever_fails_the_old_content_stays_and_nothing_else(monkeypatch, tmp_path, call):
    (tmp_path / "x").write_text("old")
    monkeypatch.setattr(files, "DISK", Journal(fail_at=call))
    with pytest.raises(OSError, match="No space"):
        write_atomically(tmp_path / "x", [b"new"])
    assert (tmp_path / "x").read_text() == "old"
    assert os.listdir(tmp_path) == ["x"]


def test_content_that_raises_half_way_leaves_nothing(tmp_path):
    def parts():
        yield b"half"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "x", parts())
    assert os.listdir(tmp_path) == []


def test_many_writers_of_one_path_never_share_a_file(tmp_path):
    """Under one name aside, one writer renames what another is in the middle of."""
    contents = [bytes([i]) * 300_000 for i in range(4)]
    damaged, stop, path = [], threading.Event(), tmp_path / "policy.ebu"
    write_atomically(path, contents[0])

    def read():
        while not stop.is_set():
            if path.read_bytes() not in contents:
                damaged.append(path.read_bytes())

    def write(content):
        for _ in range(15):
            write_atomically(path, [content[:100_000], content[100_000:]])

    reader = threading.Thread(target=read)
    writers = [threading.Thread(target=write, args=(content,)) for content in contents]
    reader.start()
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    stop.set()
    reader.join()
    assert damaged == [] and os.listdir(tmp_path) == ["policy.ebu"]


def test_names_as_long_as_a_disk_allows_can_be_written(tmp_path):
    for name in ("x" * 255, "é" * 127):
        write_atomically(tmp_path / name, b"")
        assert (tmp_path / name).exists()


def test_a_link_is_replaced_and_not_followed(tmp_path):
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "x").symlink_to(tmp_path / "victim")
    write_atomically(tmp_path / "x", b"new")
    assert (tmp_path / "victim").read_text() == "precious" and (tmp_path / "x").read_text() == "new"


def test_new_folders_have_their_names_on_the_disk(journal, tmp_path):
    make_folders(tmp_path / "a" / "b")
    make_folders(tmp_path / "a" / "b")
    assert journal.calls == [("make", "a"), ("sync", tmp_path.name), ("make", "b"), ("sync", "a")]
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="exists"):
        make_folders(tmp_path / "file")


# ---------------------------------------------------------------------- what is not a regular file


def plant(path, kind):
    if kind == "link":
        (path.parent / "victim").write_text("precious")
        path.symlink_to(path.parent / "victim")
    elif kind == "dangling link":
        path.symlink_to(path.parent / "victim")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        try:
            os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 5))  # /dev/zero
        except PermissionError:
            pytest.skip("only root makes devices")
    else:
        path.mkdir()


KINDS = ["link", "dangling link", "pipe", "device", "folder"]


@pytest.mark.parametrize("kind", KINDS)
def test_only_regular_files_are_read(tmp_path, kind):
    plant(tmp_path / "metrics.jsonl", kind)
    with pytest.raises(Damaged, match=r"metrics\.jsonl (is a link, which is not followed|is not a regular file)") as refusal:
        read_file(tmp_path / "metrics.jsonl", None)
    assert not isinstance(refusal.value, Missing)


@pytest.mark.parametrize("kind", KINDS)
def test_only_regular_files_are_written_to_or_cut(tmp_path, kind):
    plant(tmp_path / "metrics.jsonl", kind)
    before = sorted(os.listdir(tmp_path))
    with pytest.raises((Damaged, IsADirectoryError)):
        open_append(tmp_path / "metrics.jsonl")
    with pytest.raises((Damaged, IsADirectoryError)):
        files.DISK.truncate(tmp_path / "metrics.jsonl", 0)
    assert sorted(os.listdir(tmp_path)) == before  # no file made where a link leads
    assert kind != "link" or (tmp_path / "victim").read_text() == "precious"


def test_a_file_that_is_missing_is_distinguished_from_one_that_is_refused(tmp_path):
    for name in ("x", "x/y", "x\0y"):
        with pytest.raises(Missing):
            read_file(tmp_path / name, 10)


def test_sizes_are_checked_before_allocating(tmp_path):
    (tmp_path / "x").write_bytes(bytes(11))
    with pytest.raises(Damaged, match="x has 11 bytes; at most 10 are read"):
        read_file(tmp_path / "x", 10)
    with (tmp_path / "hollow").open("wb") as file:
        file.truncate(30 << 30)
    with pytest.raises(Damaged, match="sparse"):
        read_file(tmp_path / "hollow", None)
    with pytest.raises(Damaged, match="sparse"):
        files.hash_file(tmp_path / "hollow")


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/etc/x", "", ".", "a/..", "..", "x\0y"])
def test_names_that_lead_out_of_a_folder_are_refused(tmp_path, name):
    with pytest.raises(Damaged, match="is not the name of a file inside"):
        inside(tmp_path, name)


def test_names_inside_a_folder_are_taken_unless_they_go_through_a_link(tmp_path):
    assert inside(tmp_path, "checkpoints/a..b/x") == tmp_path / "checkpoints" / "a..b" / "x"
    (tmp_path / "checkpoints").symlink_to("/tmp")
    with pytest.raises(Damaged, match="is a link"):
        inside(tmp_path, "checkpoints/x")


def test_links_and_halves_are_no_files_of_a_folder(tmp_path):
    for name in ("a", "deep/b", ".x.0123456789abcdef.part", "x.part", "generation-00000001.part/state.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    (tmp_path / "linked").symlink_to(tmp_path / "deep")
    os.mkfifo(tmp_path / "pipe")
    assert [path.relative_to(tmp_path).as_posix() for path in files.regular_files(tmp_path)] == ["a", "deep/b"]


def test_a_folder_is_removed_however_deep_it_is_and_no_link_followed(tmp_path):
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "x").touch()
    place = tmp_path / "gone"
    for _ in range(1100):
        place.mkdir()
        place = place / "d"
    (tmp_path / "gone" / "link").symlink_to(tmp_path / "victim")
    files.remove(tmp_path / "gone")
    assert os.listdir(tmp_path) == ["victim"] and (tmp_path / "victim" / "x").exists()
