"""MinAtar, MiniGrid and delayed rewards: order of the trials, normalisation, aggregates, and what is shown of half of it."""

from __future__ import annotations

import json

import pytest

from ebu.cli import main
from ebu.experiments.items import find_item, minatar, values
from ebu.experiments.items.values import METHODS as VALUES_TRIED
from ebu.experiments.suites.picture import MOST_CURVES, best_values
from ebu.experiments.suites.rows import PROFILE, by_task, normalised
from ebu.experiments.suites.tables import tables
from ebu.experiments.suites.tasks import ADAPTIVE, DQN, EBU_HALF, METHODS, N_STEP, N_STEP_5, PENG_9, RETRACE, TELLING, Task
from tests.experiments.pages import write_trial

pytestmark = pytest.mark.xdist_group("pages")

SUITES = ("minatar", "minigrid", "delay")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write_scores(folder, one, scores):
    """A finished run with these evaluations at equal distances."""
    write_trial(folder, one, 1)
    steps = one.config().steps
    rows = [{"kind": "eval", "step": steps * (i + 1) // len(scores), "mean_reward": value} for i, value in enumerate(scores)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def made(item, out, scores_of, budget="laptop", keep=lambda one: True):
    trials = [one for one in find_item(item).trials(budget) if keep(one)]
    folders = [write_scores(out / "trials" / one.id, one, scores_of(one)) for one in trials]
    return find_item(item).analyse(budget, trials, folders, out)


def part(rows, name, **fields):
    return [row for row in rows if row["part"] == name and all(row[key] == value for key, value in fields.items())]


# ---------------------------------------------------------------------- trials


@pytest.mark.parametrize("item", SUITES)
def test_seeds_come_in_rounds_telling_methods_first_and_adaptive_ebu_after_those_of_all(item):
    settings = find_item(item).at("laptop")
    trials, tasks = find_item(item).trials("laptop"), len(settings["tasks"])
    first = trials[: tasks * len(TELLING)]
    assert {one.label for one in first} == set(TELLING) and {one.seed for one in first} == {0}
    assert {one.seed for one in trials[: tasks * 8]} == {0}
    of_all, later = trials[: tasks * 8 * 5], trials[tasks * 8 * 5 :]
    assert ADAPTIVE not in {one.label for one in of_all} and {one.seed for one in of_all} == set(range(5))
    more = {label: set(range(5, seeds)) for label, seeds in settings["own_seeds"].items() if seeds > 5}
    seeds_later = {label: {one.seed for one in later if one.label == label} for label in {one.label for one in later}}
    assert seeds_later == more | {ADAPTIVE: {0, 1, 2}}
    assert len(later) == tasks * sum(map(len, seeds_later.values()))
    assert [one.round for one in trials] == sorted(one.round for one in trials)


def test_one_update_follows_each_step_and_the_scale_is_everybodys():
    for item in SUITES:
        configs = [one.config() for one in find_item(item).trials("laptop")]
        assert {(c.learner.train_freq, c.learner.gradient_steps) for c in configs} == {(1, 1)}
        for stage in ("exploration", "network", "evaluation"):
            assert len({getattr(c, stage) for c in configs}) == 1
        assert {c.steps for c in configs} == {200_000 if item == "minigrid" else 100_000}
    assert all(one.config().target.n_steps == 3 for one in find_item("minatar").trials("laptop") if one.label == N_STEP)


def test_the_undelayed_runs_of_delay_have_those_of_minatar_among_them():
    plain, both = ({one.id for one in find_item(item).trials("laptop")} for item in ("minatar", "delay"))
    assert plain < both  # both have their own numbers of seeds
    delayed = [one for one in find_item("delay").trials("laptop") if one.config().environment.env_args]
    assert {one.config().environment.env_args for one in delayed} == {("reward_delay=episode",)}
    assert len(delayed) == len(both) / 2 and not plain & {one.id for one in delayed}


# ---------------------------------------------------------------------- numbers


def test_scores_are_normalised_between_random_play_and_the_best_mean_of_a_method(tmp_path):
    """Ceilings are the best method's mean, here EBU's: its runs are 1 on average."""
    rows = made(
        "minatar", tmp_path,
        lambda one: [1.0, 6.0 + one.seed] if one.label == EBU_HALF else [1.0, 4.0],
        keep=lambda one: one.label in (EBU_HALF, DQN) and one.seed < 2,
    )  # fmt: skip
    runs = part(rows, "run", task="Breakout")
    floor = minatar.RANDOM["Breakout"]
    assert len(runs) == 4
    for row in runs:
        assert row["final_normalised"] == pytest.approx((row["final"] - floor) / (6.5 - floor), abs=1e-4)
    ours = next(row for row in runs if row["method"] == EBU_HALF and row["seed"] == 0)
    assert (ours["area"], ours["steps_to"]) == (3.5, {"0.25": 100_000.0, "0.5": 100_000.0, "0.75": 100_000.0})
    best = part(rows, "aggregate", method=EBU_HALF)[0]
    assert best["final_iqm"] == pytest.approx(1.0, abs=0.05) and best["final_iqm_low"] <= best["final_iqm_high"]
    assert (best["beats_dqn"], best["tasks"], best["runs"]) == (1.0, 5, 10)
    assert best["profile"][0] == 1.0 and len(best["profile"]) == len(PROFILE)
    assert part(rows, "aggregate", method=DQN)[0]["beats_dqn"] is None


def test_minigrid_keeps_its_own_scale(tmp_path):
    rows = made("minigrid", tmp_path, lambda one: [0.0, 0.6], keep=lambda one: one.label == DQN and one.seed == 0)
    assert {row["final_normalised"] for row in part(rows, "run")} == {0.6}
    assert part(rows, "run")[0]["steps_to"] == {"0.25": 200_000.0, "0.5": 200_000.0, "0.75": None}


def test_delayed_and_undelayed_games_have_one_scale_and_two_aggregates(tmp_path):
    def scores(one):
        return [1.0, 3.0] if one.config().environment.env_args else [1.0, 9.0]

    rows = made("delay", tmp_path, scores, keep=lambda one: one.label == DQN and one.seed < 2)
    plain, delayed = part(rows, "aggregate", method=DQN)
    assert (plain["group"], delayed["group"]) == ("as they are", "delayed")
    assert plain["final_iqm"] == 1.0 and delayed["final_iqm"] < 0.4


def test_a_seed_that_only_some_tasks_have_does_not_tip_the_mean_over_tasks():
    """The second seed of one task alone is left out; while a task has no run at all, all that there is is counted."""
    tasks = [Task(name, "e", floor=0.0) for name in "ab"]
    runs = [{"task": task, "method": DQN, "seed": seed} for task, seed in (("a", 0), ("a", 1), ("b", 0))]
    assert {task: [run["seed"] for run in found] for task, found in by_task(tasks, DQN, runs).items()} == {"a": [0], "b": [0]}
    assert [len(found) for found in by_task(tasks, DQN, runs[:2]).values()] == [2, 0]


def test_of_too_many_curves_those_with_the_largest_area_of_each_method_are_drawn():
    labels = [*VALUES_TRIED, "DQN, fast recipe"]
    areas = dict.fromkeys(labels, 0.3) | {PENG_9: 0.5, N_STEP_5: None, "DQN, fast recipe": 0.4}
    rows = [{"part": "aggregate", "method": label, "area_iqm": area} for label, area in areas.items()]
    drawn = best_values(labels, rows)
    assert len(labels) > MOST_CURVES and {PENG_9, "DQN, fast recipe"} <= set(drawn) and N_STEP_5 not in drawn
    assert sorted(label.split(" (")[0].split("(")[0] for label in drawn) == [
        "DQN, fast recipe", "EBU", "Peng's Q", "Retrace", "n-step DQN",
    ]  # fmt: skip
    assert best_values(labels[:MOST_CURVES], rows) == labels[:MOST_CURVES]


def test_nobody_above_random_play_is_no_division_by_zero():
    task = Task("t", "e", floor=2.0)
    assert normalised(task, 2.0, 3.0) == normalised(task, 1.0, 3.0) == 0.0


# ---------------------------------------------------------------------- any stage


@pytest.mark.parametrize("item", SUITES)
def test_half_of_a_suite_is_shown_without_lines_of_dashes_and_without_aggregates_that_lack_a_task(item, tmp_path):
    trials = find_item(item).trials("laptop")
    some, out = [*trials[:7], trials[-1]], tmp_path / item
    for one in some:
        write_trial(out / "trials" / one.id, one)
    assert main(["reproduce", item, "--budget", "laptop", "--partial", "--out", str(out)]) == 0
    rows = [json.loads(line) for line in (out / "rows.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(part(rows, "run")) == 8
    assert {row["final_iqm"] for row in part(rows, "aggregate")} == {None}
    text = (out / "table.md").read_text(encoding="utf-8")
    assert f"So far 8 of {len(trials)} trials are finished" in text and "| 0 | – | – | – |" not in text
    begun = {one.label for one in some}
    assert f"No run yet: {'; '.join(label for label in METHODS if label not in begun)}." in text


def test_public_numbers_stand_beside_our_dqn_of_the_same_length_only(tmp_path):
    made("minatar", tmp_path / "laptop", lambda one: [1.0, 2.0], keep=lambda one: one.label == DQN and one.seed == 0)
    made("minatar", tmp_path / "quick", lambda one: [1.0, 2.0], budget="quick")
    laptop, quick = ((tmp_path / budget / "table.md").read_text(encoding="utf-8") for budget in ("laptop", "quick"))
    assert "MinAtar's own DQN, training episodes" in laptop and "MinAtar's own DQN, training" not in quick
    assert "| 4.30 |" in laptop and "| 14.40 |" in laptop


BEST = {EBU_HALF: 7.0, PENG_9: 8.0, N_STEP_5: 9.0, RETRACE: 10.0}


def test_of_three_values_each_the_one_with_the_largest_area_is_chosen(tmp_path):
    assert {len(labels) for labels in values.VALUES.values()} == {3}
    rows = made("values", tmp_path, lambda one: [1.0, BEST.get(one.label, 5.0)])
    assert {row["method"] for row in part(rows, "choice", is_chosen=True)} == set(BEST)
    assert {(row["tasks"], row["runs"]) for row in part(rows, "choice")} == {(2, 4)}
    text = (tmp_path / "table.md").read_text(encoding="utf-8")
    assert text.count("| chosen |") == 4 and "| λ of Retrace | Retrace(λ=0.7) | 2 | 4 | " in text


def test_nothing_is_chosen_among_values_with_unequal_runs(tmp_path):
    rows = made("values", tmp_path, lambda one: [1.0, 5.0], keep=lambda one: one.label != N_STEP_5 or one.seed == 0)
    settings = {row["setting"] for row in part(rows, "choice", is_chosen=True)}
    assert settings == {"β of EBU", "λ of Peng's Q(λ)", "λ of Retrace"}


def test_overestimation_is_q_above_the_return_that_followed_in_the_runs_of_minatar(tmp_path):
    item = find_item("overestimation")
    shared = {one.id for one in find_item("minatar").trials("laptop")}
    trials = [one for one in item.trials("laptop") if one.seed == 0 and "Breakout" in one.env]
    assert {one.id for one in item.trials("laptop")} <= shared and len(trials) == 4
    folders = [write_trial(tmp_path / "trials" / one.id, one) for one in trials]
    rows = item.analyse("laptop", trials, folders, tmp_path)
    text = (tmp_path / "table.md").read_text(encoding="utf-8")
    for run in part(rows, "run"):  # write_trial gives a Q of 1/20 of the score and a return of 1/25
        assert run["q"] / run["return"] == pytest.approx(1.25)
        assert (run["beta"] is None) == (run["method"] != ADAPTIVE)
        assert f"| Breakout | {run['method']} | 1 | {run['q']:.2f} | {run['return']:.2f} |" in text
    assert "| Asterix |" not in text
    (curve,) = part(rows, "curve", method=ADAPTIVE)
    assert len(curve["beta_mean"]) == len(curve["q_mean"]) == 8


def test_a_threshold_that_an_untrained_network_is_above_is_not_reached_by_it(tmp_path):
    """Nothing is learned until step 5,000; the first evaluation, at that step, is of the initial weights."""
    scores = [20.0] + [0.0] * 9 + [12.0] * 10
    rows = made("minatar", tmp_path, lambda one: scores, keep=lambda one: one.seed == 0 and one.label == DQN)
    (run,) = part(rows, "run", task="Freeway")
    assert run["curve"][0] == 20.0 and set(run["steps_to"].values()) == {55_000}


def test_an_interval_over_two_tasks_is_not_shown(tmp_path):
    rows = made("values", tmp_path, lambda one: [1.0, 2.0 + one.seed])
    (aggregate, *_) = part(rows, "aggregate")
    assert aggregate["final_iqm_other_tasks_low"] is not None
    settings = find_item("values").at("laptop")
    (table,) = (
        table for table in tables(rows, settings["tasks"], settings["methods"]) if "its interval over tasks" in table.header
    )
    assert {line[table.header.index("its interval over tasks")] for line in table.lines} == {"–"}
