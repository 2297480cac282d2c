"""The paper's own numbers, recomputed from the raw scores of its Table 3."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from ebu.envs.atari_games import PAPER_COLUMNS, paper_scores
from ebu.errors import UserError
from ebu.report.scores import (
    Aggregate,
    Wins,
    aggregate,
    count_wins,
    human_normalised,
    human_normalised_scores,
    paper_table_2,
    relative,
    relative_scores,
)

# Table 2 as printed: mean and median in percent.
TABLE_2 = {
    "ebu_0.5_10M": (253.55, 51.55),
    "adaptive_ebu_10M": (275.78, 63.80),
    "dqn_10M": (133.95, 40.42),
    "per_10M": (156.57, 40.86),
    "retrace_10M": (93.77, 41.99),
    "ot_10M": (162.66, 49.42),
    "adaptive_ebu_20M": (347.99, 92.50),
    "nature_dqn_200M": (241.06, 93.52),
}


@pytest.mark.parametrize("column", PAPER_COLUMNS)
def test_table_2_comes_out_to_a_tenth_of_a_point(column: str) -> None:
    result = paper_table_2()[column]
    assert result.games == 49
    assert (result.mean, result.median) == pytest.approx(TABLE_2[column], abs=0.1)


def test_figure_4_comes_out_in_all_49_games() -> None:
    with (Path(__file__).parent / "data" / "fig4_relative_scores.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 49
    for agent, column in (("adaptive_ebu_10M", "adaptive_vs_dqn10M_pct"), ("ebu_0.5_10M", "ebu0.5_vs_dqn10M_pct")):
        ours = relative_scores(paper_scores(agent), paper_scores("dqn_10M"))
        assert ours == pytest.approx({row["game"]: float(row[column]) for row in rows}, abs=0.006)


def test_figure_4_is_ordered_from_the_largest_gain_to_the_largest_loss() -> None:
    gains = relative_scores(paper_scores("adaptive_ebu_10M"), paper_scores("dqn_10M"))
    assert list(gains)[:3] == ["Video Pinball", "Breakout", "Atlantis"]
    assert list(gains)[-1] == "Krull"
    assert list(gains.values()) == sorted(gains.values(), reverse=True)


def test_the_papers_table_gives_29_and_38_wins_where_its_text_says_33_and_39() -> None:
    dqn = paper_scores("dqn_10M")
    assert count_wins(paper_scores("ebu_0.5_10M"), dqn) == Wins(29, 20, 0)
    assert count_wins(paper_scores("adaptive_ebu_10M"), dqn) == Wins(38, 11, 0)


def test_one_game_carries_the_papers_mean() -> None:
    ebu, dqn = (human_normalised_scores(paper_scores(column)) for column in ("ebu_0.5_10M", "dqn_10M"))
    assert ebu.pop("Video Pinball") == pytest.approx(6590.0, abs=1.0)
    dqn.pop("Video Pinball")
    assert aggregate(ebu.values()).mean == pytest.approx(121.5, abs=0.1)
    assert aggregate(dqn.values()).mean == pytest.approx(133.7, abs=0.1)


def test_human_normalised_is_0_for_chance_100_for_the_human_and_uses_the_distance_between_them() -> None:
    assert human_normalised(-20.0, random=-20.0, human=10.0) == 0.0
    assert human_normalised(10.0, random=-20.0, human=10.0) == 100.0
    assert human_normalised(6.0, random=5.0, human=3.0) == 50.0  # a human below chance must not turn gains into losses


def test_relative_score_divides_by_the_better_of_human_and_baseline() -> None:
    assert relative(30.0, baseline=20.0, random=0.0, human=10.0) == 50.0
    assert relative(30.0, baseline=20.0, random=0.0, human=100.0) == 10.0
    assert relative(20.0, baseline=20.0, random=0.0, human=10.0) == 0.0


def test_aggregate_gives_mean_median_and_the_mean_of_the_middle_half() -> None:
    assert aggregate([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 1000.0]) == Aggregate(8, 127.625, 3.5, 3.5)


def test_games_may_be_named_by_id_and_are_known_by_the_papers_name() -> None:
    assert human_normalised_scores({"ALE/Pong-v5": 9.3}) == {"Pong": 100.0}
    assert count_wins({"ALE/Pong-v5": 1.0}, {"pong": 1.0}) == Wins(0, 0, 1)


def test_what_cannot_be_compared_is_said_in_words() -> None:
    with pytest.raises(UserError, match="'Pitfall' is not one of the paper's 49 games"):
        human_normalised_scores({"Pitfall": 1.0})
    with pytest.raises(UserError, match="the baseline has no score for Pong"):
        relative_scores({"Pong": 1.0}, {"Alien": 1.0})
    with pytest.raises(UserError, match="no scores"):
        aggregate([])
