from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from ebu.errors import UserError
from ebu.report import statistics
from ebu.report.statistics import Interval


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def runs(tasks: int = 6, count: int = 8, shift: float = 0.0, seed: int = 1) -> dict[str, list[float]]:
    rng = np.random.default_rng(seed)
    return {f"task {i}": (rng.normal(i, 1.0, count) + shift).tolist() for i in range(tasks)}


def test_the_three_summaries_on_numbers_done_by_hand() -> None:
    scores = {"a": [0.0, 2.0], "b": [3.0, 5.0], "c": [10.0, 100.0], "d": [-50.0, 6.0]}
    assert statistics.score(scores, statistics.mean) == pytest.approx((1 + 4 + 55 - 22) / 4)
    assert statistics.score(scores, statistics.median) == 2.5
    assert statistics.score(scores) == pytest.approx((2 + 3 + 5 + 6) / 4)  # of −50 0 | 2 3 5 6 | 10 100


def test_a_stratified_bootstrap_equals_a_naive_one_that_draws_runs_within_tasks(rng: np.random.Generator) -> None:
    scores = runs()
    draws = []
    for _ in range(2_000):
        drawn = np.concatenate([rng.choice(values, len(values)) for values in scores.values()])
        draws.append(stats.trim_mean(drawn, 0.25))
    found = statistics.interval(scores, rng=np.random.default_rng(3))
    assert (found.low, found.high) == pytest.approx(np.percentile(draws, [2.5, 97.5]), abs=0.05)
    assert found.low < found.estimate < found.high


def test_differences_between_tasks_do_not_widen_a_stratified_interval(rng: np.random.Generator) -> None:
    steady = {"easy": [100.0, 100.0], "hard": [0.0, 0.0]}
    assert statistics.interval(steady, statistics.mean, rng=rng) == Interval(50.0, 50.0, 50.0)


def test_the_interval_of_the_mean_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(7)
    covered = 0
    for _ in range(200):
        scores = {task: rng.normal(0.0, 1.0, 20).tolist() for task in "abc"}
        found = statistics.interval(scores, statistics.mean, rng=rng, level=0.9, resamples=300)
        covered += found.low <= 0.0 <= found.high
    assert 0.82 <= covered / 200 <= 0.96


def test_the_same_generator_gives_the_same_interval() -> None:
    first, second = (statistics.interval(runs(), rng=np.random.default_rng(5)) for _ in range(2))
    assert first == second


def test_tasks_may_have_different_numbers_of_runs(rng: np.random.Generator) -> None:
    scores = {"a": [1.0, 2.0, 3.0], "b": [1.0, 2.0]}
    assert statistics.interval(scores, statistics.mean, rng=rng).estimate == pytest.approx(1.75)


def test_one_value_per_task_is_resampled_over_tasks(rng: np.random.Generator) -> None:
    values = [float(value) for value in range(49)]
    for statistic in (statistics.mean, statistics.median, statistics.interquartile_mean):
        found = statistics.interval_over_tasks(values, statistic, rng=rng)
        assert found.estimate == pytest.approx(24.0)
        assert 15.0 < found.low < 24.0 < found.high < 33.0


def test_probability_of_improvement_is_the_mann_whitney_statistic_averaged_over_tasks(rng: np.random.Generator) -> None:
    ours, theirs = runs(shift=0.5), runs(count=5, seed=2)
    expected = [stats.mannwhitneyu(ours[task], theirs[task]).statistic / (8 * 5) for task in ours]
    found = statistics.probability_of_improvement(ours, theirs, rng=rng)
    assert found.estimate == pytest.approx(np.mean(expected))
    assert found.low < found.estimate < found.high


def test_probability_of_improvement_counts_ties_half_and_ignores_the_order_of_tasks(rng: np.random.Generator) -> None:
    ours = {"a": [1.0, 1.0], "b": [2.0, 2.0]}
    theirs = {"b": [1.0, 1.0], "a": [1.0, 1.0]}
    assert statistics.probability_of_improvement(ours, theirs, rng=rng).estimate == 0.75


def test_a_performance_profile_is_the_share_of_runs_above_each_threshold(rng: np.random.Generator) -> None:
    scores = {"a": [0.0, 1.0, 2.0, 3.0], "b": [10.0, 10.0]}
    profile = statistics.performance_profile(scores, [-1.0, 1.0, 5.0, 10.0], rng=rng)
    assert profile.estimate.tolist() == [1.0, 0.75, 0.5, 0.0]
    assert (profile.low <= profile.estimate).all() and (profile.estimate <= profile.high).all()


def test_a_curve_has_the_interval_of_every_point(rng: np.random.Generator) -> None:
    curves = {"a": [[0.0, 1.0, 2.0], [0.0, 3.0, 4.0]], "b": [[0.0, 1.0, 6.0], [0.0, 1.0, 8.0]]}
    band = statistics.curve([10, 20, 30], curves, statistics.mean, rng=rng)
    assert band.at.tolist() == [10.0, 20.0, 30.0]
    assert band.estimate.tolist() == [0.0, 1.5, 5.0]
    assert band.low[0] == band.high[0] == 0.0 and band.low[1] < 1.5 < band.high[1]


def test_helpers_for_sample_efficiency() -> None:
    steps, values = [10, 20, 30], [1.0, 5.0, 3.0]
    assert statistics.best_so_far([values, [2.0, 1.0, 4.0]]).tolist() == [[1.0, 5.0, 5.0], [2.0, 2.0, 4.0]]
    assert statistics.steps_to_reach(steps, values, 4.0) == 20.0
    assert statistics.steps_to_reach(steps, values, 6.0) is None
    assert statistics.area_under_curve(steps, values) == 3.5
    np.testing.assert_array_equal(statistics.value_at(steps, values, [5, 10, 29, 99]), [np.nan, 1.0, 5.0, 3.0])


def test_what_has_no_interval_is_said_in_words(rng: np.random.Generator) -> None:
    with pytest.raises(UserError, match="at least two runs of every task"):
        statistics.interval({"a": [1.0]}, rng=rng)
    with pytest.raises(UserError, match="scores of a must be a list of finite numbers"):
        statistics.interval({"a": [1.0, float("nan")]}, rng=rng)
    with pytest.raises(UserError, match="only one of the two has the tasks b"):
        statistics.probability_of_improvement({"a": [1.0, 2.0]}, {"a": [1.0, 2.0], "b": [1.0, 2.0]}, rng=rng)
    with pytest.raises(UserError, match=r"not \[runs, 3\]"):
        statistics.curve([1, 2, 3], {"a": [[1.0, 2.0]]}, rng=rng)
    with pytest.raises(UserError, match="there are no scores"):
        statistics.score({})
