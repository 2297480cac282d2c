"""The embedded digits are real MNIST; other sets come from IDX files, or a clear line says why not."""

from __future__ import annotations

import gzip
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from numpy.typing import NDArray

from ebu.envs import digits as digits_module
from ebu.envs.digits import IMAGES_NAME, LABELS_NAME, load_digits, read_training_set, unpack
from ebu.errors import UserError

REPOSITORY = Path(__file__).parents[2]
MNIST_FOLDER = Path(os.environ.get("EBU_MNIST", REPOSITORY.parent / "shared" / "data" / "mnist"))
PACKED = Path(digits_module.__file__).parent / "data" / digits_module.PACKED_NAME
SCRIPT = REPOSITORY / "scripts" / "pack_mnist.py"


def idx(values: NDArray[np.uint8]) -> bytes:
    return bytes([0, 0, 8, values.ndim]) + b"".join(n.to_bytes(4, "big") for n in values.shape) + values.tobytes()


def write_training_set(folder: Path, labels: list[int], compress: bool = False) -> NDArray[np.uint8]:
    images = np.random.default_rng(0).integers(256, size=(len(labels), 28, 28), dtype=np.uint8)
    for name, values in ((IMAGES_NAME, images), (LABELS_NAME, np.array(labels, np.uint8))):
        blob = idx(values)
        (folder / (f"{name}.gz" if compress else name)).write_bytes(gzip.compress(blob) if compress else blob)
    return images


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pack_mnist", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_embedded_digits_are_28_by_28_and_balanced_over_all_classes() -> None:
    digits = load_digits()
    assert digits.images.shape == (13_400, 28, 28) and digits.images.dtype == np.uint8
    assert digits.counts == (1340,) * 10
    assert digits.starts == tuple(range(0, 13_400, 1340))
    assert np.bincount(digits.labels).tolist() == [1340] * 10
    ink = digits.images.mean(axis=(1, 2))
    assert ink.min() > 2 and ink.max() < 128  # no blank and no inverted image
    assert len(np.unique(digits.source_indices)) == 13_400 and digits.source_indices.max() < 60_000


def test_embedded_digits_take_less_than_two_megabytes() -> None:
    assert PACKED.stat().st_size < 2_000_000


def test_digits_are_read_once_and_cannot_be_changed() -> None:
    assert load_digits() is load_digits()
    with pytest.raises(ValueError, match="read-only"):
        load_digits().images[0, 0, 0] = 1


def test_importing_the_maze_does_not_load_digits() -> None:
    code = "import ebu.envs.mnist_maze, ebu.envs.digits as d; assert d._embedded.cache_info().currsize == 0"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=REPOSITORY)


def test_every_digit_of_a_class_is_drawn_equally_often_and_no_other(tmp_path: Path) -> None:
    write_training_set(tmp_path, [*range(10), 3, 3, 3])
    digits = load_digits(tmp_path)
    rng = np.random.default_rng(0)
    drawn = np.bincount([digits.draw(rng, 3) for _ in range(4000)], minlength=13)
    assert np.flatnonzero(drawn).tolist() == [3, 4, 5, 6]
    np.testing.assert_allclose(drawn[3:7], 1000, atol=110)  # four standard deviations


@pytest.mark.skipif(not MNIST_FOLDER.is_dir(), reason="no MNIST folder: set EBU_MNIST to a folder of the IDX files")
def test_embedded_digits_equal_mnist_at_their_recorded_indices() -> None:
    images, labels = read_training_set(MNIST_FOLDER)
    digits = load_digits()
    np.testing.assert_array_equal(digits.images, images[digits.source_indices])
    np.testing.assert_array_equal(digits.labels, labels[digits.source_indices])
    full = load_digits(MNIST_FOLDER)
    assert sum(full.counts) == 60_000
    np.testing.assert_array_equal(full.images[::97], images[full.source_indices[::97]])


@pytest.mark.parametrize("compress", [False, True])
def test_a_folder_of_idx_files_is_grouped_by_class(tmp_path: Path, compress: bool) -> None:
    labels = [*range(9, -1, -1), 7, 0]
    images = write_training_set(tmp_path, labels, compress)
    digits = load_digits(tmp_path)
    assert digits.counts == (2, 1, 1, 1, 1, 1, 1, 2, 1, 1)
    assert digits.source_indices[:2].tolist() == [9, 11]
    np.testing.assert_array_equal(digits.images, images[digits.source_indices])
    np.testing.assert_array_equal(digits.labels, np.array(labels)[digits.source_indices])


def test_packing_keeps_the_first_digits_of_each_class_and_their_indices(script: ModuleType, tmp_path: Path) -> None:
    labels = [*range(10), *range(9, -1, -1), *range(10)]
    images = write_training_set(tmp_path, labels)
    blob = script.pack(*read_training_set(tmp_path), per_class=2)
    assert blob == script.pack(*read_training_set(tmp_path), per_class=2)
    digits = unpack(blob)
    assert digits.source_indices.tolist() == [index for digit in range(10) for index in (digit, 19 - digit)]
    np.testing.assert_array_equal(digits.images, images[digits.source_indices])


def test_packing_more_than_there_is_says_how_many_there_are(script: ModuleType, tmp_path: Path) -> None:
    write_training_set(tmp_path, [*range(10)])
    with pytest.raises(UserError, match="--per-class 2: give 1 to 1"):
        script.pack(*read_training_set(tmp_path), per_class=2)


@pytest.mark.parametrize("place", [0, 30, 1000, -1])
def test_a_damaged_package_file_is_noticed_and_the_remedy_named(
    place: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blob = bytearray(PACKED.read_bytes())
    blob[place] ^= 0x55
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / digits_module.PACKED_NAME).write_bytes(blob)
    monkeypatch.setattr(digits_module.resources, "files", lambda _: tmp_path)
    with pytest.raises(UserError, match=r"missing or damaged .* reinstall episodic-backward-update"):
        digits_module._embedded.__wrapped__()


def test_a_missing_package_file_names_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digits_module.resources, "files", lambda _: tmp_path)
    with pytest.raises(UserError, match="reinstall episodic-backward-update"):
        digits_module._embedded.__wrapped__()


def test_a_missing_folder_or_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nowhere does not exist"):
        load_digits(tmp_path / "nowhere")
    with pytest.raises(UserError, match=f"holds neither {IMAGES_NAME} nor {IMAGES_NAME}.gz"):
        load_digits(tmp_path)
    write_training_set(tmp_path, [*range(10)])
    (tmp_path / LABELS_NAME).unlink()
    with pytest.raises(UserError, match=f"holds neither {LABELS_NAME}"):
        load_digits(tmp_path)


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("keep", [0, 3, 15, 500])
def test_a_truncated_file_is_refused(tmp_path: Path, compress: bool, keep: int) -> None:
    write_training_set(tmp_path, [*range(10)], compress)
    path = tmp_path / (f"{IMAGES_NAME}.gz" if compress else IMAGES_NAME)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(UserError, match="download it again") as refusal:
        load_digits(tmp_path)
    assert "\n" not in str(refusal.value) and str(path) in str(refusal.value)


def test_files_that_are_not_mnist_are_refused(tmp_path: Path) -> None:
    write_training_set(tmp_path, [*range(9), 8])
    with pytest.raises(UserError, match="must cover the digits 0 to 9"):
        load_digits(tmp_path)
    (tmp_path / LABELS_NAME).write_bytes(idx(np.zeros(3, np.uint8)))
    with pytest.raises(UserError, match=r"images \(10, 28, 28\) and labels \(3,\)"):
        load_digits(tmp_path)
