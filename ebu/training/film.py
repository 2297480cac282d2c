"""Videos of episodes."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import numpy as np

from ebu.errors import UserError


def require_film(path: Path) -> None:
    """Refuse a video that could not be written, before anything is played."""
    if path.suffix not in (".mp4", ".gif"):
        raise UserError(f"a recording is a file ending in .mp4 or .gif, got {path}")
    if not os.path.isdir(path.absolute().parent):
        raise UserError(f"there is no folder {path.parent} to record into")
    if any(importlib.util.find_spec(library) is None for library in ("imageio", "imageio_ffmpeg")):
        raise UserError("recording needs an extra: pip install 'episodic-backward-update[video]'")


def write_film(path: Path, frames: list[Any], fps: int) -> None:
    import imageio.v3 as imageio

    pictures = np.stack([np.asarray(frame, np.uint8) for frame in frames])
    if path.suffix == ".gif":
        imageio.imwrite(path, pictures, duration=1000 / fps, loop=0)
        return
    # Encoders require even sides; one row or column of padding is invisible.
    pad = [(0, 0), (0, pictures.shape[1] % 2), (0, pictures.shape[2] % 2), (0, 0)]
    imageio.imwrite(path, np.pad(pictures, pad, mode="edge"), fps=fps, codec="libx264", macro_block_size=1)
