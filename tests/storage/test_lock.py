"""One writer per run folder."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
import textwrap

import pytest

from ebu.errors import UserError
from ebu.storage import lock
from ebu.storage.lock import RunLock

HOLD = textwrap.dedent("""
    import sys, time
    from pathlib import Path
    from ebu.storage.lock import RunLock

    with RunLock(Path(sys.argv[1])):
        print("held", flush=True)
        time.sleep(1000)
""")


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_second_writer_is_told_which_process_holds_the_lock(tmp_path, holder):
    with pytest.raises(UserError, match=rf"is being written by process {holder.pid} on \S+ since 20") as refusal:
        RunLock(tmp_path).__enter__()
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGABRT])
def test_any_death_of_the_process_opens_the_lock(tmp_path, holder, end):
    holder.send_signal(end)
    holder.wait()
    with RunLock(tmp_path):
        assert str(os.getpid()) in (tmp_path / "lock").read_text()


def test_the_lock_excludes_within_one_process_and_can_be_taken_again(tmp_path):
    for _ in range(3):
        with RunLock(tmp_path), pytest.raises(UserError, match=f"process {os.getpid()} "), RunLock(tmp_path):
            pass
    assert (tmp_path / "lock").read_bytes() == b""


def test_an_error_inside_opens_the_lock(tmp_path):
    with pytest.raises(RuntimeError), RunLock(tmp_path):
        raise RuntimeError
    with RunLock(tmp_path):
        pass


def test_other_folders_are_not_locked(tmp_path, holder):
    (tmp_path / "other").mkdir()
    with RunLock(tmp_path / "other"):
        pass


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the test forks")
def test_a_forked_child_does_not_hold_its_parents_lock(tmp_path):
    script = HOLD.replace("import sys, time", "import os, sys, time").replace(
        'print("held", flush=True)',
        "ready, say = os.pipe()\n    child = os.fork()\n"
        "    if child: os.read(ready, 1); print(child, flush=True)\n    else: os.write(say, b'x')",
    )
    process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    child = int(process.stdout.readline())
    try:
        with pytest.raises(UserError):
            RunLock(tmp_path).__enter__()
        process.kill()
        process.wait()
        os.kill(child, 0)  # still lives
        with RunLock(tmp_path):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
        process.stdout.close()


@pytest.mark.parametrize(
    "content",
    [b"", b"not JSON", b"[]", b'{"pid": "x"}', b'{"pid": 1}', b"\xff" * 2000, b"[" * 1000, b'{"pid": 1, "pid": null}'],
    ids=range(8),
)
def test_a_lock_file_that_names_nobody_still_locks(tmp_path, holder, content):
    (tmp_path / "lock").write_bytes(content)
    with pytest.raises(UserError, match="is being written by another process"):
        RunLock(tmp_path).__enter__()


def test_what_a_lock_file_says_cannot_disturb_the_terminal(tmp_path, holder):
    (tmp_path / "lock").write_bytes(b'{"pid": 1, "host": "\\u001b[2J\\n", "since": "\\ud800"}')
    with pytest.raises(UserError) as refusal:
        RunLock(tmp_path).__enter__()
    assert str(refusal.value).isprintable()


def test_a_lock_file_left_behind_does_not_lock(tmp_path):
    (tmp_path / "lock").write_text('{"pid": 1, "host": "elsewhere", "since": "long ago"}')
    with RunLock(tmp_path):
        assert "elsewhere" not in (tmp_path / "lock").read_text()


@pytest.mark.parametrize("error", [errno.EROFS, errno.EACCES])
def test_a_folder_that_cannot_be_written_is_a_clear_line(tmp_path, monkeypatch, error):
    def refuse(*_, **__):
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(lock.os, "open", refuse)
    words = re.escape(f"cannot write to {tmp_path}: {os.strerror(error)}; choose another --run folder")
    with pytest.raises(UserError, match=words):
        RunLock(tmp_path).__enter__()


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="the administrator may write anywhere")
def test_a_read_only_folder_is_a_clear_line(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(UserError, match=r"cannot write to .*: Permission denied"):
        RunLock(tmp_path).__enter__()


def test_a_missing_folder_and_a_link_in_the_locks_place_are_clear_lines(tmp_path):
    with pytest.raises(UserError, match="No such file"):
        RunLock(tmp_path / "missing").__enter__()
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "lock").symlink_to(tmp_path / "victim")
    with pytest.raises(UserError, match="cannot write to"):
        RunLock(tmp_path).__enter__()
    assert (tmp_path / "victim").read_text() == "precious"


def test_a_file_system_without_locks_is_a_clear_line(tmp_path, monkeypatch):
    def refuse(file):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(lock, "_try_lock", refuse)
    with pytest.raises(UserError, match="cannot be locked: No locks available; choose another --run folder"):
        RunLock(tmp_path).__enter__()
    assert not lock._held
