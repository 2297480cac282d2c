"""Figure 1: one stored episode, learned from its end or by uniform draws

The paper: updated from its end, the episode teaches the optimal path in 5 updates; uniform draws need more than 40 to be
nearly sure of it.

(a) the values after each of the first five updates; (b) the chance that the greedy path is optimal after n updates.
Uniform draws must meet the rewarded transition (1 in 5), later one of the two equal ones before it (2 in 5), later the
first (1 in 5): three waits, one after another. So E[N] = 5 + 2.5 + 5 = 12.5 and P(n) = 1 − (n/2)(4/5)ⁿ − (3/5)ⁿ.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Circle, FancyArrowPatch, Rectangle

from ebu.experiments import output, plots
from ebu.experiments.item import Item
from ebu.theory.mdp import is_optimal, optimal_values
from ebu.theory.tabular import BackwardReplay, UniformReplay, backward, constant
from ebu.theory.toys import episode, figure1_chain, figure1_episode

GAMMA = 0.9
UPDATES = 50
SETTINGS = {"quick": {"runs": 5_000}, "laptop": {"runs": 20_000}, "full": {"runs": 200_000}}
SECONDS = {"quick": 4, "laptop": 4, "full": 10}  # on one core

# The paper's words, and what they are exactly.
EXPECTED = {
    "backward_solved_at_update": 5,  # "just after 5 updates"
    "uniform_mean_updates": 12.5,  # derived
    "uniform_probability_at_40": 0.9973,  # "more than 40 transitions … with probability close to 1"
}


def probability_solved(n: int) -> float:
    """The chance that uniform draws have learned the optimal path after n updates."""
    return 1 - n / 2 * (4 / 5) ** n - (3 / 5) ** n


def run(budget: str, out: Path, seed: int = 0) -> list[dict[str, Any]]:
    runs = ITEM.at(budget)["runs"]
    shown, counted = np.random.default_rng(seed).spawn(2)
    values = _values_after_each_update(shown)
    solved = _updates_until_solved(runs, counted)
    curve = [
        {
            "part": "b",
            "updates": n,
            "backward": float(n >= EXPECTED["backward_solved_at_update"]),
            "uniform_exact": plots.number(probability_solved(n)),
            "uniform_simulated": plots.number((solved <= n).mean()),
        }
        for n in range(UPDATES + 1)
    ]
    summary = {
        "part": "summary",
        "runs": runs,
        "backward_solved_at_update": _backward_solved_at(),
        "uniform_mean_updates": plots.number(solved.mean()),
        "uniform_mean_updates_standard_error": plots.number(solved.std() / np.sqrt(runs)),
        "uniform_probability_at_40": plots.number(probability_solved(40)),
        "expected": EXPECTED,
    }
    rows = [*values, *curve, summary]
    _draw(out, values, curve)
    return output.write(ITEM, out, rows, tables(rows), budget=budget, seed=seed)


def note(budget: str) -> str:
    chosen, full = SETTINGS[budget]["runs"], SETTINGS["full"]["runs"]
    return f"Budget {budget}: {chosen:,} simulated runs instead of {full:,}; the exact numbers need none."


def tables(rows: list[dict[str, Any]]) -> list[output.Table]:
    summary = rows[-1]
    mean, error = summary["uniform_mean_updates"], summary["uniform_mean_updates_standard_error"]
    ours = f"{EXPECTED['uniform_mean_updates']:g} exactly, {mean:.2f} ± {error:.2f} simulated"
    lines = [
        ["updates until solved, from the end", "5", str(summary["backward_solved_at_update"])],
        ["updates until solved, uniform draws, mean", output.NOT_RUN, ours],
        ["chance after 40 uniform draws", "close to 1", f"{summary['uniform_probability_at_40']:.4f}"],
    ]
    return [output.Table("Learning the optimal path", ("", "paper", "ours"), lines)]


def _single_steps() -> list[Any]:
    """Transitions t1 … t5 of the stored episode, as episodes of one step."""
    whole = figure1_episode()
    return [
        episode(whole.observations[t : t + 2], whole.actions[t : t + 1], whole.rewards[t : t + 1], t == 4) for t in range(5)
    ]


def _values_after_each_update(rng: np.random.Generator) -> list[dict[str, Any]]:
    """Both tables after each of five updates: the episode from its end, and five uniform draws."""
    from_the_end, uniform = (BackwardReplay(4, 2, GAMMA, constant(1.0)) for _ in range(2))
    deep = {beta: backward(beta)(np.zeros((4, 2)), figure1_episode(), GAMMA) for beta in (0.5, 1.0)}
    steps = _single_steps()
    rows = []
    for update, drawn in enumerate(rng.integers(5, size=5), start=1):
        t = 5 - update
        from_the_end.finish(steps[t])
        uniform.finish(steps[drawn])
        rows.append(
            {
                "part": "a",
                "update": update,
                "transition": f"t{t + 1}",
                "backward": _named(from_the_end.q),
                "uniform_draw": f"t{drawn + 1}",
                "uniform": _named(uniform.q),
                "algorithm_2_target": {f"beta={beta}": plots.number(y[t]) for beta, y in deep.items()},
            }
        )
    return rows


def _named(q: np.ndarray) -> dict[str, float | None]:
    return {f"Q(s{s + 1},{'LR'[a]})": plots.number(q[s, a]) for s in range(3) for a in range(2) if q[s, a]}


def _backward_solved_at() -> int:
    best = optimal_values(figure1_chain(), GAMMA)
    learner = BackwardReplay(4, 2, GAMMA, constant(1.0))
    for update, step in enumerate(reversed(_single_steps()), start=1):
        learner.finish(step)
        if is_optimal(learner.q, best, states=range(3)):
            return update
    raise AssertionError("five backward updates did not solve the chain")


def _updates_until_solved(runs: int, rng: np.random.Generator) -> np.ndarray:
    """How many uniform updates each run needs, by running the learner."""
    whole = figure1_episode()
    counts = np.empty(runs, dtype=np.int64)
    for i in range(runs):
        learner = UniformReplay(4, 2, GAMMA, constant(1.0), rng=rng)
        steps = zip(whole.observations.tolist(), whole.actions.tolist(), whole.rewards.tolist())
        learner.memory = [
            (s, a, r, following, following == 3) for (s, a, r), following in zip(steps, whole.observations[1:].tolist())
        ]
        n = 0
        while not learner.q[0, 1] > 0:  # the first step learns last, from the second, which learned from the third
            learner.update()
            n += 1
        counts[i] = n
    return counts


def _draw(out: Path, values: list[dict[str, Any]], curve: list[dict[str, Any]]) -> None:
    figure, (left, right) = plots.canvas(2, width=11.5, height=4.4, width_ratios=[1.15, 1])
    _draw_chain(left, values)
    n = [row["updates"] for row in curve]
    right.step(n, [row["backward"] for row in curve], where="post", color=plots.BLUE, lw=2.2, label="backward (EBU)")
    right.plot(n, [row["uniform_exact"] for row in curve], color=plots.VERMILION, lw=2.2, label="uniform, exact")
    right.plot(
        n[::2], [row["uniform_simulated"] for row in curve][::2], "o", ms=4.5, mfc="white", mec=plots.VERMILION,
        label="uniform, simulated",
    )  # fmt: skip
    right.axvline(40, color=plots.GREY, lw=0.9, ls=":")
    right.annotate(
        f"n = 40: {probability_solved(40):.4f}", (40, probability_solved(40)), (27, 0.80), fontsize=8.5,
        color=plots.INK, arrowprops={"arrowstyle": "-", "color": plots.GREY},
    )  # fmt: skip
    right.set_xlabel("updates with sample transitions")
    right.set_ylabel("P(optimal path learned)")
    right.set_ylim(-0.02, 1.04)
    plots.legend(right, loc="lower right")
    plots.title(right, "(b) The optimal path after n updates")
    plots.save(figure, out, ITEM.name)


def _draw_chain(ax: Axes, values: list[dict[str, Any]]) -> None:
    """The chain on top, below it what each method's table holds after each update."""
    ax.set_axis_off()
    ax.set_xlim(-0.7, 6.7)
    ax.set_ylim(-3.75, 1.5)
    xs = [0.4, 2.2, 4.0, 5.8]
    arrow: dict[str, Any] = {"arrowstyle": "-|>", "mutation_scale": 12, "lw": 1.4, "shrinkA": 14, "shrinkB": 14}
    arcs = [  # from, to, curvature, label, height of the label
        (0, 1, -0.25, "⑤", 0.98), (1, 2, -0.25, "② ④", 0.98), (2, 1, -0.25, "③", 0.02), (2, 3, -0.25, "①  r = 1", 0.98),
    ]  # fmt: skip
    for a, b, bend, label, y in arcs:
        ax.add_patch(FancyArrowPatch((xs[a], 0.5), (xs[b], 0.5), connectionstyle=f"arc3,rad={bend}", color=plots.INK, **arrow))
        ax.text((xs[a] + xs[b]) / 2, y, label, ha="center", va="center", fontsize=9.5, color=plots.INK)
    for i, x in enumerate(xs):
        ax.add_patch(Circle((x, 0.5), 0.28, fc="#EAF2F8" if i < 3 else "#FCE5DA", ec=plots.INK, lw=1.2, zorder=3))
        ax.text(x, 0.49, f"$s_{i + 1}$", ha="center", va="center", fontsize=11, zorder=4)
    for left, name, drawn, colour in (
        (0.15, "backward", "transition", plots.BLUE),
        (3.75, "uniform", "uniform_draw", plots.VERMILION),
    ):
        label = "from the end" if name == "backward" else "uniform draws (one seed)"
        ax.text(left + 0.55, -0.5, label, fontsize=9.5, color=colour, fontweight="bold")
        for s in range(3):
            ax.text(left + 0.9 + 0.75 * s, -0.9, f"$Q(s_{s + 1},\\rightarrow)$", ha="center", fontsize=8.5, color=plots.INK)
        for row in values:
            y = -1.0 - 0.5 * row["update"]
            ax.text(left + 0.3, y, row[drawn], ha="center", va="center", fontsize=9, color=plots.GREY)
            for s in range(3):
                value = row[name].get(f"Q(s{s + 1},R)", 0.0)
                corner = (left + 0.55 + 0.75 * s, y - 0.21)
                ax.add_patch(Rectangle(corner, 0.7, 0.42, fc=colour, alpha=0.06 + 0.4 * value, lw=0))
                text = f"{value:.2f}" if value else "0"
                ax.text(corner[0] + 0.35, y - 0.01, text, ha="center", va="center", fontsize=9, color=plots.INK)
    ax.text(-0.35, -0.9, "update", ha="center", fontsize=8.5, color=plots.GREY)
    for row in values:
        ax.text(-0.35, -1.0 - 0.5 * row["update"], str(row["update"]), ha="center", va="center", fontsize=9)
    plots.title(ax, f"(a) One stored episode, numbered from its end (γ = {GAMMA})")


ALT = (
    "Left: a chain of four states and the values after each of five updates, from the end and by uniform draws. Right: "
    "the chance that the optimal path is learned after n updates, a step at 5 for backward, a slow rise for uniform "
    "draws."
)
ITEM = Item.of(__name__, __doc__, ALT, SETTINGS, run=run, seconds=SECONDS, note=note, tables=tables)
