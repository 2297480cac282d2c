"""Imports point one way. This reads them from the source and fails on the first that does not."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from pathlib import Path

import pytest

import ebu
from tests.waiting import PATIENCE

ROOT = Path(ebu.__file__).parent

# Lowest first: a module may import its own unit and any layer below. Units on one line do not know each other, except
# as LEANS_ON says. What is imported for its types only (TYPE_CHECKING) does not count.
LAYERS: list[set[str]] = [
    {"ebu.errors", "ebu.version"},
    {"ebu.plugins"},
    {"ebu.types", "ebu.seeding", "ebu.search_space", "ebu.env_arguments"},
    {"ebu.config"},
    {"ebu.config_check"},
    {"ebu.targets", "ebu.memory", "ebu.envs", "ebu.storage"},
    {"ebu.registry", "ebu.networks", "ebu.preset_files"},
    {"ebu.presets"},
    {"ebu.theory", "ebu.report", "ebu.sb3"},
    {"ebu.learning"},
    {"ebu.distributed"},
    {"ebu.training"},
    {"ebu.agent", "ebu.callbacks"},
    {"ebu.algorithms"},
    {"ebu.api"},
    {"ebu.sharing"},
    {"ebu.experiments"},
    {"ebu.commands"},
    {"ebu.cli"},
    {"ebu.__main__"},
]
LEANS_ON: dict[str, set[str]] = {}
# Stricter than their layer: these import nothing of ours but what is listed.
ONLY = {
    "ebu.errors": set(),
    "ebu.types": set(),
    "ebu.seeding": {"ebu.errors"},
    "ebu.search_space": set(),
    "ebu.env_arguments": {"ebu.errors"},
    "ebu.config": {"ebu.errors"},
    "ebu.config_check": {"ebu.config", "ebu.errors"},
    "ebu.targets": {"ebu.types", "ebu.errors"},
    "ebu.memory": {"ebu.types"},
    "ebu.envs": {"ebu.types", "ebu.errors"},
    "ebu.storage": {"ebu.errors", "ebu.config", "ebu.config_check", "ebu.types", "ebu.version"},
    "ebu.preset_files": {"ebu.config", "ebu.errors", "ebu.storage"},
    "ebu.presets": {"ebu.config", "ebu.env_arguments", "ebu.envs", "ebu.errors", "ebu.registry", "ebu.preset_files"},
    "ebu.sb3": {"ebu.errors", "ebu.targets"},
    "ebu.report": {"ebu.errors", "ebu.config", "ebu.envs", "ebu.registry", "ebu.presets", "ebu.storage"},
}
# Modules from outside that have no business there, not even inside a function.
FOREIGN = {
    "ebu.report": {"torch"},
    "ebu.envs": {"torch"},
    "ebu.config": {"torch", "gymnasium", "numpy"},
    "ebu.config_check": {"torch", "gymnasium", "numpy"},
    "ebu.targets": {"numpy", "gymnasium"},
    "ebu.memory": {"torch", "gymnasium"},
    "ebu": {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"},
}
TESTS = {"pytest", "hypothesis"}  # what only the tests install
# Libraries that are there for one unit, by an extra of their own: nobody else imports them.
NEIGHBOURS = {"stable_baselines3": "ebu.sb3", "optuna": "ebu.experiments"}


def module_name(path):
    parts = ["ebu", *path.relative_to(ROOT).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(ROOT.rglob("*.py"))}


@functools.cache
def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def _walk(tree):
    """All nodes but those under ``if TYPE_CHECKING``."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield node
            yield from _walk(node)


@functools.cache
def imports(path):
    """(line, module) of every import in a file, those inside functions and of names that are modules included.

    Not those under TYPE_CHECKING: nothing is imported there, and types may name what is above.
    """
    package = module_name(path) if path.name == "__init__.py" else module_name(path).rpartition(".")[0]
    found = []
    for node in _walk(parsed(path)):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parents, base] if base else parents)
            for alias in node.names:
                name = f"{base}.{alias.name}"
                found.append((node.lineno, name if name in MODULES else base))
    return found


def unit(module):
    """The layered name a module belongs to, or None for the package itself and for strangers."""
    names = [name for layer in LAYERS for name in layer if module == name or module.startswith(name + ".")]
    return max(names, key=len, default=None)


def level(name):
    return next(i for i, layer in enumerate(LAYERS) if name in layer)


OURS = [
    (module, line, unit(target), target)
    for module, path in MODULES.items()
    for line, target in imports(path)
    if target.split(".")[0] == "ebu" and module != "ebu"
]


def test_every_module_has_its_place_in_the_layers():
    assert [module for module in MODULES if module != "ebu" and unit(module) is None] == []


def test_every_layer_exists():
    for layer in LAYERS:
        for name in layer:
            assert any(module == name or module.startswith(name + ".") for module in MODULES), name


def test_imports_point_downwards():
    wrong = []
    for module, line, target, name in OURS:
        if name in ("ebu", "ebu.__version__"):
            continue  # the package's version, read by the command line
        own = unit(module)
        sideways = own != target and level(own) == level(target) and target not in LEANS_ON.get(own, ())
        if level(target) > level(own) or sideways:
            wrong.append(f"{module}:{line} imports {name}: {own} must not know {target}")
    assert wrong == []


@pytest.mark.parametrize("name", ONLY)
def test_the_lower_layers_import_only_what_they_may(name):
    wrong = [
        f"{module}:{line} imports {target_name}"
        for module, line, target, target_name in OURS
        if unit(module) == name and target != name and target not in ONLY[name]
    ]
    assert wrong == []


@pytest.mark.parametrize("name", FOREIGN)
def test_no_stranger_where_it_has_no_business(name):
    wrong = [
        f"{module}:{line} imports {target}"
        for module, path in MODULES.items()
        for line, target in imports(path)
        if (module == name or module.startswith(name + ".")) and target.split(".")[0] in FOREIGN[name]
    ]
    assert wrong == []


def test_nothing_imports_what_only_tests_install():
    found = {target.split(".")[0] for path in MODULES.values() for _, target in imports(path)}
    assert found & (TESTS | {"tests", "bench"}) == set()


@pytest.mark.parametrize("library", NEIGHBOURS)
def test_a_neighbour_is_imported_by_its_own_unit_alone(library):
    users = {unit(module) for module, path in MODULES.items() for _, name in imports(path) if name.split(".")[0] == library}
    assert users == {NEIGHBOURS[library]}


def test_no_module_imports_itself_in_a_circle():
    graph = {module: {t for m, _, _, t in OURS if m == module and t in MODULES} for module in MODULES}
    done, open_path = set(), []

    def visit(module):
        assert module not in open_path, " → ".join([*open_path, module])
        if module not in done:
            open_path.append(module)
            for target in graph[module]:
                visit(target)
            open_path.pop()
            done.add(module)

    for module in graph:
        visit(module)


def test_no_pickle_in_any_form():
    """Neither by import nor through PyTorch or NumPy, whose own formats are pickles."""
    for path in MODULES.values():
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in ("torch.save", "torch.load", "np.save", "numpy.save", "eval", "exec"), (
                    f"{path}:{node.lineno} calls {called}"
                )
                assert not any(k.arg == "allow_pickle" and ast.unparse(k.value) != "False" for k in node.keywords), path


def test_the_package_the_maze_the_help_and_the_report_do_not_wait_for_pytorch():
    program = """
import importlib, pkgutil, sys, gymnasium, ebu, ebu.report
from ebu.cli import main
for words in (["--help"], ["list"], ["train", "CartPole-v1", "--help"], ["train", "--help-all"]):
    main(words)
gymnasium.make("ebu/MNISTMaze-v0").reset(seed=0)
assert {"torch", "matplotlib"}.isdisjoint(sys.modules), "the package itself"
for module in pkgutil.iter_modules(ebu.report.__path__):
    importlib.import_module(f"ebu.report.{module.name}")
slow = {"torch", "tensorboard"} & set(sys.modules)
sys.exit(f"imported {slow}" if slow else 0)
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE)
    assert result.returncode == 0, result.stderr


def test_the_reader_of_imports_sees_all_forms(tmp_path, monkeypatch):
    """The test above is worth what its reader is worth."""
    package = tmp_path / "ebu"
    (package / "targets").mkdir(parents=True)
    (package / "targets" / "deep.py").write_text(
        "if TYPE_CHECKING:\n    import ebu.cli\n"
        "import ebu.api\nfrom ebu import memory\nfrom ebu.memory import ring\nfrom . import scan\n"
        "from ..learning.policy import Policy\ndef f():\n    import torch.nn as nn\n    from pickle import loads\n"
    )
    monkeypatch.setattr(sys.modules[__name__], "ROOT", package)
    targets = [target for _, target in imports(package / "targets" / "deep.py")]
    assert targets == [
        "ebu.api",
        "ebu.memory",
        "ebu.memory.ring",
        "ebu.targets.scan",
        "ebu.learning.policy",
        "torch.nn",
        "pickle",
    ]
