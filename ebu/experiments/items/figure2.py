"""Figure 2: the MNIST maze, EBU beside its baselines

The paper: EBU needs the fewest steps where walls are many, more clearly so the more there are, and also where moves slip;
where walls are few, n-step DQN is level with it or ahead. By the end all three reach a median relative length of 1.

(a), (b) deterministic mazes, (c) mazes whose moves slip aside. The text names neither the wall densities of the panels
nor the β of (c), so all four densities of Table 1 are shown, and β = 0.25, 0.5, 0.75 and 1 in the slippery maze.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from ebu.experiments import mazes, output, plots
from ebu.experiments.item import Item
from ebu.experiments.mazes import EBU, N_STEP, ONE_STEP, MazeKind
from ebu.experiments.sweeps.trials import Trial

BASELINES = (ONE_STEP, N_STEP)
SLIPPERY = MazeKind(0.5, slip=0.1)
SETTINGS: dict[str, dict[str, Any]] = {
    # Fixed digits and a small network: the same comparison on an easier maze, learned in 10,000 steps.
    "quick": {
        "preset": "quick",
        "steps": 10_000,
        "mazes": 2,
        "slippery_mazes": 2,
        "kinds": {
            MazeKind(0.3): (EBU, *BASELINES),
            MazeKind(0.5): (EBU, *BASELINES),
            SLIPPERY: (EBU, "EBU (β=0.5)", *BASELINES),
        },
    },
    "laptop": {
        "preset": "paper",
        "steps": 200_000,
        "mazes": 12,  # those of Table 1
        "slippery_mazes": 4,
        "kinds": {
            **{MazeKind(density): (EBU, *BASELINES) for density in (0.2, 0.3, 0.4, 0.5)},
            SLIPPERY: (EBU, "EBU (β=0.5)", "EBU (β=0.25)", *BASELINES),
        },
    },
}
SETTINGS["full"] = SETTINGS["laptop"] | {
    "mazes": 50,
    "slippery_mazes": 50,
    "kinds": SETTINGS["laptop"]["kinds"] | {SLIPPERY: (EBU, "EBU (β=0.75)", "EBU (β=0.5)", "EBU (β=0.25)", *BASELINES)},
}

# The figure has no printed numbers: the text gives its end, Table 1 its middle (medians at 100,000 of 200,000 steps).
EXPECTED: dict[str, Any] = {
    "median_at_the_end": 1.0,
    "median_half_way": {
        0.2: {EBU: 2.42, ONE_STEP: 9.25, N_STEP: 2.24},
        0.3: {EBU: 3.03, ONE_STEP: 21.03, N_STEP: 3.32},
        0.4: {EBU: 2.52, ONE_STEP: 22.71, N_STEP: 3.50},
        0.5: {EBU: 2.34, ONE_STEP: 16.62, N_STEP: 3.12},
    },
}


def trials(budget: str, seed: int = 0) -> list[Trial]:
    settings = ITEM.at(budget)
    common = {"preset": settings["preset"], "steps": settings["steps"]}
    return mazes.by_maze(
        one
        for kind, methods in settings["kinds"].items()
        for one in mazes.trials_in(kind, methods, settings["slippery_mazes" if kind.slip else "mazes"], seed, **common)
    )


def analyse(budget: str, trials: Sequence[Trial], folders: Sequence[Path], out: Path) -> list[dict[str, Any]]:
    settings = ITEM.at(budget)
    found = mazes.grouped(trials, folders)
    kinds = settings["kinds"].items()
    cells = [(kind, method, found.get((kind, method), [])) for kind, methods in kinds for method in methods]
    rows = [mazes.curve_row(kind, method, [run for _, run in pairs]) for kind, method, pairs in cells]
    rows += [_maze_row(kind, one, run, settings["steps"]) for kind, _, pairs in cells for one, run in pairs]
    rows += mazes.pooled_rows(found, (EBU, *BASELINES))
    _draw(out, rows, settings["steps"])
    return output.write_trained(ITEM, out, rows, [_table(rows, settings["steps"])], budget, trials, folders)


def note(budget: str) -> str:
    settings, full = SETTINGS[budget], SETTINGS["full"]
    fewer = f"Budget {budget}: {settings['mazes']} mazes of each kind instead of {full['mazes']}"
    if budget == "laptop":
        return f"{fewer}, {settings['slippery_mazes']} of the slippery one; all else as in the paper."
    several = f"{len(settings['kinds'])} kinds of maze instead of {len(full['kinds'])}, fewer β in the slippery one"
    return f"{fewer}, {several}, and {mazes.easier_task(settings, full)} Two mazes decide nothing."


def _maze_row(kind: MazeKind, one: Trial, run: Any, steps: int) -> dict[str, Any]:
    training, greedy = mazes.training_lengths(run), mazes.greedy_lengths(run)
    return {
        "part": "maze",
        "trial": one.id,
        "wall_density": kind.density,
        "slip": kind.slip,
        "method": one.label,
        "maze": one.seed,
        "training_half_way": mazes.known_at(training, steps / 2),
        "training_at_the_end": mazes.known_at(training, steps),
        "greedy_half_way": mazes.known_at(greedy, steps / 2),
        "greedy_at_the_end": mazes.known_at(greedy, steps),
        "steps_to_twice_the_shortest": mazes.steps_to_twice_the_shortest(training),
    }


def _table(rows: Sequence[dict[str, Any]], steps: int) -> output.Table:
    lines = []
    for curve in (row for row in rows if row["part"] == "curve"):
        kind, method = MazeKind(curve["wall_density"], curve["slip"]), curve["method"]
        mine = [row for row in rows if row["part"] == "maze" and _key(row) == _key(curve)]
        half = None if kind.slip else EXPECTED["median_half_way"][kind.density].get(method)
        names = ("training_half_way", "training_at_the_end", "greedy_at_the_end")
        medians = [mazes.shown(mazes.over_mazes("ours", (row[name] for row in mine)), "ours_median") for name in names]
        lines.append([
            kind.title, method, str(curve["mazes"]), output.cell(half), medians[0],
            output.cell(None if kind.slip else EXPECTED["median_at_the_end"]), medians[1], medians[2],
            output.median_steps([row["steps_to_twice_the_shortest"] for row in mine]),
        ])  # fmt: skip
    header = (
        "maze", "method", "mazes", "paper, half way", "ours, half way", "paper, at the end", "ours, at the end",
        "ours, greedy path", "steps to twice the shortest path",
    )  # fmt: skip
    title = f"Median relative length, half way and after {steps:,} steps (95 % bootstrap intervals over mazes)"
    return output.Table(title, header, lines)


def _key(row: dict[str, Any]) -> tuple[float, float, str]:
    return row["wall_density"], row["slip"], row["method"]


def _draw(out: Path, rows: Sequence[dict[str, Any]], steps: int) -> None:
    curves = [row for row in rows if row["part"] == "curve"]
    kinds = list(dict.fromkeys(MazeKind(row["wall_density"], row["slip"]) for row in curves))
    columns = min(3, len(kinds))
    figure, axes = plots.canvas(
        columns, rows=-(-len(kinds) // columns), width=4.4 * columns, height=4.1 * -(-len(kinds) // columns)
    )
    for ax, kind in zip(axes, kinds):
        mine = [row for row in curves if MazeKind(row["wall_density"], row["slip"]) == kind]
        _panel(ax, mine, steps)
        plots.title(ax, kind.title)
        plots.legend(ax, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, columnspacing=1.2)  # lines fill the panel
    for ax in axes[len(kinds) :]:
        ax.set_axis_off()
    plots.save(figure, out, ITEM.name)


def _panel(ax: Axes, curves: Sequence[dict[str, Any]], steps: int) -> None:
    for row in curves:
        colour, line = mazes.LOOK[row["method"]]
        x = np.array(row["training_steps"]) / 1000
        low, median, high = (np.array(row[f"training_median{end}"], dtype=float) for end in ("_low", "", "_high"))
        ax.fill_between(x, low, high, color=colour, alpha=0.12, lw=0)
        words = f"{row['method']}, {output.several(row['mazes'], 'maze')}" if row["mazes"] else f"{row['method']}: not run"
        ax.plot(x, median, line, color=colour, lw=1.9, label=words)
    ax.axhline(1, color=plots.GREY, lw=0.9)
    ax.set_yscale("log")
    ax.set_yticks([1, 2, 5, 10, 20, 50], labels=["1", "2", "5", "10", "20", "50"])
    ax.minorticks_off()
    ax.set_xlim(0, steps / 1000)
    ax.set_ylim(0.8, 75)
    ax.set_xlabel("thousand steps")
    ax.set_ylabel("path / shortest, median of mazes")


ALT = (
    "Median path length over the shortest, falling while learning: one panel for each wall density and one for slippery "
    "moves, one line for each method; the table has the numbers."
)
ITEM = Item.of(__name__, __doc__, ALT, SETTINGS, trials=trials, analyse=analyse, note=note)
