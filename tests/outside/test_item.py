"""A new item is one object in one file, registered or addressed from outside."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ebu.cli import main
from ebu.errors import UserError
from ebu.experiments.items import find_item, item_names, register_item
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[2]
PAPER = [
    *(f"figure{i}" for i in range(1, 7)), "table1", "table2", "table3", "appendix-c", "appendix-e", "appendix-f",
    "theorem1", "theorem2", "beyond", "beyond-judging", "delay", "minatar", "minigrid", "overestimation", "toy-text", "values",
]  # fmt: skip


def rows_in(folder):
    return [json.loads(line) for line in (folder / "rows.jsonl").read_text(encoding="utf-8").splitlines()]


def test_the_package_finds_the_papers_items_in_order_and_others_after_them(laboratory):
    assert item_names() == PAPER
    register_item(laboratory.COMPUTED)
    assert item_names() == [*PAPER, "doubles"]


def test_a_registered_item_is_reproduced_and_listed(tmp_path, monkeypatch, capsys, laboratory):
    monkeypatch.chdir(tmp_path)
    register_item(laboratory.COMPUTED)
    assert main(["reproduce", "doubles", "--seed", "5"]) == 0
    assert [row["value"] for row in rows_in(Path("results/doubles"))] == [0.0, 2.0, 4.0]
    page = Path("results/doubles/doubles.html").read_text(encoding="utf-8")
    assert "Budget quick: fewer numbers." in page
    assert "ebu reproduce tests.outside.laboratory:COMPUTED --budget quick --seed 5" in page
    assert "about 1 s" in capsys.readouterr().out
    assert main(["list"]) == 0
    assert "Doubles: even numbers in a row" in capsys.readouterr().out


def test_an_item_of_any_module_is_reproduced_by_its_address(tmp_path):
    assert main(["reproduce", "tests.outside.laboratory:COMPUTED", "--budget", "laptop", "--out", str(tmp_path)]) == 0
    assert len(rows_in(tmp_path)) == 30


def test_an_item_with_trials_is_trained_in_a_family_of_the_same_module(tmp_path, monkeypatch, laboratory):
    """The trials are carried out by other processes, which find the family by the name of the environment alone."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)
    register_item(laboratory.TRAINED)
    assert main(["reproduce", "corridors", "--workers", "1"]) == 0
    assert rows_in(tmp_path / "results/corridors") == [{"seed": 0, "value": 120.0}]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("figure7", "there is no item 'figure7'; choose from figure1"),
        ("no_such_module:ITEM", "cannot take an item from 'no_such_module:ITEM': No module named 'no_such_module'"),
        ("tests.outside.laboratory:NOTHING", "cannot take an item from 'tests.outside.laboratory:NOTHING'"),
        ("tests.outside.laboratory:MADE", "is not an item: ebu.experiments.item.Item expected, got list"),
        (":", "cannot take an item from ':'"),
    ],
)
def test_an_item_that_cannot_be_found_is_one_line(name, words, capsys):
    assert main(["reproduce", name]) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "a/b"}, "invalid name of an item: 'a/b'"),
        ({"settings": {"quick": 1}}, "no settings for the budget laptop, full"),
        ({"seconds": {"quick": 1, "full": 2}}, "has no seconds for the budget laptop"),
        ({"run": None}, "needs either run, or trials and analyse"),
        ({"trials": list, "analyse": list}, "needs either run, or trials and analyse"),
        ({"analyse": list}, "needs either run, or trials and analyse"),
    ],
)
def test_a_record_that_cannot_be_used_is_refused(changes, words, laboratory):
    with pytest.raises(UserError, match=words):
        replace(laboratory.COMPUTED, **changes)


def test_a_name_that_is_taken_is_refused(laboratory):
    register_item(laboratory.COMPUTED)
    for taken in ("doubles", "figure1"):
        with pytest.raises(UserError, match=f"already an item called '{taken}'"):
            register_item(replace(laboratory.COMPUTED, name=taken))


def test_an_unknown_budget_names_the_known_ones():
    with pytest.raises(UserError, match="unknown budget 'huge'; choose one of quick, laptop, full"):
        find_item("figure1").at("huge")


def test_names_and_summaries_wait_neither_for_pytorch_nor_for_the_environments():
    program = f"""
import sys
from ebu.envs.families import families
from ebu.experiments.items import item_summaries
assert len(item_summaries()) == {len(PAPER)} and all(item_summaries().values()) and len(families()) == 5
sys.exit(str({{"torch", "matplotlib", "scipy", "minatar", "minigrid", "ale_py"}} & set(sys.modules) or ""))
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE, cwd=ROOT)
    assert result.stderr.strip() == ""
