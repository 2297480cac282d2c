"""Pack the first digits of each class of MNIST's training set into the file that travels inside the package.

    python scripts/pack_mnist.py FOLDER_OF_IDX_FILES ebu/envs/data/mnist_train.digits

The same files in, the same digits out: the first ``--per-class`` of each class, in the order of the training set. They
are not chosen by how well they compress, so they stay as varied as the whole.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path

import numpy as np
import zstandard
from numpy.typing import NDArray

from ebu.envs.digits import CLASSES, PACKED_FORMAT, read_training_set
from ebu.errors import UserError

LIMIT_BYTES = 2_000_000


def pack(images: NDArray[np.uint8], labels: NDArray[np.uint8], per_class: int) -> bytes:
    """The packed file, as ``ebu.envs.digits.unpack`` documents it."""
    available = np.bincount(labels, minlength=CLASSES).min()
    if not 0 < per_class <= available:
        raise UserError(f"--per-class {per_class}: give 1 to {available}, the size of the smallest class")
    indices = np.stack([np.flatnonzero(labels == digit)[:per_class] for digit in range(CLASSES)])  # [10, per_class]
    steps = np.diff(indices, axis=1, prepend=0).astype("<u2")
    frame = zstandard.ZstdCompressor(level=22).compress(images[indices].tobytes() + steps.tobytes())
    header = {
        "format": PACKED_FORMAT,
        "per_class": per_class,
        "bytes": len(frame),
        "sha256": hashlib.sha256(frame).hexdigest(),
        "source": "MNIST training set (LeCun, Cortes, Burges), the first of each class",
    }
    return json.dumps(header).encode() + b"\n" + frame


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder with MNIST's original IDX files, plain or gzipped")
    parser.add_argument("output", type=Path)
    parser.add_argument("--per-class", type=int, default=1340, help="digits of each class (default: %(default)s)")
    arguments = parser.parse_args()

    try:
        blob = pack(*read_training_set(arguments.folder), arguments.per_class)
    except UserError as error:
        parser.error(str(error))
    if len(blob) > LIMIT_BYTES:
        parser.error(f"{len(blob):,} bytes are more than {LIMIT_BYTES:,}: lower --per-class")
    arguments.output.write_bytes(blob)
    print(f"{arguments.output}: {CLASSES} × {arguments.per_class} digits, {len(blob):,} bytes")


if __name__ == "__main__":
    main()
