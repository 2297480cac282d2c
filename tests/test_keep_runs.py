"""``scripts.keep_runs``: what is copied of finished runs into results/, where to, and what is left."""

import pytest

from ebu.experiments.items import find_item
from scripts.keep_runs import KEPT, TIMING, TRAINED, finished_below, homes, keep_all
from tests.experiments.pages import write_trial

ITEMS = homes()


def a_trial(item, number=0):
    return find_item(item).trials("laptop")[number]


@pytest.fixture
def finished(tmp_path):
    """Writes a finished run, with files that are not kept, and returns its folder."""

    def write(trial, place="machine"):
        folder = write_trial(tmp_path / place / "trials" / trial.id, trial)
        (folder / "versions.json").write_text("{}\n")
        (folder / TIMING).write_text('{"step": 1, "seconds": 1.0}\n{"step": 2, "seconds": 2.5}\n')
        (folder / "policy.ebu").write_bytes(b"weights")
        (folder / "checkpoints").mkdir()
        return folder

    return write


def test_a_run_is_kept_without_policy_and_checkpoints_and_with_the_last_time(tmp_path, finished):
    run = finished(trial := a_trial("minigrid"))
    changed, strangers = keep_all(finished_below([tmp_path / "machine"]), tmp_path / "results", ITEMS)
    assert (changed, strangers) == (["minigrid"], [])
    kept = tmp_path / "results/minigrid/trials" / trial.id
    assert sorted(path.name for path in kept.iterdir()) == sorted([*KEPT, TIMING])
    assert all((kept / name).read_bytes() == (run / name).read_bytes() for name in KEPT)
    assert (kept / TIMING).read_text() == '{"step": 2, "seconds": 2.5}\n'


def test_a_run_that_several_items_have_is_stored_with_the_first_and_changes_them_all(tmp_path, finished):
    trial = a_trial("minatar")
    finished(trial)
    changed, _ = keep_all(finished_below([tmp_path / "machine"]), tmp_path / "results", ITEMS)
    assert changed == [item for item in TRAINED if trial.id in {one.id for one in find_item(item).trials("laptop")}]
    assert len(changed) > 1 and [path.parts[-3] for path in tmp_path.glob("results/*/trials/*")] == ["minatar"]


def test_what_is_kept_already_is_left_as_it_is(tmp_path, finished):
    run = finished(a_trial("table1"))
    keep_all([run], tmp_path / "results", ITEMS)
    (run / "metrics.jsonl").write_text("another run\n")
    assert keep_all([run], tmp_path / "results", ITEMS) == ([], [])
    (metrics,) = tmp_path.glob("results/table1/trials/*/metrics.jsonl")
    assert metrics.read_text() != "another run\n"


def test_a_copy_that_fails_half_way_is_made_at_the_next_call(tmp_path, finished):
    run = finished(trial := a_trial("table1"))
    (run / "versions.json").rename(tmp_path / "versions.json")
    with pytest.raises(FileNotFoundError):
        keep_all([run], tmp_path / "results", ITEMS)
    (tmp_path / "versions.json").rename(run / "versions.json")
    (run / TIMING).write_text("")
    changed, _ = keep_all([run], tmp_path / "results", ITEMS)
    assert "table1" in changed
    (kept,) = tmp_path.glob("results/table1/trials/*")
    assert kept.name == trial.id and sorted(path.name for path in kept.iterdir()) == sorted([*KEPT, TIMING])


def test_unfinished_runs_and_runs_of_no_item_are_left_out(tmp_path, finished):
    (finished(a_trial("table1")) / "summary.json").write_text("")
    stranger = finished(find_item("minatar").trials("quick")[0])
    changed, strangers = keep_all(finished_below([tmp_path / "machine"]), tmp_path / "results", ITEMS)
    assert (changed, strangers) == ([], [stranger.name])
    assert not (tmp_path / "results").exists()
