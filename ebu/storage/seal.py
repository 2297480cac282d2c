"""A file that carries its own SHA-256: that of all its bytes, with zeros in the place of the digest.

The digest is the last entry of a JSON object that lies, as a string, in the file's header.
"""

from __future__ import annotations

import hashlib
import json
import re

KEY = "sha256"
BLANK = "0" * 64
FIELDS = {"config", "observation", "actions", "stack"}  # of a policy's header, beside the digest

_ENTRY = re.compile(rb'\\"sha256\\": \\"([0-9a-f]{64})\\"\}')


def sealed(data: bytes, header_end: int) -> bytes:
    """The file with its digest in the place of ``BLANK``, which lies before ``header_end``."""
    place = _place(data, header_end)
    assert place is not None, "the header has no place for a digest"
    return data[: place[0]] + _digest(data, place).encode() + data[place[1] :]


def is_intact(data: bytes, header_end: int) -> bool:
    """Whether the file holds a digest, and it is that of the file."""
    place = _place(data, header_end)
    return place is not None and data[place[0] : place[1]] == _digest(data, place).encode()


def is_older(data: bytes, header_end: int) -> bool:
    """Whether the file is a policy of an earlier version, which has no digest; one with a damaged name is none."""
    try:
        [text] = json.loads(data[8:header_end])["__metadata__"].values()
        return bool(json.loads(text).keys() == FIELDS)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False


def _place(data: bytes, header_end: int) -> tuple[int, int] | None:
    found = None
    for found in _ENTRY.finditer(data, 0, header_end):  # noqa: B007 - settings may hold such a text, too; the last one counts
        pass
    return None if found is None else found.span(1)


def _digest(data: bytes, place: tuple[int, int]) -> str:
    digest, view = hashlib.sha256(), memoryview(data)
    for part in (view[: place[0]], BLANK.encode(), view[place[1] :]):
        digest.update(part)
    return digest.hexdigest()
