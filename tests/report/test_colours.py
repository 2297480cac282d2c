"""The colours of the pages: readable by day and by night, and apart for every common colour vision."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from ebu.report import html

# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB.
VISION = {
    "normal": np.eye(3),
    "protanopia": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.00388, -0.04812, 1.05200]]),
    "deuteranopia": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]]),
    "tritanopia": np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]]),
}


def linear_rgb(colour):
    channels = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    to_xyz = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]])
    xyz = to_xyz @ rgb.clip(0, 1) / [0.95047, 1, 1.08883]
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def contrast(one, other):
    dark, bright = sorted(float(linear_rgb(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (one, other))
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("night", [False, True])
def test_colours_stand_out_and_stay_apart_for_every_vision(night):
    day_css, night_css = html.asset("base.css").split("prefers-color-scheme: dark")
    names = dict(re.findall(r"--([\w-]+): (#\w{6});", night_css if night else day_css))
    lines = [names[f"c{i}"] for i in range(6)]
    assert min(contrast(colour, names["card"]) for colour in lines) >= 3  # WCAG 1.4.11, graphical objects
    assert min(contrast(names[ink], names["card"]) for ink in ("ink", "soft", "good", "bad", "accent")) >= 4.5  # 1.4.3, text
    for matrix in VISION.values():
        seen = [lab(matrix @ linear_rgb(colour)) for colour in lines]
        assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) > 15
