"""Checks of what users pass to the target rules: shapes, dtypes and ranges, each refused in one line.

The rules themselves (``ebu.targets.backward.backward`` and its siblings) check nothing, since the training loop calls them
thousands of times with values that are right by construction. ``ebu.targets.backward`` and the other public names are the same
functions behind these checks. What a parameter may be follows from its name, which means the same in every rule.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor

from ebu.errors import UserError

P = ParamSpec("P")
R = TypeVar("R")

TABLES = {"q_next", "q_online_next", "policy_next"}  # [..., T, A]
STEPS = {"rewards", "discounts", "behaviour", "returns", "q_taken", "lower", "upper"}  # [..., T]
SHARES = {"discounts", "behaviour", "policy_next"}  # numbers between 0 and 1
SHARE_NUMBERS = {"trace_lambda", "epsilon", "bound_weight"}
BY_LEARNER = {"beta": 1.0, "trace_lambdas": 1.0, "sharpness": 1e30}  # 0 to this: a number, or one for each leading index
POLICY_SUM_TOLERANCE = 1e-3  # of a policy's row; rounding alone makes far less


def checked(rule: Callable[P, R]) -> Callable[P, R]:
    """The rule as users call it: NumPy arrays and lists are taken, too, and what does not fit is refused.

    The result is a tensor, or a NumPy array where the table of values (``q_next``) was one. Everything is computed in the
    dtype and on the device of that table.
    """
    signature = inspect.signature(rule)
    main = next(name for name in ("q_next", "values", "q") if name in signature.parameters)
    has_actions = main == "q_next"  # else the table has no last axis of actions that others are compared with

    @functools.wraps(rule)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        values: dict[str, Any] = given.arguments
        table = _table(main, values[main], actions=main != "values")
        as_numpy = not isinstance(values[main], Tensor) and hasattr(values[main], "__array__")
        shape = table.shape[:-1] if has_actions else table.shape
        for name, value in values.items():
            values[name] = table if name == main else _argument(name, value, table, shape)
        result = rule(*given.args, **given.kwargs)
        return _to_numpy(result) if as_numpy else result

    return call


def _argument(name: str, value: Any, table: Tensor, shape: torch.Size) -> Any:
    """One argument beside the table; ``shape`` is [..., T]."""
    if value is None and name in ("continues", "q_online_next"):
        return None
    if name in TABLES or name == "q":
        return _like(name, value, table)
    if name in STEPS:
        return _steps(name, _numbers(name, value, table), shape)
    if name == "actions":
        return _actions(value, table, shape)
    if name == "continues":
        return _continues(value, table, shape)
    if name in BY_LEARNER:
        return _by_learner(name, value, table, shape)
    if name in SHARE_NUMBERS:
        return _number(name, value, 0.0, 1.0)
    if name == "margin":
        return _number(name, value, 0.0, float("inf"))
    if name == "neighbours":
        return _count(name, value)
    if name == "n":
        return value if isinstance(value, str) and value == "episode" else _count(name, value, ' or "episode"')
    raise AssertionError(f"no check for {name}")


def _tensor(name: str, value: Any, device: torch.device | None) -> Tensor:
    if isinstance(value, Tensor):
        if device is not None and value.device != device:
            raise UserError(f"{name} is on {value.device}, and the values are on {device}; move one of them")
        return value
    try:
        return torch.as_tensor(value, device=device)
    except (TypeError, ValueError, RuntimeError) as error:
        raise UserError(f"{name} must be a tensor or an array of numbers, got {type(value).__name__}") from error


def _table(name: str, value: Any, actions: bool) -> Tensor:
    """The values that decide shape, dtype and device of everything else."""
    table = _tensor(name, value, None)
    if table.dtype == torch.bool or table.is_complex():
        raise UserError(f"{name} must hold real numbers, got {_dtype(table)}")
    if not table.is_floating_point():
        table = table.to(torch.get_default_dtype())
    axes = {"q_next": "[..., T, A]", "q": "[..., A]"}.get(name, "[..., T]")
    if table.ndim < (2 if name == "q_next" else 1) or (actions and table.shape[-1] == 0):
        raise UserError(f"{name} must have the shape {axes}, got {list(table.shape)}")
    return _finite(name, table)


def _numbers(name: str, value: Any, table: Tensor) -> Tensor:
    numbers = _tensor(name, value, table.device)
    if numbers.dtype == torch.bool or numbers.is_complex():
        raise UserError(f"{name} must hold real numbers, got {_dtype(numbers)}")
    return _in_range(name, _finite(name, numbers)).to(table.dtype)


def _like(name: str, value: Any, table: Tensor) -> Tensor:
    """A second table, of the same shape; a policy besides sums to 1 over the actions."""
    other = _numbers(name, value, table)
    if other.shape != table.shape:
        raise UserError(f"{name} must have the shape of the other values, {list(table.shape)}, got {list(other.shape)}")
    if name == "policy_next" and bool(((other.sum(-1) - 1).abs() > POLICY_SUM_TOLERANCE).any()):
        raise UserError(f"{name} must hold probabilities that sum to 1 over the actions")
    return other


def _steps(name: str, value: Tensor, shape: torch.Size) -> Tensor:
    """One entry a step: the last axis is time, those before are the values' own or left out."""
    fits = 1 <= value.ndim <= len(shape) and value.shape[-1] == shape[-1]
    if not fits or any(n not in (1, m) for n, m in zip(reversed(value.shape), reversed(shape))):
        raise UserError(
            f"{name} must have the shape {list(shape)} or its last axes, one entry a step, got {list(value.shape)}"
        )
    return value


def _actions(value: Any, table: Tensor, shape: torch.Size) -> Tensor:
    actions = _tensor("actions", value, table.device)
    if actions.dtype == torch.bool or actions.is_floating_point() or actions.is_complex():
        raise UserError(f"actions must be whole numbers, got {_dtype(actions)}")
    count = table.shape[-1]
    if actions.numel() and (int(actions.min()) < 0 or int(actions.max()) >= count):
        raise UserError(f"actions must be between 0 and {count - 1}, got {int(actions.min())} … {int(actions.max())}")
    return _steps("actions", actions.long(), shape)


def _continues(value: Any, table: Tensor, shape: torch.Size) -> Tensor:
    continues = _tensor("continues", value, table.device)
    if continues.dtype != torch.bool:
        raise UserError(f"continues must be true or false at every step, got {_dtype(continues)}")
    return _steps("continues", continues, shape)


def _by_learner(name: str, value: Any, table: Tensor, shape: torch.Size) -> float | Tensor:
    """A number, or one for each leading index."""
    if isinstance(value, int | float):
        return _number(name, value, 0.0, BY_LEARNER[name])
    given, leading = _numbers(name, value, table), shape[:-1]
    if any(n != m and 1 not in (n, m) for n, m in zip(reversed(given.shape), reversed(leading))):
        raise UserError(f"{name} must be a number or fit the shape {list(leading)} before the steps, got {list(given.shape)}")
    return given


def _number(name: str, value: Any, low: float, high: float) -> float:
    number = value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else value
    if isinstance(number, bool) or not isinstance(number, int | float) or not low <= number <= high:
        what = f"between {low:g} and {high:g}" if high < float("inf") else f"of at least {low:g}"
        raise UserError(f"{name} must be a number {what}, got {value!r}")
    return float(number)


def _count(name: str, value: Any, more: str = "") -> int:
    number = value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else value
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise UserError(f"{name} must be a whole number of at least 1{more}, got {value!r}")
    return number


def _finite(name: str, numbers: Tensor) -> Tensor:
    if numbers.is_floating_point() and not bool(torch.isfinite(numbers).all()):
        raise UserError(f"{name} must be finite (use −1e30 for an action that does not exist)")
    return numbers


def _in_range(name: str, numbers: Tensor) -> Tensor:
    high = 1.0 if name in SHARES else BY_LEARNER.get(name)
    if high is not None and numbers.numel() and not bool(((numbers >= 0) & (numbers <= high)).all()):
        found = f"{float(numbers.min()):g} … {float(numbers.max()):g}"
        raise UserError(f"{name} must be between 0 and {high:g}, got {found}")
    return numbers


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _to_numpy(result: Any) -> Any:
    return tuple(map(_to_numpy, result)) if isinstance(result, tuple) else result.numpy(force=True)
