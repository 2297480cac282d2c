"""What is said while one waits: a bar in a terminal, lines in a log."""

from __future__ import annotations

import io
import re

from rich.console import Console

import ebu
from ebu.training.events import Evaluated, Trained
from ebu.training.progress import ProgressBar, ProgressLines
from ebu.types import Evaluation


def evaluated(step, score):
    return Evaluated(step, Evaluation((score,), (5,), 0.0, 0.0, ()))


def test_a_line_every_half_minute_with_steps_speed_score_and_time_left():
    lines, now = [], [100.0]
    progress = ProgressLines(10_000, lines.append, clock=lambda: now[0])
    for step in range(1, 4_001):
        now[0] += 0.01  # 100 steps a second
        if step == 1_000:
            progress(Trained(step, {"ep_rew_mean": 12.3456, "epsilon": 0.5}))
            progress(evaluated(step, 40.0))
        progress.advance(step)
    assert lines == ["3,001 of 10,000 steps (30%), 100 per second, score 12.35, greedy 40, about 70 s left"]


def test_a_long_evaluation_is_not_silent():
    lines, now = [], [0.0]
    progress = ProgressLines(10_000, lines.append, clock=lambda: now[0])
    for _ in range(40):
        progress.evaluating(5_000)
        now[0] += 1.0
    assert lines == ["5,000 of 10,000 steps (50%), evaluating"]


def test_listeners_that_ask_for_it_are_called_during_an_evaluation_and_the_others_are_not(tmp_path):
    agent = ebu.EBU("CartPole-v1", seed=0, eval_every=0, eval_episodes=3, hidden_sizes=(8,))
    steps, waits = [], []

    class Counter:
        def __call__(self, event):
            pass

        def advance(self, done):
            steps.append(done)

        def evaluating(self, done):
            waits.append(done)

    agent.learn(20, run=tmp_path / "run", callback=Counter())
    assert steps[:20] == list(range(1, 21)) and len(steps) <= 21  # one more for what was due after the last step
    assert len(waits) > 20 and set(waits) == {20}  # three episodes of at least eight steps


def test_what_is_over_before_says_nothing():
    lines, now = [], [0.0]
    progress = ProgressLines(10, lines.append, clock=lambda: now[0])
    for step in range(1, 11):
        now[0] += 2.9
        progress.advance(step)
    assert lines == []


def test_a_resumed_run_counts_only_its_own_steps():
    lines, now = [], [0.0]
    progress = ProgressLines(2_000, lines.append, interval=10.0, clock=lambda: now[0])
    for step in range(1_000, 1_012):
        progress.advance(step)
        now[0] += 1.0
    assert lines == ["1,010 of 2,000 steps (50%), 1 per second, about 16 min left"]


def test_the_bar_shows_steps_speed_score_and_time_left():
    shown = io.StringIO()
    bar = ProgressBar(3_000, "ebu", Console(file=shown, force_terminal=True, width=80, color_system=None), start=1_000)
    bar(Trained(1_500, {"ep_rew_mean": 21.5, "epsilon": 0.5}))
    bar(evaluated(1_500, 73.0))
    bar.advance(1_500)
    bar.close()
    last = next(line for line in reversed(shown.getvalue().splitlines()) if "3,000" in line)
    for words in ("ebu", "1,500/3,000", "steps/s", "score 21.5", "greedy 73", "left"):
        assert words in last
    assert len(re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", last)) <= 80
