"""Appendix F: a chain with exits, with and without cutting traces

The paper: methods that cut traces (Q(λ), Retrace) pass the far reward on slowly where many branches are suboptimal; Q*(λ)
within its bound hardly passes it on at all; EBU takes the maximum at every branch. No numbers are printed.

The paper draws the chain and prints no rewards. Ours fall along the chain and the far end pays most (r_i = n − i,
r_n = n), γ = 1, α = 1, each method computes an episode's targets from the table as it was. We count episodes until the
greedy action is optimal in every state, whether it stays so, and by how much a value ever exceeds Q*.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ebu.experiments import output, plots
from ebu.experiments.item import Item
from ebu.theory.mdp import is_optimal, optimal_values
from ebu.theory.tabular import EpisodeLearner, EpisodeRule, backward, constant, n_step, q_star, retrace, watkins
from ebu.theory.toys import ONWARD, branching_chain, branching_episodes, branching_rewards

SETTINGS: dict[str, dict[str, Any]] = {
    budget: {"lengths": tuple(range(3, 13)), "passes": 8} for budget in ("quick", "laptop", "full")
}
SECONDS = {"quick": 4, "laptop": 4, "full": 4}  # on one core

# λ of Q*(λ): "within its bound" as one would choose it for γ = 0.99, (1 − γ) / 2γ = 0.00505. For this chain's γ = 1 the
# bound is 0, so even that is beyond it.
METHODS: dict[str, Callable[[], EpisodeRule]] = {
    "EBU β=1": lambda: backward(1.0),
    "Q-learning": lambda: n_step(1),
    "Watkins Q(1)": lambda: watkins(1.0),
    "Retrace(1)": lambda: retrace(1.0),
    "Q*(0.005)": lambda: q_star(0.005),
    "Q*(1)": lambda: q_star(1.0),
    "Monte-Carlo": lambda: n_step("episode"),
}

# Derived, since the paper gives a picture and an argument only.
EXPECTED = {
    n: dict(zip(("EBU β=1", "Watkins Q(1)", "Q*(0.005)", "Q*(1)"), counts))
    for n, counts in {3: (3, 5, 5, 3), 5: (5, 12, 12, 5), 8: (8, 24, 24, 8), 12: (12, 44, 44, 12)}.items()
}
SHOWN = 5  # the chain whose first value is drawn over time


def run(budget: str, out: Path, seed: int = 0) -> list[dict[str, Any]]:
    """Nothing here is random; ``seed`` is taken so that every item is called alike."""
    settings = ITEM.at(budget)
    rows = []
    for n in settings["lengths"]:
        for method, rule in METHODS.items():
            rows.append(_row(n, method, rule(), settings["passes"] * n))
    _draw(out, rows)
    return output.write(ITEM, out, rows, tables(rows), budget=budget, seed=seed)


def tables(rows: list[dict[str, Any]]) -> list[output.Table]:
    """By method, for the lengths that were also worked out by hand."""

    def cell(n: int, method: str) -> str:
        row = next(row for row in rows if (row["n"], row["method"]) == (n, method))
        found, expected = row["episodes_until_optimal"], row["expected"]
        return f"{found}" + ("" if expected is None else f" (by hand: {expected})")

    lines = [[method, *(cell(n, method) for n in EXPECTED)] for method in METHODS]
    header = ("method", *(f"n = {n}" for n in EXPECTED))
    return [output.Table("Episodes until the greedy policy is optimal", header, lines)]


def _row(n: int, method: str, rule: EpisodeRule, episodes: int) -> dict[str, Any]:
    rewards = branching_rewards(n)
    mdp = branching_chain(rewards)
    best, stored = optimal_values(mdp, 1.0), branching_episodes(rewards)
    learner = EpisodeLearner(mdp.states, mdp.actions, 1.0, constant(1.0), rule=rule)
    optimal, first_value, excess = [], [], 0.0
    for k in range(episodes):
        learner.finish(stored[k % n])
        optimal.append(is_optimal(learner.q, best))
        first_value.append(float(learner.q[0, ONWARD]))
        excess = max(excess, float((learner.q - best).max()))
    solved = optimal.index(True) + 1 if any(optimal) else None
    return {
        "n": n,
        "method": method,
        "episodes_until_optimal": solved,
        "expected": EXPECTED.get(n, {}).get(method),
        "stays_optimal": solved is not None and all(optimal[solved - 1 :]),
        "largest_overestimation": plots.number(excess),
        "largest_final_error": plots.number(np.abs(learner.q - best).max()),
        "first_value": [plots.number(v) for v in first_value] if n == SHOWN else None,
    }


LOOK = {
    "EBU β=1": (plots.BLUE, "o", "-"),
    "Q*(1)": (plots.ORANGE, "s", "--"),
    "Monte-Carlo": (plots.PINK, "D", ":"),
    "Watkins Q(1)": (plots.VERMILION, "o", "-"),
}


def _draw(out: Path, rows: list[dict[str, Any]]) -> None:
    figure, (left, right) = plots.canvas(2, width=11.5, height=4.4)
    together: dict[tuple[int | None, ...], list[str]] = {}  # methods that need exactly the same counts share a line
    for method in METHODS:
        mine = [row for row in rows if row["method"] == method]
        remark = "" if all(row["stays_optimal"] for row in mine) else " (forgets again)"
        remark += " (overestimates)" if any(row["largest_overestimation"] for row in mine) else ""
        together.setdefault(tuple(row["episodes_until_optimal"] for row in mine), []).append(method + remark)
    lengths = sorted({row["n"] for row in rows})
    for (counts, methods), (colour, y, x) in zip(together.items(), ((plots.BLUE, 0.04, 0.97), (plots.VERMILION, 0.97, 0.04))):
        left.plot(lengths, np.array(counts, dtype=float), "o-", ms=5, lw=2, color=colour)
        inside: dict[str, Any] = {"ha": "right", "va": "bottom"} if x > 0.5 else {"ha": "left", "va": "top"}
        left.text(x, y, "\n".join(methods), transform=left.transAxes, fontsize=9, color=colour, linespacing=1.35, **inside)
    left.set_xlabel("n, episodes in memory")
    left.set_ylabel("episodes until the greedy policy is optimal")
    left.set_ylim(-12, None)
    left.set_yticks(range(0, 50, 10))
    plots.title(left, "Learning from the n episodes in turn")

    for method in ("Q*(1)", "Monte-Carlo", "Watkins Q(1)", "EBU β=1"):
        colour, marker, line = LOOK[method]
        row = next(row for row in rows if row["method"] == method and row["n"] == SHOWN)
        values = row["first_value"][: 4 * SHOWN]
        right.plot(range(1, len(values) + 1), values, line, marker=marker, ms=4, color=colour, lw=1.8, label=method)
    right.axhline(SHOWN, color=plots.GREY, lw=1)
    right.text(0.3, SHOWN + 0.12, "Q*", fontsize=9, color=plots.GREY)
    right.set_xlabel("episodes learned from")
    right.set_ylabel("$Q(s_1, s_2)$")
    right.set_xticks(range(0, 4 * SHOWN + 1, SHOWN))
    plots.legend(right, loc="upper right")
    plots.title(right, f"The value of going on, n = {SHOWN}")
    plots.save(figure, out, ITEM.name)


ALT = (
    "Left: episodes until the greedy policy is optimal, by length of the chain; EBU needs n, methods that cut traces many "
    "more. Right: the value of going on from the first state, episode by episode."
)
ITEM = Item.of(__name__, __doc__, ALT, SETTINGS, run=run, seconds=SECONDS, tables=tables)
