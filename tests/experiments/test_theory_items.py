"""The theory items write rows and a picture in seconds, the same bytes for the same seed, and the paper's numbers."""

import json
from pathlib import Path

import pytest

from ebu.errors import UserError
from ebu.experiments.items import appendix_f, figure1, theorem1, theorem2, toy_text


def rows_in(folder):
    return [json.loads(line) for line in (folder / "rows.jsonl").read_text(encoding="utf-8").splitlines()]


def test_figure_1_has_the_papers_numbers(tmp_path):
    rows = figure1.run("quick", tmp_path)
    summary = rows[-1]
    assert summary["backward_solved_at_update"] == 5
    assert summary["uniform_mean_updates"] == pytest.approx(12.5, abs=4 * summary["uniform_mean_updates_standard_error"])
    assert summary["uniform_probability_at_40"] == pytest.approx(0.9973, abs=5e-5)
    for row in (row for row in rows if row["part"] == "b"):
        assert row["backward"] == (row["updates"] >= 5)
        assert row["uniform_simulated"] == pytest.approx(row["uniform_exact"], abs=0.03)
    assert rows_in(tmp_path) == rows
    assert (tmp_path / "figure1.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    "n, probability", [(2, 0), (3, 0.016), (5, 0.103), (10, 0.457), (20, 0.885), (30, 0.981), (45, 0.9990), (50, 0.9996)]
)
def test_the_chance_of_uniform_draws(n, probability):
    assert figure1.probability_solved(n) == pytest.approx(probability, abs=6e-4)


def test_uniform_draws_need_forty_five_updates_to_be_nearly_sure():
    first = {p: next(n for n in range(100) if figure1.probability_solved(n) >= p) for p in (0.5, 0.9, 0.95, 0.99, 0.999)}
    assert list(first.values()) == [11, 21, 25, 34, 45]


def test_figure_1_shows_the_values_after_each_update(tmp_path):
    values = [row["backward"] for row in figure1.run("quick", tmp_path) if row["part"] == "a"]
    assert values[0] == {"Q(s3,R)": 1.0}
    assert values[2]["Q(s3,L)"] == pytest.approx(0.81)
    assert values[4] == pytest.approx({"Q(s1,R)": 0.81, "Q(s2,R)": 0.9, "Q(s3,L)": 0.81, "Q(s3,R)": 1.0})


def test_appendix_f_meets_its_expected_counts(tmp_path):
    rows = appendix_f.run("quick", tmp_path)
    assert {row["n"] for row in rows} == set(range(3, 13))
    for row in rows:
        assert row["expected"] in (None, row["episodes_until_optimal"])
        if row["method"] == "EBU β=1":
            assert row["episodes_until_optimal"] == row["n"]
            assert row["stays_optimal"] and row["largest_overestimation"] == 0
    assert all(row["largest_overestimation"] > 0 for row in rows if row["method"] == "Q*(1)")
    assert not any(row["stays_optimal"] for row in rows if row["method"] == "Monte-Carlo")
    assert (tmp_path / "appendix-f.png").exists()


def test_theorem_1_contracts_by_gamma_and_fades_by_beta_gamma(tmp_path, monkeypatch):
    monkeypatch.setitem(theorem1.SETTINGS, "quick", {"operators": 6, "mdps": 2, "episodes": 60})
    rows = theorem1.run("quick", tmp_path)
    for row in rows:
        if row["part"] == "operator":
            assert row["largest_modulus"] <= theorem1.GAMMA + 1e-9
            assert row["fixed_point_error"] < 1e-9
        if row["part"] == "overestimation":
            assert row["left_after_n_steps"] == pytest.approx(row["expected"], abs=1e-9)
    assert (tmp_path / "theorem1.png").exists()


def test_theorem_2_thresholds_and_counterexamples(tmp_path, monkeypatch):
    monkeypatch.setitem(theorem2.SETTINGS, "quick", {"mdps": 60})
    rows = theorem2.run("quick", tmp_path)
    for row in (row for row in rows if row["part"] == "bias"):
        grid = 1 / (len(theorem2.BETAS) - 1)
        assert 0 <= row["expected"]["threshold"] - row["largest_unbiased_beta_on_grid"] + 1e-9 < grid
        assert row["bias"][-1] == pytest.approx(row["expected"]["bias_at_1"])
    summary = next(row for row in rows if row["part"] == "random summary")
    assert summary["printed_bound_allows_a_biased_beta"] > 0
    assert summary["corrected_bound_allows_a_biased_beta"] == 0
    assert (tmp_path / "theorem2.png").exists()


def test_toy_text_reports_every_method_on_every_task(tmp_path, monkeypatch):
    monkeypatch.setitem(toy_text.SETTINGS, "quick", {"seeds": 2, "steps": 0.002, "tuning_seeds": 0})
    monkeypatch.setattr(toy_text, "EVALUATIONS", 10)
    monkeypatch.setattr(toy_text, "CURVE", 10)
    rows = toy_text.run("quick", tmp_path)
    summaries = [row for row in rows if row["part"] == "summary"]
    assert {(row["task"], row["method"]) for row in summaries} == {(t, m) for t in toy_text.TASKS for m in toy_text.METHODS}
    assert (tmp_path / "toy-text.png").exists()


def test_before_the_first_reward_every_method_walks_the_same_path():
    task = toy_text.TASKS["FrozenLake 8×8"]
    mdp = task.mdp()
    first = {
        toy_text._learn(mdp, method, 1.0, 0.9, 5_000, 1.0, seed=0)["first_reward_at"]
        for name, method in toy_text.METHODS.items()
    }
    assert len(first) == 1


@pytest.mark.parametrize("item", [figure1, appendix_f])
def test_the_same_seed_gives_the_same_bytes(item, tmp_path):
    item.run("quick", tmp_path / "first", seed=3)
    item.run("quick", tmp_path / "second", seed=3)
    assert (tmp_path / "first/rows.jsonl").read_bytes() == (tmp_path / "second/rows.jsonl").read_bytes()


def test_an_unknown_budget_names_the_known_ones(tmp_path):
    with pytest.raises(UserError, match="quick, laptop, full"):
        figure1.run("huge", tmp_path)


@pytest.mark.parametrize("item", [theorem2, toy_text])
def test_the_tables_in_the_docs_are_what_the_committed_rows_give(item):
    root = Path(__file__).parents[2]
    name = item.ITEM.name
    page = (root / "docs/theory.md").read_text(encoding="utf-8")
    block = page.split(f"<!-- table: {name} -->\n")[1].split("\n<!-- end -->")[0]
    rows = root / "results/theory" / name
    assert block == (item.table(rows_in(rows)) if rows.exists() else "Not run in full yet: no rows are committed.")
