"""Every example runs as it stands, with fewer steps."""

import runpy
import sys
from pathlib import Path

import pytest

from tests.registries import registries_restored

EXAMPLES = Path(__file__).parent.parent / "examples"
STEPS_AND_OUTPUT = {
    "cartpole": (600, "the same after loading"),
    "compare_methods": (100, "NStepDQN"),
    "own_environment": (400, "steps to the end"),
    "own_method": (600, "mean return"),
    "run_and_resume": (800, "finished at step 800"),
}


@pytest.mark.parametrize("name", STEPS_AND_OUTPUT)
def test_the_example_runs(name, tmp_path, monkeypatch, capsys):
    steps, expected = STEPS_AND_OUTPUT[name]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [f"{name}.py", str(steps)])
    with registries_restored():
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert expected in capsys.readouterr().out


def test_every_example_is_run_and_described():
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    assert names == set(STEPS_AND_OUTPUT)
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert [name for name in names if f"({name}.py)" not in readme] == []


def test_the_page_shows_the_method_as_it_is():
    """docs/own-method.md prints examples/own_method.py in full."""
    page = (EXAMPLES.parent / "docs" / "own-method.md").read_text(encoding="utf-8")
    assert (EXAMPLES / "own_method.py").read_text(encoding="utf-8") in page
