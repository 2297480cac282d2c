"""Every item of the paper: its trials are the paper's, and its rows, picture, table and page come out."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from pathlib import Path

import pytest

from ebu.config_check import check
from ebu.envs.atari_games import GAMES, paper_scores
from ebu.experiments import atari, own_scores, sweeps
from ebu.experiments.item import BUDGETS
from ebu.experiments.items import (
    appendix_c,
    appendix_e,
    figure2,
    figure3,
    figure4,
    figure5,
    figure6,
    find_item,
    table1,
    table2,
    table3,
)
from ebu.experiments.suites.tasks import without_change
from ebu.experiments.sweeps.trials import trial
from ebu.report.rows import read_run
from tests.experiments.pages import ITEMS, SCORES, TRAINED, built, trained, write_trial
from tests.reference.backward import algorithm_2

SUITES = ("minatar", "minigrid", "delay", "overestimation", "values")
BEYOND = ("beyond", "beyond-judging")

pytestmark = pytest.mark.xdist_group("pages")  # which are built once for all tests of a process


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """No runs but the test's own: results/atari is looked for below the working folder."""
    monkeypatch.chdir(tmp_path)


def rows_in(folder):
    return [json.loads(line) for line in (folder / "rows.jsonl").read_text(encoding="utf-8").splitlines()]


def table_in(folder, number=0):
    """A table of table.md as lists of cells, its header first."""
    text = (folder / "table.md").read_text(encoding="utf-8")
    part = text.split("\n## ")[number + 1]
    lines = [line[2:-2].split(" | ") for line in part.splitlines() if line.startswith("|")]
    return [lines[0], *lines[2:]]


# ---------------------------------------------------------------------- what is declared


@pytest.mark.parametrize("item", ITEMS)
def test_every_item_declares_its_settings_and_says_what_it_shows(item):
    made = find_item(item)
    assert made.name == item and set(made.settings) == set(BUDGETS)
    assert made.title and "\n" not in made.title and made.claim.endswith(".") and made.alt


def test_the_documentation_names_every_item():
    page = (Path(__file__).parents[2] / "docs/experiments.md").read_text(encoding="utf-8")
    assert [item for item in ITEMS if f"\n| `{item}` |" not in page] == []


def test_engines_know_nothing_of_items():
    for path in Path(sweeps.__file__).parent.glob("*.py"):
        assert "experiments.items" not in path.read_text(encoding="utf-8"), path


@pytest.mark.parametrize("item", [*TRAINED, *SCORES])
@pytest.mark.parametrize("budget", BUDGETS)
def test_trials_can_be_told_apart_and_run(item, budget):
    trials = find_item(item).trials(budget)
    assert len(set(trials)) == len(trials)
    several = trials[:: max(1, len(trials) // 60)]
    assert len({one.id for one in several}) == len(several)
    for one in several:
        check(one.config())


@pytest.mark.parametrize(
    ("item", "count"),
    [
        ("figure2", 4 * 3 * 50 + 6 * 50),  # densities × methods × mazes, and the slippery maze
        ("table1", 4 * 3 * 50),
        ("figure4", 49 * (4 + 8)),  # adaptive EBU with 4 seeds, DQN with 8
        ("figure5", 2 * 3 * 4),
        ("figure6", 3 * 4),
        ("table2", 49 * (4 + 5 * 8)),
        ("table3", 49 * (4 + 5 * 8)),
        ("appendix-c", 49 * 3 * 4),
    ],
)
def test_the_full_budget_is_the_papers(item, count):
    assert len(find_item(item).trials("full")) == count


def test_the_full_mazes_have_the_papers_settings():
    for one in table1.trials("full"):
        config = one.config()
        assert (config.steps, config.learner.train_freq, config.learner.batch_size) == (200_000, 50, 350)
    assert Counter(one.label for one in table1.trials("full")) == {"EBU (β=1)": 200, "One-step DQN": 200, "N-step DQN": 200}


def test_twenty_million_frames_are_ten_million_continued():
    """80 epochs, and everything that depends on the step as in the run of 40: ε reaches 0.1 after the same million."""
    long, short = (trial("ebu", "ALE/Breakout-v5", 0, **scale).config() for scale in (atari.FULL_20M, atari.FULL_10M))
    assert (long.steps, short.steps) == (80 * 62_500, 40 * 62_500)
    assert long.exploration.exploration_fraction * long.steps == short.exploration.exploration_fraction * short.steps == 1e6
    assert long.learner.learning_rate_schedule == "constant"


@pytest.mark.parametrize("item", TRAINED)
@pytest.mark.parametrize("budget", BUDGETS)
def test_methods_differ_in_nothing_but_the_method(item, budget):
    """Same environments and seeds for every method, same settings but its own."""
    own = {"beta", "betas", "n_steps", "trace_lambda"}
    if item in (*BEYOND, "values"):  # where values of every method are tried, and tasks have scales of their own
        own |= {"trace_lambdas", "gate", "double_q", "horizon_updates", "bootstrap", "acting"}
        own |= {"episode_choice", "prior_scale", "return_bound", "value_head"}
    worlds, common = {}, {}
    for one in find_item(item).trials(budget):
        settings = {name: value for name, value in one.settings if name not in own}
        worlds.setdefault(one.label, set()).add((one.env, one.seed, settings.get("env_args")))
        text = json.dumps({name: value for name, value in settings.items() if name != "env_args"}, sort_keys=True)
        if item in BEYOND and without_change(one.label)[1]:
            continue  # whose settings are the change
        common.setdefault(one.env if item in BEYOND else "all", set()).add(text)
    assert {len(scales) for scales in common.values()} == {1}
    settings = find_item(item).at(budget)
    own_seeds, own_methods = settings.get("own_seeds", {}), settings.get("own_methods", {})
    least = min([settings["seeds"], *own_seeds.values()]) if own_seeds else None
    for label, found in worlds.items():  # where some methods have more seeds than others: the first seeds of each
        if own_seeds:
            assert {seed for _, seed, _ in found} == set(range(own_seeds.get(label, settings["seeds"])))
        worlds[label] = {world for world in found if least is None or world[1] < least}
    if own_methods:  # all of them are run on all other tasks
        assert all(set(few) <= set(settings["methods"]) for few in own_methods.values())
        rare = {task.env for task in settings["tasks"] if task.group in own_methods}
        worlds = {label: {world for world in found if world[0] not in rare} for label, found in worlds.items()}
    if item != "figure2":  # some β are tried in the slippery maze only
        assert len(set(map(frozenset, worlds.values()))) == 1


@pytest.mark.parametrize("item", [item for item in TRAINED if item not in SUITES])  # those of BEYOND among them
def test_quick_takes_minutes_and_laptop_a_night_on_two_cores(item):
    hours = {budget: sum(one.expected_seconds() for one in find_item(item).trials(budget)) / 7200 for budget in BUDGETS}
    assert hours["quick"] < 0.1 and hours["laptop"] < 12 < hours["full"]


@pytest.mark.parametrize("item", SUITES)
def test_a_suite_takes_minutes_in_quick_and_two_days_in_laptop(item):
    hours = {budget: sum(one.expected_seconds() for one in find_item(item).trials(budget)) / 7200 for budget in BUDGETS}
    assert hours["quick"] < 0.1 and hours["laptop"] < 48 and hours["laptop"] < hours["full"]


@pytest.mark.parametrize("item", SCORES)
def test_tables_of_scores_train_nothing_in_quick(item):
    made = find_item(item)
    assert made.trials("quick") == []
    assert sum(one.expected_seconds() for one in made.trials("laptop")) / 7200 < 10


# ---------------------------------------------------------------------- what is written


@pytest.mark.parametrize("item", ITEMS)
def test_every_item_leaves_rows_a_picture_a_table_and_a_page(item):
    rows, out = built(item)
    assert rows_in(out) == json.loads(json.dumps(rows))
    assert (out / f"{item}.png").stat().st_size > 10_000
    header, *lines = table_in(out)
    assert lines and all(len(line) == len(header) for line in lines)
    page = (out / f"{item}.html").read_text(encoding="utf-8")
    assert f"ebu reproduce {item} --budget quick" in page and page.count("<img ") >= 1
    assert not re.search(r"""(src|href)=["'](?!data:|#)""", page)


@pytest.mark.parametrize("item", ["table1", "figure6"])
def test_the_same_runs_give_the_same_bytes(item, tmp_path):
    """Also from folders elsewhere: neither the place nor the clock is in the rows."""
    trained(item, tmp_path)
    for name in ("rows.jsonl", "table.md", f"{item}.png"):
        assert (tmp_path / name).read_bytes() == (built(item)[1] / name).read_bytes()


@pytest.mark.parametrize("item", TRAINED)
def test_a_reduced_budget_says_so_on_its_page(item):
    text = (built(item)[1] / f"{item}.html").read_text(encoding="utf-8")
    assert 'class="note">Budget quick:' in text and "instead of" in text


@pytest.mark.parametrize("item", ["figure2", "figure5"])
def test_trials_that_failed_are_left_out(item, tmp_path):
    trials = find_item(item).trials("quick")
    folders = [write_trial(tmp_path / one.id, one) for one in trials]
    (folders[0] / "summary.json").unlink()
    (folders[0] / "failure.json").write_text('{"error": "reward is nan"}')
    rows = find_item(item).analyse("quick", trials, folders, tmp_path / "out")
    named = {row["trial"] for row in rows if "trial" in row}
    assert named == {one.id for one in trials[1:]}


def test_figure_2_shows_the_paper_half_way_and_dashes_where_it_prints_nothing():
    header, *lines = table_in(built("figure2")[1])
    found = {(line[0], line[1]): line[header.index("paper, half way")] for line in lines}
    assert found["30 % walls", "EBU (β=1)"] == "3.03" and found["50 % walls", "One-step DQN"] == "16.62"
    assert found["50 % walls, each side move 10 %", "EBU (β=1)"] == "–"


def test_table_1_has_every_published_number():
    header, *lines = table_in(built("table1")[1])
    shown = {(line[0], line[1]): tuple(map(float, line[3:5])) for line in lines}
    assert header[3:5] == ["paper, mean", "paper, median"]
    assert shown == {
        (f"{100 * density:.0f} %", method): values
        for density, methods in table1.EXPECTED.items()
        for method, values in methods.items()
    }
    assert all(cell != "–" for line in lines for cell in line)


def test_table_1_takes_the_latest_training_episode_at_its_step(tmp_path):
    one = table1.trials("laptop")[0]
    folder = write_trial(tmp_path / "run", one)
    lengths = [(90_000, 7.0), (99_000, 5.0), (101_000, 3.0)]
    rows = [json.dumps({"kind": "train", "step": step, "relative_length": value}) for step, value in lengths]
    (folder / "metrics.jsonl").write_text("\n".join(rows) + "\n")
    cell = next(row for row in table1.analyse("laptop", [one], [folder], tmp_path / "out") if row["part"] == "cell")
    assert (cell["training_mean"], cell["training_median"], cell["greedy_mean"]) == (5.0, 5.0, None)


def test_table_1_tells_what_was_expected_of_the_greedy_path_at_its_step_and_what_came(tmp_path):
    one = table1.trials("laptop")[0]
    folder = write_trial(tmp_path / "run", one)
    evaluations = [(100_000, 274.0, 74.0), (110_000, 300.0, 310.0)]
    rows = [{"kind": "eval", "step": step, "mean_q": q, "mean_discounted_return": came} for step, q, came in evaluations]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (row, *_) = table1.analyse("laptop", [one], [folder], tmp_path / "out")
    assert (row["q"], row["return"]) == (274.0, 74.0)


def test_figure_5_reports_overestimation():
    rows, out = built("figure5")
    header, *lines = table_in(out)
    line = next(line for line in lines if line[:2] == ["Breakout", "EBU (β=1)"])
    run = next(row for row in rows if (row["part"], row.get("game"), row.get("method")) == ("run", "Breakout", "EBU (β=1)"))
    assert float(line[header.index("Q − return")]) == pytest.approx(run["final_q"] - run["final_return"], abs=1e-3)
    assert line[header.index("paper, 10M frames")] == "–"  # β = 1 is drawn in the paper, not printed
    assert figure5.EXPECTED["Gopher"] == {"EBU (β=0.5)": 3318.50, "Nature DQN": 1726.52}


def test_figure_6_shows_mean_and_deviation_over_seeds_and_the_nature_line():
    rows, out = built("figure6")
    curve = next(row for row in rows if row["part"] == "curve" and row["method"] == atari.ADAPTIVE)
    assert curve["seeds"] == 2 and len(curve["score_sd"]) == 8 and None not in curve["score_sd"] + curve["beta_sd"]
    page = (out / "figure6.html").read_text(encoding="utf-8")
    assert "± SD" in page and "Nature DQN, 200M frames: 401.2" in page
    assert figure6.EXPECTED["score_at_20M_frames"][atari.ADAPTIVE] == atari.game("Breakout").paper["adaptive_ebu_20M"]


def test_appendix_c_lists_all_games_with_dashes_where_nothing_was_run():
    header, *lines = table_in(built("appendix-c")[1])
    ours = header.index("adaptive, all frames, ours")
    assert len(lines) == 49
    assert {line[0] for line in lines if line[ours] != "–"} == set(appendix_c.SETTINGS["quick"]["games"])


def test_a_full_run_fills_the_10m_and_the_20m_column(tmp_path, monkeypatch):
    settings = find_item("appendix-c").settings
    monkeypatch.setitem(settings, "full", settings["full"] | {"games": ("Pong",)})
    trials = [one for one in find_item("appendix-c").trials("full") if one.seed == 0]
    trained("appendix-c", tmp_path, "full", trials)
    header, *lines = table_in(tmp_path)
    pong = next(line for line in lines if line[0] == "Pong")
    at_10, at_20 = (float(pong[header.index(f"adaptive, {frames}, ours")]) for frames in ("10M", "20M"))
    assert at_10 < at_20  # scores improve in these folders
    assert "Budget full: so far 3 of 12 trials" in (tmp_path / "table.md").read_text(encoding="utf-8")


def test_appendix_e_has_the_numbers_of_algorithm_2():
    rows, _ = built("appendix-e")
    _, walk, q = appendix_e.walked()
    discounts = [0.9] * (len(walk) - 1) + [0.0]
    for beta in appendix_e.BETAS:
        y = algorithm_2(walk.rewards, discounts, walk.actions, q[walk.observations[1:]], beta)
        assert [row[f"y_beta_{beta:g}"] for row in rows] == pytest.approx(y.tolist(), abs=1e-6)
    assert [row["y_algorithm_2"] for row in rows] == pytest.approx([row["y_beta_0.5"] for row in rows])
    assert rows[-1]["y_beta_0.5"] == rows[-1]["reward"] == 10.0 and -1.0 in [row["reward"] for row in rows]


def test_figure_3_reads_the_rules_off_the_maze():
    rows, _ = built("figure3")
    assert {name: rows[0][name] for name in figure3.EXPECTED} == figure3.EXPECTED
    shares = [row["solvable_share"] for row in rows[1:]]
    assert shares == sorted(shares, reverse=True) and len(rows[0]["layout"]) == 10


# ---------------------------------------------------------------------- the published tables, from raw scores


def test_figure_4_matches_all_49_games():
    rows, _ = built("figure4")
    data = Path(__file__).parents[1] / "report/data/fig4_relative_scores.csv"
    for line in csv.DictReader(data.read_text(encoding="utf-8").splitlines()):
        row = next(row for row in rows if row.get("game") == line["game"])
        assert row["relative"][atari.ADAPTIVE] == pytest.approx(float(line["adaptive_vs_dqn10M_pct"]), abs=0.1)
        assert row["relative"][atari.EBU_HALF] == pytest.approx(float(line["ebu0.5_vs_dqn10M_pct"]), abs=0.1)
    named = {row["game"]: row["relative"][atari.ADAPTIVE] for row in rows if row["part"] == "game"}
    for name, value in {**figure4.EXPECTED["largest"], **figure4.EXPECTED["smallest"]}.items():
        assert named[name] == pytest.approx(value, abs=0.1)
    won = {row["method"]: row["wins"] for row in rows if row["part"] == "wins"}
    assert won == figure4.EXPECTED["wins_by_the_raw_scores"]


def test_table_2_matches_what_is_printed():
    rows, out = built("table2")
    assert len(rows) == 8
    for row, (hours, mean, median) in zip(rows, table2.EXPECTED.values()):
        assert (row["mean"], row["median"]) == pytest.approx((mean, median), abs=0.1)
        assert row["hours"] == hours
    header, *lines = table_in(out)
    assert "training time, hours" in header and lines[0][1] == "152" and lines[-1][1] == "–"


def test_table_3_has_all_raw_scores_and_marks_the_best():
    rows, out = built("table3")
    header, *lines = table_in(out)
    assert len(lines) == len(rows) == 49
    for column, name in enumerate(table3.PAPER_COLUMNS, start=3):
        shown = {line[0]: float(line[column].strip("*").replace(",", "")) for line in lines}
        assert shown == pytest.approx(paper_scores(name), abs=0.01)
    bold = {line[0]: header[i] for line in lines for i, cell in enumerate(line) if cell.startswith("**")}
    assert bold["Breakout"] == "EBU (adaptive β) (10M)" and bold["Tutankham"] == "PER (10M)" and len(bold) == 49


@pytest.mark.parametrize("item", SCORES)
def test_our_runs_stand_beside_the_papers(item, tmp_path):
    """Committed runs under results/atari and trials of the item itself, each method at its own length."""
    scale = {"preset": "paper", "steps": 1_000_000}
    for algo in ("ebu", "dqn"):
        write_trial(tmp_path / f"results/atari/Pong-{algo}", trial(algo, "ALE/Pong-v5", 0, **scale))
    rows = find_item(item).analyse("quick", [], [], tmp_path / "out")
    text = (tmp_path / "out/table.md").read_text(encoding="utf-8")
    assert "ours: EBU (β=0.5), 4M frames, 1 seed" in text and "Ours are as short as 4M frames" in text
    assert rows_in(tmp_path / "out") == json.loads(json.dumps(rows))


def test_our_columns_take_the_best_test_so_far_and_the_speed(tmp_path):
    runs = [
        read_run(write_trial(tmp_path / f"{s}", trial("adaptive-ebu", "ALE/Pong-v5", s, **atari.FULL_20M))) for s in (0, 1)
    ]
    long, short = own_scores.columns(runs)
    assert (long.steps, short.steps) == (5_000_000, 2_500_000) and len(short.runs["Pong"]) == 2
    assert (long.published, short.published) == ("adaptive_ebu_20M", "adaptive_ebu_10M")
    assert long.scores["Pong"] > short.scores["Pong"]
    assert long.hours_for_the_paper() == pytest.approx(49 * 2_500_000 * 0.01 / 3600)


def test_our_gain_is_over_our_own_dqn_of_the_same_length(tmp_path):
    lengths = {"ebu": 1_000_000, "dqn": 1_000_000, "per": 500_000}
    runs = [
        read_run(write_trial(tmp_path / algo, trial(algo, "ALE/Pong-v5", 0, preset="paper", steps=steps)))
        for algo, steps in lengths.items()
    ]
    columns = own_scores.columns(runs)
    by_algo = {column.algo: figure4.against_own_dqn(column, columns) for column in columns}
    assert list(by_algo["ebu"]) == ["Pong"] and by_algo["per"] == {}


def test_every_game_of_the_paper_can_be_a_trial():
    assert len(atari.ALL_GAMES) == 49
    assert [atari.game(one.ale_id).name for one in GAMES] == list(atari.ALL_GAMES)
    assert {one.label for one in figure2.trials("full")} >= {"EBU (β=1)", "EBU (β=0.25)", "One-step DQN", "N-step DQN"}
