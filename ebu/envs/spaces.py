"""Which observations and actions are supported, how observations are stored, and the messages for what is not supported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from ebu.envs.observation import InvalidValue, Observations, ObservationSpec, shown
from ebu.envs.parts import Leaf, Path, as_bytes, as_vector
from ebu.errors import UserError
from ebu.types import Array

SMALLEST_IMAGE = 3  # a side shorter than a 3×3 kernel makes it a vector


def count_actions(space: gymnasium.Space[Any]) -> int:
    """The number of discrete actions, or a UserError that says why there is none."""
    if isinstance(space, spaces.Discrete):
        if space.start != 0:
            raise UserError(f"the action space starts at {space.start}; wrap the environment so that actions start at 0")
        return int(space.n)
    kind = "a continuous action space" if isinstance(space, spaces.Box) else f"the action space {space}"
    raise UserError(
        f"all methods here choose among discrete actions, but the environment has {kind}; "
        "use an environment with a Discrete action space, or wrap this one to offer a fixed list of actions"
    )


def describe(space: gymnasium.Space[Any]) -> Observations:
    """How observations of this space are stored and read, or a UserError naming the space.

    ``encode`` refuses with an InvalidValue whatever the space does not promise: another type, shape, dtype or range. The
    bounds of a Box of floats are not enforced, since many environments exceed theirs a little.
    """
    if isinstance(space, spaces.Discrete):
        return _discrete(space)
    if isinstance(space, spaces.MultiDiscrete):
        return _multi_discrete(space)
    if isinstance(space, spaces.MultiBinary):
        return _vector(space.shape, np.int8, low=0, high=1)
    if isinstance(space, spaces.Box):
        return _box(space)
    if isinstance(space, spaces.Dict | spaces.Tuple):
        has_images = any(_is_image(leaf) for _, leaf in leaves_of(space))
        if not has_images:
            _require_flat(space)
        leaves = [Leaf(path, describe_leaf(leaf), space) for path, leaf in leaves_of(space)]
        return as_bytes(leaves) if has_images else as_vector(leaves)
    raise UserError(f"observations of {space} are not supported; wrap the environment to return a Box or Discrete space")


def split_batch(space: gymnasium.Space[Any], observation: Any) -> list[Any] | None:
    """The observations of a batch one by one, [B, …] of what the space promises; None for a single observation."""
    if isinstance(space, spaces.Dict):
        if not isinstance(observation, Mapping) or observation.keys() != space.spaces.keys():
            return None
        parts = {key: split_batch(part, observation[key]) for key, part in space.spaces.items()}
        rows = _together(list(parts.values()))
        return None if rows is None else [dict(zip(parts, row)) for row in rows]
    if isinstance(space, spaces.Tuple):
        if not isinstance(observation, tuple) or len(observation) != len(space.spaces):
            return None
        return _together([split_batch(part, value) for part, value in zip(space.spaces, observation)])
    try:
        array = np.asarray(observation)
    except ValueError:  # a ragged list is no batch
        return None
    is_batch = space.shape is not None and array.ndim == len(space.shape) + 1 and array.shape[1:] == space.shape
    return list(array) if is_batch else None


def _together(parts: list[list[Any] | None]) -> list[tuple[Any, ...]] | None:
    """Rows of several parts, where all parts are batches of one size."""
    batches = [part for part in parts if part is not None]
    sizes = {len(batch) for batch in batches}
    return list(zip(*batches)) if len(batches) == len(parts) and len(sizes) == 1 else None


def _discrete(space: spaces.Discrete) -> Observations:
    start, count = int(space.start), int(space.n)

    def encode(x: Any) -> Array:
        if type(x) is not int:
            if isinstance(x, np.ndarray) and x.ndim == 0:
                x = x[()]
            if isinstance(x, bool) or not isinstance(x, int | np.integer):
                raise InvalidValue(f"{shown(x)} instead of a whole number, as {space} promises")
        index = int(x) - start
        if not 0 <= index < count:
            raise InvalidValue(f"{shown(x)}, which is not in {space}")
        return np.array([index])

    return Observations(ObservationSpec("onehot", (1,), "int64", (count,)), encode)


def _multi_discrete(space: spaces.MultiDiscrete) -> Observations:
    offsets, counts = np.asarray(space.start).reshape(-1), space.nvec.reshape(-1)

    def encode(x: Any) -> Array:
        array = _array(x, space.shape, np.dtype(np.int64), space)
        index = array.reshape(-1) - offsets
        if ((index < 0) | (index >= counts)).any():
            raise InvalidValue(f"{shown(array.tolist())}, which is not in {space}")
        return index

    return Observations(ObservationSpec("onehot", (counts.size,), "int64", tuple(int(n) for n in counts)), encode)


def _array(x: Any, shape: tuple[int, ...], dtype: np.dtype[Any], space: gymnasium.Space[Any]) -> Array:
    """The observation as an array of this shape whose numbers fit this dtype; the usual case costs two comparisons."""
    if type(x) is np.ndarray and x.dtype == dtype and x.shape == shape:
        return x
    try:
        array = np.asarray(x)
    except Exception as error:  # a ragged list, or an object with its own idea of an array
        raise InvalidValue(f"{shown(x)} instead of an array of {list(shape)}") from error
    if array.dtype.kind not in "biuf":
        raise InvalidValue(f"{shown(x)} instead of numbers of {space.dtype} {list(shape)}")
    if array.shape != shape:
        raise InvalidValue(f"{shown(array)} instead of {space.dtype} {list(shape)}")
    if dtype.kind in "biu" and array.dtype != dtype:
        limits = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        with np.errstate(invalid="ignore"):
            fits = (array == np.trunc(array)).all() and (array >= limits[0]).all() and (array <= limits[1]).all()
        if not fits:
            raise InvalidValue(f"{shown(array)} with numbers that {dtype} cannot hold")
    return array


def _vector(shape: tuple[int, ...], dtype: Any, low: float | None = None, high: float | None = None) -> Observations:
    size, kind = int(np.prod(shape)), np.dtype(dtype)
    space = spaces.Box(-np.inf, np.inf, shape) if low is None else spaces.MultiBinary(shape)

    def encode(x: Any) -> Array:
        array = _array(x, shape, kind, space)
        if low is not None and high is not None and ((array < low) | (array > high)).any():
            raise InvalidValue(f"{shown(array.tolist())} with numbers that are not {low:g} or {high:g}")
        return np.array(array, np.float32).reshape(-1)

    return Observations(ObservationSpec("vector", (size,), "float32"), encode)


def has_channels_last(shape: tuple[int, ...]) -> bool:
    """Whether a picture of this shape is [H, W, C] rather than [C, H, W]."""
    return len(shape) == 3 and shape[2] <= shape[0]


def _box(space: spaces.Box) -> Observations:
    shape, dtype = space.shape, np.dtype(space.dtype)
    channels_last = has_channels_last(shape)
    sides = shape if len(shape) == 2 else shape[:2] if channels_last else shape[1:]
    too_small = min(sides, default=0) < SMALLEST_IMAGE
    if len(shape) == 3 and not too_small:
        channels, height, width = (shape[2], *shape[:2]) if channels_last else shape
        spec = ObservationSpec("image", (channels, height, width), _stored(space), scale=_scale(space))
        if channels_last:
            return Observations(
                spec, lambda x: np.array(np.transpose(_array(x, shape, dtype, space), (2, 0, 1)), spec.dtype, order="C")
            )
        return Observations(spec, lambda x: np.array(_array(x, shape, dtype, space), spec.dtype))
    if len(shape) == 2 and not too_small and (space.dtype == np.uint8 or min(shape) >= 2 * SMALLEST_IMAGE):
        spec = ObservationSpec("image", (1, *shape), _stored(space), scale=_scale(space))
        return Observations(spec, lambda x: np.array(_array(x, shape, dtype, space), spec.dtype)[None])
    return _vector(shape, dtype)


def _stored(space: spaces.Box) -> str:
    """Images keep their bytes where they are bytes; anything else is stored as float32."""
    return "uint8" if space.dtype in (np.uint8, np.bool_) else "float32"


def _scale(space: spaces.Box) -> float:
    """Bounded images are brought to about [0, 1]; a bound beyond that is what tells 0–255 from 0–1."""
    bounds = np.abs([space.low.astype(np.float64), space.high.astype(np.float64)])
    largest = float(bounds.max())
    return 1.0 / largest if 1.0 < largest < np.inf else 1.0


def leaves_of(space: gymnasium.Space[Any], path: Path = ()) -> Iterator[tuple[Path, gymnasium.Space[Any]]]:
    """The parts of dictionaries and tuples, those inside others included, in the order of their spaces."""
    if isinstance(space, spaces.Dict):
        for key, part in space.spaces.items():
            yield from leaves_of(part, (*path, key))
    elif isinstance(space, spaces.Tuple):
        for place, part in enumerate(space.spaces):
            yield from leaves_of(part, (*path, place))
    else:
        yield path, space


def _is_image(space: gymnasium.Space[Any]) -> bool:
    return isinstance(space, spaces.Box) and _box(space).spec.kind == "image"


def describe_leaf(space: gymnasium.Space[Any]) -> Observations:
    """As ``describe``; a part of another kind is flattened, as Gymnasium does it."""
    known = isinstance(space, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary | spaces.Box)
    return describe(space) if known else _flattened(space)


def _require_flat(space: gymnasium.Space[Any]) -> None:
    if not space.is_np_flattenable:
        raise UserError(
            f"the observation {space} has parts that cannot be flattened into a vector; "
            "wrap the environment with gymnasium.wrappers.FilterObservation to keep those that can"
        )


def _flattened(space: gymnasium.Space[Any]) -> Observations:
    """A part of a kind that only Gymnasium knows, such as text."""
    _require_flat(space)
    size = spaces.flatdim(space)

    def encode(x: Any) -> Array:
        try:
            flat = np.array(spaces.flatten(space, x), np.float32)
        except Exception as error:  # of any kind: parts may be missing, or of other types
            reason = " ".join(str(error).split())
            raise InvalidValue(f"{shown(x)}, which is not in {space} ({type(error).__name__}: {reason})") from error
        if flat.shape != (size,):
            raise InvalidValue(f"{shown(x)}, which is not in {space}")
        return flat

    return Observations(ObservationSpec("vector", (size,), "float32"), encode)
