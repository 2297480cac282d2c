"""Run folders as they are found: finished, still being written, broken."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from ebu.errors import UserError
from ebu.report.rows import find_runs, read_run
from tests.report.folders import evaluation, write_run


def test_a_finished_run_is_read_whole(tmp_path):
    run = read_run(write_run(tmp_path / "run", scores=(1.0, 4.0), seed=7))
    assert (run.state, run.algo, run.env, run.seed, run.step) == ("finished", "ebu", "CartPole-v1", 7, 200)
    assert run.points("eval", "mean_reward") == [(100.0, 1.0), (200.0, 4.0)]


def test_a_run_still_going_has_no_summary_and_a_torn_last_line(tmp_path):
    folder = write_run(tmp_path / "run", scores=(1.0, 4.0), finished=False, steps=1_000)
    whole = (folder / "metrics.jsonl").read_text()
    for cut in range(1, len(whole.splitlines()[-1]) + 1):
        (folder / "metrics.jsonl").write_text(whole[:-cut])
        run = read_run(folder)
        assert (run.state, run.unreadable) == ("unfinished", 0)
        assert len(run.evaluations) == (2 if cut == 1 else 1)  # a line without its newline may be whole already


def test_a_torn_character_at_the_end_is_no_obstacle(tmp_path):
    folder = write_run(tmp_path / "run", finished=False)
    with (folder / "metrics.jsonl").open("ab") as file:
        file.write('{"kind": "train", "note": "β'.encode()[:-1])
    assert len(read_run(folder).evaluations) == 2


def test_a_run_without_any_row_yet_is_read(tmp_path):
    folder = write_run(tmp_path / "run", finished=False)
    (folder / "metrics.jsonl").unlink()
    run = read_run(folder)
    assert (run.state, run.step, run.evaluations, run.written) == ("unfinished", 0, (), None)


def test_broken_lines_in_the_middle_are_counted(tmp_path):
    folder = write_run(tmp_path / "run")
    good = (folder / "metrics.jsonl").read_text()
    (folder / "metrics.jsonl").write_text('{"kind": "ev\n[1, 2]\n{"kind": "eval"}\n' + good)
    run = read_run(folder)
    assert (run.unreadable, len(run.evaluations)) == (3, 2)


def test_after_a_restart_the_later_row_of_a_step_holds(tmp_path):
    folder = write_run(tmp_path / "run", scores=(1.0, 2.0), rows=[evaluation(100, 5.0)])
    assert read_run(folder).points("eval", "mean_reward") == [(100.0, 5.0), (200.0, 2.0)]


def test_a_failed_run_says_why(tmp_path):
    folder = write_run(tmp_path / "run", finished=False)
    (folder / "failure.json").write_text(json.dumps({"error": "reward is nan at step 812"}))
    run = read_run(folder)
    assert (run.state, run.error) == ("failed", "reward is nan at step 812")


def test_numbers_that_are_none_are_left_out(tmp_path):
    rows = [evaluation(300, float("nan")), evaluation(400, None), evaluation(500, 3.0)]
    folder = write_run(tmp_path / "run", scores=(1.0,), rows=rows)
    assert read_run(folder).points("eval", "mean_reward") == [(100.0, 1.0), (500.0, 3.0)]


def test_time_adds_up_over_sessions(tmp_path):
    folder = write_run(tmp_path / "run")
    readings = [1.0, 5.0, 9.0, 2.0, 4.0]  # the second session starts its clock again
    (folder / "timing.jsonl").write_text("".join(json.dumps({"step": i, "seconds": s}) + "\n" for i, s in enumerate(readings)))
    assert read_run(folder).seconds == 13.0


def test_runs_are_found_below_a_folder_each_once(tmp_path):
    first, second = write_run(tmp_path / "runs/a"), write_run(tmp_path / "runs/deeper/b")
    assert find_runs([tmp_path / "runs", first]) == [first, second]


@pytest.mark.parametrize("name", ["empty", "missing"])
def test_a_folder_without_runs_is_refused_in_one_line(tmp_path, name):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=name):
        find_runs([tmp_path / name])


def test_a_damaged_config_is_refused_in_one_line(tmp_path):
    folder = write_run(tmp_path / "run")
    (folder / "config.json").write_text("{")
    with pytest.raises(UserError, match=r"config\.json cannot be read"):
        read_run(folder)


def test_reports_do_not_import_pytorch():
    code = "import sys, ebu.report.page, ebu.report.explain; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "False"


def test_what_is_no_folder_of_runs_is_called_what_it_is(tmp_path):
    folder = write_run(tmp_path / "runs" / "run")
    for path, words in ((folder / "metrics.jsonl", "is not a folder"), (tmp_path / "nowhere", "does not exist")):
        with pytest.raises(UserError, match=f"{path.name} {words}; name run folders"):
            find_runs([path])


def test_a_folder_of_ebu_share_is_no_run_that_has_yet_to_begin(tmp_path):
    folder = write_run(tmp_path / "runs" / "run")
    shared = tmp_path / "runs" / "shared"
    shared.mkdir()
    (shared / "config.json").write_bytes((folder / "config.json").read_bytes())
    (shared / "policy.safetensors").write_bytes(b"")
    assert find_runs([tmp_path / "runs"]) == [folder]
    with pytest.raises(UserError, match="shared has no run in it"):
        find_runs([shared])
