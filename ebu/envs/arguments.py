"""The arguments an environment takes, for the message that refuses an unknown one."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium

_UNEXPECTED = re.compile(r"unexpected keyword argument '(\w+)'")
NOT_FOR_USERS = {"self", "render_mode"}
EVERYWHERE = ("reward_delay",)  # any environment takes it, see ``make.py``


def explain_unknown_argument(name: str, error: Exception, known: Callable[[str], list[str]]) -> str | None:
    """``error`` in the user's words, if it says that an argument does not exist: which one, the nearest, and all there are."""
    match = _UNEXPECTED.search(str(error))
    if not isinstance(error, TypeError) or match is None:
        return None
    names = [*known(name), *EVERYWHERE]
    if match[1] in names:  # it is taken and then refused further inside: the environment's own words say more
        return None
    close = difflib.get_close_matches(match[1], names, n=1)
    meant = f"; did you mean {close[0]}?" if close else ";"
    return f"{name} has no argument {match[1]!r}{meant} it takes {', '.join(names)}"


def registered_arguments(name: str) -> list[str]:
    """The keyword arguments of a registered id's class, those of its base classes included where it passes them on."""
    spec = gymnasium.registry.get(name.rpartition(":")[2])
    if spec is None or spec.entry_point is None:
        return []
    made_by = (
        spec.entry_point if callable(spec.entry_point) else gymnasium.envs.registration.load_env_creator(spec.entry_point)
    )
    return list(dict.fromkeys(_keywords(made_by)))


def _keywords(made_by: Callable[..., Any]) -> Iterator[str]:
    functions = (
        [vars(base)["__init__"] for base in made_by.__mro__ if "__init__" in vars(base)]
        if isinstance(made_by, type)
        else [made_by]
    )
    for function in functions:
        parameters = inspect.signature(function).parameters.values()
        yield from (
            p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and p.name not in NOT_FOR_USERS
        )
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            return
