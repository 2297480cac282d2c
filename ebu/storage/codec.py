"""A nested state ↔ flat safe files: a JSON skeleton, one safetensors file, blocks of bytes. No pickle.

A state is what ``state_dict`` returns: dicts with text keys, lists and tuples of None, bool, int, float, str, bytes,
numpy arrays and scalars, and tensors. It is restored equal in type, shape and bits; tensors are on the CPU.

Files are not trusted: declared sizes are checked before allocating.
"""

from __future__ import annotations

import json
import math
import re
import struct
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from ebu.errors import UserError
from ebu.storage.files import Damaged
from ebu.types import Array

Tensors: TypeAlias = dict[str, Tensor | Array]

MAX_DEPTH = 64  # of a tree
MAX_JSON_BYTES = 16 << 20
MAX_JSON_ITEMS = 1_000_000  # what one text may unfold into
WIDE_INT = 2**53  # from here on, JSON readers disagree about integers
HEADER_ALIGNMENT = 64


# ---------------------------------------------------------------------- tree ↔ skeleton, tensors, blocks


def flatten(tree: Any) -> tuple[Any, Tensors, dict[str, bytes]]:
    """A skeleton for JSON, in which {"$": kind, …} represents what JSON lacks; and the tensors and bytes it names."""
    tensors: Tensors = {}
    blocks: dict[str, bytes] = {}

    def name(path: tuple[str, ...], taken: dict[str, Any]) -> str:
        return "/".join((str(len(taken)), *path))  # the number makes it unique, the path makes it legible

    def encode(node: Any, path: tuple[str, ...]) -> Any:
        kind = type(node)
        if len(path) > MAX_DEPTH:
            raise ValueError(f"the state is nested more than {MAX_DEPTH} deep at {'/'.join(path[:3])}/…")
        if node is None or kind in (bool, str):
            return node
        if kind is int:
            return node if -WIDE_INT < node < WIDE_INT else {"$": "int", "hex": hex(node)}
        if kind is float:
            return node if math.isfinite(node) else {"$": "float", "bits": struct.pack(">d", node).hex()}
        if kind in (list, tuple):
            items = [encode(item, (*path, str(i))) for i, item in enumerate(node)]
            return items if kind is list else {"$": "tuple", "items": items}
        if kind is dict:
            if not all(type(key) is str for key in node):
                raise TypeError(f"the keys of a saved dict are text, not so at {'/'.join(path)!r}")
            entries = {key: encode(value, (*path, key)) for key, value in node.items()}
            return {"$": "dict", "items": [[k, v] for k, v in entries.items()]} if "$" in entries else entries
        if kind is bytes:
            blocks[key := name(path, blocks)] = node
            return {"$": "bytes", "name": key}
        if kind is np.ndarray or isinstance(node, np.generic | Tensor):
            _layout(node)  # refuses what cannot be stored
            tensors[key := name(path, tensors)] = np.asarray(node) if isinstance(node, np.generic) else node
            return {"$": "scalar" if isinstance(node, np.generic) else "tensor", "name": key}
        raise TypeError(f"{kind.__name__} cannot be saved, found at {'/'.join(path)!r}")

    return encode(tree, ()), tensors, blocks


def unflatten(skeleton: Any, tensors: Tensors, blocks: dict[str, bytes]) -> Any:
    """The tree; every tensor and block is used exactly once."""
    tensors, blocks = dict(tensors), dict(blocks)

    def take(taken: dict[str, Any], key: str) -> Any:
        if key not in taken:
            raise Damaged(f"the state names {_quote(key)}, which is not stored")
        return taken.pop(key)

    def decode(node: Any, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise Damaged(f"the state is nested more than {MAX_DEPTH} deep")
        if isinstance(node, list):
            return [decode(item, depth + 1) for item in node]
        if not isinstance(node, dict):
            return node
        if "$" not in node:
            return {key: decode(value, depth + 1) for key, value in node.items()}
        match len(node), node:
            case 2, {"$": "int", "hex": str(text)}:
                return int(text, 16)
            case 2, {"$": "float", "bits": str(text)}:
                return float(struct.unpack(">d", bytes.fromhex(text))[0])
            case 2, {"$": "tuple", "items": list(items)}:
                return tuple(decode(item, depth + 1) for item in items)
            case 2, {"$": "dict", "items": list(items)}:
                return _unique([(str(key), decode(value, depth + 1)) for key, value in items])
            case 2, {"$": "bytes", "name": str(key)}:
                return take(blocks, key)
            case 2, {"$": "tensor", "name": str(key)}:
                return take(tensors, key)
            case 2, {"$": "scalar", "name": str(key)}:
                return take(tensors, key)[()]
        raise Damaged(f"the state holds an unknown kind of value, {_quote(node['$'])}")

    try:
        tree = decode(skeleton, 0)
    except (ValueError, TypeError, IndexError, struct.error) as error:
        raise Damaged(f"the state cannot be read: {error}") from error
    for key in (*tensors, *blocks):
        raise Damaged(f"{_quote(key)} is stored but the state does not refer to it")
    return tree


def require_like(loaded: Any, template: Any, path: str = "") -> None:
    """Refuse a loaded state that does not fit the template, the fresh state of the objects it is to be put into.

    Keys, types (int and float are one), dtypes and the shapes of tensors are the same. What grows while a run lasts
    may differ in length: the first axis of a numpy array, and lists, whose further items are like the last one.
    A None in the template matches anything.
    """
    where = f"the checkpoint is of another run: {path or 'the state'}"
    if template is None:
        return
    if _kind(loaded) != _kind(template):
        raise UserError(f"{where} is {_kind(loaded)} instead of {_kind(template)}")
    if isinstance(template, dict):
        for key in sorted(template.keys() ^ loaded.keys()):
            raise UserError(f"{where} {'lacks' if key in template else 'has a foreign'} {_quote(key)}")
        for key, value in template.items():
            require_like(loaded[key], value, f"{path}/{key}" if path else key)
    elif isinstance(template, list | tuple) and template:
        for i, item in enumerate(loaded):
            require_like(item, template[min(i, len(template) - 1)], f"{path}/{i}")
    elif isinstance(template, Tensor | np.ndarray):
        fixed = 0 if isinstance(template, Tensor) else 1  # axes from here on are compared
        want, got = tuple(template.shape), tuple(loaded.shape)
        if template.dtype != loaded.dtype or len(want) != len(got) or want[fixed:] != got[fixed:]:
            raise UserError(f"{where} is {loaded.dtype} {list(got)} instead of {template.dtype} {list(want)}")


# ---------------------------------------------------------------------- tensors ↔ a safetensors file

_NUMPY_TAGS = {"|b1": "BOOL", "|u1": "U8", "|i1": "I8"} | {
    f"<{kind}{size}": f"{tag}{8 * size}"
    for kind, tag, sizes in (("u", "U", (2, 4, 8)), ("i", "I", (2, 4, 8)), ("f", "F", (2, 4, 8)))
    for size in sizes
}
_TORCH_TAGS = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64",
    "float16": "F16", "bfloat16": "BF16", "float32": "F32", "float64": "F64",
}  # fmt: skip
_TORCH_RAW = (
    "uint16", "uint32", "uint64", "complex32", "complex64", "complex128",
    "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz",
)  # fmt: skip
_TORCH_TYPES = {name: getattr(torch, name) for name in (*_TORCH_TAGS, *_TORCH_RAW) if hasattr(torch, name)}
_NUMPY_NAME = re.compile(r"[<>|][biufcmMSUV][0-9]{1,9}(\[[0-9A-Za-z]{1,12}\])?")


def encode_tensors(tensors: Tensors) -> list[Any]:
    """The parts of a safetensors file, to be written one after the other; tensors are not copied.

    A dtype the format does not know (structured, complex, text, dates) is stored as raw bytes. What each entry really
    is – library, dtype, shape – stands in the format's own place for remarks.
    """
    layouts = {name: _layout(tensor) for name, tensor in tensors.items()}
    order = sorted(tensors, key=lambda name: -_alignment(layouts[name]))  # each then starts at a multiple of its own
    header: dict[str, Any] = {"__metadata__": {name: json.dumps(layouts[name]) for name in order}}
    end = 0
    for name in order:
        header[name] = _entry(layouts[name], end)
        end = header[name]["data_offsets"][1]
    text = render_json(header)
    text += b" " * (-(8 + len(text)) % HEADER_ALIGNMENT)
    return [len(text).to_bytes(8, "little"), text, *(_raw(tensors[name]) for name in order)]


def decode_tensors(file: bytearray) -> Tensors:
    """The tensors in a safetensors file written by ``encode_tensors``; they share its memory."""
    try:
        size = int.from_bytes(file[:8], "little")
        if len(file) < 8 or size > len(file) - 8:
            raise Damaged(f"the tensor file declares a header of {size} bytes and has {len(file)}")
        header = parse_json(bytes(memoryview(file)[8 : 8 + size]))
        layouts = header.pop("__metadata__")
        data = np.frombuffer(file, np.uint8)[8 + size :]
        tensors: Tensors = {}
        end = 0
        for name, entry in header.items():
            layout = parse_json(layouts.pop(name).encode())
            expected = _entry(layout, end)
            start, end = expected["data_offsets"]
            if entry != expected or end > len(data):
                raise Damaged(f"the tensor {_quote(name)} is not as large as declared, or not of the declared type")
            tensors[name] = _rebuild(layout, data[start:end])
        if end != len(data) or layouts:
            raise Damaged(f"the tensor file holds {len(data)} bytes of data and describes {end}")
        return tensors
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RuntimeError) as error:
        raise Damaged(f"the tensor file cannot be read: {error}") from error


def _layout(tensor: Tensor | Array | np.generic) -> list[Any]:
    """[library, dtype, shape] of a tensor that can be stored, as JSON."""
    if isinstance(tensor, Tensor):
        dtype = str(tensor.dtype).removeprefix("torch.")
        if dtype not in _TORCH_TYPES or tensor.layout is not torch.strided:
            raise TypeError(f"a tensor of {tensor.dtype}, {tensor.layout} cannot be saved")
        return ["torch", dtype, list(tensor.shape)]
    described = _describe_dtype(tensor.dtype)
    if tensor.dtype.hasobject or not tensor.dtype.itemsize or _rebuild_dtype(described) != tensor.dtype:
        raise TypeError(f"an array of {tensor.dtype} cannot be saved")
    return ["numpy", described, list(tensor.shape)]


def _types(layout: Any) -> tuple[str, Any, list[int]]:
    library, described, shape = layout
    if library not in ("torch", "numpy") or not isinstance(shape, list) or len(shape) > MAX_DEPTH:
        raise Damaged("the tensor file describes an entry that is not a tensor")
    if not all(type(axis) is int and 0 <= axis < WIDE_INT for axis in shape):
        raise Damaged("the tensor file declares an invalid shape")
    return library, _TORCH_TYPES[described] if library == "torch" else _rebuild_dtype(described), shape


def _alignment(layout: list[Any]) -> int:
    library, dtype, _ = _types(layout)
    return dtype.itemsize if library == "torch" else dtype.alignment


def _entry(layout: Any, start: int) -> dict[str, Any]:
    """What the format's header says about such a tensor at this place; computed in integers without a limit."""
    _, dtype, shape = _types(layout)
    count = math.prod(shape) * dtype.itemsize
    tag = (_TORCH_TAGS if layout[0] == "torch" else _NUMPY_TAGS).get(layout[1] if isinstance(layout[1], str) else "")
    return {"dtype": tag or "U8", "shape": shape if tag else [count], "data_offsets": [start, start + count]}


def _raw(tensor: Tensor | Array) -> memoryview:
    if isinstance(tensor, Tensor):
        flat = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1)
        return flat.as_strided(flat.shape, (1,)).view(torch.uint8).numpy().data  # none or one may have odd strides
    return np.asarray(tensor, order="C").reshape(-1).view(np.uint8).data


def _rebuild(layout: Any, raw: Array) -> Tensor | Array:
    library, dtype, shape = _types(layout)
    if library == "torch":
        return torch.from_numpy(raw).view(dtype).reshape(shape) if len(raw) else torch.empty(shape, dtype=dtype)
    return raw.view(dtype).reshape(shape)


def _describe_dtype(dtype: np.dtype[Any]) -> Any:
    if dtype.subdtype:
        return [_describe_dtype(dtype.subdtype[0]), list(dtype.subdtype[1])]
    if dtype.names is None:
        return dtype.str
    fields = [dtype.fields[name] for name in dtype.names] if dtype.fields else []
    formats, offsets = [_describe_dtype(field[0]) for field in fields], [field[1] for field in fields]
    return {"names": list(dtype.names), "formats": formats, "offsets": offsets, "itemsize": dtype.itemsize,
            "aligned": dtype.isalignedstruct}  # fmt: skip


def _rebuild_dtype(described: Any) -> np.dtype[Any]:
    if isinstance(described, list):
        base, shape = described
        return np.dtype((_rebuild_dtype(base), tuple(shape)))
    if isinstance(described, dict):
        return np.dtype({**described, "formats": [_rebuild_dtype(d) for d in described["formats"]]})  # type: ignore[call-overload]
    if not isinstance(described, str) or not _NUMPY_NAME.fullmatch(described):
        raise TypeError(f"{_quote(described)} is not a type of number")
    return np.dtype(described)


# ---------------------------------------------------------------------- JSON


def render_json(value: Any, indent: int | None = None) -> bytes:
    """The value as strict JSON in UTF-8, within what ``parse_json`` takes."""
    separators = (",", ":") if indent is None else (",", ": ")
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent, separators=separators).encode()
    if _is_excessive(text):
        raise ValueError("the state has too many small parts for JSON; keep long lists as arrays")
    return text


def parse_json(text: bytes) -> Any:
    """The value of a JSON text; duplicate keys, NaN, bytes that are not UTF-8 and excessive texts are refused."""
    if _is_excessive(text):
        raise Damaged(f"a JSON text of {len(text)} bytes is too large")
    try:
        return json.loads(text.decode(), object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"not JSON as ebu writes it: {error}") from error


def _is_excessive(text: bytes) -> bool:
    return len(text) > MAX_JSON_BYTES or sum(map(text.count, (b",", b"[", b"{"))) > MAX_JSON_ITEMS


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key occurs twice")
    return result


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number in JSON")


def _quote(value: Any) -> str:
    """A stranger's text, fit for one line on any terminal."""
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _kind(value: Any) -> str:
    if type(value) in (int, float):
        return "a number"
    return "a tensor" if isinstance(value, Tensor) else "nothing" if value is None else f"a {type(value).__name__}"
