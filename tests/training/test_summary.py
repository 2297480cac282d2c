"""How a run ended, told from its rows."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

import ebu
from ebu.config import Config, override
from ebu.storage.run_folder import RunFolder
from ebu.training.events import Evaluated, Trained
from ebu.training.listeners import Recorder
from ebu.training.summary import aggregate, draw_curve, sparkline, summarise
from ebu.types import Evaluation
from tests.conftest import Corridor


def finished(path, events, **settings):
    folder = RunFolder.create(path, override(Config(), env="CartPole-v1", seed=3, **settings))
    with Recorder(folder, tensorboard=False) as recorder:
        for event in events:
            recorder(event)
    return folder


def score(step, *returns, relative=()):
    return Evaluated(step, Evaluation(returns, tuple(10 for _ in returns), 0.0, 0.0, relative))


def test_the_facts_of_a_run(tmp_path):
    folder = finished(tmp_path, [Trained(100, {"ep_rew_mean": 1.0}), score(100, 5.0, 7.0), score(200, 2.0)])
    assert summarise(folder) == {
        "algo": "ebu",
        "env": "CartPole-v1",
        "seed": 3,
        "steps": 200,
        "score": 2.0,
        "score_is": "last",
        "final_mean_reward": 2.0,
        "best_mean_reward": 6.0,
    }


@pytest.mark.parametrize(("how", "expected"), [("last", 2.0), ("best", 6.0)])
def test_a_run_s_score_is_its_last_evaluation_or_the_best_so_far(tmp_path, how, expected):
    summary = summarise(finished(tmp_path, [score(100, 5.0, 7.0), score(200, 2.0)], eval_aggregate=how))
    assert (summary["score"], summary["score_is"]) == (expected, how)


def test_the_best_so_far_never_falls():
    scores = [1.0, 3.0, -2.0, 3.0, 5.0]
    assert aggregate(scores, "best") == [1.0, 3.0, 3.0, 3.0, 5.0]
    assert aggregate(scores, "last") == scores


def test_the_best_so_far_is_drawn_where_it_is_the_score(tmp_path):
    rows = [score(100, 1.0), score(200, 9.0), score(300, 2.0)]
    orange = []
    for how in ("last", "best"):
        folder = finished(tmp_path / how, rows, eval_aggregate=how)
        draw_curve(folder, folder.curve)
        with Image.open(folder.curve) as picture:
            pixels = np.asarray(picture.convert("RGB")).astype(int)
        orange.append((pixels[..., 0] - pixels[..., 2] > 150).sum())
    assert orange[0] == 0 and orange[1] > 50


def test_a_maze_s_two_lengths(tmp_path):
    rows = [
        Trained(100, {"relative_length": 9.0}),
        score(100, 1.0, relative=(4.0,)),
        Trained(200, {"relative_length": 3.0}),
        score(200, 1.0, 1.0, relative=(1.0, 2.0)),
    ]
    summary = summarise(finished(tmp_path, rows))
    assert (summary["greedy_relative_length"], summary["training_relative_length"]) == (1.5, 3.0)


def test_a_run_without_rows_has_a_summary_too(tmp_path):
    assert summarise(finished(tmp_path, []))["steps"] == 0


@pytest.mark.parametrize("log_every", [1_000, 50])
def test_the_steps_of_a_run_are_those_it_took_whatever_was_logged(tmp_path, log_every):
    """Of an environment object that cannot be made twice there are no evaluations, whose rows end at the last step."""
    agent = ebu.EBU(Corridor(), hidden_sizes=(8,), batch_size=8, learning_starts=20, log_every=log_every, eval_every=0)
    agent.learn(70, run=tmp_path / "run")
    folder = RunFolder.open(tmp_path / "run")
    assert json.loads(folder.summary.read_text())["steps"] == 70
    assert [row["step"] for row in folder.rows()] == ([50] if log_every == 50 else [])


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ([0.0, 1.0], "▁█"),
        ([3.0, 3.0, 3.0], "▄▄▄"),
        ([5.0], "▄"),
        ([0, 1, 2, 3, 4, 5, 6, 7], "▁▂▃▄▅▆▇█"),
        ([1.0, -1.0], "█▁"),
    ],
)
def test_a_curve_in_one_line_of_text(values, line):
    assert sparkline(values) == line


def test_a_long_curve_keeps_its_ends_in_the_width_given():
    line = sparkline(list(np.linspace(0, 1, 500)), width=20)
    assert len(line) == 20 and line[0] == "▁" and line[-1] == "█"


@pytest.mark.parametrize(
    "events", [[], [score(100, 1.0)], [Trained(100, {"ep_rew_mean": 1.0}), score(100, 5.0), score(200, 9.0)]]
)
def test_the_curve_as_a_picture(tmp_path, events):
    folder = finished(tmp_path, events)
    draw_curve(folder, folder.curve)
    with Image.open(folder.curve) as picture:
        pixels = np.asarray(picture.convert("RGB"))
    assert pixels.shape[0] > 300 and pixels.shape[1] > 500
    blue = (pixels[..., 2].astype(int) - pixels[..., 0] > 100).sum()
    assert (blue > 20) == any(isinstance(event, Evaluated) for event in events)
