"""The user's module, imported for one test only: what it and the test register is gone afterwards."""

from __future__ import annotations

import importlib
import sys

import pytest

from ebu.envs import families
from ebu.experiments import items

NAME = "tests.outside.laboratory"


@pytest.fixture(autouse=True)
def laboratory(monkeypatch):
    monkeypatch.setattr(families, "_REGISTERED", list(families._REGISTERED))
    monkeypatch.setattr(items, "_REGISTERED", {})
    yield importlib.import_module(NAME)
    del sys.modules[NAME]
