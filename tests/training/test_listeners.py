"""What is kept of a run: rows without a clock, a clock without rows, curves that TensorBoard can read."""

from __future__ import annotations

import json

import pytest

from ebu.training.events import EpisodeEnded, Evaluated, Trained
from ebu.training.listeners import MetricsFile, TensorBoard, TimingFile, row
from ebu.types import Evaluation

ENDED = EpisodeEnded(step=3, episode=1, score=2.0, length=3, terminated=True)
TRAINED = Trained(
    100,
    {
        "episodes": 4,
        "updates": 20,
        "explained_returns": 0.75,
        "epsilon": 0.5,
        "memory_steps": 90,
        "ep_rew_mean": 1.5,
        "ep_len_mean": 9.0,
        "loss": 0.25,
    },
)
EVALUATED = Evaluated(200, Evaluation((1.0, 3.0), (10, 20), mean_q=0.5, mean_discounted_return=0.75))
MAZE = Evaluated(300, Evaluation((1.0,), (36,), 0.5, 0.75, relative_lengths=(2.0,)))


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_training_row():
    assert row(TRAINED) == {"kind": "train", "step": 100, **TRAINED.metrics}


def test_an_evaluation_row():
    assert row(EVALUATED) == {
        "kind": "eval",
        "step": 200,
        "mean_reward": 2.0,
        "std_reward": 1.0,
        "median_reward": 2.0,
        "returns": [1.0, 3.0],
        "lengths": [10, 20],
        "mean_q": 0.5,
        "mean_discounted_return": 0.75,
    }


def test_a_maze_s_evaluation_row_has_relative_lengths():
    assert row(MAZE)["relative_lengths"] == [2.0]


def test_a_single_episode_is_no_row():
    assert row(ENDED) is None


def test_the_metrics_file_grows_by_one_line_per_row_and_is_readable_while_it_grows(tmp_path):
    path = tmp_path / "metrics.jsonl"
    file = MetricsFile(path)
    for event in (ENDED, TRAINED):
        file(event)
    assert lines(path) == [row(TRAINED)]  # before it is closed
    file(EVALUATED)
    file.close()
    assert lines(path) == [row(TRAINED), row(EVALUATED)]
    again = MetricsFile(path)  # what is there is kept
    again(MAZE)
    again.close()
    assert len(lines(path)) == 3


def test_the_metrics_file_has_nothing_that_depends_on_the_clock(tmp_path):
    for name in ("a", "b"):
        file = MetricsFile(tmp_path / name)
        for event in (ENDED, TRAINED, EVALUATED, MAZE):
            file(event)
        file.close()
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert b"\r" not in (tmp_path / "a").read_bytes()


def test_the_timing_file_has_the_clock(tmp_path):
    file = TimingFile(tmp_path / "timing.jsonl", start_step=50)
    for event in (ENDED, TRAINED, EVALUATED):
        file(event)
    file.close()
    first, second = lines(tmp_path / "timing.jsonl")
    assert (first["step"], second["step"]) == (100, 200)
    assert 0 <= first["seconds"] <= second["seconds"] < 60
    assert first["steps_per_second"] > 0


def test_tensorboard_can_read_the_curves_under_the_names_rl_users_know(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    board = TensorBoard(tmp_path)
    for event in (ENDED, TRAINED, EVALUATED, MAZE):
        board(event)
    board.close()
    curves = EventAccumulator(str(tmp_path)).Reload()

    def points(tag):
        return [(point.step, point.value) for point in curves.Scalars(tag)]

    assert points("rollout/ep_rew_mean") == [(100, 1.5)]
    assert points("rollout/ep_len_mean") == [(100, 9.0)]
    assert points("rollout/exploration_rate") == [(100, 0.5)]
    assert points("train/loss") == [(100, 0.25)]
    assert points("train/n_updates") == [(100, 20.0)]
    assert points("train/explained_returns") == [(100, 0.75)]
    assert points("eval/mean_reward") == [(200, 2.0), (300, 1.0)]
    assert points("eval/mean_ep_length") == [(200, 15.0), (300, 36.0)]
    assert points("eval/relative_length") == [(300, 2.0)]
    assert points("time/fps")[0][1] == pytest.approx(curves.Scalars("time/fps")[0].value) and points("time/fps")[0][1] > 0
