"""A suite as an item: its trials, and everything that is made of their run folders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ebu.experiments import output
from ebu.experiments.item import Item
from ebu.experiments.suites.columns import Row
from ebu.experiments.suites.picture import draw
from ebu.experiments.suites.rows import Comparing, aggregate_row, ceilings_of, curve_rows, evaluations, run_row
from ebu.experiments.suites.tables import tables
from ebu.experiments.suites.tasks import ADAPTIVE, METHODS, QUICK_METHODS, REDISTRIBUTED, TELLING, Task, settings_of
from ebu.experiments.sweeps.trials import Trial, in_rounds, trial
from ebu.report.rows import read_run


def suite(
    module: str, text: str | None, alt: str, settings: Mapping[str, Mapping[str, Any]], compare: Comparing | None = None
) -> Item:
    """The item of a module that declares a suite, as ``Item.of`` makes others."""

    def trials(budget: str, seed: int = 0) -> list[Trial]:
        return trials_of(item.at(budget), seed)

    def analyse_finished(budget: str, trials: Sequence[Trial], folders: Sequence[Path], out: Path) -> list[Row]:
        return analyse(item, budget, trials, folders, out, compare)

    def note_of(budget: str) -> str:
        return note(budget, settings)

    item = Item.of(module, text, alt, settings, trials=trials, analyse=analyse_finished, note=note_of)
    return item


def budgets(
    tasks: Sequence[Task], scale: dict[str, Any], quick_tasks: Sequence[Task], quick: dict[str, Any]
) -> dict[str, Any]:
    """The settings of a suite: these tasks at this scale, and a few of them at a smaller one to see that all runs."""
    whole = {"tasks": tuple(tasks), "methods": tuple(METHODS), "scale": scale}
    return {
        "quick": {
            "tasks": tuple(quick_tasks), "methods": QUICK_METHODS, "seeds": 1, "scale": scale | quick,
        },
        "laptop": whole | {"seeds": 5, "own_seeds": {ADAPTIVE: 3}},
        "full": whole | {"seeds": 10},
    }  # fmt: skip


def seeds_of(method: str, settings: Mapping[str, Any]) -> int:
    """``own_seeds`` names the methods that have more or fewer than the others."""
    own: Mapping[str, int] = settings.get("own_seeds", {})
    return own.get(method, int(settings["seeds"]))


def methods_for(task: Task, settings: Mapping[str, Any]) -> Sequence[str]:
    """``own_methods`` names the groups of tasks on which fewer methods are run."""
    own: Mapping[str, Sequence[str]] = settings.get("own_methods", {})
    return own.get(task.group, settings["methods"])


def trials_of(settings: Mapping[str, Any], seed: int) -> list[Trial]:
    """Every method on every task with the same settings.

    Seed after seed, telling methods first; adaptive EBU after the ``seeds`` of the others, mixed with those of
    ``own_seeds`` that are more.
    """
    found = []
    for task in settings["tasks"]:
        for label in methods_for(task, settings):
            algo, own = settings_of(label, task, settings["scale"])
            for s in range(seed, seed + seeds_of(label, settings)):
                arguments = {"env_args": task.arguments(s)} if task.arguments(s) else {}
                found.append(trial(algo, task.env, s, label, **own, **arguments))

    def turn(one: Trial) -> int:
        if one.label == ADAPTIVE:
            return 2 * int(settings["seeds"]) + one.seed - seed
        return 2 * (one.seed - seed) + (one.label not in (*TELLING, REDISTRIBUTED))

    return in_rounds(found, turn)


def note(budget: str, settings: Mapping[str, Mapping[str, Any]]) -> str:
    """What a budget leaves out of the full one."""
    mine, full = settings[budget], settings["full"]
    own = [f"{seeds} of {method}" for method, seeds in mine.get("own_seeds", {}).items() if method in mine["methods"]]
    others = f" ({', '.join(own)})" if own else ""
    words = f"Budget {budget}: {output.several(mine['seeds'], 'seed')}{others} instead of {full['seeds']}"
    if mine["scale"] != full["scale"]:
        words += (
            f", {len(mine['tasks'])} tasks instead of {len(full['tasks'])}, {len(mine['methods'])} methods instead of "
            f"{len(full['methods'])}, {mine['scale']['steps']:,} steps instead of {full['scale']['steps']:,}"
        )
    for group, methods in mine.get("own_methods", {}).items():
        words += f"; {len(methods)} of the {len(mine['methods'])} methods on the tasks with {group}"
    if budget == "quick":
        words += ". This shows that everything runs; no method has learned much yet"
    return f"{words}."


def analyse(
    item: Item, budget: str, trials: Sequence[Trial], folders: Sequence[Path], out: Path, compare: Comparing | None = None
) -> list[Row]:
    """Rows of runs, curves and aggregates, and with them the item's picture, tables and page; of whatever is finished."""
    settings = item.at(budget)
    tasks, methods = settings["tasks"], settings["methods"]
    by_world = {(task.env, task.arguments(seed)): task for task in tasks for seed in {one.seed for one in trials}}
    pairs = [(one, read_run(folder)) for one, folder in zip(trials, folders)]
    done = [(one, run) for one, run in pairs if run.state == "finished" and evaluations(run)]
    by_task = [(by_world[one.env, dict(one.settings).get("env_args", ())], one, run) for one, run in done]
    ceilings = ceilings_of(tasks, by_task)
    runs = [run_row(task, one, run, ceilings[task.name]) for task, one, run in by_task]
    rows = runs + curve_rows(tasks, methods, by_task)
    for group in dict.fromkeys(task.group for task in tasks):
        members = [task for task in tasks if task.group == group]
        rows += [aggregate_row(group, members, method, runs, settings["scale"]["steps"]) for method in methods]
    if compare is not None:
        rows += compare(tasks, methods, runs, settings["scale"]["steps"])
    draw(item.name, out, rows, tasks, methods, settings["scale"]["steps"])
    return output.write_trained(item, out, rows, tables(rows, tasks, methods), budget, trials, folders)
