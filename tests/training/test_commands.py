"""``ebu train``, ``resume`` and ``verify`` as a user meets them: refusals, signals, proofs, each with its last line."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
import time

import gymnasium
import pytest

from ebu.presets import configure
from ebu.storage.checkpoints import CheckpointStore
from ebu.storage.lock import RunLock
from ebu.storage.run_folder import RunFolder
from ebu.storage.verify import verify_checkpoints as verify
from tests.conftest import Corridor, ebu_
from tests.storage.test_checkpoints import damage
from tests.waiting import wait_for

FLAGS = "--learning-starts 20 --batch-size 8 --hidden-sizes 8 --log-every 20 --eval-every 50 --eval-episodes 1"
TRAIN = f"train --env CartPole-v1 --steps 120 --checkpoint-every 50 {FLAGS} --quiet True --tensorboard False"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "run"
    assert ebu_(TRAIN, "--run", folder) == 0
    return folder


@pytest.fixture
def run(made, tmp_path):
    """A finished run that may be damaged."""
    return shutil.copytree(made, tmp_path / "run")


# ---------------------------------------------------------------------- one run, one writer


def test_a_folder_that_holds_a_run_is_refused_with_the_way_out(made, capsys):
    before = (made / "config.json").read_bytes()
    assert ebu_(TRAIN, "--run", made) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"ebu: {made} already holds a run; continue it with `ebu resume {made}`, or choose another folder"
    assert (made / "config.json").read_bytes() == before


def test_a_second_writer_is_told_which_process_holds_the_run(made, capsys):
    with RunLock(made):
        assert ebu_("resume", made) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"is being written by process {os.getpid()} on " in line and line.endswith("; stop it or wait until it ends")


def test_a_finished_run_that_is_resumed_stays_as_it_is(run, capsys):
    before = {path: path.read_bytes() for path in (run / "checkpoints").rglob("*") if path.is_file()}
    assert ebu_("resume --quiet True --tensorboard False", run) == 0
    assert "the run is finished; nothing is left to do" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in (run / "checkpoints").rglob("*") if path.is_file()} == before


def test_what_is_not_a_run_cannot_be_resumed(tmp_path, capsys):
    for command in ("resume", "verify"):
        assert ebu_(command, tmp_path) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "is not a run folder (no config.json in it)" in line


# ---------------------------------------------------------------------- verify


def test_a_good_run_is_called_good(run, capsys):
    assert ebu_("verify", run) == 0
    assert capsys.readouterr().out == f"{run}: good\n"


def test_a_run_that_was_killed_may_end_in_half_a_line(run, capsys):
    (run / "summary.json").unlink()
    with (run / "metrics.jsonl").open("ab") as file:
        file.write(b'{"kind": "tra')
    assert ebu_("verify", run) == 0


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda run: damage(next((run / "checkpoints").glob("episodes-*"))), "was changed: its SHA-256 is not the manifest's"),
        (lambda run: damage(max((run / "checkpoints").glob("generation-*")) / "manifest.json"), "manifest.json"),
        (lambda run: damage(max((run / "checkpoints").glob("generation-*")) / "state.json"), "was changed"),
        (lambda run: (run / "metrics.jsonl").unlink(), "metrics.jsonl is missing"),
        (lambda run: (run / "metrics.jsonl").write_bytes(b'{"step": 5}\nnot JSON\n'), "line 2 is not a row of metrics"),
        (lambda run: (run / "metrics.jsonl").write_bytes(b'{"step": 5}\n{"step": 4}\n'), "line 2: step 4 after step 5"),
        (lambda run: (run / "metrics.jsonl").write_bytes(b'{"step": 5}\n{"step'), "ends in the middle of a line"),
        (lambda run: (run / "metrics.jsonl").write_bytes(b'{"step": 5}\n'), "has 12 bytes, and had "),
        (lambda run: (run / "metrics.jsonl").write_bytes(b"x\n" * 10**5), "later lines were not checked"),
    ],
    ids=range(9),
)
def test_what_is_wrong_with_a_run_is_listed(run, capsys, harm, words):
    harm(run)
    assert ebu_("verify", run) == 1
    lines = capsys.readouterr().out.splitlines()
    assert 1 <= len(lines) <= 21 and words in lines[-1]


def test_resuming_is_proved_on_the_users_own_environment(run, capsys):
    assert ebu_("verify --prove True --steps 80", run) == 0
    assert capsys.readouterr().out == f"{run}: good; resuming is exact over 80 steps\n"


class Forgetful(Corridor):
    """No seed governs it: what it shows goes on from episode to episode, and from one copy to the next."""

    shown = 0

    def _observe(self):
        type(self).shown += 1
        return super()._observe() + 1 / type(self).shown


def test_an_environment_that_does_not_repeat_itself_is_announced_and_fails_the_proof(tmp_path, capsys):
    gymnasium.register("Forgetful-v0", entry_point=Forgetful)
    try:
        line = f"train --env Forgetful-v0 --steps 60 {FLAGS} --quiet True --tensorboard False"
        assert ebu_(line, "--run", tmp_path / "run") == 0
        assert "this environment is not reproducible from its seed" in capsys.readouterr().err
        assert ebu_("verify --prove True --steps 80", tmp_path / "run") == 1
        assert "after resuming, the weights differ" in capsys.readouterr().out
    finally:
        gymnasium.registry.pop("Forgetful-v0")


# ---------------------------------------------------------------------- signals


class Signals(Corridor):
    """Sends its own process a signal at one step."""

    def __init__(self, number=signal.SIGINT, at=70):
        super().__init__()
        self.number, self.left = number, at

    def step(self, action):
        self.left -= 1
        if not self.left:
            signal.raise_signal(self.number)
        return super().step(action)


@pytest.fixture
def signals():
    gymnasium.register("Signals-v0", entry_point=Signals)
    yield
    gymnasium.registry.pop("Signals-v0")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_a_checkpoint_of_that_very_step_and_the_command_as_the_last_line(tmp_path, signals, capsys, number):
    folder = tmp_path / "a run"
    line = f"train --env Signals-v0 --steps 200 {FLAGS} --quiet True --tensorboard False --env-args number={int(number)}"
    assert ebu_(line, "--run", folder) == 130
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == f"stopped at step 70; continue with: ebu resume {shlex.quote(str(folder))}"
    assert CheckpointStore(folder / "checkpoints").load(pytest.fail).step == 70
    assert (folder / "policy.ebu").is_file() and not (folder / "failure.json").exists()


def test_an_interruption_before_the_first_step_names_the_command_too(tmp_path, signals, capsys, monkeypatch):
    line = f"train --env Signals-v0 --steps 200 {FLAGS} --quiet True --tensorboard False"

    def interrupted(*_, **__):
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr("ebu.training.trainer.Trainer", interrupted)
    assert ebu_(line, "--run", tmp_path / "run") == 130
    assert capsys.readouterr().err.splitlines()[-1] == f"interrupted; continue with: ebu resume {tmp_path / 'run'}"
    monkeypatch.undo()
    assert ebu_("resume --quiet True --tensorboard False", tmp_path / "run") == 130  # it raises its signal at step 70
    assert "there is no checkpoint yet: the run starts from the beginning" in capsys.readouterr().err


STUCK = textwrap.dedent("""
    import sys, time
    import gymnasium
    from ebu.cli import main
    from tests.conftest import Corridor

    class Stuck(Corridor):
        left = 130

        def step(self, action):
            Stuck.left -= 1
            if Stuck.left < 0:
                print("stuck", flush=True)
                time.sleep(1000)
            return super().step(action)

    gymnasium.register("Stuck-v0", entry_point=Stuck)
    sys.exit(main(sys.argv[1:]))
""")


def test_a_second_signal_ends_at_once_and_loses_nothing_that_was_saved(tmp_path):
    line = f"train --env Stuck-v0 --steps 500 --checkpoint-every 50 {FLAGS} --eval-every 0 --quiet True --tensorboard False"
    command = [sys.executable, "-c", STUCK, *line.split(), "--run", str(tmp_path / "run")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "stuck\n"  # in the middle of a step, where the first signal waits its turn
        process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        assert process.poll() is None
        wait_for(lambda: process.send_signal(signal.SIGTERM) or process.poll(), "the end")  # two at one time count as one
        assert process.returncode == 128 + signal.SIGTERM
    finally:
        process.kill()
        process.communicate()
    assert verify(tmp_path / "run" / "checkpoints") == []
    assert CheckpointStore(tmp_path / "run" / "checkpoints").load(pytest.fail).step >= 50
    with RunLock(tmp_path / "run"):
        pass


def test_the_proof_can_be_interrupted(tmp_path, signals, capsys):
    line = f"train --env Signals-v0 --steps 60 {FLAGS} --quiet True --tensorboard False"
    assert ebu_(line, "--run", tmp_path / "run") == 0
    assert ebu_("verify --prove True --steps 200", tmp_path / "run") == 130
    assert capsys.readouterr().err.splitlines()[-1] == "ebu: interrupted"


# ---------------------------------------------------------------------- what random command lines brought to light


def test_of_a_flag_that_is_given_twice_the_last_counts_everywhere(tmp_path):
    line = TRAIN.replace("train", "train --env maze --preset paper --preset quick")
    assert ebu_(line, "--run", tmp_path / "run") == 0
    config = RunFolder.open(tmp_path / "run").config()
    assert (config.environment.env, config.preset, config.learner.learning_rate) == (
        "CartPole-v1",
        "quick",
        configure("ebu", "CartPole-v1").learner.learning_rate,
    )


@pytest.mark.parametrize("name", ["[/red]", "[bold]", "a b", "β 🎲", "a\nb", "\udcff"])
def test_a_run_folder_may_have_any_name(tmp_path, capsys, name):
    assert ebu_(TRAIN.replace("120", "30"), "--run", tmp_path / name) == 0
    assert (tmp_path / name / "summary.json").is_file()
    assert f"→ {tmp_path}/" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "file/run"])
def test_a_name_that_no_folder_can_have_is_refused(tmp_path, capsys, name):
    (tmp_path / "file").write_text("")
    assert ebu_(TRAIN, "--run", f"{tmp_path}/{name}") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("ebu: cannot write to ") and "choose another --run folder" in line


def test_a_maze_seen_in_stacks_of_frames_ends_with_a_picture_too(tmp_path):
    line = f"train --env maze --stack 3 --steps 60 {FLAGS} --env-args size=3 cap=20 --quiet True --tensorboard False"
    assert ebu_(line, "--run", tmp_path / "run") == 0
    assert (tmp_path / "run" / "maze.png").is_file()
