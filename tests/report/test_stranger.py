"""A report about a stranger's run folder shows what is in the folder, and nothing else of this machine."""

from __future__ import annotations

import os

import pytest

from ebu.errors import UserError
from ebu.report.page import build_page
from ebu.report.rows import find_runs, read_run
from tests.report.folders import write_maze_run, write_run

SLOTS = ["config.json", "metrics.jsonl", "timing.jsonl", "summary.json", "versions.json", "failure.json", "maze.png"]


@pytest.mark.parametrize("slot", SLOTS)
@pytest.mark.parametrize("kind", ["link", "pipe", "hollow", "folder"])
def test_what_is_not_a_regular_file_of_sensible_size_is_refused(tmp_path, slot, kind):
    run = write_maze_run(tmp_path / "run")
    path = run / slot
    path.unlink(missing_ok=True)
    if kind == "link":
        (tmp_path / "secret").write_text('{"secret": "of this machine", "step": 1}')
        path.symlink_to(tmp_path / "secret")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        with path.open("wb") as file:
            file.truncate(30 << 30)
    with pytest.raises(UserError, match=slot) as error:
        build_page([run], tmp_path / "page.html")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "page.html").exists()


def test_the_folder_itself_may_be_a_link(tmp_path):
    write_run(tmp_path / "run")
    (tmp_path / "link").symlink_to(tmp_path / "run")
    assert read_run(tmp_path / "link").state == "finished"


@pytest.mark.parametrize("content", ["", "\0" * 20, '{"algo": '])
def test_a_torn_summary_is_that_of_an_unfinished_run(tmp_path, content):
    run = write_run(tmp_path / "run")
    (run / "summary.json").write_text(content)
    assert read_run(run).state == "unfinished"


def test_folders_that_are_half_copied_are_no_runs(tmp_path):
    write_run(tmp_path / "trials" / "a")
    write_run(tmp_path / "trials" / ".b.0123456789abcdef.part")
    assert find_runs([tmp_path]) == [tmp_path / "trials" / "a"]
