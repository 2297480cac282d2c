"""The README's results: the paper's claims, then what else there are rows for."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ebu.experiments import plots
from ebu.experiments.output import row_with_interval
from ebu.experiments.suites.comparison import BOTH_WAYS, WHOLE, verdict
from ebu.experiments.suites.tasks import REDISTRIBUTED
from scripts.results.atari import atari_claims
from scripts.results.claims import HEADER, Claim, maze_claims, theory_claims
from scripts.results.suites import suite_claims
from scripts.results.summary import in_short
from scripts.results.tree import Row, Tree, several

BEGIN, END = "<!-- results:begin -->", "<!-- results:end -->"


def rendered(tree: Tree) -> str:
    """The README as it should be."""
    text = tree.readme.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{block(tree)}\n{END}{tail}"


def block(tree: Tree) -> str:
    words = (
        "Written by `make results` from the rows in `results/`. How each line is measured, how sure it is, and the command "
        "that makes it again: [docs/results.md](docs/results.md#the-papers-claims); there, too: [all methods side by "
        "side](docs/results.md#methods-side-by-side), every table and figure."
    )
    parts = ["## Results", words, *in_short(tree), plots.markdown(HEADER, [claim.line() for claim in claims(tree)])]
    parts += [
        "*Leaning*: too few mazes, runs or seeds to decide (at 1 %). Steps are environment steps, numbers medians over mazes."
    ]
    parts += [f"**Beyond the paper.** {words}" for words in beyond_lines(tree)]
    if speed := speed_lines(tree):
        parts.append(plots.markdown(("training, measured in one run (`make bench`)", "ours", "others", "factor"), speed))
    return "\n\n".join(parts)


def claims(tree: Tree) -> list[Claim]:
    """Every claim there are rows for."""
    return [*maze_claims(tree), *suite_claims(tree), *atari_claims(tree), *theory_claims(tree)]


def beyond_lines(tree: Tree) -> list[str]:
    """The candidate of docs/beyond.md beside DQN and the better of EBU and Peng's Q(λ), over as much as it has finished."""
    rows = [row for row in tree.item_rows("beyond", "comparison") if row["method"] == REDISTRIBUTED]
    compared = [row for row in rows if row["steps_over_rival"] is not None]
    where = {WHOLE: "of the choosing suite", BOTH_WAYS: "of MinAtar, as they are and with all rewards at the end"}
    repeated = [row for row in compared if row["steps_over_rival_low"] is not None]
    single = [row for row in compared if row not in repeated]
    found = [
        f"Q(λ) with redistributed rewards needs {row_with_interval(row, 'steps_over_rival')} of the steps of the better of "
        f"EBU and Peng's Q(λ), and {row_with_interval(row, 'steps_over_dqn')} of DQN's, on {several(row['tasks'], 'task')} "
        f"{where[row['over']]}: {verdict(row)}, by [a protocol](docs/beyond.md) that was fixed first."
        for row in repeated[:1]
    ]
    found += [
        f"With one seed, on {several(row['tasks'], 'task')} {where[row['over']]}: "
        f"{row_with_interval(row, 'steps_over_rival')} and {row_with_interval(row, 'steps_over_dqn')}."
        for row in single[:1]
    ]
    return [" ".join(found)] if found else []


def speed_lines(tree: Tree) -> list[list[str]]:
    """EBU against others' code; other methods and instructions are in docs/results.md."""
    rows = tree.rows("bench.jsonl")
    return [
        [re.sub(r", ebu|, over .*", "", row["what"]), row["ours"], row["peer"], f"{_factor(row)}{_with_avx2(row, rows)}"]
        for row in rows
        if ", AVX2" not in row["what"] and ", ebu" in row["what"] and row["peer"].startswith("Stable-Baselines3")
    ]


def _factor(row: Row) -> str:
    """Our speed over the peer's, over the faster one's where there are two: the ratio of a row may be over the slower one."""
    rates = [float(rate.replace(",", "")) for rate in re.findall(r"([\d,]+) steps/s", f"{row['ours']} {row['peer']}")]
    if len(rates) > 2 and ", over " not in row["what"]:
        return f"{rates[0] / max(rates[1:]):.1f}×"
    return f"{row['ratio']:.1f}×"


def _with_avx2(row: Row, rows: Sequence[Row]) -> str:
    """The same where PyTorch may not use AVX-512, which many processors do not have."""

    def measured(one: Row) -> tuple[str, str]:
        return re.sub(r" \(rounds [^)]*\)|, AVX2$", "", one["what"]), one["peer"].split()[0]

    found = [other for other in rows if other is not row and measured(other) == measured(row) and ", AVX2" in other["what"]]
    return f", with AVX2 {_factor(found[0])}" if found else ""
