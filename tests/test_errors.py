"""Whatever goes into an error, one line comes out."""

from __future__ import annotations

import pytest

from ebu.errors import LONGEST_LINE, EnvironmentFailure, RunFailure, UserError


@pytest.mark.parametrize("kind", [UserError, RunFailure, EnvironmentFailure])
def test_the_text_is_one_printable_line(kind):
    assert str(kind("a folder\nnamed so\t\x1b[2J\udcff β")) == "a folder named so \\x1b[2J\\udcff β"


def test_what_is_too_long_is_cut():
    text = str(UserError("x" * 5000))
    assert len(text) == LONGEST_LINE and text.endswith("…")
    assert str(UserError("y" * LONGEST_LINE)) == "y" * LONGEST_LINE
