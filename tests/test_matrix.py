"""``make test-matrix``: what cannot be run here is told and not called passed, and each order is one of all tests."""

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import shuffle

ROOT = Path(__file__).parent.parent


@pytest.fixture
def matrix(monkeypatch, tmp_path):
    """The script, on a processor with AVX2 and without AVX-512."""
    spec = importlib.util.spec_from_file_location("matrix_script", ROOT / "scripts" / "matrix.py")
    script = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "matrix_script", script)  # where its dataclass looks its own module up
    spec.loader.exec_module(script)
    (tmp_path / "cpuinfo").write_text("flags : fpu sse4_1 avx2 fma")
    monkeypatch.setattr(script, "CPUINFO", tmp_path / "cpuinfo")
    return script


def call(matrix, monkeypatch, *words, codes=(0,)):
    """The exit code, and the runs there would have been."""
    runs, answers = [], iter(codes)

    def run(setting, seed, arguments):
        runs.append((setting, arguments))
        return next(answers), 1.0

    monkeypatch.setattr(matrix, "run", run)
    monkeypatch.setattr(sys, "argv", ["matrix.py", *words])
    return matrix.main(), runs


def test_an_old_processor_leaves_out_what_it_lacks_and_says_so(matrix, monkeypatch, capsys):
    code, runs = call(matrix, monkeypatch, "avx2", "avx512", "--", "-n", "0", "tests/targets")
    assert code == 0 and runs == [(matrix.SETTINGS["avx2"], ["-n", "0", "tests/targets"])]
    assert "avx512: not run, this processor lacks avx512" in capsys.readouterr().out


def test_one_failed_run_is_a_failure_of_all(matrix, monkeypatch, capsys):
    code, runs = call(matrix, monkeypatch, "default", "busy", "default", codes=(0, 1, 0))
    assert (code, len(runs)) == (1, 3)
    assert "busy: failed with exit code 1" in capsys.readouterr().out


def test_an_unknown_setting_is_refused_in_one_line(matrix, monkeypatch, capsys):
    code, runs = call(matrix, monkeypatch, "sse2")
    assert (code, runs) == (2, [])
    assert capsys.readouterr().err.startswith("no setting sse2; there are default, avx2,")


def test_a_shuffled_run_has_every_test_once_and_those_of_a_file_together(monkeypatch):
    items = [SimpleNamespace(path=f"file{i // 10}", name=i) for i in range(100)]
    orders = []
    for seed in ("1", "2", "1"):
        monkeypatch.setenv("SHUFFLE", seed)
        shuffled = list(items)
        shuffle.pytest_collection_modifyitems(shuffled)
        orders.append([item.name for item in shuffled])
        files = [item.path for item in shuffled]
        assert sorted(orders[-1]) == list(range(100))
        assert all(len(set(files[i : i + 10])) == 1 for i in range(0, 100, 10))
    assert orders[0] == orders[2] != orders[1]
