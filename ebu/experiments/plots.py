"""What all items share: rows to a file, numbers fit for rows, and one look for their pictures."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

# Okabe and Ito's colours, which can be distinguished with every kind of colour vision.
BLUE, ORANGE, GREEN, PINK, SKY, VERMILION = "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00"
INK, GREY = "#333333", "#8A8A8A"
SEQUENCE = ("#9ECAE1", "#4292C6", "#2171B5", "#08306B")  # one quantity growing, light to dark
DPI = 150


def write_rows(out: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """One JSON object a line; the same rows give the same bytes."""
    out.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (out / "rows.jsonl").write_text(text, encoding="utf-8")


def number(value: Any, digits: int = 10) -> float | None:
    """A float fit for a row: rounded, so that it does not depend on the order of a sum; infinity becomes null."""
    return round(float(value), digits) if np.isfinite(value) else None


def sheet(width: float, height: float) -> Figure:
    """An empty figure."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def canvas(columns: int, rows: int = 1, width: float = 11.0, height: float = 4.2, **grid: Any) -> tuple[Figure, list[Axes]]:
    """A figure with its panels in reading order, without the global state of pyplot."""
    figure = sheet(width, height)
    axes = list(figure.subplots(rows, columns, squeeze=False, **grid).flat)
    for ax in axes:
        style(ax)
    return figure, axes


def style(ax: Axes) -> None:
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(GREY)
    ax.tick_params(colors=INK, labelsize=9)
    ax.grid(True, color="#E6E6E6", linewidth=0.8)
    ax.set_axisbelow(True)


def title(ax: Axes, text: str) -> None:
    ax.set_title(text, loc="left", fontsize=10.5, color=INK, fontweight="bold")


def legend(ax: Axes, **options: Any) -> None:
    if ax.get_legend_handles_labels()[0]:
        ax.legend(**{"frameon": False, "fontsize": 8.5, "labelcolor": INK, **options})


def save(figure: Figure, out: Path, name: str) -> None:
    """With a palette of 256 colours, which a plot is not seen to lack: a quarter of the bytes.

    No colour is far from its own in the palette, be it that of a single dot: the method of largest coverage sees to that,
    where the usual one gives small areas the colours of larger ones.
    """
    out.mkdir(parents=True, exist_ok=True)
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=DPI, facecolor="white")
    with Image.open(drawn) as image:
        few = image.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=1, dither=Image.Dither.NONE)
    few.save(out / f"{name}.png", optimize=True, dpi=(DPI, DPI))


def markdown(header: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    """A table for the documentation; a test keeps the page equal to what the committed rows give."""
    names = list(header)
    body = [names, ["---"] * len(names), *(list(line) for line in lines)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in body)
