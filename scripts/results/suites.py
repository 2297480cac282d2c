"""What the suites' rows say: their aggregates, and claims of the paper that they speak about."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ebu.experiments.items import find_item
from ebu.experiments.suites.tasks import AS_THEY_ARE, DQN, EBU_HALF, EBU_ONE
from scripts.results.claims import Claim, ahead, verdict
from scripts.results.tree import Row, Tree, several

TITLES = {"minatar": "MinAtar", "minigrid": "MiniGrid", "delay": "MinAtar with all rewards at the episode's end"}


def aggregates(tree: Tree) -> Iterator[tuple[str, list[Row]]]:
    """Suite → the methods that have a run of every task, by the area under their curves; undelayed games are MinAtar's."""
    for name in TITLES:
        full = find_item(name).settings["full"]["scale"]["steps"]
        rows = [row for row in tree.item_rows(name, "aggregate") if row["steps"] == full and row["area_iqm"] is not None]
        for group in dict.fromkeys(row["group"] for row in rows if row["group"] != AS_THEY_ARE):
            yield name, sorted((row for row in rows if row["group"] == group), key=lambda row: -row["area_iqm"])


def suite_claims(tree: Tree) -> Iterator[Claim]:
    gaps = overestimation(tree)
    common = sorted(set.intersection(*map(set, gaps.values())))  # games and seeds that all of them have
    if not common:
        return
    smaller, decided = ahead([(gaps[EBU_HALF][place], gaps[EBU_ONE][place]) for place in common])
    words = ", ".join(f"{method} {np.mean([found[place] for place in common]):.1f}" for method, found in gaps.items())
    games = len({game for game, _ in common})
    yield Claim(
        "With β = 1 maxima upon maxima overestimate, with β = 0.5 they do not (Figure 5)",
        "by its figure",
        f"MinAtar, Q minus the return that followed: {words}; less with β = 0.5 than with 1 in {smaller} of "
        f"{several(len(common), 'pair')} of runs ({several(games, 'game')})",
        verdict(smaller > len(common) / 2, decided, "runs") + "; no method is free of it",
        "ebu reproduce overestimation --budget laptop",
    )


def overestimation(tree: Tree) -> dict[str, dict[tuple[str, int], float]]:
    """Method → game and seed → by how much Q exceeds the return at the end."""
    rows = [row for row in tree.item_rows("overestimation", "run") if row["q"] is not None and row["return"] is not None]
    return {
        method: {(row["game"], row["seed"]): row["q"] - row["return"] for row in rows if row["method"] == method}
        for method in (EBU_ONE, EBU_HALF, DQN)
    }
