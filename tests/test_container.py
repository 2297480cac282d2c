"""The Dockerfile, as far as it can be checked without an engine: what it copies is there, what it installs exists."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
LINES = re.sub(r"\\\n\s*", " ", (ROOT / "Dockerfile").read_text(encoding="utf-8")).splitlines()


def arguments(instruction):
    return [line.split(maxsplit=1)[1] for line in LINES if line.startswith(f"{instruction} ")]


def test_what_is_copied_is_there_and_not_ignored():
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {name for line in arguments("COPY") for name in line.split()[:-1]}
    assert copied == allowed and [name for name in copied if not (ROOT / name).exists()] == []


def test_the_extras_exist_and_torch_is_pinned():
    extras = next(line.partition("=")[2] for line in arguments("ARG") if line.startswith("EXTRAS="))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    assert re.search(r"^torch==", (ROOT / "constraints.txt").read_text(), re.MULTILINE)


def test_the_files_of_the_build_come_along():
    """What pyproject.toml reads while the package is built."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    copied = {name for line in arguments("COPY") for name in line.split()[:-1]}
    assert {project["readme"], *project["license-files"], "pyproject.toml", "ebu"} <= copied


def test_it_does_not_run_as_root():
    assert arguments("USER") == ["ebu"] and arguments("ENTRYPOINT") == ['["ebu"]']
