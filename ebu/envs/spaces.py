"""Which observations and actions are supported, how observations are stored, and the messages for what is not supported."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces

from ebu.errors import UserError
from ebu.types import Array

SMALLEST_IMAGE = 3  # a side shorter than a 3×3 kernel makes it a vector


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
        return _parts(space) if any(_is_image(leaf) for _, leaf in leaves_of(space)) else _flattened(space)
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


class InvalidValue(ValueError):
    """A value that the space it should be from does not contain; the words say what was expected."""


def shown(value: Any) -> str:
    """A value at a length that leaves room for the rest of the line."""
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} {list(value.shape)}"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


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


Path = tuple[str | int, ...]  # the keys and places that lead to a part


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


def _parts(space: spaces.Dict | spaces.Tuple) -> Observations:
    """Each part as it would be stored by itself, their bytes end to end: images stay bytes and are compressed as such."""
    paths = [path for path, _ in leaves_of(space)]
    parts = [describe_leaf(leaf) for _, leaf in leaves_of(space)]
    specs, names = tuple(part.spec for part in parts), tuple("/".join(map(str, path)) for path in paths)

    def encode(x: Any) -> Array:
        frames = []
        for path, name, part in zip(paths, names, parts):
            try:
                value = x
                for key in path:
                    value = value[key]
            except (KeyError, IndexError, TypeError) as error:
                raise InvalidValue(f"{shown(x)} without the part {name!r}, which {space} promises") from error
            frame = part.encode(value)
            if part.spec.can_be_damaged and not np.isfinite(frame).all():
                raise InvalidValue(f"with numbers that are not finite in {name!r}")
            frames.append(np.ascontiguousarray(frame).reshape(-1).view(np.uint8))
        return np.concatenate(frames).reshape(1, 1, -1)

    shape = (1, 1, sum(spec.frame_bytes for spec in specs))
    return Observations(ObservationSpec("parts", shape, "uint8", parts=specs, names=names), encode)


def _flattened(space: gymnasium.Space[Any]) -> Observations:
    if not space.is_np_flattenable:
        raise UserError(
            f"the observation {space} has parts that cannot be flattened into a vector; "
            "wrap the environment with gymnasium.wrappers.FilterObservation to keep those that can"
        )
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
