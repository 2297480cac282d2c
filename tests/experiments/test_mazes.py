"""Steps to a good path, and mazes of all densities together."""

import pytest

from ebu.experiments import mazes, output
from ebu.experiments.mazes import EBU, N_STEP, ONE_STEP, MazeKind, pooled_rows, steps_to_twice_the_shortest, trials_in
from ebu.report.rows import read_run
from tests.experiments.pages import write_trial


def every_thousand(lengths):
    return [(1000 * (i + 1), length) for i, length in enumerate(lengths)]


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ([50.0] * 6 + [1.0] * 4, None),  # most of the ten are long
        ([50.0] * 5 + [1.0] * 5, None),  # the median is half way between 1 and 50
        ([50.0] * 6 + [1.0] * 6, 12_000),  # six of the latest ten are short
        ([2.0] * 10, 10_000),
        ([1.0] * 9, None),  # fewer than ten on record
        ([2.1] * 30, None),
    ],
)
def test_twice_the_shortest_path_is_reached_when_half_of_the_latest_ten_episodes_are(lengths, expected):
    assert steps_to_twice_the_shortest(every_thousand(lengths)) == expected


def test_mazes_of_all_densities_are_pooled_where_every_method_is_finished(tmp_path):
    methods, cells = (EBU, ONE_STEP, N_STEP), {}
    for kind, finished in ((MazeKind(0.2), methods), (MazeKind(0.5), (EBU, ONE_STEP)), (MazeKind(0.5, slip=0.1), methods)):
        for one in trials_in(kind, finished, 2, 0, preset="quick", steps=10_000):
            run = read_run(write_trial(tmp_path / one.id, one, points=12))
            cells.setdefault((kind, one.label), []).append((one, run))
    rows = pooled_rows(cells, methods)
    assert [row["method"] for row in rows] == list(methods)
    assert [row["mazes"] for row in rows] == [2, 2, 2]  # not the slippery ones, not those without n-step DQN
    curves = [mazes.of_the_latest_ten(mazes.training_lengths(run)) for _, run in cells[MazeKind(0.2), EBU]]
    alone = mazes.over_the_training("latest_ten", curves)
    assert alone["latest_ten_steps"] and alone.items() <= rows[0].items()


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([], "–"),
        ([3000, 1000, 2000], "2,000"),
        ([3000, None, 2000], "3,000 (2 of 3)"),
        ([None, None, 2000], "not reached (1 of 3)"),
    ],
)
def test_median_steps_count_runs_that_never_arrive_last(steps, words):
    assert output.median_steps(steps) == words
