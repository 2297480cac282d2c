"""Every setting by one name: replaced, flattened, written, read back; what cannot be is refused before any work."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import get_type_hints

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebu.config import STAGES, Config, field_names, flat, from_json, override, to_json
from ebu.config_check import RANGES, check
from ebu.env_arguments import environment_arguments, environment_pairs
from ebu.errors import UserError

NUMBERS = [name for name, value in flat(Config()).items() if isinstance(value, int | float) and not isinstance(value, bool)]


def refusal(**settings):
    """The one line with which ``check`` refuses these settings; it names the first of them."""
    with pytest.raises(UserError) as error:
        check(override(Config(), **settings))
    message = str(error.value)
    assert "\n" not in message
    assert next(iter(settings)) in message
    return message


def test_names_are_unique_across_the_stages():
    hints = get_type_hints(Config)
    names = [f.name for stage in STAGES for f in dataclasses.fields(hints[stage])] + ["algo", "preset", "steps"]
    assert len(names) == len(set(names)) == len(field_names()) == len(flat(Config()))


def test_a_setting_is_replaced_by_its_flat_name_wherever_it_lives():
    config = override(Config(), beta=0.25, seed=9, steps=77, hidden_sizes=(5,), env="CartPole-v1")
    assert (config.target.beta, config.run.seed, config.steps) == (0.25, 9, 77)
    assert (config.network.hidden_sizes, config.environment.env) == ((5,), "CartPole-v1")
    assert Config().target.beta == 0.5  # the original is left as it was


def test_overriding_and_flattening_are_inverse():
    values = flat(override(Config(), beta=0.125, stack=4, n_steps="episode", env_args=("slip=0.1",)))
    assert override(Config(), **values) == override(Config(), beta=0.125, stack=4, n_steps="episode", env_args=("slip=0.1",))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"beta": 1.0, "env_args": ("a=1", "b=2"), "hidden_sizes": (1, 2, 3)},
        {"n_steps": "episode", "betas": (0.0, 0.5), "whole_episode": True, "learning_rate": 1e-10},
    ],
)
def test_json_and_back(settings):
    config = override(Config(), **settings)
    assert from_json(to_json(config)) == config
    assert json.loads(to_json(config)).keys() == field_names().keys()


def test_json_may_leave_settings_at_their_defaults():
    assert from_json('{"beta": 0.75}') == override(Config(), beta=0.75)


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("learning_rat", "learning_rate"),
        ("buffersize", "buffer_size"),
        ("betaa", "beta"),
        ("exploration_fractoin", "exploration_fraction"),
    ],
)
def test_an_unknown_setting_suggests_the_one_that_was_meant(wrong, meant):
    with pytest.raises(UserError, match=f"there is no setting '{wrong}'; did you mean {meant}"):
        override(Config(), **{wrong: 1})


def test_a_setting_like_no_other_points_to_the_list():
    with pytest.raises(UserError, match="there is no setting 'xyzzy'; `ebu train --help-all` lists them"):
        override(Config(), xyzzy=1)


# ---------------------------------------------------------------------- what is refused


def test_the_defaults_are_possible():
    check(Config())


@pytest.mark.parametrize("name", NUMBERS)
def test_every_number_has_a_range(name):
    assert name in RANGES


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [-1, math.nan, math.inf, -math.inf, "many", None, True, [1]], ids=str)
def test_no_number_can_be_negative_damaged_or_something_else(name, value):
    refusal(**{name: value})


@pytest.mark.parametrize(
    "name",
    [
        "steps",
        "buffer_size",
        "train_freq",
        "gradient_steps",
        "batch_size",
        "target_update_interval",
        "eval_episodes",
        "log_every",
        "n_steps",
        "stack",
        "sync_interval",
        "learning_rate",
        "tau",
    ],
)
def test_counts_and_sizes_that_cannot_be_zero(name):
    refusal(**{name: 0})


@pytest.mark.parametrize("name", ["learning_starts", "eval_every", "reward_clip", "optimizer_eps", "seed", "threads"])
def test_counts_that_may_be_zero(name):
    check(override(Config(), **{name: 0}))


@pytest.mark.parametrize(
    "name",
    [
        "gamma",
        "beta",
        "exploration_initial_eps",
        "exploration_final_eps",
        "exploration_fraction",
        "eval_epsilon",
        "trace_lambda",
    ],
)
def test_shares_lie_between_0_and_1(name):
    assert "between 0 and 1, got 1.01" in refusal(**{name: 1.01})
    for value in (0, 0.5, 1, 1.0):
        check(override(Config(), **{name: value}))


@pytest.mark.parametrize("name", [n for n in NUMBERS if isinstance(flat(Config())[n], int)])
def test_whole_numbers_are_whole(name):
    refusal(**{name: 2.5})


@pytest.mark.parametrize(
    ("name", "choices"),
    [
        ("optimizer", "adam, rmsprop, deepmind-rmsprop"),
        ("loss", "huber-sum, huber-mean, mse"),
        ("network", "auto, mlp, maze, minatar, nature, or your own as module:factory"),
        ("exploration_schedule", "linear, quadratic, delayed-linear"),
        ("compress", "auto, always, never"),
    ],
)
def test_a_choice_that_is_none_lists_them(name, choices):
    assert refusal(**{name: "unheard-of"}) == f"{name} must be one of {choices}, got 'unheard-of'"


@pytest.mark.parametrize("name", ["whole_episode", "truncation_is_terminal", "double_q", "dueling"])
@pytest.mark.parametrize("value", ["no", "false", 2, None])
def test_switches_are_true_or_false(name, value):
    """The text "false" is true to Python: taken silently it would do the opposite of what was meant."""
    refusal(**{name: value})


@pytest.mark.parametrize("value", [(), (0,), (-3, 5), (2.5,), ("wide",), 64, "64"])
def test_hidden_sizes_are_whole_numbers(value):
    refusal(hidden_sizes=value)


@pytest.mark.parametrize("value", [(), (1.5,), (-0.1, 0.5), ("all",), 0.5])
def test_betas_are_shares(value):
    refusal(betas=value)


def test_n_steps_is_a_count_or_the_episode():
    for value in (1, 5, "episode"):
        check(override(Config(), n_steps=value))
    refusal(n_steps="forever")
    refusal(n_steps=2.5)


def test_the_memory_holds_at_least_a_minibatch():
    assert "must hold at least one minibatch" in refusal(buffer_size=10, batch_size=32)


def test_numbers_of_numpy_are_numbers():
    """A seed out of np.arange is the commonest seed there is."""
    config = override(Config(), seed=np.int64(3), learning_rate=np.float64(1e-3), batch_size=np.int32(16))
    check(config)
    assert from_json(to_json(config)) == config


# ---------------------------------------------------------------------- settings of the environment


def test_environment_arguments_are_read_as_json_and_as_python():
    pairs = ("a=0.5", "b=3", "c=true", "d=False", "e=None", "f=null", "g=text", 'h="quoted"', "i=[1, 2]", "j=x=y", "k=")
    assert environment_arguments(pairs) == {
        "a": 0.5,
        "b": 3,
        "c": True,
        "d": False,
        "e": None,
        "f": None,
        "g": "text",
        "h": "quoted",
        "i": [1, 2],
        "j": "x=y",
        "k": "",
    }


@pytest.mark.parametrize(
    "value", ["text", "1", "0.5", "true", "None", "[1]", '"quoted"', "a=b", "", "NaN", 1, 0.5, True, None, [1, 2]]
)
def test_an_argument_is_read_as_it_was_given(value):
    """The name of a level may well be "1"."""
    (read,) = environment_arguments(environment_pairs({"x": value})).values()
    assert (type(read), read) == (type(value), value)


@given(st.text())
def test_a_string_is_read_as_a_string(text):
    assert environment_arguments(environment_pairs({"x": text})) == {"x": text}


@pytest.mark.parametrize("pair", ["wall_density", "=3", ""])
def test_an_argument_that_is_not_key_and_value_is_refused(pair):
    with pytest.raises(UserError, match="--env-args takes key=value"):
        environment_arguments((pair,))


# ---------------------------------------------------------------------- what is too large, and other kinds of values


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("buffer_size", 10**15, "at most 1,000,000,000,000, got 1000000000000000"),
        ("batch_size", 10**7, "at most 1,000,000, got 10000000"),
        ("gradient_steps", 10**5, "at most 10,000, got 100000"),
        ("tightening_neighbours", 10**4, "at most 1,000, got 10000"),
        ("learning_rate", 1e4, "greater than 0, at most 1,000.0, got 10000.0"),
        ("steps", 10**5000, "got an integer of thousands of digits"),
        ("loss", "x" * 10_000, "xxx..."),
    ],
    ids=range(7),
)
def test_what_is_too_large_is_refused_with_its_limit(name, value, words):
    assert words in refusal(**{name: value})


@pytest.mark.parametrize("name", ["algo", "preset", "env", "device"])
@pytest.mark.parametrize("value", [None, 3, ("cpu",), b"cpu"])
def test_names_are_texts(name, value):
    refusal(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"), [("env_args", (3,)), ("hidden_sizes", (True,)), ("betas", (True,)), ("betas", (0.5,) * 2000)]
)
def test_items_of_lists_are_looked_at(name, value):
    refusal(**{name: value})


@pytest.mark.parametrize("sizes", [[8, 4], (8, 4), np.array([8, 4])])
def test_lists_and_arrays_are_as_good_as_tuples(sizes):
    config = override(Config(), hidden_sizes=sizes)
    check(config)
    assert config.network.hidden_sizes == (8, 4)


def test_an_array_is_no_number():
    refusal(gamma=np.array([0.5, 0.6]))
