"""Theorem 1: deterministic MDPs

The paper: the episodic backward operator contracts by γ for every β and schedule, so EBU converges to Q*; and β makes an
overestimation fade exponentially.

Three panels. The measured modulus of H on random MDPs, random schedules and random pairs of tables never exceeds γ.
‖Q − Q*‖ falls for EBU as for its rivals under Robbins–Monro steps. An overestimation planted n steps ahead arrives as
(βγ)ⁿ of itself, which is what the paper means by β "exponentially decreasing the overestimation error".
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ebu.experiments import output, plots
from ebu.experiments.item import Item
from ebu.theory import tabular
from ebu.theory.mdp import optimal_values
from ebu.theory.operator import PathSet, uniform_behaviour
from ebu.theory.tabular import (
    BackwardReplay,
    EpisodeLearner,
    Simulator,
    StepSize,
    TabularLearner,
    UniformReplay,
    robbins_monro,
)
from ebu.theory.toys import episode, random_mdp

GAMMA = 0.9
BETAS = (0.0, 0.25, 0.5, 0.75, 1.0)
SETTINGS: dict[str, dict[str, int]] = {
    "quick": {"operators": 20, "mdps": 4, "episodes": 300},
    "laptop": {"operators": 200, "mdps": 20, "episodes": 2_000},
    "full": {"operators": 1_000, "mdps": 50, "episodes": 10_000},
}
SECONDS = {"quick": 6, "laptop": 45, "full": 540}  # on one core

STATES, ACTIONS, HORIZON = 10, 3, 30
PLANTED_ERROR, CHAIN = 1.0, 12

Common = tuple[int, int, float, StepSize]
LEARNERS: dict[str, Callable[[Common, np.random.Generator], TabularLearner]] = {
    "EBU β=1": lambda common, rng: EpisodeLearner(*common, rule=tabular.backward(1.0)),
    "EBU β=0.5": lambda common, rng: EpisodeLearner(*common, rule=tabular.backward(0.5)),
    "Algorithm 1": lambda common, rng: BackwardReplay(*common),
    "Watkins Q(1)": lambda common, rng: EpisodeLearner(*common, rule=tabular.watkins(1.0)),
    "Retrace(1)": lambda common, rng: EpisodeLearner(*common, rule=tabular.retrace(1.0)),
    "Q*(0.05)": lambda common, rng: EpisodeLearner(*common, rule=tabular.q_star(0.05)),
    "uniform replay": lambda common, rng: UniformReplay(*common, rng=rng),
    "Monte-Carlo": lambda common, rng: EpisodeLearner(*common, rule=tabular.n_step("episode")),
}


def run(budget: str, out: Path, seed: int = 0) -> list[dict[str, Any]]:
    settings = ITEM.at(budget)
    rows = [
        *_moduli(settings["operators"], np.random.default_rng(seed)),
        *_convergence(settings["mdps"], settings["episodes"], seed),
        *_fading(),
    ]
    _draw(out, rows)
    return output.write(ITEM, out, rows, tables(rows), budget=budget, seed=seed)


def note(budget: str) -> str:
    chosen, full = SETTINGS[budget], SETTINGS["full"]
    return (
        f"Budget {budget}: {chosen['operators']:,} operators, {chosen['mdps']} MDPs and {chosen['episodes']:,} episodes "
        f"instead of {full['operators']:,}, {full['mdps']} and {full['episodes']:,}."
    )


def tables(rows: list[dict[str, Any]]) -> list[output.Table]:
    operators = [
        [f"{row['beta']:g}", f"at most {row['bound']:g}", f"{row['largest_modulus']:.4f}", f"{row['fixed_point_error']:.1e}"]
        for row in rows
        if row["part"] == "operator"
    ]
    fading = [
        [f"{row['beta']:g}", f"{row['beta'] * GAMMA:.4g}", f"{row['left_after_n_steps'][1]:.4g}"]
        for row in rows
        if row["part"] == "overestimation"
    ]
    errors = [
        [row["method"], f"{row['median_error'][-1]:.4f}", f"{row['largest_error_at_end']:.4f}"]
        for row in rows
        if row["part"] == "convergence"
    ]
    return [
        output.Table("The operator", ("β", "modulus, paper", "largest found", "‖HQ* − Q*‖"), operators),
        output.Table("Left of an overestimation after one step back", ("β", "βγ", "measured"), fading),
        output.Table("‖Q − Q*‖ / ‖Q*‖ at the end", ("method", "median of MDPs", "largest"), errors),
    ]


def _moduli(operators: int, rng: np.random.Generator) -> list[dict[str, Any]]:
    """max ‖HQ₁ − HQ₂‖ / ‖Q₁ − Q₂‖ and ‖HQ* − Q*‖ for each β, over MDPs with and without cycles."""
    moduli = np.empty((len(BETAS), operators))
    fixed = np.empty_like(moduli)
    for i in range(operators):
        mdp = random_mdp(rng, 6, 2, acyclic=bool(i % 2))
        paths = PathSet.of(mdp, uniform_behaviour(2), horizon=6).rescheduled(rng)
        best = optimal_values(mdp, GAMMA)
        first = rng.normal(size=paths.shape) * rng.exponential(5)
        # Tables that differ by a constant are moved apart the most, tables at random far less; try what lies between.
        second = first + 1 + rng.normal(size=paths.shape) * rng.choice([0.0, 0.1, 1.0])
        for j, beta in enumerate(BETAS):
            moved = np.abs(paths.apply(first, beta, GAMMA) - paths.apply(second, beta, GAMMA)).max()
            moduli[j, i] = moved / np.abs(first - second).max()
            fixed[j, i] = np.abs(paths.apply(best, beta, GAMMA) - best).max()
    return [
        {
            "part": "operator",
            "beta": beta,
            "operators": operators,
            "median_modulus": plots.number(np.median(moduli[j])),
            "largest_modulus": plots.number(moduli[j].max()),
            "bound": GAMMA,
            "fixed_point_error": plots.number(fixed[j].max()),
        }
        for j, beta in enumerate(BETAS)
    ]


def _convergence(mdps: int, episodes: int, seed: int) -> list[dict[str, Any]]:
    """‖Q − Q*‖ relative to ‖Q*‖ on random deterministic MDPs with cycles, uniformly random behaviour."""
    at = np.unique(np.geomspace(1, episodes, 40).astype(int))
    rows = []
    for name, build in LEARNERS.items():
        errors = np.empty((mdps, len(at)))
        for i in range(mdps):
            world, acting, learning = np.random.default_rng([seed, i]).spawn(3)  # the same for every learner
            mdp = random_mdp(world, STATES, ACTIONS, acyclic=False)
            best = optimal_values(mdp, GAMMA)
            learner = build((STATES, ACTIONS, GAMMA, robbins_monro()), learning)
            simulator = Simulator(mdp, acting, 1.0, HORIZON)
            for k in range(1, episodes + 1):
                simulator.episode(learner)
                if k in at:
                    errors[i, np.searchsorted(at, k)] = np.abs(learner.q - best).max() / np.abs(best).max()
        rows.append(
            {
                "part": "convergence",
                "method": name,
                "mdps": mdps,
                "episodes": at.tolist(),
                "median_error": [plots.number(e, 6) for e in np.median(errors, axis=0)],
                "largest_error_at_end": plots.number(errors[:, -1].max(), 6),
            }
        )
    return rows


def _fading() -> list[dict[str, Any]]:
    """How much of an overestimated alternative, n steps ahead, is left in a target; the path itself is greedy."""
    path = episode(range(CHAIN + 3), [1] * (CHAIN + 2), [0.0] * (CHAIN + 2))
    rows = []
    for beta in BETAS[1:]:
        q = np.zeros((CHAIN + 3, 2))
        q[:, 1] = 1.0
        clean = tabular.backward(beta)(q, path, GAMMA)
        q[CHAIN + 1, 0] = 1.0 + PLANTED_ERROR
        planted = (tabular.backward(beta)(q, path, GAMMA) - clean)[: CHAIN + 1]
        left = planted[::-1] / planted[-1]
        rows.append(
            {
                "part": "overestimation",
                "beta": beta,
                "left_after_n_steps": [plots.number(v) for v in left],
                "expected": [plots.number((beta * GAMMA) ** n) for n in range(CHAIN + 1)],
            }
        )
    return rows


LOOK = {
    "EBU β=1": (plots.BLUE, "-"),
    "EBU β=0.5": (plots.SKY, "-"),
    "Algorithm 1": (plots.GREEN, "-"),
    "Watkins Q(1)": (plots.VERMILION, "--"),
    "Retrace(1)": (plots.ORANGE, ":"),
    "Q*(0.05)": (plots.GREY, "-."),
    "uniform replay": (plots.INK, "-"),
    "Monte-Carlo": (plots.PINK, "-"),
}


def _draw(out: Path, rows: list[dict[str, Any]]) -> None:
    figure, (left, middle, right) = plots.canvas(3, width=13.5, height=4.3, width_ratios=[0.8, 1.2, 1])
    operators = [row for row in rows if row["part"] == "operator"]
    left.axhline(GAMMA, color=plots.GREY, lw=1)
    left.text(0.98, GAMMA + 0.015, f"γ = {GAMMA}", ha="right", fontsize=9, color=plots.INK)
    for key, colour, label in (("largest_modulus", plots.BLUE, "largest"), ("median_modulus", plots.SKY, "median")):
        left.plot([row["beta"] for row in operators], [row[key] for row in operators], "o-", color=colour, label=label)
    left.set_ylim(0, 1.0)
    plots.legend(left, loc="lower left", title="over random MDPs,\nschedules and tables", title_fontsize=8.5)
    left.set_xlabel("β")
    left.set_ylabel("‖HQ₁ − HQ₂‖ / ‖Q₁ − Q₂‖")
    plots.title(left, "The operator contracts")

    for row in (row for row in rows if row["part"] == "convergence"):
        colour, line = LOOK[row["method"]]
        middle.loglog(row["episodes"], row["median_error"], line, color=colour, lw=1.9, label=row["method"])
    middle.set_xlabel("episodes of random behaviour")
    middle.set_ylabel("‖Q − Q*‖ / ‖Q*‖, median of MDPs")
    plots.legend(middle, loc="lower left")
    plots.title(middle, "Learners converge; Monte-Carlo does not")

    for row, colour in zip((r for r in rows if r["part"] == "overestimation"), plots.SEQUENCE):
        n = range(CHAIN + 1)
        right.semilogy(n, row["expected"], color=colour, lw=1.8, label=f"(βγ)ⁿ, β = {row['beta']:g}")
        right.semilogy(n, row["left_after_n_steps"], "o", ms=4.5, mfc="white", mec=colour)
    right.set_ylim(1e-6, 2)
    right.set_xlabel("n, steps before the overestimated state")
    right.set_ylabel("share of the error left in the target")
    plots.legend(right, loc="lower left")
    plots.title(right, "A planted overestimation fades")
    plots.save(figure, out, ITEM.name)


ALT = (
    "Left: the measured modulus of the operator by β, never above γ. Middle: errors of tabular learners falling over "
    "episodes. Right: a planted overestimation fading like (βγ) to the n."
)
ITEM = Item.of(__name__, __doc__, ALT, SETTINGS, run=run, seconds=SECONDS, note=note, tables=tables)
