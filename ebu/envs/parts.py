"""Observations with parts, dictionaries and tuples: each part is checked as it is by itself, then all are put end to end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import gymnasium
import numpy as np

from ebu.envs.observation import InvalidValue, Observations, ObservationSpec, shown
from ebu.types import Array

Path = tuple[str | int, ...]  # the keys and places that lead to a part


@dataclass(frozen=True)
class Leaf:
    """A part of a dictionary or tuple."""

    path: Path
    part: Observations
    whole: gymnasium.Space[Any]

    @cached_property
    def name(self) -> str:
        """The path in words."""
        return "/".join(map(str, self.path))

    @property
    def spec(self) -> ObservationSpec:
        return self.part.spec

    def encode(self, x: Any) -> Array:
        """The part's frame, from the whole observation."""
        value = x
        try:
            for key in self.path:
                value = value[key]
        except Exception as error:  # of any kind: it may be any object
            raise InvalidValue(f"{shown(x)} without the part {self.name!r}, which {self.whole} promises") from error
        try:
            return self.part.encode(value)
        except InvalidValue as error:
            raise InvalidValue(f"{error}, in its part {self.name!r}") from error


def as_bytes(leaves: Sequence[Leaf]) -> Observations:
    """Each part as it would be stored by itself, their bytes end to end: images stay bytes and are compressed as such."""
    specs, names = tuple(leaf.spec for leaf in leaves), tuple(leaf.name for leaf in leaves)

    def encode(x: Any) -> Array:
        frames = []
        for leaf in leaves:
            frame = leaf.encode(x)
            if leaf.spec.can_be_damaged and not np.isfinite(frame).all():
                raise InvalidValue(f"with numbers that are not finite in {leaf.name!r}")
            frames.append(np.ascontiguousarray(frame).reshape(-1).view(np.uint8))
        return np.concatenate(frames).reshape(1, 1, -1)

    shape = (1, 1, sum(spec.frame_bytes for spec in specs))
    return Observations(ObservationSpec("parts", shape, "uint8", parts=specs, names=names), encode)


def as_vector(leaves: Sequence[Leaf]) -> Observations:
    """The numbers of all parts end to end, categories as ones and zeros: what Gymnasium's flatten gives, but checked."""
    ends = np.cumsum([leaf.spec.features for leaf in leaves], dtype=int).tolist()
    size = ends[-1] if ends else 0
    starts = [0, *ends][: len(leaves)]
    # Of each part, where its numbers go; of categories, where the first of each is.
    numbers = [(leaf, start, end) for leaf, start, end in zip(leaves, starts, ends) if leaf.spec.kind == "vector"]
    categories = [
        (leaf, start + np.cumsum([0, *leaf.spec.categories[:-1]]))
        for leaf, start in zip(leaves, starts)
        if leaf.spec.kind == "onehot"
    ]

    def encode(x: Any) -> Array:
        flat = np.zeros(size, np.float32)
        for leaf, start, end in numbers:
            flat[start:end] = leaf.encode(x)
        for leaf, firsts in categories:
            flat[firsts + leaf.encode(x)] = 1.0
        return flat

    return Observations(ObservationSpec("vector", (size,), "float32"), encode)
