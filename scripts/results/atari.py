"""The paper's claims about Atari: our longest runs of EBU and DQN, and what follows from the paper's own scores."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import mannwhitneyu

from ebu.envs.atari_games import GAMES, Game, find_game, paper_scores
from ebu.experiments import atari
from ebu.experiments import own_scores as scores
from ebu.experiments.items import figure4, table2
from ebu.report.groups import command
from ebu.report.rows import Run
from ebu.report.scores import count_wins, paper_table_2
from scripts.results.claims import CERTAIN, Claim, verdict
from scripts.results.tree import Tree, preset_of, several

METHODS = {atari.EBU_HALF: "ebu_0.5_10M", atari.DQN: "dqn_10M"}  # as the paper calls them → its column


@dataclass(frozen=True)
class Pair:
    """The best tests of EBU and of DQN in a game after the same number of steps."""

    game: Game
    steps: int
    planned_steps: int
    seeds: int
    ebu: float
    dqn: float
    command: str
    """Which gives EBU's first run again."""
    is_decided: bool
    """Whether a rank test over the seeds calls the two different; with one seed each it never does."""

    @property
    def is_whole(self) -> bool:
        """Whether the runs are as long as the paper's."""
        return self.steps >= atari.STEPS_10M

    def length(self) -> str:
        """How far the runs are, in words."""
        frames = f"{atari.frames(self.steps)} frames"
        return frames if self.steps == self.planned_steps else f"{frames} of {atari.frames(self.planned_steps)}"


def pairs(tree: Tree, preset: str) -> Iterator[Pair]:
    """Every game that both methods have played under a preset, up to the last test that all of its runs have.

    Of several lengths the longest that both methods were planned for: shorter runs anneal their exploration faster.
    """
    tested = [
        run
        for run in tree.atari_runs()
        if preset_of(run) == preset and scores.method_of(run) in METHODS and run.points("eval", "mean_reward")
    ]
    for game in sorted(GAMES, key=lambda game: game.name):
        played = [run for run in tested if find_game(run.env) is game]
        plans = [{run.planned_steps for run in played if scores.method_of(run) == method} for method in METHODS]
        common = max(set.intersection(*plans), default=0)
        runs = [run for run in played if run.planned_steps == common]
        steps = int(min((run.points("eval", "mean_reward")[-1][0] for run in runs), default=0))
        found = {method: _best(runs, method, steps) for method in METHODS}
        if all(found.values()):
            ebu, dqn = (float(np.mean(values)) for values in found.values())
            different = float(mannwhitneyu(*found.values()).pvalue) < CERTAIN
            seeds, again = min(map(len, found.values())), command_of(runs, atari.EBU_HALF)
            yield Pair(game, steps, runs[0].planned_steps, seeds, ebu, dqn, again, different)


def command_of(runs: Sequence[Run], method: str) -> str:
    """The command that gives the method's run with the smallest seed again, but for the number of threads."""
    first = min((run for run in runs if scores.method_of(run) == method), key=lambda run: run.seed)
    return re.sub(r" --threads \d+", "", command(first))


def _best(runs: Sequence[Run], method: str, steps: int) -> list[float]:
    """The best test until then of every seed."""
    found = (atari.best_until(run, steps) for run in runs if scores.method_of(run) == method)
    return [score for score in found if score is not None]


def atari_claims(tree: Tree) -> Iterator[Claim]:
    for pair in pairs(tree, "paper"):
        ours, theirs = (pair.ebu, pair.dqn), (pair.game.paper[column] for column in METHODS.values())
        yield Claim(
            f"{pair.game.name}, 10M frames: ahead of DQN",
            " against ".join(f"{score:.1f}" for score in theirs),
            f"{' against '.join(f'{score:.1f}' for score in ours)} after {pair.length()} ({several(pair.seeds, 'seed')})",
            verdict(pair.ebu > pair.dqn, pair.is_decided) if pair.is_whole else "open: the run is shorter",
            pair.command,
            f"β = 0.5; best test of 30 games; random play {pair.game.random:.1f}; rank test over seeds"
            + ("" if pair.is_decided else ": too few seeds"),
            place=f"{pair.game.name} (Atari)",
        )
    yield from _from_the_papers_scores()


def _from_the_papers_scores() -> Iterator[Claim]:
    aggregates = paper_table_2()
    gaps = [
        max(abs(aggregates[column].mean - mean), abs(aggregates[column].median - median))
        for column, (_, mean, median) in table2.EXPECTED.items()
    ]
    yield Claim(
        "49 Atari games, human-normalised (Table 2)",
        f"EBU {_printed('ebu_0.5_10M')}, DQN {_printed('dqn_10M')}",
        "recomputed from its raw scores",
        "as printed",
        "ebu reproduce table2",
        f"Mean and median; the largest difference is {max(gaps):.2f} points; no training of ours",
    )
    text = figure4.EXPECTED["wins_in_the_text"][atari.ADAPTIVE]
    won = count_wins(paper_scores("adaptive_ebu_10M"), paper_scores("dqn_10M")).wins
    yield Claim(
        "49 Atari games: adaptive EBU mostly ahead of DQN (Figure 4)",
        f"{text} of 49",
        f"{won} of 49, from its raw scores",
        "nearly",
        "ebu reproduce figure4",
    )


def _printed(column: str) -> str:
    _, mean, median = table2.EXPECTED[column]
    return f"{mean:.2f} and {median:.2f} %"
