"""Table 1: relative lengths half way through the training

The paper: one-step DQN is the slowest everywhere; n-step DQN leads where walls are few, EBU where they are many.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ebu.experiments import mazes, output, plots
from ebu.experiments.item import Item
from ebu.experiments.mazes import EBU, N_STEP, ONE_STEP, MazeKind
from ebu.experiments.sweeps.trials import Trial

DENSITIES = (0.2, 0.3, 0.4, 0.5)
METHODS = (EBU, ONE_STEP, N_STEP)
SETTINGS: dict[str, dict[str, Any]] = {
    # Learning starts at step 3,000 of the quick preset, so half way nothing would be known: measured at 7,000 of 10,000.
    "quick": {"preset": "quick", "steps": 10_000, "at": 7_000, "mazes": 2},
    "laptop": {"preset": "paper", "steps": 200_000, "at": 100_000, "mazes": 12},
    "full": {"preset": "paper", "steps": 200_000, "at": 100_000, "mazes": 50},
}

# wall density → method → (mean, median)
EXPECTED: dict[float, dict[str, tuple[float, float]]] = {
    0.2: {EBU: (5.44, 2.42), ONE_STEP: (14.40, 9.25), N_STEP: (3.26, 2.24)},
    0.3: {EBU: (8.14, 3.03), ONE_STEP: (25.63, 21.03), N_STEP: (8.88, 3.32)},
    0.4: {EBU: (8.61, 2.52), ONE_STEP: (25.45, 22.71), N_STEP: (8.96, 3.50)},
    0.5: {EBU: (5.51, 2.34), ONE_STEP: (22.36, 16.62), N_STEP: (11.32, 3.12)},
}

EXPECTATION = {"q": "mean_q", "return": "mean_discounted_return"}  # of the greedy path, half way


def trials(budget: str, seed: int = 0) -> list[Trial]:
    settings = ITEM.at(budget)
    common = {"preset": settings["preset"], "steps": settings["steps"]}
    return mazes.by_maze(
        one for density in DENSITIES for one in mazes.trials_in(MazeKind(density), METHODS, settings["mazes"], seed, **common)
    )


def analyse(budget: str, trials: Sequence[Trial], folders: Sequence[Path], out: Path) -> list[dict[str, Any]]:
    settings = ITEM.at(budget)
    found = mazes.grouped(trials, folders)
    rows: list[dict[str, Any]] = [_maze_row(one, run, settings) for pairs in found.values() for one, run in pairs]
    rows += [_cell_row(density, method, rows, settings["steps"]) for density in DENSITIES for method in METHODS]
    cells = [row for row in rows if row["part"] == "cell"]
    _draw(out, cells)
    return output.write_trained(ITEM, out, rows, [_table(cells, settings)], budget, trials, folders)


def note(budget: str) -> str:
    settings, full = SETTINGS[budget], SETTINGS["full"]
    fewer = f"Budget {budget}: {settings['mazes']} mazes for each density instead of {full['mazes']}"
    if budget == "laptop":
        return f"{fewer}; all else as in the paper."
    easier = mazes.easier_task(settings, full)
    return f"{fewer}, and {easier} Measured at step {settings['at']:,}. The paper's numbers are of the harder task."


def _maze_row(one: Trial, run: Any, settings: dict[str, Any]) -> dict[str, Any]:
    training, greedy = mazes.training_lengths(run), mazes.greedy_lengths(run)
    return {
        "part": "maze",
        "trial": one.id,
        "wall_density": mazes.kind_of(one).density,
        "method": one.label,
        "maze": one.seed,
        "training": mazes.known_at(training, settings["at"]),
        "greedy": mazes.known_at(greedy, settings["at"]),
        "greedy_at_the_end": mazes.known_at(greedy, settings["steps"]),
        **{name: mazes.known_at(run.points("eval", column), settings["at"]) for name, column in EXPECTATION.items()},
    }


def _cell_row(density: float, method: str, rows: Sequence[dict[str, Any]], steps: int) -> dict[str, Any]:
    mine = [row for row in rows if (row["wall_density"], row["method"]) == (density, method) and row["part"] == "maze"]
    mean, median = EXPECTED[density][method]
    row: dict[str, Any] = {
        "part": "cell",
        "wall_density": density,
        "method": method,
        "steps": steps,
        "mazes": len(mine),
        "paper_mean": mean,
        "paper_median": median,
    }
    for name in ("training", "greedy", "greedy_at_the_end", *EXPECTATION):
        row |= mazes.over_mazes(name, (one[name] for one in mine))
    return row


def _table(cells: Sequence[dict[str, Any]], settings: dict[str, Any]) -> output.Table:
    lines = [
        [
            f"{100 * row['wall_density']:.0f} %", row["method"], str(row["mazes"]),
            output.cell(row["paper_mean"]), output.cell(row["paper_median"]),
            *(mazes.shown(row, name) for name in (
                "training_mean", "training_median", "greedy_mean", "greedy_median", "greedy_at_the_end_median",
                *(f"{name}_median" for name in EXPECTATION),
            )),
        ]
        for row in cells
    ]  # fmt: skip
    header = (
        "walls", "method", "mazes", "paper, mean", "paper, median", "ours, mean", "ours, median", "greedy path, mean",
        "greedy path, median", "greedy path at the end, median", "Q of the greedy path, median",
        "discounted return that followed, median",
    )  # fmt: skip
    title = (
        f"Relative length of the latest training episode at step {settings['at']:,} of {settings['steps']:,} "
        "(95 % bootstrap intervals over mazes)"
    )
    return output.Table(title, header, lines)


def _draw(out: Path, cells: Sequence[dict[str, Any]]) -> None:
    """Mean and median as two panels; hollow is the paper, filled is ours with its interval over mazes."""
    figure, axes = plots.canvas(2, width=11.0, height=4.2, sharey=True)
    for ax, which in zip(axes, ("mean", "median")):
        for i, method in enumerate(METHODS):
            mine = [row for row in cells if row["method"] == method]
            at = np.arange(len(mine)) + 0.22 * (i - 1)
            colour, _ = mazes.LOOK[method]
            ours = np.array([row[f"training_{which}"] for row in mine], dtype=float)
            paper = np.array([row[f"paper_{which}"] for row in mine])
            low, high = (np.array([row[f"training_{which}_{end}"] for row in mine], dtype=float) for end in ("low", "high"))
            ax.vlines(at, low, high, color=colour, lw=1.6, alpha=0.6)
            ax.plot(at, paper, "D", ms=8, mfc="white", mec=colour, mew=1.6, ls="", label=f"{method}, paper")
            ax.plot(at, ours, "o", ms=8, color=colour, ls="", label=f"{method}, ours")
        ax.set_yscale("log")
        ax.set_yticks([1, 2, 5, 10, 20, 50], labels=["1", "2", "5", "10", "20", "50"])
        ax.minorticks_off()
        ax.set_ylim(0.8, 75)
        ax.set_xticks(range(len(DENSITIES)), labels=[_column_title(density, cells) for density in DENSITIES])
        ax.set_xlabel("wall density, mazes finished")
        ax.grid(False, axis="x")
        plots.title(ax, f"{which} over mazes")
    axes[0].set_ylabel("path / shortest")
    plots.legend(axes[1], loc="center left", bbox_to_anchor=(1.01, 0.5))
    plots.save(figure, out, ITEM.name)


def _column_title(density: float, cells: Sequence[dict[str, Any]]) -> str:
    counts = {row["mazes"] for row in cells if row["wall_density"] == density}
    many = "to ".join(dict.fromkeys(f"{count} " for count in (min(counts), max(counts))))
    return f"{100 * density:.0f} %\n{many}maze{'s' * (max(counts) != 1)}"


ALT = "Relative lengths by wall density and method: the paper's mean and median beside ours; the table has the numbers."
ITEM = Item.of(__name__, __doc__, ALT, SETTINGS, trials=trials, analyse=analyse, note=note)
