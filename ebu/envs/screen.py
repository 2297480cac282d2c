"""Two raw Atari screens become one observation: per-pixel maximum, luminance, 84 × 84. Pure functions of their arrays.

The definition: maximum over the last two frames on RGB (some games draw half their sprites on every other frame), then
luminance Y = 0.299 R + 0.587 G + 0.114 B rounded to a byte, then the smaller picture rounded to a byte. All arithmetic
is on integers, so the result does not depend on the machine, its BLAS or the order of summation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy import sparse

Bytes = NDArray[np.uint8]
Merging = Literal["rgb", "grayscale"]
Resizing = Literal["bilinear", "area", "antialias"]

# The console's 128 NTSC colours as the emulator shows them, by hue (rows) and brightness (columns).
_NTSC = """
000000 4a4a4a 6f6f6f 8e8e8e aaaaaa c0c0c0 d6d6d6 ececec
484800 69690f 86861d a2a22a bbbb35 d2d240 e8e84a fcfc54
7c2c00 904811 a26221 b47a30 c3903d d2a44a dfb755 ecc860
901c00 a33915 b55328 c66c3a d5824a e39759 f0aa67 fcbc74
940000 a71a1a b83232 c84848 d65c5c e46f6f f08080 fc9090
840064 97197a a8308f b846a2 c659b3 d46cc3 e07cd2 ec8ce0
500084 68199a 7d30ad 9246c0 a459d0 b56ce0 c57cee d48cfc
140090 331aa3 4e32b5 6848c6 7f5cd5 956fe3 a980f0 bc90fc
000094 181aa7 2d32b8 4248c8 545cd6 656fe4 7580f0 8490fc
001c88 183b9d 2d57b0 4272c2 548ad2 65a0e1 75b5ef 84c8fc
003064 185080 2d6d98 4288b0 54a0c5 65b7d9 75cceb 84e0fc
004030 18624e 2d8169 429e82 54b899 65d1ae 75e7c2 84fcd4
004400 1a661a 328432 48a048 5cba5c 6fd26f 80e880 90fc90
143c00 355f18 527e2d 6e9c42 87b754 9ed065 b4e775 c8fc84
303800 505916 6d762b 88923e a0ab4f b7c25f ccd86e e0ec7c
482c00 694d14 866a26 a28638 bb9f47 d2b656 e8cc63 fce070
"""
# [256, 3]: a screen's byte is twice the colour's number.
NTSC: Bytes = np.frombuffer(bytes.fromhex(_NTSC), np.uint8).reshape(128, 3).repeat(2, axis=0)


def luminance(rgb: Bytes) -> Bytes:
    """[..., 3] → [...]: 0.299 R + 0.587 G + 0.114 B, halves rounded up."""
    red, green, blue = (rgb[..., channel].astype(np.uint32) for channel in range(3))
    return ((299 * red + 587 * green + 114 * blue + 500) // 1000).astype(np.uint8)


def merge_rgb(previous: Bytes, current: Bytes, merging: Merging = "rgb") -> Bytes:
    """[H, W, 3] twice → [H, W]: the luminance of the maximum, or, as the authors' code does, the other way round."""
    if merging == "grayscale":
        return np.maximum(luminance(previous), luminance(current))
    return luminance(np.maximum(previous, current))


class MergeIndexed:
    """``merge_rgb`` for screens of NTSC palette bytes [H, W]: looked up instead of computed.

    Most pixels have the same colour in both frames, which a table of 256 answers; the others are looked up in pairs.
    """

    def __init__(self, merging: Merging = "rgb") -> None:
        self._pairs = merge_rgb(NTSC[:, None], NTSC[None, :], merging)  # [256, 256]
        self._single = self._pairs.diagonal().tobytes()

    def __call__(self, previous: Bytes, current: Bytes) -> Bytes:
        merged = np.frombuffer(bytearray(current).translate(self._single), np.uint8)
        before, after = previous.ravel(), current.ravel()
        changed = np.flatnonzero(before != after)
        if len(changed):
            merged[changed] = self._pairs[before[changed], after[changed]]
        return merged.reshape(current.shape)


def bilinear_weights(source: int, target: int) -> NDArray[np.int64]:
    """[target, source] integers: each output mixes the two source pixels around the centre it maps to.

    Output d has its centre at (d + ½) · source / target − ½, the convention of OpenCV's INTER_LINEAR and of
    ``torch.nn.functional.interpolate``; all rows have the same sum.
    """
    centre = (2 * np.arange(target) + 1) * source - target  # in units of 1 / (2 · target) pixels
    centre = centre.clip(0, 2 * target * (source - 1))
    left, part = np.divmod(centre, 2 * target)
    weights = np.zeros((target, source), np.int64)
    np.add.at(weights, (np.arange(target), left), 2 * target - part)
    np.add.at(weights, (np.arange(target), np.minimum(left + 1, source - 1)), part)
    return weights // np.gcd.reduce(weights, axis=None)


def area_weights(source: int, target: int) -> NDArray[np.int64]:
    """[target, source] integers: each output averages the stretch of source pixels it covers.

    This is what Torch 7's ``image.scale(…, 'bilinear')``, which the original DQN calls, computes when it shrinks.
    """
    output, pixel = np.arange(target)[:, None], np.arange(source)[None, :]
    overlap = np.minimum((pixel + 1) * target, (output + 1) * source) - np.maximum(pixel * target, output * source)
    weights = overlap.clip(0)
    return weights // np.gcd.reduce(weights, axis=None)


class ResizeExactly:
    """[H, W] → [size, size] by separable integer weights: one sparse product, one division, halves rounded up."""

    def __init__(self, shape: tuple[int, int], size: int, weights: Callable[[int, int], NDArray[np.int64]]) -> None:
        rows, columns = weights(shape[0], size), weights(shape[1], size)
        total = int(rows[0].sum() * columns[0].sum())
        dtype = np.uint16 if total * 255 + total // 2 < 2**16 else np.uint32
        self._matrix = sparse.csr_array(sparse.kron(sparse.csr_array(rows), sparse.csr_array(columns)).astype(dtype))
        self._dtype, self._total, self._size = dtype, dtype(total), size

    def __call__(self, image: Bytes) -> Bytes:
        sums = self._matrix @ image.ravel().astype(self._dtype)
        sums += self._total // 2
        sums //= self._total
        return sums.astype(np.uint8).reshape(self._size, self._size)


class ResizePillow:
    """[H, W] → [size, size] by Pillow's bilinear filter, which widens when it shrinks: the authors' ``imresize``."""

    def __init__(self, size: int) -> None:
        self._size = (size, size)

    def __call__(self, image: Bytes) -> Bytes:
        return np.array(Image.fromarray(image).resize(self._size, Image.Resampling.BILINEAR))


def resizer(method: Resizing, shape: tuple[int, int], size: int) -> Callable[[Bytes], Bytes]:
    """The function from a grayscale screen of this shape to a square of this size."""
    if method == "antialias":
        return ResizePillow(size)
    return ResizeExactly(shape, size, {"bilinear": bilinear_weights, "area": area_weights}[method])
