"""Arguments of environments: as pairs of text in the settings, as a dictionary where an environment is made."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ebu.errors import UserError, shown


def environment_arguments(pairs: tuple[str, ...]) -> dict[str, Any]:
    """("wall_density=0.5", "slip=0.1") → {"wall_density": 0.5, "slip": 0.1}; a value that is not JSON stays a string."""
    arguments: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise UserError(f"--env-args takes key=value, got {pair!r}; for example --env-args wall_density=0.5")
        arguments[key] = _value(text)
    return arguments


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return {"True": True, "False": False, "None": None}.get(text, text)


def _text(value: Any) -> str:
    """A string as it is, unless it would be read as something else: "ring" → ring, "1" → "1" in quotation marks."""
    return value if isinstance(value, str) and _value(value) == value else json.dumps(value)


def environment_pairs(given: Any) -> tuple[str, ...]:
    """Environment arguments as pairs: {"slip": 0.1}, ["slip=0.1"] and ("slip=0.1",) mean the same."""
    if isinstance(given, Mapping):
        try:
            return tuple(f"{key}={_text(value)}" for key, value in given.items())
        except TypeError as error:
            raise UserError(f"env_args takes numbers, strings and booleans, got {shown(given)}") from error
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise UserError(f'env_args takes a dictionary or pairs such as ("slip=0.1",), got {shown(given)}')
    return tuple(given)


def merge_environment_arguments(base: tuple[str, ...], given: tuple[str, ...]) -> tuple[str, ...]:
    """``given`` on top of ``base``: a key that is given again replaces the old pair, the others stay."""
    if not all(isinstance(pair, str) for pair in given):
        raise UserError(f"env_args must be strings of the form key=value, got {shown(given)}")
    keys = {pair.partition("=")[0] for pair in given}
    return (*(pair for pair in base if pair.partition("=")[0] not in keys), *given)
