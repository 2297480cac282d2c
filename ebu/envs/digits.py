"""Handwritten digits: the ones that travel inside the package, or all of MNIST from a folder of IDX files.

The packed file is one line of JSON (see ``unpack``) followed by a zstandard frame; ``scripts/pack_mnist.py`` writes it.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import zlib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

import numpy as np
import zstandard
from numpy.typing import NDArray

from ebu.errors import UserError

CLASSES = 10
SIDE = 28
PACKED_NAME = "mnist_train.digits"
PACKED_FORMAT = "ebu-digits-1"
IMAGES_NAME, LABELS_NAME = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"


@dataclass(frozen=True, eq=False)
class Digits:
    """Images grouped by class, so that drawing one is one random number."""

    images: NDArray[np.uint8]  # [D, 28, 28], all zeros first, then all ones, …; ink is 255
    source_indices: NDArray[np.int64]  # [D] place of each image in MNIST's training set (or in the folder's files)
    counts: tuple[int, ...]  # [10] images of each class
    starts: tuple[int, ...]  # [10] row of each class's first image

    @classmethod
    def grouped(cls, images: NDArray[np.uint8], source_indices: NDArray[np.int64], counts: NDArray[np.int64]) -> Digits:
        images.flags.writeable = False  # one cached copy is shared by every environment of the process
        starts = np.cumsum(counts) - counts
        return cls(images, source_indices, tuple(counts.tolist()), tuple(starts.tolist()))

    @property
    def labels(self) -> NDArray[np.int64]:
        return np.repeat(np.arange(CLASSES), self.counts)

    def draw(self, rng: np.random.Generator, digit: int) -> int:
        """Row of an image of ``digit``, uniformly (to 2⁻⁵³: a scaled float is far faster than ``rng.integers``)."""
        return self.starts[digit] + int(rng.random() * self.counts[digit])


def load_digits(folder: str | Path | None = None) -> Digits:
    """The embedded digits, or every training digit of ``folder``. Read once per process."""
    return _embedded() if folder is None else _from_folder(Path(folder).expanduser().resolve())


@cache
def _embedded() -> Digits:
    file = resources.files("ebu.envs") / "data" / PACKED_NAME
    try:
        return unpack(file.read_bytes())
    except (OSError, ValueError, KeyError, zstandard.ZstdError) as error:
        raise UserError(
            f"the packed MNIST digits in {file} are missing or damaged ({error}): reinstall episodic-backward-update"
        ) from error


def unpack(blob: bytes) -> Digits:
    """Reads the packed format, ``per_class`` images of every class; ValueError if the bytes do not match the header.

    Header: ``format``, ``per_class``, ``bytes`` and ``sha256`` of the zstandard frame. The frame holds the images as
    uint8 [10, per_class, 28, 28], then the steps between successive source indices of a class as little-endian uint16
    [10, per_class] (they rise within a class, and steps compress better than indices).
    """
    head, _, frame = blob.partition(b"\n")
    header = json.loads(head)
    if header["format"] != PACKED_FORMAT:
        raise ValueError(f"format {header['format']!r} instead of {PACKED_FORMAT!r}")
    if len(frame) != header["bytes"] or hashlib.sha256(frame).hexdigest() != header["sha256"]:
        raise ValueError("size or SHA-256 of the data differ from the header's")
    per_class = int(header["per_class"])
    pixels = CLASSES * per_class * SIDE * SIDE
    content = np.frombuffer(zstandard.ZstdDecompressor().decompress(frame), dtype=np.uint8)
    images = content[:pixels].reshape(-1, SIDE, SIDE)
    steps = content[pixels:].view("<u2").reshape(CLASSES, per_class)
    return Digits.grouped(images, steps.cumsum(axis=1, dtype=np.int64).ravel(), np.full(CLASSES, per_class))


@cache
def _from_folder(folder: Path) -> Digits:
    images, labels = read_training_set(folder)
    order = np.argsort(labels, kind="stable")
    counts = np.bincount(labels, minlength=CLASSES)
    if len(counts) > CLASSES or counts.min() == 0:
        raise UserError(f"the labels in {folder} must cover the digits 0 to 9, found {sorted(set(labels.tolist()))}")
    return Digits.grouped(images[order], order, counts)


def read_training_set(folder: Path) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Images [N, 28, 28] and labels [N] from MNIST's two original training files, plain or gzipped."""
    if not folder.is_dir():
        raise UserError(f"digits folder {folder} does not exist: give one that holds MNIST's original IDX files")
    images, labels = (_read_idx(_find(folder, name)) for name in (IMAGES_NAME, LABELS_NAME))
    if images.shape[1:] != (SIDE, SIDE) or labels.shape != images.shape[:1]:
        raise UserError(
            f"the IDX files in {folder} hold images {images.shape} and labels {labels.shape}: "
            "they must be MNIST's [N, 28, 28] and [N]"
        )
    return images, labels


def _find(folder: Path, name: str) -> Path:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise UserError(f"{folder} holds neither {name} nor {name}.gz: put MNIST's original training files there")


def _read_idx(path: Path) -> NDArray[np.uint8]:
    """IDX: two zero bytes, type 8 (uint8), number of axes, each axis as big-endian uint32, then the values."""
    try:
        blob = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path} cannot be read ({error}): download it again") from error
    axes = blob[3] if blob[:3] == b"\0\0\x08" and len(blob) > 3 else 0
    values_from = 4 + 4 * axes
    shape = tuple(int.from_bytes(blob[i : i + 4], "big") for i in range(4, values_from, 4))
    if axes == 0 or len(blob) != values_from + math.prod(shape):
        raise UserError(f"{path} is damaged or not an IDX file of bytes: download it again")
    return np.frombuffer(blob, dtype=np.uint8, offset=values_from).reshape(shape)
