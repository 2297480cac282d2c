"""A sweep that nothing disturbs, made once for all tests that compare with it."""

from __future__ import annotations

import pytest

from tests.experiments.sweeps import sweep


@pytest.fixture(scope="session")
def quiet(tmp_path_factory):
    out = tmp_path_factory.mktemp("quiet")
    sweep(out)
    return out
