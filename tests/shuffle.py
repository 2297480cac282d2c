"""A plugin for pytest, ``-p tests.shuffle``: files in a random order, and the tests of each file too. ``SHUFFLE`` is the seed.

Tests of a file stay together, so that what they share is still made once.
"""

from __future__ import annotations

import os
import random

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    chance = random.Random(int(os.environ.get("SHUFFLE", "0")))
    files = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    order = list(files.values())
    chance.shuffle(order)
    for tests in order:
        chance.shuffle(tests)
    items[:] = [test for tests in order for test in tests]
