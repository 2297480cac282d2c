"""The paper's claims, one line each: what it says, what our rows say, and whether that agrees.

A claim about training holds or fails when the mazes, seeds or games that our rows rest on decide it; before that it is open.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import binomtest

from ebu.experiments.items import table1, table2
from ebu.experiments.mazes import EBU, N_STEP, ONE_STEP
from scripts.results.tree import Row, Tree, several

# A claim is decided when chance gives as clear a result less often than this. Not 0.05: there are several claims, and each is
# looked at again whenever runs finish.
CERTAIN = 0.01
ARRIVAL = "steps_to_twice_the_shortest"
DENSITIES = table1.DENSITIES
NEARLY_SHORTEST = 1.2  # a path that counts as the shortest: a digit is misread now and then
HEADER = ("the paper's claim", "paper", "ours", "holds?")
FULL_HEADER = (*HEADER, "how it is measured, how sure it is", "command")
HALF_WAY = "Median path / shortest in the latest training episode, over the mazes that both have finished"


@dataclass(frozen=True)
class Claim:
    claim: str
    paper: str
    ours: str
    holds: str
    command: str
    details: str = ""
    """How it is measured and what decides it, for docs/results.md; the front page is shorter."""
    place: str = ""
    """Where EBU is claimed to need fewer steps than DQN; empty for a claim about something else."""

    def line(self) -> list[str]:
        return [self.claim, self.paper, self.ours, self.holds]

    def full_line(self) -> list[str]:
        return [*self.line(), self.details or "–", f"`{self.command}`"]


# ---------------------------------------------------------------------- mazes


def maze_claims(tree: Tree) -> Iterator[Claim]:
    rows = [row for row in tree.item_rows("table1", "maze") if row["training"] is not None]
    if is_of_the_paper(tree.item_rows("table1", "cell")):
        yield from _arrives_first(tree)
        yield from _against_one_step(rows)
        yield from _against_n_step(rows)
    yield from _everybody_arrives(tree)
    yield from slippery(tree)


def is_of_the_paper(cells: Sequence[Row]) -> bool:
    """Whether rows are of the paper's task; those of the quick budget are of an easier one."""
    return bool(cells) and cells[0].get("steps") == table1.SETTINGS["full"]["steps"]


def _arrives_first(tree: Tree) -> Iterator[Claim]:
    """Where the paper has EBU ahead: in how many mazes it is the first to walk at most twice the shortest path."""
    for rival in (ONE_STEP, N_STEP):
        pairs = arrivals(tree, rival, claimed(rival))
        if not pairs:
            continue
        ours, theirs = medians(pairs)
        first, decided = ahead(pairs)
        where = f" with {100 * min(claimed(rival)):.0f} % walls or more" if len(claimed(rival)) < len(DENSITIES) else ""
        yield Claim(
            f"Maze{where}: fewer steps than {short(rival)}",
            "by Figure 2",
            f"{steps(ours)} against {steps(theirs)}; first in {first} of {several(len(pairs), 'maze')}",
            verdict(ours < theirs, decided),
            "ebu reproduce figure2 --budget laptop",
            "Median steps until half of the latest ten episodes take at most twice the shortest path; "
            f"{certainty(pairs, decided)}",
            place=f"the paper's maze ({short(rival)})",
        )


def claimed(rival: str) -> tuple[float, ...]:
    """The wall densities at which the paper's Table 1 has EBU ahead of this rival."""
    return tuple(density for density in DENSITIES if table1.EXPECTED[density][EBU][1] < table1.EXPECTED[density][rival][1])


def arrivals(tree: Tree, rival: str, densities: Collection[float] = DENSITIES) -> list[tuple[float, float]]:
    """Steps of EBU and of a rival to paths of at most twice the shortest length, on the mazes without slips that both have."""
    rows = [row for row in tree.item_rows("figure2", "maze") if not row["slip"] and row["training_at_the_end"] is not None]
    known = [
        row | {"steps": np.inf if row[ARRIVAL] is None else row[ARRIVAL]} for row in rows if row["wall_density"] in densities
    ]
    return paired(known, EBU, rival, "steps")


def steps(needed: float) -> str:
    return f"{needed:,.0f}" if np.isfinite(needed) else f"more than {table1.SETTINGS['full']['steps']:,}"


def _against_one_step(rows: Sequence[Row]) -> Iterator[Claim]:
    pairs = paired(rows, EBU, ONE_STEP)
    if not pairs:
        return
    ours, theirs = medians(pairs)
    better, decided = ahead(pairs)
    yield Claim(
        "Maze, half way: shorter paths than one-step DQN",
        f"{printed(EBU)} against {printed(ONE_STEP)}",
        f"{ours:.1f} against {theirs:.1f}; shorter in {better} of {several(len(pairs), 'maze')}",
        verdict(ours < theirs, decided),
        "ebu reproduce table1 --budget laptop",
        f"{HALF_WAY}; {certainty(pairs, decided)}",
    )


def _against_n_step(rows: Sequence[Row]) -> Iterator[Claim]:
    """Where walls are few and where they are many, each by the median over its mazes."""
    for density, leader in ((min(DENSITIES), N_STEP), (max(DENSITIES), EBU)):
        pairs = paired([row for row in rows if row["wall_density"] == density], EBU, N_STEP)
        if not pairs:
            continue
        ours, theirs = medians(pairs)
        _, decided = ahead(pairs)
        expected = table1.EXPECTED[density]
        yield Claim(
            f"Maze, half way, {100 * density:.0f} % walls: {short(leader)} leads",
            f"EBU {expected[EBU][1]:.2f}, n-step {expected[N_STEP][1]:.2f}",
            f"EBU {ours:.2f}, n-step {theirs:.2f} ({several(len(pairs), 'maze')})",
            verdict((ours < theirs) == (leader == EBU), decided),
            "ebu reproduce table1 --budget laptop",
            f"{HALF_WAY}; {certainty(pairs, decided)}",
        )


def _everybody_arrives(tree: Tree) -> Iterator[Claim]:
    rows = tree.item_rows("figure2", "pooled")
    if not rows or not all(row["latest_ten_steps"] for row in rows):
        return
    if rows[0]["latest_ten_steps"][-1] < table1.SETTINGS["full"]["steps"]:
        return
    last = {row["method"]: row["latest_ten_median"][-1] for row in rows}
    above = [row for row in rows if row["latest_ten_median"][-1] > NEARLY_SHORTEST]
    late, unsure = (
        [short(row["method"]) for row in above if (_low(row) > NEARLY_SHORTEST) == is_late] for is_late in (True, False)
    )
    arrived = [short(method) for method in last if short(method) not in (*late, *unsure)]
    cases = (("no for", late), ("too few mazes for", unsure), ("yes for", arrived if late or unsure else []))
    words = ", ".join(f"{short(method)} {value:.2f}" for method, value in last.items())
    yield Claim(
        "Maze, at the end: all three walk the shortest path",
        "1",
        f"{words} ({several(rows[0]['mazes'], 'maze')})",
        "; ".join(f"{word} {' and '.join(methods)}" for word, methods in cases if methods) or "yes",
        "ebu reproduce figure2 --budget laptop",
        f"Median path / shortest in the latest ten episodes; up to {NEARLY_SHORTEST:g} counts as the shortest",
    )


def _low(row: Row) -> float:
    """The lower end of the interval of the last length, or that length where one maze has no interval."""
    low = row["latest_ten_median_low"][-1]
    return float(row["latest_ten_median"][-1] if low is None else low)


def slippery(tree: Tree) -> Iterator[Claim]:
    mazes, medians = slippery_medians(tree, "training_half_way")
    if not mazes:
        return
    ours = min((value, method) for method, value in medians.items() if is_ebu(method))
    theirs = min((value, method) for method, value in medians.items() if not is_ebu(method))
    yield Claim(
        "Maze whose moves slip, half way: EBU leads",
        "by Figure 2",
        f"best β: {ours[1]} {ours[0]:.2f}, best rival: {theirs[1]} {theirs[0]:.2f} ({several(mazes, 'maze')})",
        verdict(ours < theirs, False),
        "ebu reproduce figure2 --budget laptop",
        f"{HALF_WAY}; too few mazes",
    )


def slippery_medians(tree: Tree, column: str) -> tuple[int, dict[str, float]]:
    """How many slippery mazes every method has finished, both rivals among them; and method → its median over those."""
    rows = [row for row in tree.item_rows("figure2", "maze") if row["slip"] and row[column] is not None]
    methods = list(dict.fromkeys(row["method"] for row in rows))
    has_both_sides = sum(not is_ebu(method) for method in methods) > 1 and any(map(is_ebu, methods))
    if not is_of_the_paper(tree.item_rows("table1", "cell")) or not has_both_sides:
        return 0, {}
    by_method = {method: {row["maze"]: row[column] for row in rows if row["method"] == method} for method in methods}
    mazes = set.intersection(*map(set, by_method.values()))
    return len(mazes), {
        method: float(np.median([found[maze] for maze in mazes])) for method, found in by_method.items() if mazes
    }


def is_ebu(method: str) -> bool:
    return method.startswith("EBU")


def paired(rows: Sequence[Row], ours: str, theirs: str, column: str = "training") -> list[tuple[float, float]]:
    """Both methods' lengths, or another column, on the mazes that both have finished."""
    found = {(row["method"], row["wall_density"], row["maze"]): row[column] for row in rows}
    places = sorted((density, maze) for method, density, maze in found if method == ours and (theirs, density, maze) in found)
    return [(found[ours, *place], found[theirs, *place]) for place in places]


def medians(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    ours, theirs = np.median(pairs, axis=0)
    return float(ours), float(theirs)


def counted(pairs: Sequence[tuple[float, float]]) -> str:
    """In how many mazes the first is shorter, or sooner, in words."""
    return f"{ahead(pairs)[0]} of {several(len(pairs), 'maze')} (sign test: p = {chance(pairs):.2g})"


def ahead(pairs: Sequence[tuple[float, float]]) -> tuple[int, bool]:
    """In how many mazes the first is shorter, and whether a sign test and the medians call the same one shorter."""
    better, worse = _shorter(pairs)
    ours, theirs = medians(pairs) if pairs else (0.0, 0.0)
    return better, chance(pairs) < CERTAIN and bool(ours < theirs) == (better > worse)


def chance(pairs: Sequence[tuple[float, float]]) -> float:
    """How often a fair coin is as one-sided as these pairs (two-sided sign test); pairs that are equal say nothing."""
    better, worse = _shorter(pairs)
    return float(binomtest(better, better + worse).pvalue) if better + worse else 1.0


def _shorter(pairs: Sequence[tuple[float, float]]) -> tuple[int, int]:
    return sum(a < b for a, b in pairs), sum(a > b for a, b in pairs)


def verdict(as_claimed: bool, decided: bool) -> str:
    word = "yes" if as_claimed else "no"
    return word if decided else f"leaning {word}"


def certainty(pairs: Sequence[tuple[float, float]], decided: bool) -> str:
    return f"sign test: p = {chance(pairs):.2g}" + ("" if decided else ": too few mazes")


def printed(method: str) -> str:
    """The range of the paper's medians over wall densities."""
    medians = [cell[method][1] for cell in table1.EXPECTED.values()]
    return f"{min(medians):.1f} to {max(medians):.1f}"


def short(method: str) -> str:
    return {EBU: "EBU", ONE_STEP: "one-step DQN", N_STEP: "n-step DQN"}[method]


# ---------------------------------------------------------------------- theory


def theory_claims(tree: Tree) -> Iterator[Claim]:
    if found := tree.item_rows("figure1"):
        end = found[-1]
        from_its_end, uniform = end["backward_solved_at_update"], end["uniform_mean_updates"]
        yield Claim(
            "One stored episode is enough, replayed from its end (Figure 1)",
            "5 updates; uniform draws about 40",
            f"{from_its_end} updates; uniform draws {uniform:.1f} on average",
            "yes" if from_its_end < uniform else "no",
            "ebu reproduce figure1",
            "The paper's 40 draws are nearly sure to have taught the path",
        )
    if found := tree.item_rows("appendix-f"):
        longest = max(row["n"] for row in found)
        needed = {row["method"]: row["episodes_until_optimal"] for row in found if row["n"] == longest}
        yield Claim(
            "Cutting traces is slow where branches are many (Appendix F)",
            "argued",
            f"chain of {longest - 1} exits: EBU {needed['EBU β=1']} episodes, Watkins' Q(λ) {needed['Watkins Q(1)']}",
            "yes" if needed["EBU β=1"] < needed["Watkins Q(1)"] else "no",
            "ebu reproduce appendix-f",
        )
    if found := tree.item_rows("theorem1", "operator"):
        largest = max(row["largest_modulus"] for row in found)
        yield Claim(
            "Theorem 1: deterministic MDPs, a contraction by γ",
            "at most 0.9 for γ = 0.9",
            f"largest modulus found {largest:.4f}",
            "yes" if largest <= 0.9 + 1e-9 else "no",
            "ebu reproduce theorem1",
        )
    if found := tree.item_rows("theorem2", "random summary"):
        wrong, right = (found[0][f"{which}_bound_allows_a_biased_beta"] for which in ("printed", "corrected"))
        yield Claim(
            "Theorem 2: stochastic MDPs, unbiased below its bounds on β",
            "always",
            f"biased in {wrong} of {found[0]['mdps']:,} random MDPs; {right} below our corrected bounds",
            "no" if wrong else "yes",
            "ebu reproduce theorem2",
        )
    ratios = {row["what"]: row["ratio"] for row in tree.rows("bench.jsonl")}
    update = ratios.get("one update of ebu over DQN's, nature network")
    step = ratios.get("EBU's time over DQN's in our loop")
    in_cartpole = "" if step is None else f"; a step of CartPole, whose network costs next to nothing: {step:.2f} times"
    if update is not None:
        hours = {column: hours for column, (hours, _, _) in table2.EXPECTED.items() if hours is not None}
        yield Claim(
            "EBU costs hardly more time than DQN",
            f"{hours['ebu_0.5_10M'] / hours['dqn_10M']:.2f} times DQN's hours",
            f"{update:.2f} times DQN's time",
            "yes" if update < 1.2 else "no",
            "python -m bench updates cartpole",
            f"An update of Atari's network{in_cartpole}",
        )
