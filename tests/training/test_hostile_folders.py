"""A run folder from a stranger: whatever is in the place of any file, no command hangs, leaves the folder, or runs it."""

from __future__ import annotations

import os
import shutil
import signal
from contextlib import contextmanager

import pytest

import ebu
from tests.conftest import ebu_
from tests.waiting import PATIENCE

SECRET = "what is outside stays outside"
SETTINGS = {
    "learning_starts": 50, "batch_size": 16, "log_every": 50, "hidden_sizes": (16,), "eval_every": 100, "eval_episodes": 1,
    "checkpoint_every": 60, "seed": 3,
}  # fmt: skip
COMMANDS = ("verify", "report --out page.html", "resume --quiet --tensorboard False", "eval --episodes 1")


def sparse(path, outside):
    with path.open("wb") as file:
        file.truncate(30 << 30)


KINDS = {
    "a link": lambda path, outside: path.symlink_to(outside / "precious.txt"),
    "a link to a folder": lambda path, outside: path.symlink_to(outside),
    "a link to a device": lambda path, outside: path.symlink_to("/dev/zero"),
    "a pipe": lambda path, outside: os.mkfifo(path),
    "a folder": lambda path, outside: path.mkdir(),
    "30 GB that are not there": sparse,
    "nothing": lambda path, outside: path.touch(),
    "a pickle": lambda path, outside: path.write_bytes(b"cos\nsystem\n(S'touch %s/ran'\ntR." % os.fsencode(outside)),
    "brackets": lambda path, outside: path.write_text("[" * 2_000_000),
    "other settings": lambda path, outside: path.write_text('{"env": "module_of_a_stranger:X-v0"}\n'),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run that was stopped, with its policy, and one that is finished."""
    folder = tmp_path_factory.mktemp("made")
    for name, last in (("stopped", 130), ("finished", 10**9)):
        agent = ebu.EBU("CartPole-v1", **SETTINGS)
        agent.learn(200, run=folder / name, callback=lambda event, last=last: event.step < last)
        agent.save(folder / name / "policy.ebu")
    return folder


@contextmanager
def no_waiting():
    """A command takes a few tenths of a second; one that waits at a pipe would wait for ever."""

    def give_up(*_):
        raise TimeoutError("the command waits")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(int(PATIENCE))
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def attack(made, state, tmp_path, monkeypatch, capsys, kinds, commands, step=1):
    """Every file in turn replaced by every kind, every command given; returns how many that were."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious.txt").write_text(SECRET)
    monkeypatch.chdir(tmp_path)
    given = 0
    slots = sorted(path.relative_to(made / state) for path in (made / state).rglob("*") if path.is_file())
    for slot in slots[::step]:
        for kind in kinds:
            for command in commands:
                shutil.rmtree("run", ignore_errors=True)
                shutil.copytree(made / state, "run")
                (tmp_path / "run" / slot).unlink()
                KINDS[kind](tmp_path / "run" / slot, outside)
                with no_waiting():
                    code = ebu_(command, "run")
                given += 1
                printed = capsys.readouterr()
                told = (str(slot), kind, command, code, printed.err)
                assert code in (0, 1, 2) and "Traceback" not in printed.err and "for the traceback" not in printed.err, told
                assert os.listdir(outside) == ["precious.txt"] and (outside / "precious.txt").read_text() == SECRET, told
                if os.path.exists("page.html"):
                    with open("page.html", encoding="utf-8") as page:
                        assert SECRET not in page.read(), told
                    os.remove("page.html")
                if command == "verify" and not slot.name.startswith(("lock", "events")):  # which nothing reads
                    assert code == 1 or code == 2, told
    return given


@pytest.mark.parametrize("state", ["stopped", "finished"])
def test_a_stranger_s_folder_is_refused_or_harmless(made, state, tmp_path, monkeypatch, capsys):
    assert attack(made, state, tmp_path, monkeypatch, capsys, ["a link", "a pipe"], COMMANDS[:2], step=6) >= 8


@pytest.mark.slow
@pytest.mark.parametrize("state", ["stopped", "finished"])
def test_anything_in_any_place_of_a_stranger_s_folder_is_refused_or_harmless(made, state, tmp_path, monkeypatch, capsys):
    assert attack(made, state, tmp_path, monkeypatch, capsys, KINDS, COMMANDS) >= 500
