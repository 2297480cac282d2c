"""Atari scores as the paper reads them: human-normalised and relative, their aggregates, wins. All in percent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy import stats

from ebu.envs.atari_games import PAPER_COLUMNS, Game, find_game, paper_scores
from ebu.errors import UserError

Scores = Mapping[str, float]  # raw score by game, in any spelling of its name


def human_normalised(agent: float, random: float, human: float) -> float:
    """(agent − random) / |human − random|: 0 is random play, 100 the human tester."""
    return 100.0 * (agent - random) / abs(human - random)


def relative(agent: float, baseline: float, random: float, human: float) -> float:
    """(agent − baseline) / (max(human, baseline) − random): the gain over a baseline, by how hard the game is."""
    return 100.0 * (agent - baseline) / (max(human, baseline) - random)


def human_normalised_scores(scores: Scores) -> dict[str, float]:
    """Human-normalised score by the paper's name of each game."""
    return {game.name: human_normalised(raw, game.random, game.human) for game, raw in _by_game(scores)}


def relative_scores(agent: Scores, baseline: Scores) -> dict[str, float]:
    """Relative score by game, best first: the order of the paper's Figure 4."""
    gains = {game.name: relative(ours, theirs, game.random, game.human) for game, ours, theirs in _pairs(agent, baseline)}
    return dict(sorted(gains.items(), key=lambda item: -item[1]))


@dataclass(frozen=True)
class Aggregate:
    """Human-normalised performance over a set of games, in percent."""

    games: int
    mean: float
    median: float
    interquartile_mean: float


def aggregate(percentages: Iterable[float]) -> Aggregate:
    values = np.array(list(percentages), np.float64)
    if not values.size:
        raise UserError("there are no scores to aggregate")
    return Aggregate(len(values), float(values.mean()), float(np.median(values)), float(stats.trim_mean(values, 0.25)))


def paper_table_2() -> dict[str, Aggregate]:
    """The paper's Table 2 computed from the raw scores of its Table 3, by column."""
    return {column: aggregate(human_normalised_scores(paper_scores(column)).values()) for column in PAPER_COLUMNS}


@dataclass(frozen=True)
class Wins:
    """In how many games an agent scored above, below and level with its baseline."""

    wins: int
    losses: int
    ties: int


def count_wins(agent: Scores, baseline: Scores) -> Wins:
    signs = [np.sign(ours - theirs) for _, ours, theirs in _pairs(agent, baseline)]
    return Wins(signs.count(1), signs.count(-1), signs.count(0))


def _pairs(agent: Scores, baseline: Scores) -> list[tuple[Game, float, float]]:
    theirs = {game.name: raw for game, raw in _by_game(baseline)}
    for game, _ in _by_game(agent):
        if game.name not in theirs:
            raise UserError(f"the baseline has no score for {game.name}; compare on the games that both have played")
    return [(game, raw, theirs[game.name]) for game, raw in _by_game(agent)]


def _by_game(scores: Scores) -> list[tuple[Game, float]]:
    return [(_game(name), raw) for name, raw in scores.items()]


def _game(name: str) -> Game:
    game = find_game(name)
    if game is None:
        raise UserError(f"{name!r} is not one of the paper's 49 games, so there is no human score to compare with")
    return game
