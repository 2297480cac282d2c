"""Methods and environments that a test registers are forgotten when it ends."""

from __future__ import annotations

import sys
from contextlib import contextmanager

import gymnasium

from ebu import registry
from ebu.agent import AGENTS


@contextmanager
def registries_restored(*modules):
    """Leaves the methods, agents and Gymnasium ids as they were; these modules are imported anew the next time."""
    dictionaries = (registry._METHODS, AGENTS, gymnasium.registry)
    before = [dict(entries) for entries in dictionaries]
    try:
        yield
    finally:
        for entries, old in zip(dictionaries, before):
            entries.clear()
            entries.update(old)
        for module in modules:
            sys.modules.pop(module, None)
