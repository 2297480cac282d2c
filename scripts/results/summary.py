"""The first half page of docs/results.md: where EBU wins, by what factor, where it does not, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ebu.experiments.mazes import EBU, N_STEP, ONE_STEP
from ebu.experiments.suites.tasks import DQN as SUITE_DQN
from scripts.results.atari import METHODS, atari_claims, pairs
from scripts.results.claims import (
    ahead,
    arrivals,
    chance,
    counted,
    is_ebu,
    is_of_the_paper,
    maze_claims,
    medians,
    paired,
    short,
    slippery_medians,
)
from scripts.results.suites import TITLES, aggregates, columns_in_full, sample_claims, side_by_side, steps_in_words
from scripts.results.tree import Row, Tree, by_algo, several


def summary(tree: Tree) -> list[str]:
    paragraphs = [*in_short(tree), *_mazes(tree), *_slippery(tree), *_suites(tree), *_atari(tree), *_dense(tree)]
    table = side_by_side(tree)
    return [
        *(["## In plain words", *paragraphs] if paragraphs else []),
        *(["## Methods side by side", columns_in_full(tree), table] if table else []),
    ]


def in_short(tree: Tree) -> Iterator[str]:
    """Where EBU is shown to need fewer steps than DQN, where that is open, and where it is refuted."""
    claims = [claim for claim in (*maze_claims(tree), *sample_claims(tree), *atari_claims(tree)) if claim.place]
    shown, refuted = ([claim.place for claim in claims if claim.holds.startswith(word)] for word in ("yes", "no"))
    undecided = [claim.place for claim in claims if claim.place not in (*shown, *refuted)]
    cases = (("shown", shown), ("not decided yet", undecided), ("refuted", refuted))
    words = "; ".join(f"**{verdict}** for {_listed(places)}" for verdict, places in cases if places)
    if words:
        yield f"That EBU needs fewer steps than DQN is {words}."


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
        middle = " against ".join(f"{median:.1f}" for median in medians(pairs))
        certain = f"sign test: p = {chance(pairs):.2g}, {'a clear difference' if decided else 'too few to tell'}"
        comparisons.append(
            f"shorter than {short(rival)}'s in {better} of the {several(len(pairs), 'maze')} that both have finished (median "
            f"{middle}; {certain})"
        )
    yield (
        f"**The paper's maze** ({several(count, 'maze')} of four wall densities that all three have finished, digits redrawn "
        "at every step, the only positive reward at the goal). Half way through the training the median path is "
        f"{half[EBU]:.1f} times the shortest with EBU, {half[N_STEP]:.1f} with n-step DQN and {half[ONE_STEP]:.1f} with "
        "one-step DQN. EBU's path is "
        f"{' and '.join(comparisons)}. {_factor(pooled)} {_firsts(tree)}{_expectations(rows)}The paper's reason why EBU is "
        "ahead of one-step DQN: the target network is copied every 2,000 steps, and a one-step target moves a reward back one "
        "step per copy, a backward target along the whole episode."
    )


def _expectations(rows: Sequence[Row]) -> str:
    """What each method expects of its greedy path half way, and what it gets: why EBU is behind n-step DQN, where it is."""
    known = [row for row in rows if row["q"] is not None and row["return"] is not None]
    if not {EBU, N_STEP, ONE_STEP} <= {row["method"] for row in known}:
        return ""
    q, came = (_half_way(known, (EBU, N_STEP, ONE_STEP), name) for name in ("q", "return"))
    words = ", ".join(f"{short(method)} {q[method]:.0f} and {came[method]:.0f}" for method in q)
    told = f"Half way, Q of the greedy path and the discounted return that followed are (medians): {words}. "
    if min(came.values()) <= 0 or not max(1.0, q[N_STEP] / came[N_STEP]) < q[EBU] / came[EBU]:
        return told
    return (
        f"{told}EBU with β = 1 expects {q[EBU] / came[EBU]:.1f} times what it gets, as is to be expected of a maximum over "
        "noisy values at every step back; n-step DQN follows what was played and takes none. "
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
        f"too few for a ranking). Path over the shortest, half way and at the end (medians): {lengths}. The paper's theory "
        f"asks for a small β where the world is not deterministic; here {best} is the best value half way."
    )


def _half_way(rows: Sequence[Row], methods: Sequence[str], column: str = "training") -> dict[str, float]:
    """Method → its median over the mazes that all of these methods have finished."""
    values = {
        method: {(row["wall_density"], row["maze"]): row[column] for row in rows if row["method"] == method}
        for method in methods
    }
    common = set.intersection(*map(set, values.values()))
    return {method: float(np.median([found[place] for place in common])) for method, found in values.items()}


def _factor(pooled: dict[str, Row]) -> str:
    """How many steps each needs until half of its latest episodes are at most twice as long as the shortest path."""
    steps = {method: _median_steps(row["steps_to_twice_the_shortest"]) for method, row in pooled.items()}
    words = ", ".join(
        f"{short(method)} {'not in most mazes' if value is None else f'after {value:,.0f} steps'}"
        for method, value in steps.items()
    )
    own = steps[EBU]
    if own is None:
        return f"The path is at most twice the shortest: {words}."
    factors = [
        f"{short(rival)} needs {needed / own:.1f} times EBU's steps"
        for rival in (ONE_STEP, N_STEP)
        if (needed := steps[rival]) is not None
    ]
    tail = f"; {' and '.join(factors)}" if factors else ""
    return f"The path is at most twice the shortest (median over mazes): {words}{tail}."


def _firsts(tree: Tree) -> str:
    """In how many mazes EBU gets there before each of the others."""
    found = {rival: pairs for rival in (ONE_STEP, N_STEP) if (pairs := arrivals(tree, rival))}
    words = [f"before {short(rival)} in {counted(pairs)}" for rival, pairs in found.items()]
    return f"EBU gets there {' and '.join(words)}. " if words else ""


def _median_steps(steps: Sequence[float | None]) -> float | None:
    found = float(np.median([np.inf if step is None else step for step in steps])) if steps else np.inf
    return found if np.isfinite(found) else None


def _suites(tree: Tree) -> Iterator[str]:
    for name, mine in aggregates(tree):
        rival = next((row for row in mine if row["method"] == SUITE_DQN), None)
        if rival is None or len(mine) < 2:
            continue
        above = [row["method"] for row in mine if _is_above(row, rival)]
        below = [row["method"] for row in mine if _is_above(rival, row)]
        level = [row for row in mine if row is not rival and row["method"] not in (*above, *below)]
        unclear = f"; no difference from it is shown for {_unclear(level, rival)}" if level else ""
        behind = f"{_listed(below) or 'no method'} {'is' if len(below) < 2 else 'are'} behind it"
        steps = steps_in_words([row for row in mine if is_ebu(row["method"])])
        yield (
            f"**{TITLES[name]}** ({rival['tasks']} tasks, {rival['runs']} runs of DQN). By the area under the normalised "
            f"learning curve {_listed(above) or 'no method'} {'is' if len(above) < 2 else 'are'} ahead of DQN and "
            f"{behind}{unclear}. Steps to the thresholds over those of DQN: {steps}.{REMARKS.get(name, '')}"
        )


def _unclear(level: Sequence[Row], rival: Row) -> str:
    """The methods whose area is neither above nor below the rival's, and why."""
    repeated = [row["method"] for row in level if row["area_iqm_low"] is not None and rival["area_iqm_low"] is not None]
    single = [row["method"] for row in level if row["method"] not in repeated]
    cases = ((repeated, "the intervals over seeds overlap"), (single, "one seed gives no interval"))
    return " and ".join(f"{_listed(methods)} ({reason})" for methods, reason in cases if methods)


def _is_above(row: Row, other: Row) -> bool:
    """Whether the intervals of the areas over seeds do not overlap; with one seed there is none."""
    low, high = row["area_iqm_low"], other["area_iqm_high"]
    return low is not None and high is not None and bool(low > high)


REMARKS = {
    "delay": " A reward paid at the end is discounted by every step until then: with γ = 0.99 it pays to end the episode once "
    "a step earns less than 1 % of what has been earned, and part of what is lost is that "
    "([what a longer horizon changes](beyond.md#preliminary-runs)).",
}


def _listed(names: Sequence[str]) -> str:
    return " and ".join([*([", ".join(names[:-1])] if names[:-1] else []), *names[-1:]])


def _atari(tree: Tree) -> Iterator[str]:
    found = [(preset, pair) for preset in ("quick", "paper") for pair in pairs(tree, preset) if pair.game.name == "Breakout"]
    if not found:
        return
    words = "; ".join(
        f"{pair.ebu:.1f} against {pair.dqn:.1f} with the `{preset}` preset after {pair.length()} "
        f"({several(pair.seeds, 'seed')})"
        for preset, pair in found
    )
    game = found[0][1].game
    paper = " against ".join(f"{game.paper[column]:.1f}" for column in METHODS.values())
    whole = [pair for preset, pair in found if preset == "paper" and pair.is_whole]
    decided = any(pair.is_decided for pair in whole)
    why = "There are too few seeds of that length" if whole else "Runs of that length are not finished"
    missing = "" if decided else f" {why}: the claim is open."
    yield (
        f"**Atari.** EBU (β = 0.5) against DQN in Breakout, best test: {words}. The paper has {paper} after 10M frames."
        f"{missing} What is known of the difference so far is in [atari.md](atari.md#our-runs)."
    )


def _dense(tree: Tree) -> Iterator[str]:
    grouped = by_algo(tree.rows("cartpole.jsonl"))
    if not {"ebu", "dqn"} <= set(grouped):
        return
    means = {algo: float(np.mean([row["last_five"] for row in rows])) for algo, rows in grouped.items()}
    better = sum(value > means["ebu"] for value in means.values())
    seeds = several(min(map(len, grouped.values())), "seed")
    yield (
        f"**Where every step is rewarded**, on CartPole-v1, EBU ends at {means['ebu']:.0f} and DQN at {means['dqn']:.0f}, and "
        f"{better} of the {len(means)} methods end above EBU ({seeds} each, too few to rank them). No gain is to be expected "
        "there: no reward is distant, and a maximum over noisy values at every step back is optimistic."
    )
