"""Which observations and actions are supported, how observations are stored, and the words for what is not supported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces

from ebu.errors import UserError
from ebu.types import Array

SMALLEST_IMAGE = 3  # a side shorter than a 3×3 kernel makes it a vector


@dataclass(frozen=True)
class ObservationSpec:
    """How an observation is stored as a frame, and what a network makes of it.

    ``kind`` is vector (float32 [n]), onehot (int64 [n], each entry one of ``categories``) or image ([C, H, W]).
    """

    kind: Literal["vector", "onehot", "image"]
    shape: tuple[int, ...]
    dtype: str
    categories: tuple[int, ...] = ()
    scale: float = 1.0  # images are multiplied by this before the network

    @property
    def features(self) -> int:
        """Length of the network's flat input."""
        return sum(self.categories) if self.kind == "onehot" else int(np.prod(self.shape))

    @property
    def can_be_damaged(self) -> bool:
        """Whether a frame can hold NaN or infinity at all."""
        return self.dtype.startswith("float")


@dataclass(frozen=True)
class Observations:
    """The specification with the function that turns what the environment returns into a stored frame."""

    spec: ObservationSpec
    encode: Callable[[Any], Array]


def count_actions(space: gymnasium.Space[Any]) -> int:
    """The number of discrete actions, or a UserError that says why there is none."""
    if isinstance(space, spaces.Discrete):
        if space.start != 0:
            raise UserError(f"the action space starts at {space.start}; wrap the environment so that actions start at 0")
        return int(space.n)
    kind = "a continuous action space" if isinstance(space, spaces.Box) else f"the action space {space}"
    raise UserError(
        f"EBU and its relatives choose among discrete actions, but the environment has {kind}; "
        "use an environment with a Discrete action space, or wrap this one to offer a fixed list of actions"
    )


def describe(space: gymnasium.Space[Any]) -> Observations:
    """How observations of this space are stored and read, or a UserError naming the space."""
    if isinstance(space, spaces.Discrete):
        start = int(space.start)
        onehot = ObservationSpec("onehot", (1,), "int64", (int(space.n),))
        return Observations(onehot, lambda x: np.array([int(x) - start]))
    if isinstance(space, spaces.MultiDiscrete):
        offsets = np.asarray(space.start).reshape(-1)
        onehot = ObservationSpec("onehot", (space.nvec.size,), "int64", tuple(int(n) for n in space.nvec.reshape(-1)))
        return Observations(onehot, lambda x: np.asarray(x, np.int64).reshape(-1) - offsets)
    if isinstance(space, spaces.MultiBinary):
        return _vector(int(np.prod(space.shape)))
    if isinstance(space, spaces.Box):
        return _box(space)
    if isinstance(space, spaces.Dict | spaces.Tuple):
        return _flattened(space)
    raise UserError(f"observations of {space} are not supported; wrap the environment to return a Box or Discrete space")


def _vector(size: int) -> Observations:
    return Observations(
        ObservationSpec("vector", (size,), "float32"), lambda x: np.array(x, np.float32).reshape(-1)
    )


def _box(space: spaces.Box) -> Observations:
    shape = space.shape
    channels_last = len(shape) == 3 and shape[2] <= shape[0]
    sides = shape if len(shape) == 2 else shape[:2] if channels_last else shape[1:]
    too_small = min(sides, default=0) < SMALLEST_IMAGE
    if len(shape) == 3 and not too_small:
        channels, height, width = (shape[2], *shape[:2]) if channels_last else shape
        spec = ObservationSpec("image", (channels, height, width), _stored(space), scale=_scale(space))
        if channels_last:
            return Observations(spec, lambda x: np.array(np.transpose(x, (2, 0, 1)), spec.dtype, order="C"))
        return Observations(spec, lambda x: np.array(x, spec.dtype))
    if len(shape) == 2 and not too_small and (space.dtype == np.uint8 or min(shape) >= 2 * SMALLEST_IMAGE):
        spec = ObservationSpec("image", (1, *shape), _stored(space), scale=_scale(space))
        return Observations(spec, lambda x: np.array(x, spec.dtype)[None])
    return _vector(int(np.prod(shape)))


def _stored(space: spaces.Box) -> str:
    """Images keep their bytes where they are bytes; anything else is stored as float32."""
    return "uint8" if space.dtype in (np.uint8, np.bool_) else "float32"


def _scale(space: spaces.Box) -> float:
    """Bounded images are brought to about [0, 1]; a bound beyond that is what tells 0–255 from 0–1."""
    bounds = np.abs([space.low.astype(np.float64), space.high.astype(np.float64)])
    largest = float(bounds.max())
    return 1.0 / largest if 1.0 < largest < np.inf else 1.0


def _flattened(space: spaces.Dict | spaces.Tuple) -> Observations:
    if not space.is_np_flattenable:
        raise UserError(
            f"the observation {space} has parts that cannot be flattened into a vector; "
            "wrap the environment with gymnasium.wrappers.FilterObservation to keep those that can"
        )
    size = spaces.flatdim(space)
    return Observations(
        ObservationSpec("vector", (size,), "float32"), lambda x: np.array(spaces.flatten(space, x), np.float32)
    )
