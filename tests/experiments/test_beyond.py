"""The comparison beyond the paper: its protocol in code and in docs/beyond.md, ratios of steps by hand, and its words."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ebu.experiments.items import beyond, beyond_judging, find_item
from ebu.experiments.suites import comparison, tasks
from ebu.experiments.suites.comparison import compare, comparison_table, comparison_tables, verdict
from ebu.experiments.suites.steps import steps_ratios
from ebu.presets import configure

DOCS = Path(__file__).parents[2] / "docs"
ITEMS = ("beyond", "beyond-judging")


# ---------------------------------------------------------------------- the protocol


def test_no_task_is_for_choosing_and_for_judging():
    chosen, judged = ({(task.env, task.env_args) for task in item.TASKS} for item in (beyond, beyond_judging))
    assert not chosen & judged
    ids = [{one.id for one in find_item(item).trials("full")} for item in ITEMS]
    assert not ids[0] & ids[1]


def test_the_page_has_the_numbers_of_the_tasks():
    page = (DOCS / "beyond.md").read_text(encoding="utf-8").replace("−", "-").replace("Space Invaders", "SpaceInvaders")
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("| ")]
    numbers = {
        cells[1] + cells[2]: (float(cells[4]), float(cells[5])) for cells in lines if len(cells) == 6 and _is_number(cells[4])
    }
    for task in (*beyond.TASKS, *beyond_judging.TASKS):
        name = task.env if task.env.endswith(("Car-v0", "bot-v1", "Lander-v3")) else task.name
        if name in numbers:
            assert numbers.pop(name) == pytest.approx((task.floor, task.ceiling), rel=0.02), name
    assert set(numbers) == {"DoorKey-5x5, SimpleCrossingS9N1DoorKey-6x6, FourRooms, Empty-8x8"}
    assert "291, 227" in page and [beyond.RANDOM_MAZE[d] for d in (0.4, 0.5)] == [291, 227]


def _is_number(text):
    return re.fullmatch(r"-?[\d.]+", text) is not None


def test_every_method_tries_three_values_and_has_a_look_of_its_own():
    by_algo = {}
    for label, (algo, _) in (tasks.BASELINES | tasks.CANDIDATES).items():
        by_algo.setdefault("dqn" if algo == "n-step" else algo, []).append(label)
    methods = ("ebu", "peng", "dqn", "redistributed-q", "ensemble-q")
    assert {algo: len(labels) for algo, labels in by_algo.items()} == dict.fromkeys(methods, 3)
    assert sorted(label for labels in tasks.RIVALS for label in labels) == sorted(by_algo["ebu"] + by_algo["peng"])
    labels = [*tasks.EVERY_METHOD, *(tasks.with_change(label, change) for label in by_algo["ebu"] for change in tasks.CHANGES)]
    assert len({tasks.look_of(label)[:2] for label in labels}) == len(labels)


@pytest.mark.parametrize("item", ITEMS)
@pytest.mark.parametrize("budget", ["laptop", "full"])
def test_all_methods_make_as_many_updates(item, budget):
    seen = {}
    for one in find_item(item).trials(budget):
        learner = one.config().learner
        if tasks.without_change(one.label)[1] in (tasks.TWICE, tasks.RESETS):
            continue  # rows of their own, which decide nothing
        seen.setdefault(one.env, set()).add((learner.train_freq, learner.gradient_steps, learner.batch_size))
    assert {env: len(values) for env, values in seen.items()} == dict.fromkeys(seen, 1)
    assert {next(iter(values))[0] for env, values in seen.items() if env != "maze"} == {1}
    if "maze" in seen:
        paper = configure("ebu", "maze", "paper").learner
        assert seen["maze"] == {(paper.train_freq, 1, paper.batch_size)}


def test_every_seed_has_a_maze_of_its_own_with_redrawn_digits():
    mazes = [one for one in find_item("beyond").trials("full") if one.env == "maze"]
    assert {dict(pair.split("=") for pair in one.config().environment.env_args)["maze_seed"] for one in mazes} == {
        str(seed) for seed in range(10)
    }
    assert all("redraw_digits=true" in one.config().environment.env_args for one in mazes)


# ---------------------------------------------------------------------- methods with one thing changed

TASK = {task.name: task for task in beyond.TASKS}


def config_of(label, task, **scale):
    algo, settings = tasks.settings_of(label, TASK[task], beyond.SCALE | scale)
    return configure(algo, TASK[task].env, **settings)


def changed(label, change, task, **scale):
    return config_of(tasks.with_change(label, change), task, **scale)


@pytest.mark.parametrize("label", [*tasks.BASELINES, *tasks.CANDIDATES])
@pytest.mark.parametrize(("task", "freq"), [("Breakout", 1), ("maze, 40 % walls", 50)])
def test_the_fast_recipe_is_the_same_for_every_method_and_its_tau_is_that_of_an_update(label, task, freq):
    config = changed(label, tasks.FAST, task)
    learner = config.learner
    assert config.network.layer_norm and (learner.learning_rate, learner.learning_rate_schedule) == (5e-4, "linear")
    assert (learner.max_grad_norm, learner.tau, learner.target_update_interval, learner.train_freq) == (10, 0.005, freq, freq)
    plain = config_of(label, task)
    assert config.target == plain.target and learner.gradient_steps == plain.learner.gradient_steps == 1


@pytest.mark.parametrize(("task", "units"), [("Breakout", 128), ("DoorKey-5x5", 128), ("maze, 40 % walls", 512)])
def test_a_wide_network_has_four_times_the_hidden_units_of_the_others(task, units):
    import ebu
    from ebu.networks.modules import build_network

    wide = changed(tasks.DQN, tasks.WIDE, task)
    interface = ebu.Agent.from_config(wide).interface
    shapes = [
        build_network(interface.spec, interface.actions, interface.stack, config.network)[-1].weight.shape
        for config in (config_of(tasks.DQN, task), wide)
    ]
    assert [shape[1] for shape in shapes] == [units, 4 * units]


def test_twice_the_updates_come_with_resets_four_times_in_a_run_or_without():
    twice, resets = (changed(tasks.EBU_HALF, change, "Breakout", steps=30_000) for change in (tasks.TWICE, tasks.RESETS))
    assert (twice.learner.gradient_steps, twice.learner.reset_every) == (2, 0)
    assert (resets.learner.gradient_steps, resets.learner.reset_every) == (2, 12_000)


def test_a_fast_rival_counts_and_one_that_costs_more_does_not():
    made = [run(task, tasks.EBU_HALF, 0, (40, 40, 40), area=0.4) for task in NAMES]
    costly = [tasks.with_change(tasks.EBU_HALF, change) for change in (tasks.WIDE, tasks.TWICE, tasks.RESETS)]
    made += [run(task, label, 0, (10, 10, 10), area=0.9) for task in NAMES for label in costly]
    labels = [tasks.EBU_HALF, *costly]
    assert {row["rival"] for row in compare(TASKS, labels, made, 100)} == {tasks.EBU_HALF}
    fast = tasks.with_change(tasks.EBU_HALF, tasks.FAST)
    made += [run(task, fast, 0, (30, 30, 30), area=0.5) for task in NAMES]
    assert {row["rival"] for row in compare(TASKS, [*labels, fast], made, 100)} == {fast}


# ---------------------------------------------------------------------- ratios of steps

NEVER = np.inf


def test_ratios_are_of_medians_and_who_never_arrives_counts_against_us():
    ours = np.array([[10.0, 30.0, NEVER, NEVER], [20.0, 50.0, NEVER, NEVER], [90.0, NEVER, 60.0, NEVER]])
    theirs = np.array([[40.0, NEVER, 25.0, NEVER], [40.0, NEVER, 25.0, NEVER]])
    np.testing.assert_allclose(steps_ratios(ours, theirs, 100.0), [0.5, 0.5, 8.0, np.nan])


def run(task, method, seed, steps_to, final=0.5, area=0.5, seconds=60.0):
    return {
        "part": "run",
        "task": task,
        "method": method,
        "seed": seed,
        "final_normalised": final,
        "area_normalised": area,
        "steps_to": dict(zip(("0.25", "0.5", "0.75"), steps_to)),
        "seconds": seconds,
    }


TASKS = (tasks.Task("a", "A", 0.0, 1.0), tasks.Task("a, delayed", "A", 0.0, 1.0, ("reward_delay=episode",)))
NAMES = [task.name for task in TASKS]


def rows_of(**runs):
    """By method: (steps to the thresholds, final scores as they are and delayed, area), two seeds alike."""
    labels = {"ebu": tasks.EBU_HALF, "one": tasks.EBU_ONE, "peng": tasks.PENG, "dqn": tasks.DQN, "ours": tasks.ENSEMBLE}
    made = [
        run(task, labels[key], seed, steps, final, area)
        for key, (steps, finals, area) in runs.items()
        for task, final in zip(NAMES, finals)
        for seed in (0, 1)
    ]
    methods = [labels[key] for key in runs]
    return {row["method"]: row for row in compare(TASKS, methods, made, 100)}


def test_the_rival_is_the_better_of_ebu_and_peng_each_with_its_best_value():
    rows = rows_of(
        ebu=((30, 30, 30), (0.5, 0.5), 0.9),  # EBU's best by area
        one=((10, 10, 10), (0.5, 0.5), 0.2),
        peng=((25, 25, 25), (0.5, 0.5), 0.6),  # needs fewer of tasks.DQN's steps than EBU with its best value
        dqn=((50, 50, 50), (0.5, 0.5), 0.3),
        ours=((10, 10, None), (0.8, 0.6), 0.7),
    )
    assert {row["rival"] for row in rows.values()} == {tasks.PENG}
    ours = rows[tasks.ENSEMBLE]
    assert ours["steps_over_rival"] == pytest.approx((0.4 * 0.4 * 8.0) ** (1 / 3), abs=1e-4)
    assert ours["steps_over_dqn"] == pytest.approx((0.2 * 0.2 * 4.0) ** (1 / 3), abs=1e-4)
    assert (ours["steps_over_rival_thresholds"], ours["steps_over_rival_left_out"]) == (6, 0)
    assert ours["delayed_share"] == pytest.approx(0.75) == ours["delayed_share_low"] == ours["delayed_share_high"]
    assert ours["beats_rival"] == 1.0 and rows[tasks.PENG]["steps_over_rival"] is None


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ((10, 10, 10), comparison.AT_MOST_HALF),
        ((30, 30, 30), comparison.FASTER),
        ((40, 40, 40), comparison.NOT_SHOWN),
        ((20, 20, None), comparison.NOT_SHOWN),
    ],
)
def test_the_words_follow_from_the_worse_end_of_the_interval(steps, words):
    rows = rows_of(
        ebu=((40, 40, 40), (0.5, 0.5), 0.5), dqn=((50, 50, 50), (0.5, 0.5), 0.4), ours=(steps, (0.5, 0.5), 0.5)
    )  # fmt: skip
    row = rows[tasks.ENSEMBLE]
    note = "" if words == comparison.NOT_SHOWN else " (preliminary: 2 seeds)"
    assert verdict(row) == f"{words}{note}"
    assert verdict(row | {"runs": comparison.SEEDS_OF_A_CLAIM * row["tasks"]}) == words


def test_the_interval_is_over_seeds():
    made = [run(task, tasks.PENG, seed, (40, 40, 40)) for task in NAMES for seed in range(4)]
    made += [run(task, tasks.ENSEMBLE, seed, (10 + 20 * (seed % 2),) * 3) for task in NAMES for seed in range(4)]
    row = compare(TASKS, [tasks.PENG, tasks.ENSEMBLE], made, 100)[1]
    assert 0.25 <= row["steps_over_rival_low"] < row["steps_over_rival"] < row["steps_over_rival_high"] <= 0.75


def test_a_method_without_a_run_of_every_task_is_not_compared_and_one_seed_has_no_interval():
    made = [run(task, tasks.PENG, 0, (40, 40, None)) for task in NAMES] + [run("a", tasks.ENSEMBLE, 0, (10, 10, 10))]
    rows = {row["method"]: row for row in compare(TASKS, [tasks.PENG, tasks.DQN, tasks.ENSEMBLE], made, 100)}
    assert rows[tasks.ENSEMBLE]["steps_over_rival"] is None and rows[tasks.ENSEMBLE]["area_iqm"] is None
    assert (rows[tasks.ENSEMBLE]["tasks"], rows[tasks.DQN]["runs"]) == (1, 0)
    made.append(run("a, delayed", tasks.ENSEMBLE, 0, (None, None, None)))
    row = compare(TASKS, [tasks.PENG, tasks.ENSEMBLE], made, 100)[1]
    assert row["steps_over_rival"] is not None and row["steps_over_rival_high"] is None
    assert row["steps_over_rival_left_out"] == 1
    assert verdict(row) == "–"
    table = comparison_table([row])
    assert len(table.lines[0]) == len(table.header)


def test_tasks_that_are_there_both_ways_are_compared_for_themselves_where_others_are_not_finished():
    paired = [replace(task, group=group) for task, group in zip(TASKS, (tasks.AS_THEY_ARE, tasks.DELAYED))]
    suite = [*paired, tasks.Task("costly", "C", 0.0, 1.0)]
    labels = [tasks.PENG, tasks.DQN]
    made = [run(task, label, 0, (40, 40, 40)) for task in NAMES for label in labels]
    rows = compare(suite, labels, made, 100)
    assert [(row["over"], row["tasks"], row["steps_over_dqn"]) for row in rows if row["method"] == tasks.PENG] == [
        (comparison.WHOLE, 2, None), (comparison.BOTH_WAYS, 2, 1.0),
    ]  # fmt: skip
    assert [table.title.split(",")[0] for table in comparison_tables(rows)] == [
        f"Over {comparison.WHOLE}", f"Over {comparison.BOTH_WAYS}",
    ]  # fmt: skip
    assert {row["over"] for row in compare(paired, labels, made, 100)} == {comparison.WHOLE}
