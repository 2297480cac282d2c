"""The README's results: the paper's claims, then what else there are rows for."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from ebu.envs.atari_games import find_game, paper_scores
from ebu.experiments import atari, plots
from ebu.experiments import own_scores as scores
from ebu.experiments.output import row_with_interval
from ebu.experiments.suites.comparison import verdict
from ebu.experiments.suites.tasks import REDISTRIBUTED
from scripts.results.atari import atari_claims, command_of
from scripts.results.claims import HEADER, Claim, maze_claims, theory_claims
from scripts.results.suites import columns_in_short, side_by_side, suite_claims
from scripts.results.summary import in_short
from scripts.results.tree import Row, Tree, by_algo, preset_of, several

BEGIN, END = "<!-- results:begin -->", "<!-- results:end -->"


def rendered(tree: Tree) -> str:
    """The README as it should be."""
    text = tree.readme.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{block(tree)}\n{END}{tail}"


def block(tree: Tree) -> str:
    words = (
        "Written by `make results` from the rows in `results/`; all of it, with seeds and intervals, is in "
        "[docs/results.md](docs/results.md)."
    )
    table = side_by_side(tree)
    return "\n\n".join([
        "## Results", words, *in_short(tree), plots.markdown(HEADER, [claim.line() for claim in claims(tree)]),
        *([columns_in_short(tree), table] if table else []),
        "Beyond the paper:", plots.markdown(("what", "how", "result"), other_lines(tree)),
    ])  # fmt: skip


def claims(tree: Tree) -> list[Claim]:
    """Every claim there are rows for."""
    return [*maze_claims(tree), *suite_claims(tree), *atari_claims(tree), *theory_claims(tree)]


def other_lines(tree: Tree) -> list[list[str]]:
    """What, how to get it, what came out; only what there are rows for."""
    return [*beyond_lines(tree), *quick_maze_lines(tree), *atari_lines(tree), *cartpole_lines(tree), *speed_lines(tree)]


def beyond_lines(tree: Tree) -> list[list[str]]:
    """The candidate of docs/beyond.md beside DQN and the better of EBU and Peng's Q(λ)."""
    found = [row for row in tree.item_rows("beyond", "comparison") if row["method"] == REDISTRIBUTED and row["tasks"]]
    return [
        [
            f"{REDISTRIBUTED} on {several(row['tasks'], 'task')} of MinAtar, as they are and with all rewards at the end",
            "`ebu reproduce beyond --budget laptop`",
            f"{verdict(row)}: {row_with_interval(row, 'steps_over_rival')} of the steps of the better of EBU and Peng's Q(λ), "
            f"{row_with_interval(row, 'steps_over_dqn')} of DQN's ([docs/beyond.md](docs/beyond.md))",
        ]
        for row in found
    ]


def quick_maze_lines(tree: Tree) -> list[list[str]]:
    mazes = tree.rows("maze-quick.jsonl")
    if not mazes:
        return []
    solved = sum(row["final"] == 1.0 for row in mazes)
    words = f"EBU's greedy path is a shortest path in {solved} of {len(mazes)}"
    return [[f"MNIST maze with fixed digits, {len(mazes)} mazes, 10,000 steps", "`ebu train`", words]]


def cartpole_lines(tree: Tree) -> list[list[str]]:
    found = by_algo(tree.rows("cartpole.jsonl"))
    if not found:
        return []
    seeds = several(min(map(len, found.values())), "seed")
    means = ", ".join(f"{algo} {np.mean([row['last_five'] for row in rows]):.0f}" for algo, rows in found.items())
    what = f"CartPole-v1, 50,000 steps, greedy return of at most 500, mean of {seeds}: too few to rank the methods"
    return [[what, "`ebu train --env CartPole-v1`", means]]


def atari_lines(tree: Tree) -> list[list[str]]:
    """The best tests of our methods beside the paper's at 10M frames; runs of the paper's preset are among its claims."""
    columns = [column for column in scores.columns(tree.atari_runs()) if column.preset != "paper"]
    cases = {(name, column.steps, column.preset) for column in columns for name in column.scores}
    return [_atari_line(tree, *case, columns) for case in sorted(cases)]


def _atari_line(tree: Tree, game: str, steps: int, preset: str, columns: Sequence[scores.Column]) -> list[str]:
    mine = [column for column in columns if game in column.scores and (column.steps, column.preset) == (steps, preset)]
    ours = ", ".join(f"{column.method} {column.scores[game]:.1f}" for column in mine)
    paper = ", ".join(f"{paper_scores(column.published)[game]:.1f}" for column in mine if column.published)
    seeds = min(len(column.runs[game]) for column in mine)
    found = find_game(game)
    runs = [run for run in tree.atari_runs() if (find_game(run.env), run.step, preset_of(run)) == (found, steps, preset)]
    again = command_of(runs, mine[0].method)
    return [
        f"{game}, {atari.frames(steps)} frames, `{preset}` preset",
        f"`{again}`",
        f"best test: {ours} ({several(seeds, 'seed')}; random play {found.random if found else 0:.1f}; "
        f"the paper after 10M frames: {paper})",
    ]


def speed_lines(tree: Tree) -> list[list[str]]:
    """EBU against others' code, and at its default settings; other methods and instructions are in docs/results.md."""
    lines = []
    rows = tree.rows("bench.jsonl")
    for row in rows:
        if ", AVX2" in row["what"] or not (", ebu" in row["what"] or "K = 11" in row["what"]):
            continue
        if row["peer"].startswith(("Algorithm 2", "Stable-Baselines3")):
            factors = f"{_factor(row)}{_with_avx2(row, rows)}"
            lines.append([row["what"], "`make bench`", f"{row['ours']} ({row['peer']}): {factors}"])
        elif row["peer"].startswith("no peer"):
            lines.append([row["what"], "`make bench`", row["ours"]])
    return lines


def _factor(row: Row) -> str:
    """Our speed over the peer's, over the faster one's where there are two: the ratio of a row may be over the slower one."""
    rates = [float(rate.replace(",", "")) for rate in re.findall(r"([\d,]+) steps/s", f"{row['ours']} {row['peer']}")]
    if len(rates) > 2 and ", over " not in row["what"]:
        return f"{rates[0] / max(rates[1:]):.1f}× the faster one"
    return f"{row['ratio']:.1f}×"


def _with_avx2(row: Row, rows: Sequence[Row]) -> str:
    """The same where PyTorch may not use AVX-512, which many processors do not have."""

    def measured(one: Row) -> tuple[str, str]:
        return re.sub(r" \(rounds [^)]*\)|, AVX2$", "", one["what"]), one["peer"].split()[0]

    found = [other for other in rows if other is not row and measured(other) == measured(row) and ", AVX2" in other["what"]]
    return f", with AVX2 {_factor(found[0]).split()[0]}" if found else ""
