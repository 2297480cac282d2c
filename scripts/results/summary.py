"""The first half page of docs/results.md: where EBU wins, by what factor, where it does not, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ebu.envs.atari_games import paper_scores
from ebu.experiments import atari
from ebu.experiments import own_scores as scores
from ebu.experiments.mazes import EBU, N_STEP, ONE_STEP
from ebu.experiments.suites.tasks import DQN as SUITE_DQN
from scripts.results.claims import ahead, is_ebu, is_of_the_paper, paired, short, slippery_medians
from scripts.results.suites import TITLES, aggregates, steps_in_words
from scripts.results.tree import Row, Tree, by_algo, several


def summary(tree: Tree) -> list[str]:
    paragraphs = [*_mazes(tree), *_slippery(tree), *_suites(tree), *_atari(tree), *_dense(tree)]
    return ["## In plain words", *paragraphs] if paragraphs else []


def _mazes(tree: Tree) -> Iterator[str]:
    rows = [row for row in tree.item_rows("table1", "maze") if row["training"] is not None]
    pooled = {row["method"]: row for row in tree.item_rows("figure2", "pooled")}
    if not is_of_the_paper(tree.item_rows("table1", "cell")) or not pooled or not all(row["mazes"] for row in pooled.values()):
        return
    count = pooled[EBU]["mazes"]
    half = _half_way(rows, list(pooled))
    comparisons = []
    for rival in (ONE_STEP, N_STEP):
        pairs = paired(rows, EBU, rival)
        better, decided = ahead(pairs)
        certain = "a clear difference" if decided else "too few to tell"
        comparisons.append(f"shorter than {short(rival)}'s in {better} of {several(len(pairs), 'maze')} ({certain})")
    yield (
        f"**The paper's maze** ({several(count, 'maze')} of four wall densities, digits redrawn at every step, reward only at "
        f"the goal). Half way through the training the median path is {half[EBU]:.1f} times the shortest with EBU, "
        f"{half[N_STEP]:.1f} with n-step DQN and {half[ONE_STEP]:.1f} with one-step DQN. EBU's path is "
        f"{' and '.join(comparisons)}. {_factor(pooled)} The reason is the paper's: the target network is copied every 2,000 "
        "steps, and a one-step target moves a reward back one step per copy, a backward target along the whole episode."
    )


def _slippery(tree: Tree) -> Iterator[str]:
    mazes, half_way = slippery_medians(tree, "training_half_way")
    _, at_the_end = slippery_medians(tree, "training_at_the_end")
    if not mazes or not at_the_end:
        return
    lengths = ", ".join(f"{method} {value:.1f} and {at_the_end[method]:.1f}" for method, value in half_way.items())
    best = min((method for method in half_way if is_ebu(method)), key=lambda method: (half_way[method], at_the_end[method]))
    yield (
        f"**Where moves slip** (half of the cells are walls, a move goes to each side with 10 %; {several(mazes, 'maze')}, "
        f"too few to rank anybody). Path over the shortest, half way and at the end (medians): {lengths}. The paper's theory "
        f"asks for a small β where the world is not deterministic; here {best} is the best of EBU's half way."
    )


def _half_way(rows: Sequence[Row], methods: Sequence[str]) -> dict[str, float]:
    """Method → its median over the mazes that all of these methods have finished."""
    lengths = {
        method: {(row["wall_density"], row["maze"]): row["training"] for row in rows if row["method"] == method}
        for method in methods
    }
    common = set.intersection(*map(set, lengths.values()))
    return {method: float(np.median([found[place] for place in common])) for method, found in lengths.items()}


def _factor(pooled: dict[str, Row]) -> str:
    """How many steps each needs until half of its latest episodes are at most twice as long as the shortest path."""
    steps = {method: _median_steps(row["steps_to_twice_the_shortest"]) for method, row in pooled.items()}
    words = ", ".join(
        f"{short(method)} {'not in most mazes' if value is None else f'after {value:,.0f} steps'}"
        for method, value in steps.items()
    )
    own = steps[EBU]
    if own is None:
        return f"At most twice the shortest path is walked: {words}."
    factors = [
        f"{steps[rival] / own:.1f} times as many as EBU for {short(rival)}" for rival in (ONE_STEP, N_STEP) if steps[rival]
    ]
    tail = f", {' and '.join(factors)}" if factors else ""
    return f"At most twice the shortest path is walked (median over mazes): {words}{tail}."


def _median_steps(steps: Sequence[float | None]) -> float | None:
    found = float(np.median([np.inf if step is None else step for step in steps])) if steps else np.inf
    return found if np.isfinite(found) else None


def _suites(tree: Tree) -> Iterator[str]:
    for name, mine in aggregates(tree):
        rival = next((row for row in mine if row["method"] == SUITE_DQN), None)
        if rival is None or len(mine) < 2:
            continue
        above, below = (
            [row["method"] for row in mine if compare(row["area_iqm"], rival["area_iqm"])]
            for compare in (float.__gt__, float.__lt__)
        )
        last = ", ".join(f"{row['method']} {row['final_iqm']:.2f}" for row in mine)
        others = steps_in_words([row for row in mine if row is not rival])
        yield (
            f"**{TITLES[name]}** ({rival['tasks']} tasks, {rival['runs']} runs of DQN). By the area under the normalised "
            f"curve, ahead of DQN ({rival['area_iqm']:.2f}): {_listed(above)}; behind it: {_listed(below)}. "
            f"The best is {mine[0]['method']} with {mine[0]['area_iqm']:.2f}. Last evaluations alone, which are noisier: "
            f"{last}. Steps to a quarter, half and three quarters of the scale over those of DQN: {others}."
            f"{REMARKS.get(name, '')}"
        )


REMARKS = {
    "delay": " A reward paid at the end is discounted by every step until then: with γ = 0.99 it pays to end the episode once "
    "a step earns less than 1 % of what has been earned, and part of what is lost is that "
    "([what a longer horizon changes](beyond.md#looks))."
}


def _listed(methods: Sequence[str]) -> str:
    return ", ".join(methods) or "none"


def _atari(tree: Tree) -> Iterator[str]:
    found = scores.columns(tree.atari_runs())
    words = []
    for preset in ("quick", "paper"):
        mine = {column.method: column for column in found if column.preset == preset and "Breakout" in column.scores}
        if {atari.EBU_HALF, atari.DQN} <= set(mine):
            ours, rival = mine[atari.EBU_HALF], mine[atari.DQN]
            words.append(
                f"{ours.scores['Breakout']:.1f} against {rival.scores['Breakout']:.1f} with the `{preset}` preset after "
                f"{atari.frames(ours.steps)} frames ({several(len(ours.runs['Breakout']), 'seed')})"
            )
    if words:
        paper = " against ".join(f"{paper_scores(column)['Breakout']:.1f}" for column in ("ebu_0.5_10M", "dqn_10M"))
        yield (
            f"**Atari**: no evidence for the claim yet. EBU against DQN in Breakout, best test: {'; '.join(words)}. The paper "
            f"has {paper} after 10M frames; runs of that length are not done."
        )


def _dense(tree: Tree) -> Iterator[str]:
    grouped = by_algo(tree.rows("cartpole.jsonl"))
    if not {"ebu", "dqn"} <= set(grouped):
        return
    means = {algo: float(np.mean([row["last_five"] for row in rows])) for algo, rows in grouped.items()}
    better = sum(value > means["ebu"] for value in means.values())
    yield (
        f"**Where every step is rewarded** EBU is not ahead: on CartPole-v1 it ends at {means['ebu']:.0f}, DQN at "
        f"{means['dqn']:.0f}, and {better} of the {len(means)} methods end above it ({several(len(grouped['ebu']), 'seed')} "
        "each, too few to rank them). There is no distant reward to carry back, and a maximum over noisy values at every step "
        "back is optimistic."
    )
