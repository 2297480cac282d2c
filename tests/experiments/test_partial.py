"""``--partial``: an item from the trials that are finished so far, wherever they are and whatever they are called."""

from __future__ import annotations

import json

import pytest

from ebu.cli import main
from ebu.config import to_json
from ebu.experiments.items import figure2, find_item, table1
from ebu.experiments.sweeps.adoption import adopt_finished, finished_folders, identity
from ebu.experiments.sweeps.trials import trial
from ebu.storage.finished import is_finished
from ebu.storage.lock import RunLock
from tests.experiments.pages import TRAINED, write_trial

pytestmark = pytest.mark.xdist_group("pages")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def rows_in(folder):
    return [json.loads(line) for line in (folder / "rows.jsonl").read_text(encoding="utf-8").splitlines()]


def partial(item, out, budget="laptop"):
    return main(["reproduce", item, "--budget", budget, "--partial", "--out", str(out)])


def older(folder, one):
    """As an earlier version left it: another name, a setting that did not exist, arguments in another order."""
    settings = json.loads(to_json(one.config()))
    del settings["max_episode_steps"]
    settings["env_args"] = settings["env_args"][::-1]
    write_trial(folder, one)
    (folder / "config.json").write_text(json.dumps(settings))
    return folder


# ---------------------------------------------------------------------- order of execution


def test_table_1_is_trained_maze_by_maze():
    rounds = [(one.round, one.seed) for one in table1.trials("laptop")]
    assert rounds == sorted(rounds) and all(turn == maze for turn, maze in rounds)
    first = table1.trials("laptop")[:12]
    assert len({one.id for one in first}) == 12 and {one.seed for one in first} == {0}


def test_figure_2_shares_its_plain_mazes_with_table_1_and_has_four_slippery_ones():
    ids = {one.id for one in table1.trials("laptop")}
    others = [one for one in figure2.trials("laptop") if one.id not in ids]
    assert ids <= {one.id for one in figure2.trials("laptop")}
    assert len(others) == 5 * 4 and all("slip=0.1" in one.config().environment.env_args for one in others)


# ---------------------------------------------------------------------- what is finished


def test_a_trial_is_found_by_its_settings_whatever_its_folder_is_called(tmp_path):
    one, other, missing = table1.trials("laptop")[:3]
    out = tmp_path / "table1"
    own = older(out / "trials/dqn-maze-0-c3c7f5d7", one)
    beside = older(tmp_path / "figure2/trials/some-name", other)
    (write_trial(out / "trials/unfinished", missing) / "summary.json").unlink()
    (out / "trials/broken").mkdir()
    (out / "trials/broken/config.json").write_text("{")
    assert finished_folders([one, other, missing], out) == {one.id: own, other.id: beside}


def test_settings_that_differ_are_another_trial():
    base = trial("ebu", "maze", 0, preset="paper")
    assert identity(base.config()) == identity(trial("ebu", "maze", 0, preset="paper", checkpoint_every=7).config())
    for settings in ({"beta": 0.5}, {"env_args": ("slip=0.1",)}, {"log_every": 7}, {"steps": 9}):
        assert identity(base.config()) != identity(trial("ebu", "maze", 0, preset="paper", **settings).config())


def test_a_trial_under_an_earlier_name_is_renamed_before_training_unless_somebody_is_at_it(tmp_path):
    one, other = table1.trials("laptop")[:2]
    half = older(tmp_path / "trials/half", one)
    (half / "summary.json").unlink()
    held = older(tmp_path / "trials/held", other)
    (held / "summary.json").unlink()
    with RunLock(held):
        adopt_finished([one, other], tmp_path)
    assert sorted(path.name for path in (tmp_path / "trials").iterdir()) == sorted([one.id, "held"])
    assert not is_finished(tmp_path / "trials" / one.id)


# ---------------------------------------------------------------------- pages at any stage


def test_table_1_at_an_early_stage_says_how_many_mazes_and_shows_dashes(tmp_path, capsys):
    out = tmp_path / "table1"
    done = [one for one in table1.trials("laptop") if one.seed < 3 and "wall_density=0.5" in one.config().environment.env_args]
    for one in done:
        write_trial(out / "trials" / one.id, one)
    before = sorted(path for path in (out / "trials").rglob("*"))
    assert partial("table1", out) == 0
    assert sorted(path for path in (out / "trials").rglob("*")) == before
    assert "9 of 144 trials are finished" in capsys.readouterr().out
    cells = {(row["wall_density"], row["method"]): row for row in rows_in(out) if row["part"] == "cell"}
    assert [cell["mazes"] for cell in cells.values()] == [0] * 9 + [3] * 3
    known = cells[0.5, "EBU (β=1)"]
    assert known["training_mean_low"] <= known["training_mean"] <= known["training_mean_high"]
    assert known["training_median_low"] <= known["training_median"] <= known["training_median_high"]
    text = (out / "table.md").read_text(encoding="utf-8")
    assert "So far 9 of 144 trials are finished" in text
    assert "| 20 % | EBU (β=1) | 0 | 5.44 | 2.42 | – | – | – | – | – |" in text
    page = (out / "table1.html").read_text(encoding="utf-8")
    assert "ebu reproduce table1 --budget laptop --partial" in page
    assert (out / "rows.jsonl").stat().st_size < 20_000


def test_figure_2_takes_the_finished_mazes_of_table_1(tmp_path):
    one = table1.trials("laptop")[0]
    write_trial(tmp_path / "table1/trials" / one.id, one)
    assert partial("figure2", tmp_path / "figure2") == 0
    curves = [row for row in rows_in(tmp_path / "figure2") if row["part"] == "curve"]
    assert [row["mazes"] for row in curves] == [1] + [0] * 16
    assert curves[0]["training_median_low"] == [None] * 8


@pytest.mark.parametrize("item", TRAINED)
def test_every_trained_item_can_be_made_from_one_trial(item, tmp_path):
    one, out = find_item(item).trials("laptop")[0], tmp_path / item
    write_trial(out / "trials" / one.id, one)
    assert partial(item, out) == 0
    assert rows_in(out) and (out / f"{item}.png").stat().st_size > 10_000
    assert "o far 1 of " in (out / "table.md").read_text(encoding="utf-8")


def test_nothing_finished_and_nothing_to_train_are_said_in_one_line(tmp_path, capsys):
    assert partial("table1", tmp_path / "out") == 2
    assert "none of the 144 trials of table1 is finished" in capsys.readouterr().err
    assert partial("figure1", tmp_path / "out") == 2
    assert "figure1 trains nothing" in capsys.readouterr().err
    assert not (tmp_path / "out/rows.jsonl").exists()
