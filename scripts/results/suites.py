"""What the suites' rows say: their aggregates, and claims of the paper that they speak about."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
from scipy.stats import norm

from ebu.experiments import output, plots
from ebu.experiments.items import find_item
from ebu.experiments.suites.tasks import AS_THEY_ARE, DQN, EBU_HALF, EBU_ONE
from scripts.results.claims import CERTAIN, Claim, ahead, verdict
from scripts.results.tree import Row, Tree, several

TITLES = {"minatar": "MinAtar", "minigrid": "MiniGrid", "delay": "MinAtar with all rewards at the episode's end"}
PRINTED = 0.10  # the paper's median over games of EBU's steps over DQN's
BETAS = {EBU_HALF: 0.5, EBU_ONE: 1.0}
COLUMNS = {"minatar": "MinAtar", "minigrid": "MiniGrid", "delay": "MinAtar, late rewards"}


def aggregates(tree: Tree) -> Iterator[tuple[str, list[Row]]]:
    """Suite → the methods that have a run of every task, by the area under their curves; undelayed games are MinAtar's."""
    for name in TITLES:
        full = find_item(name).settings["full"]["scale"]["steps"]
        rows = [row for row in tree.item_rows(name, "aggregate") if row["steps"] == full and row["area_iqm"] is not None]
        for group in dict.fromkeys(row["group"] for row in rows if row["group"] != AS_THEY_ARE):
            yield name, sorted((row for row in rows if row["group"] == group), key=lambda row: -row["area_iqm"])


def side_by_side(tree: Tree) -> str:
    """A table of every method that has finished a suite, with its numbers in each; nothing without rows."""
    suites = {name: {row["method"]: row for row in rows} for name, rows in aggregates(tree)}
    if not suites:
        return ""
    methods = dict.fromkeys(method for rows in suites.values() for method in rows)
    header = ["method", *(f"{COLUMNS[name]}: {what}" for name in suites for what in ("steps", "area", "last"))]
    lines = [[method, *(cell for rows in suites.values() for cell in _cells(rows.get(method)))] for method in methods]
    return plots.markdown(header, lines)


def columns_in_full(tree: Tree) -> str:
    return (
        "Scores are normalised: 0 is random play, 1 the best mean of a method (MiniGrid: a return of 1). Steps: environment "
        "steps to the first evaluation at or above a quarter, a half and three quarters of that, over DQN's; below 1 where a "
        "method needs fewer (geometric mean over tasks and thresholds of ratios of medians; 95 % bootstrap interval over "
        "seeds: other tasks may differ more). A method that does not reach a threshold counts with twice the steps of a run, "
        "DQN with those of the run; in square brackets how many thresholds are left out since neither reaches them. Area: "
        "under the learning curve; last: the last evaluation; both: interquartile means over tasks and seeds. Late rewards: "
        "all at the episode's end. n and λ are the best of three values on MinAtar's Breakout and Space Invaders, partly by "
        f"the same runs (`ebu reproduce values`); both β are shown. {_commands(tree)}."
    )


def _commands(tree: Tree) -> str:
    return "; ".join(f"`ebu reproduce {name} --budget laptop` ({_runs(rows)})" for name, rows in aggregates(tree))


def _cells(row: Row | None) -> list[str]:
    if row is None:
        return ["–"] * 3
    left_out = row["steps_over_dqn_left_out"]
    steps = output.row_with_interval(row, "steps_over_dqn") + (f" [{left_out}]" if left_out else "")
    return ["1" if row["method"] == DQN else steps, *(f"{row[name]:.2f}" for name in ("area_iqm", "final_iqm"))]


def _runs(rows: Collection[Row]) -> str:
    fewest, most = (choose(row["runs"] for row in rows) for choose in (min, max))
    return f"{fewest} runs a method" if fewest == most else f"{fewest} to {most} runs a method"


def suite_claims(tree: Tree) -> Iterator[Claim]:
    yield from sample_claims(tree)
    yield from overestimation_claims(tree)


def sample_claims(tree: Tree) -> Iterator[Claim]:
    """EBU's steps over DQN's in each suite; decided by the better β, with an interval that allows for the choice."""
    for name, rows in aggregates(tree):
        mine = [row for row in rows if row["method"] in (EBU_HALF, EBU_ONE) and row["steps_over_dqn"] is not None]
        if not mine:
            continue
        best = min(mine, key=lambda row: row["steps_over_dqn"])
        holds, decided = best["steps_over_dqn"] < 1, _differs_from_one(best, CERTAIN / len(mine))
        runs = _runs([row for row in rows if row in mine or row["method"] == DQN])
        chosen = f"; by the better of {len(mine)} β, which the interval allows for" if len(mine) > 1 else ""
        yield Claim(
            f"{TITLES[name]}: fewer steps than DQN to the same score",
            f"5 % of DQN's (mean), {100 * PRINTED:.0f} % (median), 49 Atari games",
            f"of DQN's: {', '.join(_share(row) for row in mine)}",
            verdict(holds, decided) + "; the gain is smaller than the paper's" * (PRINTED < best["steps_over_dqn"] < 1),
            f"ebu reproduce {name} --budget laptop",
            f"[As defined above](#methods-side-by-side); {runs}{chosen}" + ("" if decided else "; too few runs"),
            place=TITLES[name],
        )


def _share(row: Row) -> str:
    """EBU's steps in per cent of DQN's, with the interval."""
    middle, low, high = (row[f"steps_over_dqn{end}"] for end in ("", "_low", "_high"))
    interval = "" if low is None else f" ({100 * low:.0f} to {100 * high:.0f})"
    return f"{100 * middle:.0f} %{interval} with β={BETAS[row['method']]:g}"


def _differs_from_one(row: Row, chance: float) -> bool:
    """Whether 1 is outside the interval that misses the truth with this probability.

    The rows have the one of 95 %; its ends are moved away from the estimate as for a normal distribution of the logarithm.
    """
    low, middle, high = (row[f"steps_over_dqn{end}"] for end in ("_low", "", "_high"))
    if low is None:
        return False
    wider = norm.isf(chance / 2) / norm.isf(0.025)
    return bool(middle * (high / middle) ** wider < 1 or middle * (low / middle) ** wider > 1)


def steps_in_words(rows: Sequence[Row]) -> str:
    """Each method with its steps over DQN's."""
    return ", ".join(f"{row['method']} {output.row_with_interval(row, 'steps_over_dqn')}" for row in rows)


def overestimation_claims(tree: Tree) -> Iterator[Claim]:
    gaps = overestimation(tree)
    common = sorted(set.intersection(*map(set, gaps.values())))  # games and seeds that all of them have
    if not common:
        return
    smaller, decided = ahead([(gaps[EBU_HALF][place], gaps[EBU_ONE][place]) for place in common])
    words = ", ".join(f"{method} {np.mean([found[place] for place in common]):.1f}" for method, found in gaps.items())
    games = len({game for game, _ in common})
    yield Claim(
        "β = 1 overestimates, β = 0.5 does not (Figure 5)",
        "by Figure 5",
        f"MinAtar, Q − return: {words}",
        f"less with β = 0.5: {verdict(smaller > len(common) / 2, decided)}; "
        f"not at all: {_free_of_it([gaps[EBU_HALF][place] for place in common])}",
        "ebu reproduce overestimation --budget laptop",
        f"Q minus the return that followed, at the end; less with β = 0.5 than with 1 in {smaller} of "
        f"{several(len(common), 'pair')} of runs ({several(games, 'game')}); sign tests",
    )


def _free_of_it(gaps: Sequence[float]) -> str:
    """Whether Q does not exceed the return, by a sign test over runs."""
    above, decided = ahead([(-gap, 0.0) for gap in gaps])
    return verdict(2 * above < len(gaps), decided)


def overestimation(tree: Tree) -> dict[str, dict[tuple[str, int], float]]:
    """Method → game and seed → by how much Q exceeds the return at the end."""
    rows = [row for row in tree.item_rows("overestimation", "run") if row["q"] is not None and row["return"] is not None]
    return {
        method: {(row["game"], row["seed"]): row["q"] - row["return"] for row in rows if row["method"] == method}
        for method in (EBU_ONE, EBU_HALF, DQN)
    }
