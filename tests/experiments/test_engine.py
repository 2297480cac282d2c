"""Sweeps that are killed, stopped, or lose processes: the same call again, and the rows are those of a quiet one."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from ebu.config import to_json
from ebu.errors import RunFailure, UserError
from ebu.experiments.sweeps import local_engine as engine_local
from ebu.experiments.sweeps import sweep as sweep_module
from ebu.experiments.sweeps.adoption import adopt_finished
from ebu.experiments.sweeps.engine import make_engine, run_trials
from ebu.experiments.sweeps.local_engine import LocalEngine
from ebu.experiments.sweeps.sweep import Job, Sweep, look
from ebu.experiments.sweeps.trials import trial
from ebu.report.rows import read_run
from ebu.storage.run_folder import RunFolder
from ebu.training.progress import duration
from tests.experiments.sweeps import (
    TINY,
    is_free,
    mortal,
    rows,
    rows_of,
    steps_by_the_clock,
    straight,
    sweep,
    tiny_trials,
)
from tests.waiting import PATIENCE, wait_for

pytestmark = pytest.mark.xdist_group("sweeps")  # one that nothing disturbs, for all tests that compare with it


class NoEngine:
    """Fails when there is anything to run."""

    store = ""

    def run(self, sweep):
        raise AssertionError(f"would run {[job.trial.id for job in sweep.waiting()]}")


# ---------------------------------------------------------------------- what a sweep leaves behind


def test_every_trial_is_an_ordinary_finished_run_without_checkpoints(quiet):
    for one, folder in zip(tiny_trials(), sweep(quiet, NoEngine())):
        assert folder == quiet / "trials" / one.id
        run = read_run(folder)
        assert run.state == "finished" and run.step == one.config().steps
        assert json.loads((folder / "config.json").read_text())["threads"] == 1
        names = {path.name for path in folder.iterdir()}
        assert {"metrics.jsonl", "timing.jsonl", "summary.json", "policy.ebu"} <= names
        assert "checkpoints" not in names and "log.txt" not in names
        assert ("maze.png" in names) == (one.env == "maze")


def test_the_same_trial_twice_in_a_list_runs_once(quiet):
    first = tiny_trials()[0]
    folders = run_trials([first, first], quiet, NoEngine())
    assert folders == [quiet / "trials" / first.id] * 2


# ---------------------------------------------------------------------- sweeps that are cut short

START = """
import sys
from ebu.experiments.sweeps.local_engine import LocalEngine
from tests.experiments.sweeps import sweep
sweep(sys.argv[1], LocalEngine(workers=1))
"""
ROOT = Path(__file__).parents[2]


def start(out):
    """A sweep in a process group of its own, as a shell gives it one."""
    return subprocess.Popen(
        [sys.executable, "-c", START, str(out)],
        cwd=ROOT,
        start_new_session=True,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def half_run(out):
    """Trials that have a checkpoint and no summary."""
    folders = {generation.parents[1] for generation in out.glob("trials/*/checkpoints/generation-*[0-9]")}
    return {folder.name for folder in folders if not (folder / "summary.json").exists()}


def states(out):
    """Of each trial, what tells whether it was run again: the summary's time, or how much was recorded so far."""
    finished = {path.parent.name: path.stat().st_mtime_ns for path in out.glob("trials/*/summary.json")}
    return finished, {name: len(steps_by_the_clock(out / "trials" / name)) for name in half_run(out)}


def assert_continued(out, finished, half):
    """Nothing finished was touched, and nothing half-run began again at its first step."""
    for name, written in finished.items():
        assert (out / "trials" / name / "summary.json").stat().st_mtime_ns == written
    for name, recorded in half.items():
        later = steps_by_the_clock(out / "trials" / name)[recorded:]  # none where only the summary was missing
        assert all(step > TINY["log_every"] for step in later)


@pytest.mark.parametrize(
    "how",
    [
        "kill -9 of the group",
        pytest.param("kill -9 of the engine", marks=pytest.mark.slow),
        pytest.param("Ctrl-C", marks=pytest.mark.slow),
    ],
)
def test_a_sweep_that_was_interrupted_continues_and_ends_with_the_same_rows(how, quiet, tmp_path):
    process = start(tmp_path)
    wait_for(lambda: half_run(tmp_path) or process.poll() is not None, "a checkpoint")
    if how == "kill -9 of the group":
        os.killpg(process.pid, signal.SIGKILL)
    elif how == "kill -9 of the engine":
        process.kill()
    else:
        os.killpg(process.pid, signal.SIGINT)  # a terminal sends it to everybody
    _, words = process.communicate(timeout=PATIENCE)
    if how == "Ctrl-C":
        assert "run the command again to continue" in words
    for folder in tmp_path.glob("trials/*"):  # trials whose engine is gone stop by themselves, at a checkpoint
        wait_for(lambda: is_free(folder), "the trial to stop")  # noqa: B023
    finished, half = states(tmp_path)
    assert len(finished) < len(tiny_trials()), words
    sweep(tmp_path, LocalEngine(workers=1))
    assert_continued(tmp_path, finished, half)
    assert rows_of(tmp_path) == rows_of(quiet)


@pytest.mark.slow
def test_two_sweeps_in_one_folder_share_the_work(quiet, tmp_path):
    processes = [start(tmp_path) for _ in range(2)]
    for process in processes:
        _, words = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, words
    assert rows_of(tmp_path) == rows_of(quiet)
    for one in tiny_trials():  # each step was taken once: a second session would write its rows again
        steps = steps_by_the_clock(tmp_path / "trials" / one.id)
        assert steps == sorted(steps)


def test_of_two_sweeps_that_want_a_new_folder_at_once_one_comes_second(tmp_path, monkeypatch):
    create = RunFolder.create

    def create_second(path, config, packages):
        create(path, config, packages)  # the other sweep's, in between
        return create(path, config, packages)

    monkeypatch.setattr(RunFolder, "create", create_second)
    few = tiny_trials()[3]
    assert set(straight(few, tmp_path)) == {few.id}


def test_a_worker_that_is_asked_to_stop_before_its_order_has_not_failed(tmp_path, monkeypatch):
    process = engine_local._start()
    process.stdin.close()
    monkeypatch.setattr(engine_local, "_start", lambda: process)
    order = {"path": str(tmp_path), "config": to_json(tiny_trials()[0].config()), "store": ""}
    assert engine_local._Worker().attempt(order, stopping=lambda: True).state == "died"


# ---------------------------------------------------------------------- trials that fail, processes that die


def test_a_trial_whose_process_dies_is_restarted_from_its_checkpoint(tmp_path):
    (tmp_path / "lives").mkdir()
    dying = mortal(tmp_path / "lives", lives=1)
    [folder] = run_trials([dying], tmp_path / "died", LocalEngine())
    assert len(list((tmp_path / "lives").iterdir())) == 1
    assert rows([folder]) == straight(dying, tmp_path / "straight")  # its only life is spent: nothing dies here
    steps = steps_by_the_clock(folder)
    assert steps.count(100) == 1 and steps.count(300) == 1


def test_failing_trials_are_listed_at_the_end_and_the_others_finish(tmp_path, capsys):
    (tmp_path / "lives").mkdir()
    good = tiny_trials()[3]
    bad = trial("ebu", "NoSuchThing-v0", 0)
    dying = mortal(tmp_path / "lives", lives=1_000)
    with pytest.raises(RunFailure, match="2 of 3 trials failed; 1 are finished"):
        run_trials([bad, dying, good], tmp_path, LocalEngine(workers=1, retries=1))
    words = capsys.readouterr().err
    assert f"{bad.id} failed: there is no environment 'NoSuchThing-v0'" in words
    assert f"{dying.id} failed: its process died 2 times (signal 9)" in words
    assert f"ebu resume {tmp_path / 'trials' / bad.id} --debug" in words
    assert read_run(tmp_path / "trials" / good.id).state == "finished"
    failed = read_run(tmp_path / "trials" / bad.id)
    assert failed.state == "failed" and "NoSuchThing" in failed.error


def test_impossible_engines_are_refused_in_one_line(tmp_path):
    with pytest.raises(UserError, match="no engine 'cloud'"):
        make_engine("cloud")
    with pytest.raises(UserError, match="--engine ray"):
        make_engine("local", address="auto")
    with pytest.raises(UserError, match="--workers"):
        make_engine("local", workers=-1)
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot write"):
        run_trials(tiny_trials(), tmp_path / "file", LocalEngine())


# ---------------------------------------------------------------------- the same trial elsewhere


def test_what_an_item_beside_has_finished_is_taken_over(quiet, tmp_path):
    shutil.copytree(quiet, tmp_path / "table2")
    adopt_finished(tiny_trials(), tmp_path / "table3")
    sweep(tmp_path / "table3", NoEngine())
    assert rows_of(tmp_path / "table3") == rows_of(quiet)
    adopt_finished(tiny_trials(), tmp_path / "table3")  # and again: nothing to do


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """(folders, store) of the shorter trials, one after the other, where those of ``quiet`` ran two at a time."""
    out = tmp_path_factory.mktemp("stored")
    return run_trials(tiny_trials()[2:], out / "here", LocalEngine(workers=1, store=f"file://{out / 'store'}")), out / "store"


def test_rows_do_not_depend_on_how_many_run_at_once(quiet, stored):
    assert rows(stored[0]).items() <= rows_of(quiet).items()


def test_a_store_keeps_every_trial_and_gives_it_back(quiet, stored, tmp_path):
    few, (_, store) = tiny_trials()[2:], stored
    there = store / "trials" / few[0].id
    assert (there / "summary.json").is_file() and not list(there.glob("checkpoints/*/*"))
    engine = NoEngine()
    engine.store = f"file://{store}"
    assert rows(run_trials(few, tmp_path / "elsewhere", engine)).items() <= rows_of(quiet).items()


def test_another_machine_continues_from_the_checkpoint_in_the_store(tmp_path):
    (tmp_path / "lives").mkdir()
    store, dying = f"file://{tmp_path / 'store'}", mortal(tmp_path / "lives", lives=1)
    with pytest.raises(RunFailure):
        run_trials([dying], tmp_path / "lost", LocalEngine(retries=0, store=store))
    shutil.rmtree(tmp_path / "lost")
    [folder] = run_trials([dying], tmp_path / "other", LocalEngine(store=store))
    assert rows([folder]) == straight(dying, tmp_path / "straight")
    steps = steps_by_the_clock(folder)
    assert steps.count(100) == 1  # the second machine did not begin again


def test_a_store_that_cannot_be_reached_is_reported_in_one_line(tmp_path):
    with pytest.raises(UserError, match="nosuch://"):
        run_trials(tiny_trials(), tmp_path, LocalEngine(store="nosuch://somewhere"))


# ---------------------------------------------------------------------- how a sweep is shown


def jobs_of(*lengths):
    found = [Job(trial("ebu", "CartPole-v1", i), Path("nowhere"), planned=100, expected=s) for i, s in enumerate(lengths)]
    return Sweep(Path("out"), found, there=0, console=Console(file=io.StringIO(), width=120, height=12))


def test_the_longest_trial_is_first():
    assert [job.expected for job in jobs_of(3.0, 9.0, 5.0).waiting()] == [9.0, 5.0, 3.0]


def test_the_time_left_follows_the_pace_so_far(monkeypatch):
    monkeypatch.setattr(sweep_module, "time", SimpleNamespace(monotonic=lambda: 1_000.0))
    sweep = jobs_of(100.0, 100.0, 100.0)
    assert sweep.seconds_left() == 300.0  # nothing runs yet
    for job in sweep.jobs[:2]:
        job.begin()
        job.step, job.started = 50, 900.0  # half of it took 100 s: twice as long as expected
    assert sweep.pace() == pytest.approx(2.0)
    assert sweep.seconds_left() == pytest.approx(2.0 * (50 + 50 + 100) / 2)
    sweep.jobs[0].end("finished")
    assert sweep.jobs[0].left() == 0.0


def test_a_terminal_shows_a_table_that_fits(monkeypatch):
    sweep = jobs_of(*[10.0] * 30)
    sweep.console = Console(file=io.StringIO(), force_terminal=True, width=120, height=12)
    sweep.jobs[3].begin()
    sweep.jobs[4].begin()
    sweep.jobs[4].end("failed", "it broke")
    with sweep.shown():
        sweep.refresh()
    text = sweep.console.file.getvalue()
    assert sweep.jobs[3].trial.id in text and "it broke" in text
    assert "0 of 30 trials finished, 1 failed, 1 running" in text
    assert "… and 23 waiting" in text


def test_elsewhere_a_line_says_what_changed(capsys):
    sweep = jobs_of(10.0, 10.0)
    with sweep.shown():
        sweep.jobs[0].begin()
        sweep.refresh()
        sweep.jobs[0].end("finished")
        sweep.refresh()
        sweep.refresh()
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[1].split(" ")[0] for line in lines] == ["running", "finished"]


def test_progress_is_read_from_rows_that_are_being_written(tmp_path):
    assert look(tmp_path) == (0, None)
    rows = ['{"kind": "train", "step": 100, "ep_rew_mean": 3.0}', '{"kind": "eval", "step": 200, "mean_reward": 7.0}', '{"ki']
    (tmp_path / "metrics.jsonl").write_text("\n".join(rows[:1]))
    assert look(tmp_path) == (100, 3.0)
    (tmp_path / "metrics.jsonl").write_text("\n".join(rows))
    assert look(tmp_path) == (200, 7.0)
    (tmp_path / "metrics.jsonl").write_text("\n".join([rows[0]] * 2_000 + rows))
    assert look(tmp_path) == (200, 7.0)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(40, "40 s"), (720, "12 min"), (3_600, "1 h"), (11_400, "3 h 10 min"), (100_000, "28 h"), (190_000, "2 d 5 h")],
)
def test_durations_are_said_as_one_says_them(seconds, words):
    assert duration(seconds) == words
