"""What users pass to the target rules is checked, once, where they call them; the loop pays nothing."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import numpy as np
import pytest
import torch

import ebu
from ebu import targets
from ebu.targets.backward import backward as unchecked
from tests.conftest import one_line

HELPERS = ("chosen_by", "combine", "epsilon_greedy")
RULES = [name for name in targets.__all__ if name not in HELPERS]
T, A = 3, 2


def good(batch=()):
    """Arguments of every name, as NumPy arrays, that every rule accepts."""
    rng = np.random.default_rng(0)
    q = rng.normal(size=(*batch, T, A))
    policy = np.full((*batch, T, A), 1 / A)
    return {
        "rewards": np.array([0.0, 0.0, 1.0]),
        "discounts": np.array([0.9, 0.9, 0.0]),
        "actions": np.array([0, 1, 1]),
        "q_next": q,
        "q_online_next": rng.normal(size=(*batch, T, A)),
        "policy_next": policy,
        "behaviour": np.array([0.5, 1.0, 0.5]),
        "beta": 0.5,
        "trace_lambda": 0.7,
        "trace_lambdas": 0.7,
        "sharpness": 1.5,
        "n": 2,
        "continues": np.array([True, True, False]),
        "returns": np.array([0.81, 0.9, 1.0]),
        "q_taken": q[..., 0],
        "neighbours": 2,
        "q": q,
        "epsilon": 0.1,
        "values": q[..., 0],
        "lower": q[..., 0] - 1,
        "upper": q[..., 0] + 1,
        "bound_weight": 0.2,
        "margin": 0.1,
    }


def call(name, **changes):
    rule = getattr(targets, name)
    values = {**good(), **({"q": good()["values"]} if name == "combine" else {}), **changes}
    return rule(**{key: values[key] for key in inspect.signature(rule).parameters})


@pytest.mark.parametrize("name", targets.__all__)
def test_tensors_and_arrays_give_the_same_each_of_its_kind(name):
    ours = call(name)
    parameters = inspect.signature(getattr(targets, name)).parameters
    values = {**good(), **({"q": good()["values"]} if name == "combine" else {})}
    tensors = {k: torch.from_numpy(v) if isinstance(v, np.ndarray) else v for k, v in values.items() if k in parameters}
    theirs = getattr(targets, name)(**tensors)
    for mine, other in zip(*((x if isinstance(x, tuple) else (x,)) for x in (ours, theirs))):
        assert isinstance(mine, np.ndarray) and isinstance(other, torch.Tensor)
        np.testing.assert_array_equal(mine, other.numpy())


WRONG = [
    ({"rewards": np.ones((T, 1))}, r"rewards must have the shape \[3\].*got \[3, 1\]"),
    ({"rewards": np.ones(T + 1)}, r"rewards.*got \[4\]"),
    ({"rewards": np.array([0.0, np.nan, 1.0])}, "rewards must be finite"),
    ({"discounts": np.array([True, True, False])}, "discounts must hold real numbers, got bool"),
    ({"discounts": np.array([0.9, 1.5, 0.0])}, r"discounts must be between 0 and 1, got 0 … 1.5"),
    ({"discounts": 0.9}, "discounts must have the shape"),
    ({"q_next": np.ones(T)}, r"q_next must have the shape \[..., T, A\], got \[3\]"),
    ({"q_next": np.full((T, A), -np.inf)}, "q_next must be finite"),
    ({"q_next": "values"}, "q_next must be a tensor or an array"),
    ({"continues": np.array([1, 1, 0])}, "continues must be true or false at every step, got int64"),
    ({"actions": np.array([0.0, 1.0, 1.0])}, "actions must be whole numbers, got float64"),
    ({"actions": np.array([0, 1, 2])}, r"actions must be between 0 and 1, got 0 … 2"),
    ({"actions": np.array([0, -1, 0])}, "actions must be between 0 and 1"),
    ({"beta": 7}, "beta must be a number between 0 and 1, got 7"),
    ({"beta": True}, "beta must be a number"),
    ({"beta": np.array([0.5, 1.5])}, "beta must be between 0 and 1, got 0.5 … 1.5"),
    ({"trace_lambdas": np.array([-0.5, 0.5])}, "trace_lambdas must be between 0 and 1, got -0.5 … 0.5"),
    ({"sharpness": -1}, "sharpness must be a number between 0 and 1e\\+30, got -1"),
    ({"sharpness": float("inf")}, "sharpness must be a number between 0 and"),
    ({"trace_lambda": -0.1}, "trace_lambda must be a number between 0 and 1"),
    ({"n": 0}, 'n must be a whole number of at least 1 or "episode", got 0'),
    ({"n": 2.0}, "n must be a whole number"),
    ({"policy_next": np.ones((T, A))}, "policy_next must hold probabilities that sum to 1"),
    ({"behaviour": np.array([2.0, 1.0, 1.0])}, "behaviour must be between 0 and 1"),
    ({"q_online_next": np.ones((T, A + 1))}, r"q_online_next must have the shape.*\[3, 2\], got \[3, 3\]"),
    ({"neighbours": 0}, "neighbours must be a whole number of at least 1"),
]


def wrong_for(rule):
    """Those that change an argument of this rule."""
    parameters = inspect.signature(getattr(targets, rule)).parameters
    return [(rule, changes, words) for changes, words in WRONG if changes.keys() <= parameters.keys()]


@pytest.mark.parametrize(("name", "changes", "words"), [case for rule in RULES for case in wrong_for(rule)])
def test_what_does_not_fit_is_refused_in_one_line(name, changes, words):
    with pytest.raises(ebu.UserError, match=words) as error:
        call(name, **changes)
    one_line(error)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("epsilon_greedy", {"epsilon": 2.0}),
        ("epsilon_greedy", {"q": np.zeros((T, 0))}),
        ("chosen_by", {"q_online_next": np.ones(T)}),
        ("combine", {"bound_weight": -1}),
        ("combine", {"margin": -1}),
        ("combine", {"lower": np.ones(T + 1)}),
    ],
)
def test_the_helpers_are_checked_too(name, changes):
    with pytest.raises(ebu.UserError) as error:
        call(name, **changes)
    one_line(error)


def test_whole_numbers_and_lists_are_numbers():
    y = targets.backward([0, 0, 1], [1, 1, 0], [0, 1, 1], [[0, 0], [0, 0], [0, 0]], 1)
    assert y.tolist() == [1.0, 1.0, 1.0] and y.dtype == torch.get_default_dtype()


def test_learners_and_episodes_broadcast_as_before():
    values = good(batch=(4,))
    beta = np.linspace(0, 1, 4)
    y = targets.backward(values["rewards"], values["discounts"], values["actions"], values["q_next"], beta)
    assert y.shape == (4, T)
    for k in range(4):
        alone = targets.backward(values["rewards"], values["discounts"], values["actions"], values["q_next"][k], beta[k])
        np.testing.assert_allclose(y[k], alone, rtol=1e-12)


def test_several_diffusion_factors_for_one_table_give_a_row_each_and_others_are_refused():
    values = good()
    known = (values["rewards"], values["discounts"], values["actions"])
    assert targets.backward(*known, values["q_next"], np.array([0.0, 0.5])).shape == (2, T)
    with pytest.raises(ebu.UserError, match=r"beta must be a number or fit the shape \[4\]"):
        targets.backward(*known, good(batch=(4,))["q_next"], np.zeros(3))


def test_names_signatures_and_words_are_those_of_the_rules():
    assert inspect.signature(targets.backward) == inspect.signature(unchecked)
    assert targets.backward.__doc__ == unchecked.__doc__ and targets.backward.__name__ == "backward"


def test_the_methods_call_the_rules_without_the_checks():
    """``from ebu.targets import …`` would check every span of a training."""
    for path in (Path(ebu.__file__).parent / "algorithms").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            assert not (isinstance(node, ast.ImportFrom) and node.module == "ebu.targets"), path
