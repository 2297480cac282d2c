"""Plots are saved with a palette; it must not be seen."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

from ebu.experiments import plots

NOT_SEEN = 24  # of 255


def test_every_colour_of_a_picture_is_kept_even_that_of_one_dot(tmp_path):
    figure, (ax,) = plots.canvas(1)
    walks = np.random.default_rng(0).normal(size=(12, 60)).cumsum(axis=1)
    colours = [*plots.SEQUENCE, plots.ORANGE, plots.GREEN, plots.VERMILION, plots.SKY, plots.PINK, "#8C510A", "#006837"]
    for walk, colour in zip(walks, colours):
        ax.fill_between(range(60), walk - 4, walk + 4, color=colour, alpha=0.1)
        ax.plot(walk, color=colour)
    ax.plot(3, 4, "o", ms=4, color=plots.BLUE)
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=plots.DPI, facecolor="white")
    plots.save(figure, tmp_path, "picture")
    with Image.open(drawn) as before, Image.open(tmp_path / "picture.png") as after:
        error = np.abs(np.asarray(before.convert("RGB"), int) - np.asarray(after.convert("RGB"), int))
    assert error.max() < NOT_SEEN
    assert (tmp_path / "picture.png").stat().st_size < len(drawn.getvalue()) / 2
