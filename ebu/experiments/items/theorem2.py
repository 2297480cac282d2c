"""Theorem 2: stochastic MDPs and the largest safe β

The paper: below two printed bounds on β, EBU converges in stochastic MDPs too. As printed this is false: two of the MDPs
here are biased where both bounds allow every β. The corrected bounds hold.

With Q* in the table, the expected target of the first step of four small MDPs, over every path. Two of them are biased
exactly beyond the printed bounds, 2/7 and 2/5. Two are counterexamples, where the printed bounds allow every β: a coin
tossed one step late (biased beyond 0.2) and two tied coins (biased for every β > 0). On random stochastic MDPs we count
how often the printed bounds allow a biased β, and list the bounds of Gymnasium's toy-text environments.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from ebu.experiments import output, plots
from ebu.experiments.item import Item
from ebu.theory.bound import Bounds, bound_for, bounds
from ebu.theory.mdp import MDP, optimal_values
from ebu.theory.operator import PathSet
from ebu.theory.toys import TOYS, random_mdp

SETTINGS: dict[str, dict[str, int]] = {"quick": {"mdps": 200}, "laptop": {"mdps": 1_000}, "full": {"mdps": 10_000}}
SECONDS = {"quick": 5, "laptop": 8, "full": 40}  # on one core
RANDOM_GAMMA = 0.95
BETAS = np.linspace(0, 1, 201)

# The largest unbiased β by hand, and the bias at β = 1 when the stored episode always took the noisy arm.
EXPECTED: dict[str, dict[str, Any]] = {
    "noisy-suboptimal-arm": {"threshold": 2 / 7, "bias_at_1": 0.15, "arm": 1, "printed": 2 / 7},
    "noisy-optimal-arm": {"threshold": 0.4, "bias_at_1": 0.15, "arm": 0, "printed": 0.4},
    "example-a": {"threshold": 0.2, "bias_at_1": 0.2, "arm": 0, "printed": None},
    "example-b": {"threshold": 0.0, "bias_at_1": 0.25, "arm": 0, "printed": None},
}
TOY_TEXT = ("FrozenLake-v1", "FrozenLake8x8-v1", "CliffWalking-v1", "CliffWalkingSlippery-v1", "Taxi-v4", "Taxi-v3")


def run(budget: str, out: Path, seed: int = 0) -> list[dict[str, Any]]:
    settings = ITEM.at(budget)
    rows = [_bias_row(name) for name in EXPECTED]
    rows += _random_rows(settings["mdps"], np.random.default_rng(seed))
    registered = [name for name in TOY_TEXT if name in gymnasium.registry]
    rows += [{"part": "bounds", **_bound_row(bound_for(name))} for name in (*EXPECTED, *registered)]
    _draw(out, rows)
    return output.write(ITEM, out, rows, tables(rows), budget=budget, seed=seed)


def note(budget: str) -> str:
    return f"Budget {budget}: {SETTINGS[budget]['mdps']:,} random MDPs instead of {SETTINGS['full']['mdps']:,}."


def bias(mdp: MDP, beta: float, arm: int) -> float:
    """E[y] − Q* of the first step when the behaviour always takes ``arm``, γ = 1, over every path."""
    best = optimal_values(mdp, 1.0)
    paths = PathSet.of(mdp, lambda state: np.eye(mdp.actions)[arm], horizon=mdp.states)
    return float((paths.apply(best, beta, 1.0) - best)[0, 0])


def _bias_row(name: str) -> dict[str, Any]:
    expected = EXPECTED[name]
    mdp, arm = TOYS[name](), expected["arm"]
    curve = [bias(mdp, float(beta), arm) for beta in BETAS]
    unbiased = [beta for beta, b in zip(BETAS, curve) if b < 1e-12]
    return {
        "part": "bias",
        "mdp": name,
        "beta": [plots.number(beta, 4) for beta in BETAS],
        "bias": [plots.number(b) for b in curve],
        "largest_unbiased_beta_on_grid": plots.number(max(unbiased), 4),
        "expected": expected,
    }


def _bound_row(found: Bounds) -> dict[str, Any]:
    return {
        "mdp": found.name,
        "gamma": found.gamma,
        "deterministic": found.deterministic,
        "printed_1": plots.number(found.printed_1, 6),
        "printed_2": plots.number(found.printed_2, 6),
        "corrected_1": plots.number(found.corrected_1, 6),
        "corrected_2": plots.number(found.corrected_2, 6),
        "largest_safe_beta": plots.number(found.exact, 5),
        "random_ties": found.random_ties,
    }


def _random_rows(mdps: int, rng: np.random.Generator) -> list[dict[str, Any]]:
    """Bounds of random acyclic MDPs of five states, two actions and two outcomes, and how often each kind errs."""
    rows: list[dict[str, Any]] = []
    for _ in range(mdps):
        found = bounds(random_mdp(rng, 5, 2, 2), RANDOM_GAMMA)
        rows.append(
            {
                "part": "random",
                "printed": plots.number(min(1.0, found.printed), 5),
                "corrected": plots.number(min(1.0, found.corrected), 5),
                "largest_safe_beta": plots.number(found.exact, 5),
            }
        )
    wrong = sum(row["printed"] > row["largest_safe_beta"] + 1e-4 for row in rows)
    unsafe = sum(row["corrected"] > row["largest_safe_beta"] + 1e-4 for row in rows)
    summary = {
        "part": "random summary",
        "mdps": mdps,
        "printed_bound_allows_a_biased_beta": wrong,
        "corrected_bound_allows_a_biased_beta": unsafe,
        "median_printed": plots.number(np.median([row["printed"] for row in rows]), 4),
        "median_corrected": plots.number(np.median([row["corrected"] for row in rows]), 4),
        "median_largest_safe_beta": plots.number(np.median([row["largest_safe_beta"] for row in rows]), 4),
    }
    return [*rows, summary]


def _bounds_table(rows: list[dict[str, Any]]) -> output.Table:
    def cell(bound: float | None) -> str:
        return "none" if bound is None else f"{bound:.4g}"

    keys = ("printed_1", "printed_2", "corrected_1", "corrected_2")
    header = ("MDP", "γ", "printed (1)", "printed (2)", "corrected (1)", "corrected (2)", "largest safe β")
    lines = [
        [row["mdp"], f"{row['gamma']:g}", *(cell(row[key]) for key in keys), f"{row['largest_safe_beta']:.4g}"]
        for row in rows
        if row["part"] == "bounds"
    ]
    return output.Table("Bounds on β: as printed, corrected, and the largest that is safe", header, lines)


def table(rows: list[dict[str, Any]]) -> str:
    """The bounds of the named MDPs for the documentation."""
    return _bounds_table(rows).markdown()


def tables(rows: list[dict[str, Any]]) -> list[output.Table]:
    summary = next(row for row in rows if row["part"] == "random summary")
    counts = [
        [f"{which} bound allows a biased β", f"{summary[f'{which}_bound_allows_a_biased_beta']:,} of {summary['mdps']:,}"]
        for which in ("printed", "corrected")
    ]
    return [_bounds_table(rows), output.Table("Random stochastic MDPs", ("", "MDPs"), counts)]


LOOK = {
    "noisy-suboptimal-arm": (plots.BLUE, "noisy suboptimal arm", "2/7"),
    "noisy-optimal-arm": (plots.GREEN, "noisy optimal arm", "2/5"),
    "example-a": (plots.VERMILION, "A: coin tossed one step late", "1/5"),
    "example-b": (plots.PINK, "B: two tied coins", "0"),
}


def _draw(out: Path, rows: list[dict[str, Any]]) -> None:
    figure, (left, right) = plots.canvas(2, width=11.5, height=4.5)
    for row in (row for row in rows if row["part"] == "bias"):
        colour, label, threshold = LOOK[row["mdp"]]
        printed = "none printed" if row["expected"]["printed"] is None else "as printed"
        left.plot(row["beta"], row["bias"], color=colour, lw=2.2, label=f"{label}: β ≤ {threshold} ({printed})")
        left.plot(row["expected"]["threshold"], 0, "o", ms=7, color=colour, mec="white", zorder=4, clip_on=False)
    left.set_xlabel("β")
    left.set_ylabel("E[y] − Q* of the first step, Q* in the table")
    left.set_ylim(-0.004, None)
    plots.legend(left, loc="upper left")
    plots.title(left, "The target is biased beyond a threshold")

    points = [row for row in rows if row["part"] == "random"][:1_000]
    exact = np.array([row["largest_safe_beta"] for row in points])
    for key, colour, marker in (("printed", plots.VERMILION, "x"), ("corrected", plots.BLUE, "o")):
        bound = np.array([row[key] for row in points])
        right.plot(exact, bound, marker, ms=4, mew=1.1, color=colour, mfc="none", alpha=0.55, ls="", label=key)
    right.plot([0, 1], [0, 1], color=plots.INK, lw=1)
    right.fill_between([0, 1], [0, 1], 1, color=plots.VERMILION, alpha=0.07, lw=0)
    right.text(0.03, 0.8, "a biased β is allowed", fontsize=9, color=plots.VERMILION)
    right.set_xlabel("largest safe β (exact)")
    right.set_ylabel("bound, at most 1")
    plots.legend(right, loc="upper left", bbox_to_anchor=(0.0, 0.95))
    summary = next(row for row in rows if row["part"] == "random summary")
    share = summary["printed_bound_allows_a_biased_beta"] / summary["mdps"]
    plots.title(right, f"Random MDPs: the printed bound errs on {share:.0%}")
    plots.save(figure, out, ITEM.name)


ALT = (
    "Left: the bias of the first step's target against β in four small MDPs, zero up to a threshold. Right: printed and "
    "corrected bounds of random MDPs against the largest safe β; printed ones lie above the diagonal."
)
ITEM = Item.of(__name__, __doc__, ALT, SETTINGS, run=run, seconds=SECONDS, note=note, tables=tables)
