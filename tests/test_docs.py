"""What the documentation names exists."""

import re
from pathlib import Path

import pytest

import ebu

ROOT = Path(__file__).parent.parent
PAGES = [path for folder in (".", "docs", "docs/algorithms", "examples") for path in sorted((ROOT / folder).glob("*.md"))]


def text(path):
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    targets = [target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text(page))]
    assert [target for target in targets if target and "://" not in target and not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_into_pages_lead_to_a_heading(page):
    missing = []
    for target, heading in re.findall(r"\]\(([^)\s:#]*\.md)?#([^)\s]+)\)", text(page)):
        linked = page.parent / target if target else page
        if heading not in {slug(line) for line in re.findall(r"^#+ (.+)$", text(linked), re.MULTILINE)}:
            missing.append(f"{target}#{heading}")
    assert missing == []


def slug(heading):
    """As the repository's host and the site name a heading in links."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def test_the_navigation_of_the_site_names_pages_that_exist():
    named = re.findall(r"- ([\w/-]+\.md)$", text(ROOT / "mkdocs.yml"), re.MULTILINE)
    assert len(named) > 20 and [name for name in named if not (ROOT / "docs" / name).is_file()] == []
    assert {f"algorithms/{path.name}" for path in (ROOT / "docs" / "algorithms").glob("*.md")} <= set(named)


def test_the_reference_has_what_the_pages_call_on_an_agent():
    listed = re.search(r"inherited_members: \[([^\]]+)\]", text(ROOT / "mkdocs.yml"))[1].split(", ")
    called = set(re.findall(r"`agent\.(\w+)", text(ROOT / "docs" / "from-stable-baselines3.md")))
    assert {"learn", "predict", "save"} <= called <= set(listed)
    assert [name for name in listed if not hasattr(ebu.EBU, name)] == []


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path, monkeypatch):
    pytest.importorskip("mkdocs", reason="the extra docs is not installed")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    monkeypatch.setenv("NO_MKDOCS_2_WARNING", "1")
    build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(tmp_path), strict=True))
    pages = sorted(tmp_path.rglob("*.html"))
    assert len(pages) > 25
    for page in pages:
        loaded = re.findall(r"<(?:script|img|iframe)[^>]+src=[\"']?(https?:[^\"' >]+)", text(page))
        loaded += re.findall(r"<link[^>]+rel=[\"']?stylesheet[^>]+href=[\"']?(https?:[^\"' >]+)", text(page))
        assert loaded == [], page.name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_and_modules_are_called_as_they_are(page):
    """`ebu/training/loop.py`, `training/loop.py`, `tests/…`, `ebu.report.scores`. Old names may appear in the histories."""
    words = text(page).partition("## What changed, and why")[0]
    files = re.findall(r"`((?:[a-z_]+/)+[a-z_0-9]+\.py)\b", words)
    assert [name for name in files if not any((ROOT / folder / name).exists() for folder in ("", "ebu"))] == []
    if page.name != "CHANGELOG.md":
        modules = re.findall(r"(?:from|`) ?(ebu(?:\.[a-z_0-9]+)+)", words)
        assert [name for name in modules if not is_there(name)] == []


def is_there(name):
    """Whether a dotted name is a module, or an attribute of one."""
    path = ROOT.joinpath(*name.split("."))
    parent, attribute = path.parent, path.name
    if path.is_dir() or path.with_suffix(".py").is_file():
        return True
    source = parent.with_suffix(".py") if parent.with_suffix(".py").is_file() else parent / "__init__.py"
    return source.is_file() and re.search(rf"\b{attribute}\b", text(source)) is not None


def test_the_tests_of_the_security_promises_exist():
    promised = set(re.findall(r"`(test_\w+)`", text(ROOT / "docs" / "security.md")))
    defined = {name for path in (ROOT / "tests").rglob("*.py") for name in re.findall(r"def (test_\w+)", text(path))}
    assert len(promised) > 20 and promised <= defined


def test_version_and_citation_agree():
    assert f"version: {ebu.__version__}\n" in text(ROOT / "CITATION.cff")
    assert re.search(rf"^## {re.escape(ebu.__version__)}\b", text(ROOT / "CHANGELOG.md"), re.MULTILINE)


def test_the_table_of_the_architecture_meets_each_file_once():
    section = text(ROOT / "docs" / "architecture.md").partition("## One transition")[2].partition("Around the chain")[0]
    column = "\n".join(line.split("|")[2] for line in section.splitlines() if line.startswith("|"))
    files = re.findall(r"`([a-z_]+(?:/[a-z_]+)*\.py)`", column)
    assert len(files) > 20 and len(files) == len(set(files))
    assert [name for name in files if not (ROOT / "ebu" / name).is_file()] == []


def test_the_architecture_lists_the_layers_of_the_test():
    from tests.test_dependencies import LAYERS

    section = text(ROOT / "docs" / "architecture.md").partition("## The dependency rule")[2].partition("`targets/` and")[0]
    listed = [set(re.findall(r"`([a-z_0-9]+)`", line)) for line in section.splitlines() if re.match(r"\d+\. ", line)]
    layers = [{name.removeprefix("ebu.") for name in layer} - {"__main__"} for layer in LAYERS]
    flat = [*listed[:-1], {"commands"}, {"cli"}]
    assert flat == [layer for layer in layers if layer]
