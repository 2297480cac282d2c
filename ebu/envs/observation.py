"""How an observation is stored, and what makes a stored frame of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np

from ebu.types import Array

# Below, one product with the dense vector is as fast, and its last digits are those of earlier versions.
SPARSE_ABOVE_CATEGORIES = 4_096


@dataclass(frozen=True)
class ObservationSpec:
    """How an observation is stored as a frame, and what a network makes of it.

    ``kind`` is vector (float32 [n]), onehot (int64 [n], each entry one of ``categories``), image ([C, H, W]) or parts: of
    a dictionary or tuple with images, the bytes of the frames of its ``parts``, one after another, as [1, 1, bytes].
    """

    kind: Literal["vector", "onehot", "image", "parts"]
    shape: tuple[int, ...]
    dtype: str
    categories: tuple[int, ...] = ()
    scale: float = 1.0  # images are multiplied by this before the network
    parts: tuple[ObservationSpec, ...] = ()
    names: tuple[str, ...] = ()  # of the parts: their keys, "/" between those of inner dictionaries

    def to_json(self) -> dict[str, Any]:
        """As plain values; what is empty is left out, as in files of versions that had no parts."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values["parts"] = [part.to_json() for part in self.parts]
        return {name: value for name, value in values.items() if value or name not in ("parts", "names")}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> ObservationSpec:
        parts = tuple(cls.from_json(part) for part in values.get("parts", ()))
        plain: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
        return cls(**{**plain, "parts": parts})

    @property
    def features(self) -> int:
        """Length of the network's flat input."""
        if self.kind == "parts":
            return sum(part.features for part in self.parts)
        return sum(self.categories) if self.kind == "onehot" else int(np.prod(self.shape))

    @property
    def frame_bytes(self) -> int:
        """Of one stored frame."""
        return int(np.prod(self.shape)) * np.dtype(self.dtype).itemsize

    @property
    def is_stacked(self) -> bool:
        """Whether several frames form a state, where the setting says so."""
        return self.kind in ("image", "parts")

    @property
    def is_sparse(self) -> bool:
        """Whether one-hot vectors are so long that a network is better given the places of their ones."""
        return self.kind == "onehot" and self.features > SPARSE_ABOVE_CATEGORIES

    @property
    def network_inputs(self) -> int:
        """Numbers that a state of one frame is when it reaches the first layer with weights."""
        return len(self.categories) if self.is_sparse else self.features

    @property
    def can_be_damaged(self) -> bool:
        """Whether a frame can hold NaN or infinity at all."""
        return self.dtype.startswith("float")


@dataclass(frozen=True)
class Observations:
    """The specification with the function that turns what the environment returns into a stored frame."""

    spec: ObservationSpec
    encode: Callable[[Any], Array]


class InvalidValue(ValueError):
    """A value that the space it should be from does not contain; the words say what was expected."""


def shown(value: Any) -> str:
    """A value at a length that leaves room for the rest of the line."""
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} {list(value.shape)}"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
