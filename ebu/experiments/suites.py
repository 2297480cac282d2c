"""Sets of small tasks on which all methods are compared: trials, rows, aggregates, tables and pictures of such an item.

Every method has the same network, steps, updates, exploration and evaluations; only sampler, target rule and number of
learners differ. A run's score is its last evaluation; the area under its curve says how early it got there. Scores of
different tasks are averaged after a normalisation: 0 is random play, 1 the best a method reached there on average
(``Task.ceiling`` where the task has a scale of its own). That best is of the finished runs, so it may grow while trials are
still going.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from ebu.experiments import output, plots
from ebu.experiments.item import Item
from ebu.experiments.sweeps.trials import Trial, in_rounds, trial
from ebu.report.figures import Points, estimate, side_by_side
from ebu.report.rows import Run, read_run
from ebu.report.statistics import (
    area_under_curve,
    interval,
    interval_over_tasks,
    mean,
    performance_profile,
    probability_of_improvement,
    score,
    steps_to_reach,
)

Row = dict[str, Any]

EBU_HALF, EBU_ONE, ADAPTIVE = "EBU (β=0.5)", "EBU (β=1)", "EBU (adaptive β)"
DQN, N_STEP, PER, RETRACE, PENG, TIGHTENING = "DQN", "n-step DQN (n=3)", "PER", "Retrace(λ)", "Peng's Q(λ)", "OT"
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    EBU_HALF: ("ebu", {"beta": 0.5}),
    EBU_ONE: ("ebu", {"beta": 1.0}),
    DQN: ("dqn", {}),
    N_STEP: ("n-step", {"n_steps": 3}),
    PENG: ("peng", {}),
    PER: ("per", {}),
    RETRACE: ("retrace", {}),
    TIGHTENING: ("optimality-tightening", {}),
    ADAPTIVE: ("adaptive-ebu", {}),
}
TELLING = (EBU_HALF, EBU_ONE, DQN, N_STEP, PENG)  # cheap, and the comparison the claim is about: these go first
QUICK_METHODS = (EBU_HALF, DQN, N_STEP)
LOOK: dict[str, tuple[str, str, float]] = {  # colour, line, width
    EBU_HALF: (plots.BLUE, "-", 2.1),
    EBU_ONE: (plots.SKY, "-", 2.1),
    ADAPTIVE: (plots.GREEN, "-", 2.1),
    DQN: (plots.INK, "--", 1.7),
    N_STEP: (plots.ORANGE, "--", 1.5),
    PENG: ("#8C510A", "-.", 1.5),
    PER: (plots.PINK, "--", 1.5),
    RETRACE: (plots.VERMILION, "-.", 1.5),
    TIGHTENING: (plots.GREY, ":", 1.7),
}
LEVELS = (0.25, 0.5, 0.75)  # of the normalised score, to be reached
PROFILE = tuple(round(0.1 * i, 1) for i in range(13))
CURVE_POINTS = 20


@dataclass(frozen=True)
class Task:
    """One environment of a suite."""

    name: str
    env: str
    floor: float
    """The score of random play."""
    ceiling: float | None = None
    """The score that counts as 1; None for the best mean of a method, over all tasks of the same environment."""
    env_args: tuple[str, ...] = ()
    group: str = ""
    """Tasks are aggregated by group."""
    anchor: float | None = None
    """A published training average of DQN after as many steps."""


def seeds_of(method: str, settings: Mapping[str, Any]) -> int:
    return int(settings["adaptive_seeds"] if method == ADAPTIVE else settings["seeds"])


def trials_of(settings: Mapping[str, Any], seed: int) -> list[Trial]:
    """Every method on every task with the same settings. Seed after seed, telling methods first; adaptive EBU at the end."""
    found = []
    for task in settings["tasks"]:
        for label in settings["methods"]:
            algo, own = METHODS[label]
            arguments = {"env_args": task.env_args} if task.env_args else {}
            seeds = range(seed, seed + seeds_of(label, settings))
            found += [trial(algo, task.env, s, label, **own, **arguments, **settings["scale"]) for s in seeds]

    def turn(one: Trial) -> int:
        if one.label == ADAPTIVE:
            return 2 * int(settings["seeds"]) + one.seed - seed
        return 2 * (one.seed - seed) + (one.label not in TELLING)

    return in_rounds(found, turn)


def note(budget: str, settings: Mapping[str, Mapping[str, Any]]) -> str:
    """What a budget leaves out of the full one."""
    mine, full = settings[budget], settings["full"]
    if budget == "full":
        return ""
    fewer = "" if ADAPTIVE not in mine["methods"] else f" ({mine['adaptive_seeds']} of adaptive EBU)"
    words = f"Budget {budget}: {output.several(mine['seeds'], 'seed')}{fewer} instead of {full['seeds']}"
    if budget == "quick":
        words += (
            f", {len(mine['tasks'])} tasks instead of {len(full['tasks'])}, {len(mine['methods'])} methods instead of "
            f"{len(full['methods'])}, {mine['scale']['steps']:,} steps instead of {full['scale']['steps']:,}. This shows that "
            "everything runs; nobody has learned much yet"
        )
    return f"{words}."


# ---------------------------------------------------------------------- from run folders to rows


def analyse(item: Item, budget: str, trials: Sequence[Trial], folders: Sequence[Path], out: Path) -> list[Row]:
    """Rows of runs, curves and aggregates, and with them the item's picture, tables and page; of whatever is finished."""
    settings = item.at(budget)
    tasks, methods = settings["tasks"], settings["methods"]
    by_world = {(task.env, task.env_args): task for task in tasks}
    pairs = [(one, read_run(folder)) for one, folder in zip(trials, folders)]
    done = [(one, run) for one, run in pairs if run.state == "finished" and evaluations(run)]
    by_task = [(by_world[one.env, dict(one.settings).get("env_args", ())], one, run) for one, run in done]
    ceilings = _ceilings(tasks, by_task)
    runs = [_run_row(task, one, run, ceilings[task.name]) for task, one, run in by_task]
    rows = runs + _curve_rows(tasks, methods, by_task)
    for group in dict.fromkeys(task.group for task in tasks):
        members = [task for task in tasks if task.group == group]
        rows += [_aggregate_row(group, members, method, runs, settings["scale"]["steps"]) for method in methods]
    _draw(item, out, rows, tasks, methods, settings["scale"]["steps"])
    output.write(
        item,
        out,
        rows,
        tables(rows, tasks, methods),
        budget=budget,
        seed=min((one.seed for one in trials), default=0),
        runs=folders,
    )
    return rows


def evaluations(run: Run) -> Points:
    return run.points("eval", "mean_reward")


def _ceilings(tasks: Sequence[Task], found: Sequence[tuple[Task, Trial, Run]]) -> dict[str, float]:
    """Task → the score that counts as 1."""
    scores: dict[str, dict[tuple[str, str], list[float]]] = {}
    for task, one, run in found:
        scores.setdefault(task.env, {}).setdefault((task.name, one.label), []).append(evaluations(run)[-1][1])
    best = {env: max(float(np.mean(values)) for values in methods.values()) for env, methods in scores.items()}
    return {task.name: best.get(task.env, 1.0) if task.ceiling is None else task.ceiling for task in tasks}


def _normalised(task: Task, ceiling: float, value: float) -> float:
    """0 for random play, 1 for the ceiling; where nobody is above random play there is nothing to divide by."""
    return (value - task.floor) / (ceiling - task.floor) if ceiling > task.floor else 0.0


def _run_row(task: Task, one: Trial, run: Run, ceiling: float) -> Row:
    steps, values = (list(column) for column in zip(*evaluations(run)))
    area = area_under_curve(steps, values) if len(steps) > 1 else values[-1]
    levels = [task.floor + level * (ceiling - task.floor) for level in LEVELS]
    training = run.points("train", "ep_rew_mean")
    at, table = side_by_side([evaluations(run)])
    kept = _thinned(len(at))
    return {
        "part": "run",
        "trial": one.id,
        "task": task.name,
        "method": one.label,
        "seed": one.seed,
        "final": plots.number(values[-1], 4),
        "area": plots.number(area, 4),
        "final_normalised": plots.number(_normalised(task, ceiling, values[-1]), 4),
        "area_normalised": plots.number(_normalised(task, ceiling, area), 4),
        "training": plots.number(training[-1][1], 4) if training else None,
        "steps_to": {f"{level:g}": steps_to_reach(steps, values, height) for level, height in zip(LEVELS, levels)},
        "curve_steps": at[kept].astype(int).tolist(),
        "curve": [plots.number(value, 4) for value in table[0, kept]],
        "seconds": None if run.seconds is None else plots.number(run.seconds, 1),
    }


def _curve_rows(tasks: Sequence[Task], methods: Sequence[str], found: Sequence[tuple[Task, Trial, Run]]) -> list[Row]:
    """Mean over seeds with its interval, along the training."""
    rows = []
    for task in tasks:
        for method in methods:
            curves = [evaluations(run) for where, one, run in found if (where, one.label) == (task, method)]
            if not curves:
                continue
            at, table = side_by_side(curves)
            kept = _thinned(len(at))
            places = [estimate(known[np.isfinite(known)], mean, np.random.default_rng(0)) for known in table.T[kept]]
            row: Row = {"part": "curve", "task": task.name, "method": method, "seeds": len(curves)}
            row["steps"] = at[kept].astype(int).tolist()
            for name, values in zip(("mean", "low", "high"), zip(*places)):
                row[name] = [None if value is None else plots.number(value, 4) for value in values]
            rows.append(row)
    return rows


def _thinned(count: int) -> np.ndarray:
    return np.unique(np.linspace(0, count - 1, min(CURVE_POINTS, count)).round().astype(int))


# ---------------------------------------------------------------------- over tasks


def _aggregate_row(group: str, tasks: Sequence[Task], method: str, runs: Sequence[Row], steps: int) -> Row:
    """A method over all tasks of a group. Until it has a run of each, it is not compared with those that have."""
    mine = _by_task(tasks, method, runs)
    row: Row = {
        "part": "aggregate",
        "group": group,
        "method": method,
        "steps": steps,
        "runs": sum(map(len, mine.values())),
        "tasks": sum(map(bool, mine.values())),
    }
    complete = all(mine.values())
    for name in ("final", "area"):
        scores = {task: [run[f"{name}_normalised"] for run in found] for task, found in mine.items()}
        row |= _interquartile_mean(name, scores if complete else {})
    rivals = _by_task(tasks, DQN, runs)
    row |= _beats_dqn(mine, rivals if method != DQN and complete and all(rivals.values()) else {})
    scores = {task: [run["final_normalised"] for run in found] for task, found in mine.items()}
    row |= _profile(scores if complete else {})
    everything = [run for found in mine.values() for run in found]
    row["share_reached"] = {
        f"{level:g}": plots.number(np.mean([run["steps_to"][f"{level:g}"] is not None for run in everything]), 4)
        for level in LEVELS
        if everything
    }
    return row


def _by_task(tasks: Sequence[Task], method: str, runs: Sequence[Row]) -> dict[str, list[Row]]:
    return {task.name: [run for run in runs if (run["task"], run["method"]) == (task.name, method)] for task in tasks}


def _interquartile_mean(name: str, scores: Mapping[str, Sequence[float]]) -> Row:
    """With the interval over seeds (stratified by task) and the one over tasks, which needs no second seed."""
    value = score(scores) if scores else None
    seeds = _over_seeds(scores)
    means = [float(np.mean(found)) for found in scores.values()]
    tasks = interval_over_tasks(means, rng=np.random.default_rng(0)) if len(means) > 1 else None
    return {
        f"{name}_iqm": _number(value),
        f"{name}_iqm_low": _number(seeds and seeds[0]),
        f"{name}_iqm_high": _number(seeds and seeds[1]),
        f"{name}_iqm_other_tasks_low": _number(tasks and tasks.low),
        f"{name}_iqm_other_tasks_high": _number(tasks and tasks.high),
    }


def _over_seeds(scores: Mapping[str, Sequence[float]]) -> tuple[float, float] | None:
    if not _are_repeated(scores):
        return None
    found = interval(scores, rng=np.random.default_rng(0))
    return found.low, found.high


def _are_repeated(scores: Mapping[str, Sequence[Any]]) -> bool:
    """Whether every task has the two runs that an interval over seeds needs."""
    return bool(scores) and min(map(len, scores.values())) > 1


def _beats_dqn(mine: Mapping[str, Sequence[Row]], rivals: Mapping[str, Sequence[Row]]) -> Row:
    found = None
    if _are_repeated(rivals) and _are_repeated(mine):
        ours, theirs = (
            {task: [run["final_normalised"] for run in found] for task, found in who.items()} for who in (mine, rivals)
        )
        found = probability_of_improvement(ours, theirs, rng=np.random.default_rng(0))
    return {
        "beats_dqn": _number(found and found.estimate),
        "beats_dqn_low": _number(found and found.low),
        "beats_dqn_high": _number(found and found.high),
    }


def _profile(scores: Mapping[str, Sequence[float]]) -> Row:
    """The share of runs above each of PROFILE, averaged over tasks."""
    if not _are_repeated(scores):
        return {"profile": None, "profile_low": None, "profile_high": None}
    band = performance_profile(scores, PROFILE, rng=np.random.default_rng(0), resamples=500)
    names = ("profile", "profile_low", "profile_high")
    return {name: [_number(v) for v in values] for name, values in zip(names, (band.estimate, band.low, band.high))}


def _number(value: Any) -> float | None:
    return None if value is None else plots.number(value, 4)


# ---------------------------------------------------------------------- tables


def tables(rows: Sequence[Row], tasks: Sequence[Task], methods: Sequence[str]) -> list[output.Table]:
    groups = list(dict.fromkeys(task.group for task in tasks))
    return [
        *(_aggregate_table(group, [row for row in rows if row["part"] == "aggregate" and row["group"] == group])
          for group in groups),
        _task_table([row for row in rows if row["part"] == "run"], tasks, methods),
    ]  # fmt: skip


def _aggregate_table(group: str, rows: Sequence[Row]) -> output.Table:
    def with_interval(row: Row, name: str) -> str:
        return output.with_interval(row[name], row[f"{name}_low"], row[f"{name}_high"])

    lines = [
        [
            row["method"], str(row["tasks"]), str(row["runs"]), with_interval(row, "final_iqm"),
            _range(row["final_iqm_other_tasks_low"], row["final_iqm_other_tasks_high"]),
            with_interval(row, "area_iqm"), with_interval(row, "beats_dqn"),
            *(output.cell(row["share_reached"].get(f"{level:g}")) for level in LEVELS),
        ]
        for row in rows
    ]  # fmt: skip
    header = (
        "method", "tasks", "runs", "final score, interval over seeds", "its interval over tasks",
        "area under the curve", "P(run beats a run of DQN)", *(f"share of runs that reach {level:g}" for level in LEVELS),
    )  # fmt: skip
    which = f", {group}" if group else ""
    title = f"Interquartile means of normalised scores over tasks{which} (95 % bootstrap intervals)"
    return output.Table(title, header, lines)


def _range(low: float | None, high: float | None) -> str:
    return output.NOT_RUN if low is None or high is None else f"{output.cell(low)} to {output.cell(high)}"


def _task_table(runs: Sequence[Row], tasks: Sequence[Task], methods: Sequence[str]) -> output.Table:
    has_anchors = any(task.anchor is not None for task in tasks)
    lines = []
    for task in tasks:
        for method in methods:
            mine = [run for run in runs if (run["task"], run["method"]) == (task.name, method)]
            published = [output.cell(task.anchor if method == DQN else None)] if has_anchors else []
            lines.append([
                task.name, method, str(len(mine)), _mean(mine, "final"), _mean(mine, "area"), _mean(mine, "training"),
                *published, _reached(mine), _mean(mine, "seconds", 1 / 3600),
            ])  # fmt: skip
    header = (
        "task", "method", "seeds", "final score", "area under the curve", "training episodes at the end",
        *(["MinAtar's own DQN, training episodes"] if has_anchors else []), "steps to half of the normalised score", "hours",
    )  # fmt: skip
    return output.Table("Means over seeds by task (95 % bootstrap intervals)", header, lines)


def _mean(runs: Sequence[Row], name: str, factor: float = 1.0) -> str:
    known = [run[name] * factor for run in runs if run[name] is not None]
    return output.with_interval(*estimate(known, mean, np.random.default_rng(0))) if known else output.NOT_RUN


def _reached(runs: Sequence[Row]) -> str:
    """The first evaluation at half of the normalised score."""
    return output.median_steps([run["steps_to"]["0.5"] for run in runs])


# ---------------------------------------------------------------------- the picture


def _draw(item: Item, out: Path, rows: Sequence[Row], tasks: Sequence[Task], methods: Sequence[str], steps: int) -> None:
    """Curves of every task in a panel of its own, and the aggregate of each group in the last panel of its row."""
    groups = list(dict.fromkeys(task.group for task in tasks))
    most = max(sum(task.group == group for task in tasks) for group in groups) + 1
    columns = most if len(groups) > 1 else -(-most // 2) if most > 4 else most
    bands = len(groups) if len(groups) > 1 else -(-most // columns)
    figure, axes = plots.canvas(columns, rows=bands, width=3.1 * columns + 0.6, height=2.9 * bands + 0.9)
    free = list(axes)
    heights: dict[str, list[Axes]] = {}  # panels of one environment have one scale
    for i, group in enumerate(groups):
        members = [task for task in tasks if task.group == group]
        panels = axes[i * columns : (i + 1) * columns] if len(groups) > 1 else axes
        for ax, task in zip(panels, members):
            _draw_curves(ax, [row for row in rows if row["part"] == "curve" and row["task"] == task.name], task, steps)
            heights.setdefault(task.env, []).append(ax)
            free.remove(ax)
        last = panels[len(members)]
        _draw_aggregate(last, [row for row in rows if row["part"] == "aggregate" and row["group"] == group], group)
        free.remove(last)
    for ax in free:
        ax.set_axis_off()
    for same in heights.values():
        limits = [ax.get_ylim() for ax in same]
        for ax in same:
            ax.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))
    handles = [axes[0].plot([], [], color=LOOK[m][0], ls=LOOK[m][1], lw=LOOK[m][2], label=m)[0] for m in methods]
    figure.legend(
        handles=handles, loc="outside lower center", ncols=min(len(methods), 5 if columns < 5 else 9), frameon=False,
        fontsize=9, labelcolor=plots.INK,
    )  # fmt: skip
    plots.save(figure, out, item.name)


def _draw_curves(ax: Axes, curves: Sequence[Row], task: Task, steps: int) -> None:
    for row in curves:
        colour, line, width = LOOK[row["method"]]
        x = np.array(row["steps"]) / 1000
        low, high = (np.array(row[end], dtype=float) for end in ("low", "high"))
        ax.fill_between(x, low, high, color=colour, alpha=0.10, lw=0)
        ax.plot(x, row["mean"], line, color=colour, lw=width)
    ax.axhline(task.floor, color=plots.GREY, lw=0.8, ls=":")
    counts = {row["seeds"] for row in curves}
    if counts:
        many = " to ".join(dict.fromkeys(map(str, (min(counts), max(counts)))))
        ax.text(0.02, 0.98, f"{many} seed{'s' * (max(counts) > 1)}", transform=ax.transAxes, va="top", fontsize=7.5,
                color=plots.GREY)  # fmt: skip
    else:
        ax.text(0.5, 0.5, "not run", transform=ax.transAxes, ha="center", color=plots.GREY, fontsize=9)
    ax.set_xlim(0, steps / 1000)
    ax.set_xlabel("thousand steps", fontsize=8.5)
    plots.title(ax, task.name)


def _draw_aggregate(ax: Axes, rows: Sequence[Row], group: str) -> None:
    """Interquartile means of the normalised final scores (filled) and areas (hollow) with their intervals over seeds."""
    for i, row in enumerate(rows):
        colour = LOOK[row["method"]][0]
        for name, offset, face in (("final", -0.16, colour), ("area", 0.16, "white")):
            value = row[f"{name}_iqm"]
            if value is None:
                continue
            low, high = row[f"{name}_iqm_low"], row[f"{name}_iqm_high"]
            if low is not None:
                ax.hlines(i + offset, low, high, color=colour, lw=1.6, alpha=0.7)
            ax.plot(value, i + offset, "o", ms=5.5, mfc=face, mec=colour, ls="")
    ax.set_yticks(range(len(rows)), labels=[row["method"] for row in rows], fontsize=7.5)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    low, high = ax.get_xlim()
    ax.set_xlim(min(low, 0.0), max(high, 1.05))
    ax.set_xlabel("normalised score; hollow: area under the curve", fontsize=8)
    if not any(row["final_iqm"] is not None for row in rows):
        ax.text(0.5, 0.5, "no method has a run\nof every task yet", transform=ax.transAxes, ha="center", color=plots.GREY,
                fontsize=9)  # fmt: skip
    plots.title(ax, f"all tasks, {group}" if group else "all tasks")
