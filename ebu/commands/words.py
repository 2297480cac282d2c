"""A command line as people write it → as the parser of flags reads it.

``--quiet`` and ``--no-quiet`` beside ``--quiet True``; ``100k``, ``1e5`` and ``1_000`` where a whole number is meant; short
names of flags; words that belong to no flag.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from decimal import Decimal
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

ALIASES = {"--lr": "--learning-rate", "--total-timesteps": "--steps", "--timesteps": "--steps"}

_NUMBER = re.compile(r"([+-]?\d[\d_]*(?:\.\d+)?(?:e\+?\d{1,2})?)([kmb]?)", re.IGNORECASE | re.ASCII)
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9}


@dataclasses.dataclass(frozen=True)
class Flag:
    """What must be known of a flag to read the words after it."""

    is_switch: bool
    is_whole: bool  # takes whole numbers
    is_many: bool  # takes any number of words


def flags_of(cls: type[Any]) -> dict[str, Flag]:
    """The flags of a dataclass and of those inside it."""
    return dict(_flags(cls))


def _flags(cls: type[Any]) -> Iterator[tuple[str, Flag]]:
    for name, hint in get_type_hints(cls).items():
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            yield from _flags(hint)
        else:
            parts = get_args(hint) if get_origin(hint) in (Union, UnionType, tuple) else (hint,)
            yield f"--{name.replace('_', '-')}", Flag(hint is bool, int in parts, get_origin(hint) is tuple)


def in_full(arguments: list[str], flags: dict[str, Flag]) -> tuple[list[str], list[str]]:
    """The arguments in the parser's own words, and, before the first flag or after a complete one, words without a flag."""
    full: list[str] = []
    loose: list[str] = []
    rest = [part for argument in arguments for part in _split(argument)]
    wanted, flag = 0, Flag(False, False, False)  # how many words still belong to the flag
    for i, word in enumerate(rest):
        if is_flag(word):
            name = ALIASES.get(word, word)
            flag = flags.get(name, Flag(False, False, True))  # of an unknown flag nothing is known: the parser refuses it
            wanted = 0 if flag.is_switch else len(rest) if flag.is_many else 1
            if flag.is_switch and rest[i + 1 : i + 2] in (["True"], ["False"]):
                wanted = 1
                name = name if rest[i + 1] == "True" else f"--no-{name[2:]}"
            elif name.startswith("--no-") and f"--{name[5:]}" in flags:
                wanted = 0
            full.append(name)
        elif wanted:
            wanted -= 1
            if not flag.is_switch:
                full.append(whole_number(word) if flag.is_whole else word)
        else:
            loose.append(word)
    return full, loose


def is_flag(word: str) -> bool:
    return word.startswith("-") and not word[1:2].isdigit() and word != "-"


def _split(argument: str) -> list[str]:
    """``--hidden_sizes=64`` → ``--hidden-sizes``, ``64``."""
    if not argument.startswith("--"):
        return [argument]
    name, equals, value = argument.partition("=")
    return [name.replace("_", "-"), *([value] if equals else [])]


def whole_number(text: str) -> str:
    """``100k`` → ``100000``; anything else stays as it is."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        return text
    value = Decimal(match[1].replace("_", "")) * _UNITS[match[2].lower()]
    is_written_out = value.adjusted() < 1_000 and value == value.to_integral_value()  # Python refuses thousands of digits
    return str(int(value)) if is_written_out else text
