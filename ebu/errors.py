"""Errors that are shown to the user: one line that says what is wrong and what to do."""

from __future__ import annotations

from typing import Any

LONGEST_LINE = 800


class _OneLine(Exception):
    """Its text is one line that any terminal can show, whatever an untrusted name, file or environment put into it."""

    def __str__(self) -> str:
        text = " ".join(super().__str__().split())
        text = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
        return text if len(text) <= LONGEST_LINE else f"{text[: LONGEST_LINE - 1]}…"


class UserError(_OneLine):
    """Shown as one line without a traceback; the command line exits with code 2."""


class Interrupted(Exception):
    """Work that takes long was asked to stop; it left everything as it was before it began."""


class RunFailure(_OneLine):
    """A run that could not continue (a NaN reward, a full disk); one line, exit code 1."""


class EnvironmentFailure(RunFailure):
    """The environment raised, or returned what cannot be learned from; the agent itself is sound."""


def shown(value: Any) -> str:
    """The offending value, at a length that leaves room for the rest of the line."""
    try:
        text = repr(value)
    except ValueError:  # an integer longer than Python is willing to write
        return "an integer of thousands of digits"
    return text if len(text) <= 100 else f"{text[:97]}..."
