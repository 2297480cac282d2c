"""The constraints of ``make test-lowest`` are the lower bounds that pyproject.toml declares."""

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.waiting import PATIENCE

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def load():
    spec = importlib.util.spec_from_file_location("lowest_script", ROOT / "scripts" / "lowest.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def project(*requirements, **extras):
    return {"name": "own", "dependencies": list(requirements), "optional-dependencies": extras}


def test_each_requirement_is_pinned_to_its_lower_bound():
    pins = load().lowest(project("torch>=2.4", "numpy>=1.26,<3", all=["own[dev,ray]"], dev=["pytest>=8"], ray=["ray>=2.30"]))
    assert pins == ["numpy==1.26", "pytest==8", "ray==2.30", "torch==2.4"]


@pytest.mark.parametrize(
    "requirement", ["torch", "torch<3", "torch~=2.4", "torch!=2.5,>=2.4", "torch>=2.4; python_version<'4'"]
)
def test_a_requirement_whose_lower_bound_cannot_be_read_is_refused(requirement):
    with pytest.raises(ValueError, match=re.escape(repr(requirement))):
        load().lowest(project(requirement))


def test_one_package_has_one_lower_bound():
    with pytest.raises(ValueError, match=r"numpy has two lower bounds, 1\.26 and 2\.0"):
        load().lowest(project("numpy>=1.26", dev=["numpy>=2.0"]))


def test_the_script_prints_every_direct_dependency():
    command = [sys.executable, str(ROOT / "scripts" / "lowest.py")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout.splitlines()
    extras = [name for extra in PROJECT["optional-dependencies"].values() for name in extra]
    named = {re.split(r"[>\[]", name)[0] for name in (*PROJECT["dependencies"], *extras)} - {PROJECT["name"]}
    assert {line.partition("==")[0] for line in printed} == named


def test_constraints_pin_no_version_below_the_bounds():
    """What the project is developed with is within what it promises."""
    pinned = dict(re.findall(r"^([\w.-]+)==([\d.]+)$", (ROOT / "constraints.txt").read_text(), re.M))
    pinned = {name.lower().replace("_", "-"): version for name, version in pinned.items()}
    for line in load().lowest(PROJECT):
        name, _, bound = line.partition("==")
        if name in pinned:
            assert tuple(map(int, pinned[name].split("."))) >= tuple(map(int, bound.split("."))), name
