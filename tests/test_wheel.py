"""What a user installs: the wheel, built from the sdist, in an environment that holds nothing else."""

import json
import os
import re
import shutil
import subprocess
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CONSTRAINTS = ROOT / "constraints.txt"

pytestmark = pytest.mark.slow


def package_files():
    """Paths of everything under ebu/, as the wheel names them."""
    return {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "ebu").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def new_environment(path):
    """The folder of the programs of a new environment with nothing but pip in it."""
    venv.create(path, with_pip=True)
    return path / ("Scripts" if os.name == "nt" else "bin")


def run(command, cwd):
    """Standard output of a program started outside the repository, which it cannot find through the environment either."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COV_", "PYTEST_"))}
    result = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=environment, capture_output=True, text=True, timeout=1800
    )
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """(sdist, wheel), both from a copy of the sources: what earlier builds left in the repository stays out of them."""
    folder = tmp_path_factory.mktemp("build")
    source = folder / "source"
    shutil.copytree(ROOT / "ebu", source / "ebu", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    programs = new_environment(folder / "builder")
    run([programs / "python", "-m", "pip", "install", "--quiet", "build"], folder)
    run([programs / "python", "-m", "build", "--outdir", folder / "dist", source], folder)
    (sdist,), (wheel,) = (folder / "dist").glob("*.tar.gz"), (folder / "dist").glob("*.whl")
    return sdist, wheel


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """The programs of an environment with the wheel and what it requires, and an empty folder to work in."""
    folder = tmp_path_factory.mktemp("user")
    programs = new_environment(folder / "environment")
    run([programs / "python", "-m", "pip", "install", "--quiet", "-c", CONSTRAINTS, built[1]], folder)
    (folder / "work").mkdir()
    return programs, folder / "work"


@pytest.fixture(scope="module")
def trained(installed):
    programs, work = installed
    run([programs / "ebu", "train", "--steps", 400, "--run", "run"], work)
    return work / "run"


def test_the_wheel_holds_the_package_and_nothing_else(built):
    names = {name for name in zipfile.ZipFile(built[1]).namelist() if ".dist-info/" not in name}
    assert names == package_files()


def test_the_sdist_holds_the_package_its_licence_and_its_readme(built):
    with tarfile.open(built[0]) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers()}
    assert package_files() | {"pyproject.toml", "README.md", "LICENSE"} <= names


def test_the_environment_imports_the_wheel_and_not_the_repository(installed):
    programs, work = installed
    path = run([programs / "python", "-c", "import ebu; print(ebu.__file__)"], work)
    assert Path(path.strip()).is_relative_to(programs.parent)
    assert not Path(path.strip()).is_relative_to(ROOT)


def test_ebu_train_learns_a_maze_of_the_packed_digits(trained):
    assert json.loads((trained / "summary.json").read_text())
    assert (trained / "metrics.jsonl").read_text().count("\n") >= 1
    for name in ("policy.ebu", "maze.png", "curve.png", "checkpoints"):
        assert (trained / name).exists(), name


def test_ebu_report_writes_a_page_with_its_assets(installed, trained):
    programs, work = installed
    assert run([programs / "ebu", "report", "run", "--out", "page.html"], work) == "wrote page.html\n"
    assert_self_contained(work / "page.html")


def test_ebu_explain_writes_a_page_with_its_assets(installed):
    programs, work = installed
    assert run([programs / "ebu", "explain", "--out", "explain.html"], work) == "wrote explain.html\n"
    assert_self_contained(work / "explain.html")


def test_ebu_reproduce_reads_the_scores_of_the_paper(installed):
    programs, work = installed
    run([programs / "ebu", "reproduce", "table2"], work)
    folder = work / "results" / "table2"
    assert {path.name for path in folder.iterdir()} >= {"rows.jsonl", "table.md", "table2.html", "table2.png"}
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    assert len(rows) == 8
    assert_self_contained(folder / "table2.html")


def assert_self_contained(page):
    """Styles and scripts are inside, and nothing is loaded from elsewhere."""
    text = page.read_text(encoding="utf-8")
    assert all(re.search(rf"<{tag}\b[^>]*>\s*[^<\s]", text) for tag in ("style", "script")), page
    assert re.findall(r"<(?:script|link|img)\b[^>]*\b(?:src|href)=[\"'](?!data:)", text) == [], page
