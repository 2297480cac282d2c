"""The fast preprocessing against slow oracles written from the definition."""

from __future__ import annotations

from fractions import Fraction
from math import floor

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from ebu.envs.screen import NTSC, MergeIndexed, Merging, Resizing, luminance, merge_rgb, resizer

SHAPE = (210, 160)


def random_image(shape: tuple[int, int] = SHAPE, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)


def rounded(value: Fraction) -> int:
    return floor(value + Fraction(1, 2))


def naive_bilinear(image: np.ndarray, size: int) -> np.ndarray:
    """Pixel by pixel in exact fractions: the centre of the output pixel in the input, and its four neighbours."""

    def around(position: int, length: int) -> list[tuple[int, Fraction]]:
        centre = Fraction(2 * position + 1, 2) * Fraction(length, size) - Fraction(1, 2)
        centre = min(max(centre, Fraction(0)), Fraction(length - 1))
        left = floor(centre)
        return [(left, 1 - (centre - left)), (min(left + 1, length - 1), centre - left)]

    result = np.zeros((size, size), np.uint8)
    for i in range(size):
        for j in range(size):
            value = sum(a * b * int(image[y, x]) for y, a in around(i, image.shape[0]) for x, b in around(j, image.shape[1]))
            result[i, j] = rounded(Fraction(value))
    return result


def torch7_shrink(line: list[Fraction], length: int) -> list[Fraction]:
    """One row or column as Torch 7's image.scale(…, 'bilinear') shrinks it: accumulate, divide by what was added."""
    result, start = [], Fraction(0)
    for position in range(length):
        end = Fraction((position + 1) * len(line), length)
        total = (1 - (start - floor(start))) * line[floor(start)]
        weight = 1 - (start - floor(start))
        for pixel in range(floor(start) + 1, floor(end)):
            total, weight = total + line[pixel], weight + 1
        if floor(end) < len(line):
            total, weight = total + (end - floor(end)) * line[floor(end)], weight + (end - floor(end))
        result.append(total / weight)
        start = end
    return result


def test_bilinear_equals_exact_fractions_on_a_full_screen() -> None:
    image = random_image()
    assert np.array_equal(resizer("bilinear", SHAPE, 84)(image), naive_bilinear(image, 84))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 24), st.integers(1, 24), st.integers(1, 16), st.integers(0, 9))
def test_bilinear_equals_exact_fractions_for_any_shape(height: int, width: int, size: int, seed: int) -> None:
    image = random_image((height, width), seed)
    assert np.array_equal(resizer("bilinear", (height, width), size)(image), naive_bilinear(image, size))


def test_bilinear_follows_the_convention_of_torch_interpolate() -> None:
    image = random_image()
    theirs = torch.nn.functional.interpolate(torch.from_numpy(image)[None, None].double(), (84, 84), mode="bilinear")
    assert np.abs(resizer("bilinear", SHAPE, 84)(image) - theirs[0, 0].numpy()).max() <= 0.5 + 1e-6


def test_area_equals_what_torch_7_computes_when_it_shrinks() -> None:
    image = random_image((21, 16))
    rows = [torch7_shrink([Fraction(int(pixel)) for pixel in row], 9) for row in image]
    columns = [torch7_shrink([row[j] for row in rows], 9) for j in range(9)]
    expected = np.array([[rounded(columns[j][i]) for j in range(9)] for i in range(9)])
    assert np.array_equal(resizer("area", (21, 16), 9)(image), expected)


def test_area_keeps_the_mean_of_the_picture() -> None:
    image = random_image()
    assert resizer("area", SHAPE, 84)(image).mean() == pytest.approx(image.mean(), abs=0.05)


def test_antialias_is_pillows_bilinear_filter() -> None:
    image = random_image()
    expected = np.asarray(Image.fromarray(image).resize((84, 84), Image.Resampling.BILINEAR))
    assert np.array_equal(resizer("antialias", SHAPE, 84)(image), expected)


@pytest.mark.parametrize("method", ["bilinear", "area", "antialias"])
@pytest.mark.parametrize("shade", [0, 1, 127, 255])
def test_a_flat_screen_stays_flat(method: Resizing, shade: int) -> None:
    for size in (42, 84, 96):
        small = resizer(method, SHAPE, size)(np.full(SHAPE, shade, np.uint8))
        assert small.shape == (size, size) and small.dtype == np.uint8
        assert (small == shade).all()


def test_luminance_weighs_red_green_and_blue_and_rounds_halves_up() -> None:
    colours = np.array([[0, 0, 0], [255, 255, 255], [255, 0, 0], [0, 255, 0], [0, 0, 255], [0, 0, 250]], np.uint8)
    assert luminance(colours).tolist() == [0, 255, 76, 150, 29, 29]  # 28.5 → 29


@pytest.mark.parametrize("merging", ["rgb", "grayscale"])
def test_looking_up_pairs_of_colours_equals_computing_them_for_all_pairs(merging: Merging) -> None:
    previous, current = (grid.astype(np.uint8) for grid in np.meshgrid(np.arange(256), np.arange(256)))
    assert np.array_equal(MergeIndexed(merging)(previous, current), merge_rgb(NTSC[previous], NTSC[current], merging))


def test_a_sprite_drawn_on_every_other_frame_is_always_visible() -> None:
    empty, drawn = np.zeros(SHAPE, np.uint8), np.zeros(SHAPE, np.uint8)
    drawn[100:110, 70:80] = 14  # the brightest gray
    merge = MergeIndexed()
    assert np.array_equal(merge(empty, drawn), merge(drawn, empty))
    assert (merge(empty, drawn)[100:110, 70:80] == 236).all()


def test_the_maximum_on_rgb_can_be_brighter_than_either_frame() -> None:
    red, blue = np.array([[[200, 0, 0]]], np.uint8), np.array([[[0, 0, 200]]], np.uint8)
    assert merge_rgb(red, blue).item() == 83  # 0.299 · 200 + 0.114 · 200
    assert merge_rgb(red, blue, "grayscale").item() == 60
