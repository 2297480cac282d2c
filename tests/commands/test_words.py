"""A command line as people write it → as the parser reads it."""

from __future__ import annotations

import pytest

from ebu.commands.parsing import parse
from ebu.commands.train import TrainArguments
from ebu.commands.words import flags_of, in_full, whole_number
from ebu.config import flat

FLAGS = flags_of(TrainArguments)


def settings(line):
    parsed = parse(TrainArguments, line.split(), "ebu train")
    return flat(parsed.settings) | {"quiet": parsed.quiet, "tensorboard": parsed.tensorboard}


@pytest.mark.parametrize(
    ("text", "number"),
    [("100k", 100_000), ("1e5", 100_000), ("1.5M", 1_500_000), ("2E6", 2_000_000), ("1_000", 1000), ("7", 7), ("1b", 10**9)],
)
def test_whole_numbers_may_be_written_as_people_write_them(text, number):
    assert whole_number(text) == str(number)


@pytest.mark.parametrize("text", ["1.5", "1e-3", "k", "many", "1e5k5", "", "1e999", "0x10", "infM", "٣k", "1" + "0" * 5000])
def test_what_is_no_whole_number_is_left_to_be_refused(text):
    assert whole_number(text) == text


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("--steps 100k", "steps", 100_000),
        ("--buffer_size=1e6", "buffer_size", 1_000_000),
        ("--hidden-sizes 1k 64", "hidden_sizes", (1000, 64)),
        ("--n-steps 5", "n_steps", 5),
        ("--n-steps episode", "n_steps", "episode"),
        ("--lr 1e-4", "learning_rate", 1e-4),
        ("--lr=3e-4", "learning_rate", 3e-4),
        ("--total-timesteps 2k", "steps", 2000),
        ("--quiet", "quiet", True),
        ("--quiet True", "quiet", True),
        ("--quiet=False", "quiet", False),
        ("--double-q", "double_q", True),
        ("--double-q --no-double-q", "double_q", False),
        ("--double-q False", "double_q", False),
        ("--no-tensorboard", "tensorboard", False),
        ("--tensorboard False --quiet", "tensorboard", False),
        ("--env-args a=1k b=2 --quiet", "env_args", ("a=1k", "b=2")),
    ],
)
def test_flags_mean_what_they_say(line, name, value):
    assert settings(line)[name] == value


def test_words_that_belong_to_no_flag_are_given_apart():
    full, loose = in_full(
        ["CartPole-v1", "--quiet", "--seed", "3", "more", "--env-args", "a=1", "b=2", "--steps", "1k", "end"], FLAGS
    )
    assert loose == ["CartPole-v1", "more", "end"]
    assert full == ["--quiet", "--seed", "3", "--env-args", "a=1", "b=2", "--steps", "1000"]


def test_a_negative_number_is_a_value_and_no_flag():
    assert settings("--seed -1")["seed"] == -1
