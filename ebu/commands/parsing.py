"""Flags from dataclasses; every mistake is reported in one line."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import re
from collections.abc import Iterator
from typing import Any, TypeVar, get_type_hints

import tyro

from ebu.errors import UserError

T = TypeVar("T")


def parse(cls: type[T], arguments: list[str], program: str, default: T | None = None, description: str = "") -> T:
    """The dataclass filled from flags. --help prints and exits with 0; a mistake is a UserError of one line."""
    words = io.StringIO()
    try:
        with contextlib.redirect_stderr(words):
            options: dict[str, Any] = {} if default is None else {"default": default}
            return tyro.cli(
                cls,
                args=_switched_on(cls, arguments),
                prog=program,
                description=description or None,
                config=(tyro.conf.OmitArgPrefixes, tyro.conf.FlagConversionOff),
                **options,
            )
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        raise UserError(one_line(words.getvalue(), program)) from None


def _switched_on(cls: type[Any], arguments: list[str]) -> list[str]:
    """The arguments with ``True`` after each switch that stands alone: ``--quiet`` means ``--quiet True``."""
    switches = {f"--{name.replace('_', '-')}" for name in _switches(cls)}
    pairs = zip(arguments, [*arguments[1:], ""])
    return [part for a, b in pairs for part in ([a, "True"] if a in switches and b not in ("True", "False") else [a])]


def _switches(cls: type[Any]) -> Iterator[str]:
    for name, hint in get_type_hints(cls).items():
        if hint is bool:
            yield name
        elif dataclasses.is_dataclass(hint) and isinstance(hint, type):
            yield from _switches(hint)


def one_line(message: str, program: str) -> str:
    """The parser's boxed message in one sentence: what is wrong, and the flag that was perhaps meant."""
    # A title in a frame of lines, then sections between rules: drawn with box characters, or with dashes in ASCII.
    lines = [line.strip("│╭╮╰╯ ") for line in message.splitlines()]
    sections = [" ".join(part.split()) for part in re.split(r"(?:─|-){5,}", "\n".join(lines)[1:])]
    problem = (sections[1] if len(sections) > 1 else "").rstrip(".") or "bad arguments"
    meant = re.search(r"Perhaps you meant:\s+(--[\w-]+)", message.replace("│", "").replace("|", ""))
    return f"{problem}; " + (f"perhaps you meant {meant[1]}" if meant else f"see `{program} --help`")


def peek(arguments: list[str], flag: str, default: str) -> str:
    """The value of one flag before the rest is parsed, because it decides the defaults of the rest; the last one counts."""
    for i, argument in reversed(list(enumerate(arguments))):
        if argument == flag and i + 1 < len(arguments):
            return arguments[i + 1]
        if argument.startswith(flag + "="):
            return argument.split("=", 1)[1]
    return default
