"""Prints the lowest version of every direct dependency that pyproject.toml allows, as constraints for pip.

``python scripts/lowest.py > lowest.txt && pip install -c lowest.txt -e '.[all,dev]'``; ``make test-lowest`` runs the suite so.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

PYPROJECT = Path(__file__).parent.parent / "pyproject.toml"
REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)>=(?P<version>[0-9][0-9A-Za-z.]*)(,.*)?")


def lowest(project: dict[str, Any]) -> list[str]:
    """``name==version`` for each requirement of a ``[project]`` table and its extras, sorted by name."""
    requirements = list(project["dependencies"])
    for extra in project["optional-dependencies"].values():
        requirements += [requirement for requirement in extra if not requirement.startswith(f"{project['name']}[")]
    pins: dict[str, str] = {}
    for requirement in requirements:
        found = REQUIREMENT.fullmatch(requirement)
        if found is None:
            raise ValueError(f"{requirement!r} has no lower bound that could be tested: write it as name>=version")
        if pins.setdefault(found["name"], found["version"]) != found["version"]:
            raise ValueError(f"{found['name']} has two lower bounds, {pins[found['name']]} and {found['version']}")
    return [f"{name}=={version}" for name, version in sorted(pins.items())]


if __name__ == "__main__":
    print(*lowest(tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]), sep="\n")
