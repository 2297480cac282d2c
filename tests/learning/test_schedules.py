"""ε and the step size as functions of the absolute step, at the numbers the papers print."""

from __future__ import annotations

import itertools

import pytest

from ebu.config import ExplorationConfig, LearnerConfig
from ebu.learning.schedules import epsilon_schedule, learning_rate
from ebu.presets import configure


@pytest.mark.parametrize(("step", "epsilon"), [(0, 1.0), (50_000, 0.5625), (100_000, 0.25), (150_000, 0.0625), (200_000, 0.0)])
def test_the_paper_s_maze_schedule(step, epsilon):
    config = configure("ebu", "maze", "paper")
    schedule = epsilon_schedule(config.exploration, config.steps, config.learner.learning_starts)
    assert schedule(step) == pytest.approx(epsilon, abs=1e-12)
    assert schedule(step) == pytest.approx((step - 200_000) ** 2 / 200_000**2, abs=1e-12)


@pytest.mark.parametrize(
    ("step", "epsilon"), [(0, 1.0), (49_999, 1.0), (50_000, 1.0), (550_000, 0.55), (1_050_000, 0.1), (2_000_000, 0.1)]
)
def test_the_paper_s_atari_schedule_waits_for_learning_to_start(step, epsilon):
    config = ExplorationConfig(exploration_schedule="delayed-linear", exploration_final_eps=0.1, exploration_fraction=0.4)
    assert epsilon_schedule(config, 2_500_000, 50_000)(step) == pytest.approx(epsilon, abs=1e-12)


@pytest.mark.parametrize(("step", "epsilon"), [(0, 1.0), (1000, 0.525), (2000, 0.05), (9999, 0.05)])
def test_the_linear_schedule_ignores_the_start_of_learning(step, epsilon):
    config = ExplorationConfig(exploration_fraction=0.2)
    assert epsilon_schedule(config, 10_000, 1_000)(step) == pytest.approx(epsilon)


@pytest.mark.parametrize("kind", ["linear", "quadratic", "delayed-linear"])
def test_no_schedule_rises_or_leaves_its_bounds(kind):
    config = ExplorationConfig(exploration_schedule=kind, exploration_initial_eps=0.9, exploration_final_eps=0.2)
    values = [epsilon_schedule(config, 5000, 100)(step) for step in range(0, 6000, 10)]
    assert all(later <= earlier for earlier, later in itertools.pairwise(values))
    assert (values[0], values[-1]) == (0.9, 0.2)


def test_a_constant_epsilon_is_initial_equal_to_final():
    config = ExplorationConfig(exploration_initial_eps=0.05, exploration_final_eps=0.05)
    assert {epsilon_schedule(config, 1000, 0)(step) for step in (0, 1, 100, 5000)} == {0.05}


def test_no_annealing_goes_to_the_final_value_at_once():
    schedule = epsilon_schedule(ExplorationConfig(exploration_fraction=0.0), 1000, 0)
    assert schedule(1) == 0.05


def test_the_step_size_is_constant_unless_asked_otherwise():
    config = LearnerConfig(learning_rate=0.1)
    assert {learning_rate(config, step, 1000) for step in (0, 500, 1000, 5000)} == {0.1}


def test_the_linear_step_size_ends_near_zero_and_never_below():
    config = LearnerConfig(learning_rate=0.1, learning_rate_schedule="linear")
    assert [learning_rate(config, step, 1000) for step in (0, 250, 500)] == pytest.approx([0.1, 0.075, 0.05])
    for step in (1000, 5000):
        assert 0 < learning_rate(config, step, 1000) <= 0.1 / 1000


@pytest.mark.parametrize(("step", "expected"), [(0, 0.1), (500, 0.01), (1000, 0.001), (5000, 0.001)])
def test_the_exponential_step_size_ends_at_its_final_share(step, expected):
    config = LearnerConfig(learning_rate=0.1, learning_rate_schedule="exponential", learning_rate_final=0.01)
    assert learning_rate(config, step, 1000) == pytest.approx(expected)
