"""Flags from dataclasses; every mistake is reported in one line."""

from __future__ import annotations

import contextlib
import io
import re
from typing import Any, TypeVar

import tyro

from ebu.commands.words import flags_of, in_full
from ebu.errors import UserError

T = TypeVar("T")


def parse(cls: type[T], arguments: list[str], program: str, default: T | None = None, description: str = "") -> T:
    """The dataclass filled from flags. --help prints and exits with 0; a mistake is a UserError of one line."""
    full, loose = in_full(arguments, flags_of(cls))
    words = io.StringIO()
    try:
        with contextlib.redirect_stderr(words):
            options: dict[str, Any] = {} if default is None else {"default": default}
            return tyro.cli(
                cls,
                args=[*loose, *full],
                prog=program,
                description=description or None,
                config=(tyro.conf.OmitArgPrefixes,),
                **options,
            )
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        raise UserError(one_line(words.getvalue(), program)) from None


def one_line(message: str, program: str) -> str:
    """The parser's boxed message in one sentence: what is wrong, and the flag that was perhaps meant."""
    # A title in a frame of lines, then sections between rules: drawn with box characters, or with dashes in ASCII.
    lines = [line.strip("│╭╮╰╯ ") for line in message.splitlines()]
    sections = [" ".join(part.split()) for part in re.split(r"(?:─|-){5,}", "\n".join(lines)[1:])]
    problem = (sections[1] if len(sections) > 1 else "").rstrip(".") or "bad arguments"
    meant = re.search(r"Perhaps you meant:\s+(--[\w-]+)", message.replace("│", "").replace("|", ""))
    if missing := re.match(r"Missing from (.*?): (.*)", problem):  # NAME and help of each, which ends in (required)
        names = re.findall(r"(?:^|\(required\) )((?:--[\w-]+ )?[A-Z]+) ", missing[2])
        problem = f"{missing[1]} needs {' and '.join(names)}"
    for pattern, words in _PLAINER.items():
        problem = re.sub(pattern, words, problem)
    return f"{problem}; " + (f"perhaps you meant {meant[1]}" if meant else f"see `{program} --help`")


_PLAINER = {
    r"^Unrecognized options: (-[\w-]*)(?:, .*)?$": r"there is no option \1",
    r"^Unrecognized options: (.*)$": r"unexpected arguments: \1",
    r"^Error parsing (--[\w-]+): invalid literal for int\(\).*: ('.*')$": r"\1 takes a whole number (20000, 20k, 2e4), got \2",
    r"^Error parsing (--[\w-]+): could not convert string to float: ('.*')$": r"\1 takes a number, got \2",
    r"^Missing value for argument '(?:\(')?(--[\w-]+)(?:',\))?'\. Expected .*$": r"\1 takes a value",
}


def peek(arguments: list[str], flag: str, default: str) -> str:
    """The value of one flag before the rest is parsed, because it decides the defaults of the rest; the last one counts."""
    for i, argument in reversed(list(enumerate(arguments))):
        if argument == flag and i + 1 < len(arguments):
            return arguments[i + 1]
        if argument.startswith(flag + "="):
            return argument.split("=", 1)[1]
    return default
