"""Whatever a state holds comes back equal in type, shape and bits; whatever a stranger's file holds is one line."""

from __future__ import annotations

import json
import math
import struct

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load as safetensors_load

from ebu.errors import UserError
from ebu.memory.episodes import STEP
from ebu.storage.codec import (
    MAX_DEPTH,
    MAX_JSON_ITEMS,
    decode_tensors,
    encode_tensors,
    flatten,
    parse_json,
    render_json,
    require_like,
    unflatten,
)
from ebu.storage.files import Damaged

NUMPY_TYPES = [
    *map(np.dtype, ("?", "i1", "u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8")),
    *map(np.dtype, (">i4", ">f8", "<c8", "<c16", "<M8[ns]", "<m8[D]", "<U3", "S5", "V7", np.longdouble)),
    STEP,
    np.dtype([("x", ">f4"), ("y", "u1", (2, 3)), ("z", [("deep", "<i8")])]),
]
TORCH_TYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
    torch.float32, torch.float64, torch.complex64, torch.complex128, torch.uint16, torch.float8_e4m3fn,
]  # fmt: skip


def same(a, b):
    """Equal in type, shape and every bit."""
    if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
        return isinstance(a, type(b)) and (a.dtype, a.shape) == (b.dtype, b.shape) and bits(a) == bits(b)
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray | np.generic):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, float):
        return struct.pack("d", a) == struct.pack("d", b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def bits(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def through_files(tree):
    skeleton, tensors, blocks = flatten(tree)
    file = bytearray(b"".join(map(bytes, encode_tensors(tensors))))
    return unflatten(parse_json(render_json(skeleton)), decode_tensors(file), blocks)


@st.composite
def arrays(draw):
    dtype = draw(st.sampled_from(NUMPY_TYPES))
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=3)))
    count = math.prod(shape)
    if dtype.kind in "?USb" or dtype.itemsize == 1:
        return np.arange(count).astype(dtype).reshape(shape)
    raw = np.random.default_rng(draw(st.integers(0, 2**32))).bytes(count * dtype.itemsize)
    return np.frombuffer(raw, dtype).reshape(shape)


@st.composite
def tensors(draw):
    dtype = draw(st.sampled_from(TORCH_TYPES))
    shape = draw(st.lists(st.integers(0, 4), max_size=3))
    size = math.prod(shape) * dtype.itemsize
    top = 2 if dtype is torch.bool else 256
    raw = np.random.default_rng(draw(st.integers(0, 2**32))).integers(top, size=size, dtype=np.uint8)
    return torch.from_numpy(raw).view(dtype).reshape(shape) if size else torch.empty(shape, dtype=dtype)


trees = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**200), 2**200) | st.floats() | st.text() | st.binary(max_size=40)
    | arrays() | tensors() | st.floats(width=32).map(np.float32) | st.integers(0, 9).map(np.int64),
    lambda inner: st.lists(inner, max_size=4) | st.lists(inner, max_size=3).map(tuple)
    | st.dictionaries(st.text(max_size=5) | st.sampled_from(["$", "name", "__metadata__", "a/b"]), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(trees)
@settings(max_examples=300)
def test_any_state_is_restored_equal_in_type_shape_and_bits(tree):
    assert same(through_files(tree), tree)


@pytest.mark.parametrize("dtype", NUMPY_TYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3)])
def test_an_array_of_every_type_and_shape_is_restored(dtype, shape):
    array = np.arange(math.prod(shape)).astype("u1").repeat(dtype.itemsize)[: math.prod(shape) * dtype.itemsize]
    array = array.view(dtype).reshape(shape) if dtype.kind not in "?U" else np.ones(shape, dtype)
    back = through_files({"array": array})["array"]
    assert same(back, array)
    assert back.dtype.isalignedstruct == dtype.isalignedstruct and back.flags.writeable


@pytest.mark.parametrize("dtype", TORCH_TYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3)])
def test_a_tensor_of_every_type_and_shape_is_restored(dtype, shape):
    assert same(through_files(torch.ones(shape).to(dtype)), torch.ones(shape).to(dtype))


def test_every_bit_of_a_nan_is_restored():
    odd = struct.unpack("<d", bytes.fromhex("010203040506f87f"))[0]
    assert struct.pack("<d", through_files([odd])[0]).hex() == "010203040506f87f"


def test_views_and_gradients_are_saved_by_value():
    weights = torch.arange(6.0).reshape(2, 3).requires_grad_()
    complex_view = torch.view_as_complex(torch.randn(3, 2)).conj()
    empty = torch.tensor(np.empty((0, 3)))
    for view in (weights.t(), weights[:, 1], weights.expand(2, 2, 3), complex_view, complex_view.imag, weights[::3, ::2],
                 weights[:1, 1:2].t(), empty, torch.ones(1).expand(5, 1)[:1], torch.ones(9)[::5][:1]):  # fmt: skip
        back = through_files(view)
        assert torch.equal(back, view.detach()) and not back.requires_grad
    array = np.arange(12, dtype=np.int16).reshape(3, 4)
    for view in (array.T, array[::2, 1:], np.asfortranarray(array), array[::3, ::4][:1, :1], array.T[1:2, ::2][:, :1],
                 np.broadcast_to(array[0, 0], (1, 1)), array[5:, ::2]):  # fmt: skip
        assert np.array_equal(through_files(view), view)


def test_the_tensor_file_is_one_that_the_safetensors_library_reads():
    state = {"w": torch.randn(3, 5), "h": torch.randn(4).bfloat16(), "n": np.arange(7), "s": np.ones(3, STEP)}
    _, tensors, _ = flatten(state)
    read = safetensors_load(b"".join(map(bytes, encode_tensors(tensors))))
    assert torch.equal(read["0/w"], state["w"]) and torch.equal(read["1/h"], state["h"])
    assert torch.equal(read["2/n"], torch.arange(7)) and read["3/s"].numpy().tobytes() == state["s"].tobytes()


def test_the_same_state_is_the_same_bytes():
    def render():
        state = {"b": torch.ones(3), "a": [np.zeros(2), 1.5], "c": b"xyz"}
        skeleton, tensors, blocks = flatten(state)
        return render_json(skeleton), b"".join(map(bytes, encode_tensors(tensors))), blocks

    assert render() == render()


def test_tensors_start_where_their_type_wants_them():
    _, tensors, _ = flatten([np.ones(3, "u1"), np.ones(5), torch.ones(1, dtype=torch.int16), np.ones(1, STEP)])
    file = bytearray(b"".join(map(bytes, encode_tensors(tensors))))
    assert all(t.flags.aligned for t in decode_tensors(file).values() if isinstance(t, np.ndarray))


# ---------------------------------------------------------------------- what cannot be saved


class Sneaky(int):
    pass


@pytest.mark.parametrize(
    "leaf",
    [object(), {1: 2}, {1, 2}, Sneaky(3), np.array([None]), np.ones(2, []), torch.ones(2).to_sparse(), 1j, range(3)],
    ids=lambda leaf: type(leaf).__name__,
)
def test_what_would_not_be_restored_equal_is_refused_with_its_place(leaf):
    with pytest.raises(TypeError, match="saved"):
        flatten({"agent": [leaf]})


def test_a_state_nested_without_end_is_refused():
    loop = []
    loop.append(loop)
    with pytest.raises(ValueError, match=f"more than {MAX_DEPTH} deep"):
        flatten(loop)


def test_text_that_is_not_unicode_is_refused():
    with pytest.raises(ValueError):
        render_json(flatten(["\ud83d\ude00"])[0])


def test_what_could_not_be_read_is_not_written():
    with pytest.raises(ValueError, match="keep long lists as arrays"):
        render_json([0] * (MAX_JSON_ITEMS + 2))


# ---------------------------------------------------------------------- a stranger's files


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":1,"a":2}', b"[NaN]", b"[Infinity]", b"[" * 100_000, b'{"a":' * 100_000, b"\xff\xfe[]", b"", b"[1", b"[]x",
        b"[" + b"9" * 5000 + b"]", b"\xef\xbb\xbf[]", b"[" + b"[]," * 2_000_000 + b"[]]",
    ],
    ids=range(12),
)  # fmt: skip
def test_json_that_ebu_would_not_write_is_refused(text):
    with pytest.raises(Damaged):
        parse_json(text)


def header(entries, metadata, data=b""):
    text = json.dumps({"__metadata__": metadata, **entries}).encode()
    return bytearray(len(text).to_bytes(8, "little") + text + data)


def described(library, dtype, shape):
    return {"t": json.dumps([library, dtype, shape])}


def entry(dtype, shape, start, end):
    return {"t": {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}}


@pytest.mark.parametrize(
    "file",
    [
        bytearray(b""),
        bytearray(b"\x10\0\0\0\0\0\0"),
        bytearray(b"\xff" * 8 + b"{}"),
        bytearray((2**62).to_bytes(8, "little") + b"{}"),
        bytearray((2).to_bytes(8, "little") + b"[]"),
        bytearray((2).to_bytes(8, "little") + b"{}"),
        header(entry("F32", [2**40], 0, 2**42), described("torch", "float32", [2**40])),
        header(entry("F32", [2**40, 2**40], 0, 2**82), described("torch", "float32", [2**40, 2**40])),
        header(entry("F32", [1], 0, 4), described("torch", "float32", [1]), b"12345"),
        header(entry("F32", [1], 0, 4), described("torch", "float32", [1]), b"123"),
        header(entry("F32", [-1], 0, 4), described("torch", "float32", [-1]), b"1234"),
        header(entry("F32", [True], 0, 4), described("torch", "float32", [True]), b"1234"),
        header(entry("F64", [1], 0, 8), described("torch", "float32", [1]), b"12345678"),
        header(entry("F32", [1], 4, 8), described("torch", "float32", [1]), b"12345678"),
        header(entry("U8", [4], 0, 4), described("torch", "qint8", [4]), b"1234"),
        header(entry("U8", [4], 0, 4), described("torch", "load", [4]), b"1234"),
        header(entry("U8", [8], 0, 8), described("numpy", "|O", [1]), b"12345678"),
        header(entry("U8", [8], 0, 8), described("numpy", "O,O", [1]), b"12345678"),
        header(entry("U8", [8], 0, 8), described("numpy", {"names": ["x"], "formats": ["|O"]}, [1]), b"12345678"),
        header(entry("U8", [0], 0, 0), described("numpy", "|V0", [2**50])),
        header(entry("U8", [0], 0, 0), described("numpy", ["<f4", [2**40]], [0])),
        header(entry("F32", [0, 2**60], 0, 0), described("torch", "float32", [0, 2**60])),
        header(entry("F32", [1], 0, 4), {}, b"1234"),
        header({}, described("torch", "float32", [0])),
        header({"t": None}, described("torch", "float32", [0])),
        header({"t": []}, {"t": 3}),
    ],
    ids=range(26),
)
def test_a_tensor_file_that_ebu_would_not_write_is_refused(file):
    with pytest.raises(Damaged) as refusal:
        decode_tensors(file)
    assert "\n" not in str(refusal.value)


def test_a_type_nested_without_end_is_refused():
    dtype = "<f4"
    for _ in range(300):
        dtype = [dtype, [1]]
    with pytest.raises(Damaged):
        decode_tensors(header(entry("U8", [4], 0, 4), described("numpy", dtype, [1]), b"1234"))


def test_no_change_to_a_tensor_file_causes_anything_but_a_refusal():
    _, tensors, _ = flatten({"w": torch.ones(3), "s": np.ones(2, STEP), "c": np.ones(2, "<c8"), "u": np.array(["é"])})
    whole = b"".join(map(bytes, encode_tensors(tensors)))
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(3000):
        file = bytearray(whole)
        for place in rng.integers(len(file), size=rng.integers(1, 4)):
            file[place] = rng.integers(256)
        try:
            decode_tensors(file[: rng.integers(len(file))] if rng.random() < 0.2 else file)
        except Damaged:
            refused += 1
    assert refused > 2000  # the rest changed the numbers, which SHA-256 guards


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4)
    | st.sampled_from(["int", "float", "tuple", "dict", "bytes", "tensor", "scalar", "t", "b", "0x1"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["$", "hex", "bits", "items", "name", "x"]), inner, max_size=3),
)  # fmt: skip


@given(json_values)
@settings(max_examples=500)
def test_a_skeleton_from_anywhere_is_read_or_refused(skeleton):
    try:
        unflatten(skeleton, {"t": np.ones(2)}, {"b": b"1"})
    except Damaged as refusal:
        assert "\n" not in str(refusal)


@pytest.mark.parametrize(
    "skeleton",
    [
        {"$": "tensor", "name": "u"},
        [{"$": "tensor", "name": "t"}, {"$": "tensor", "name": "t"}],
        {"$": "tensor", "name": "t", "more": 1},
        {"$": "code", "name": "t"},
        None,
    ],
    ids=range(5),
)
def test_a_tensor_is_used_exactly_once(skeleton):
    with pytest.raises(Damaged):
        unflatten(skeleton, {"t": np.ones(2)}, {})


def test_a_skeleton_nested_too_deep_is_refused():
    skeleton = 1
    for _ in range(MAX_DEPTH + 1):
        skeleton = [skeleton]
    with pytest.raises(Damaged, match="deep"):
        unflatten(skeleton, {}, {})


# ---------------------------------------------------------------------- does it fit?


TEMPLATE = {
    "learner": {"parameters": torch.zeros(2, 7), "steps": 0},
    "memory": np.zeros((0, 4), np.uint8),
    "scores": [0.0],
    "open": None,
    "empty": [],
}


def changed(*path, to):
    tree = {**TEMPLATE, "learner": dict(TEMPLATE["learner"])}
    inner = tree
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = to
    return tree


@pytest.mark.parametrize(
    "loaded",
    [
        TEMPLATE,
        changed("memory", to=np.ones((9, 4), np.uint8)),
        changed("scores", to=[1, 2.5, 3.0]),
        changed("scores", to=[]),
        changed("open", to={"seed": 3}),
        changed("empty", to=["a", 1]),
    ],
    ids=range(6),
)
def test_what_grows_in_a_run_fits(loaded):
    require_like(loaded, TEMPLATE)


@pytest.mark.parametrize(
    ("loaded", "words"),
    [
        (changed("learner", "parameters", to=torch.zeros(2, 8)), r"learner/parameters is .*\[2, 8\] instead of .*\[2, 7\]"),
        (changed("learner", "parameters", to=torch.zeros(3, 7)), "learner/parameters"),
        (changed("learner", "parameters", to=torch.zeros(2, 7).double()), "float64"),
        (changed("learner", "parameters", to=np.zeros((2, 7), np.float32)), "a tensor"),
        (changed("learner", "parameters", to=None), "nothing instead of a tensor"),
        (changed("learner", "steps", to="0"), "learner/steps is a str instead of a number"),
        (changed("learner", "steps", to=True), "bool"),
        (changed("memory", to=np.zeros((9, 5), np.uint8)), "memory"),
        (changed("memory", to=np.zeros((9, 4), np.int8)), "int8"),
        (changed("memory", to=np.zeros(9, np.uint8)), "memory"),
        (changed("scores", to=[1.0, "x"]), "scores/1"),
        (changed("extra", to=1), "has a foreign 'extra'"),
        ({"learner": {}}, "lacks"),
        ([], "the state is a list instead of a dict"),
    ],
    ids=range(14),
)
def test_what_belongs_to_another_run_is_refused_with_its_place(loaded, words):
    with pytest.raises(UserError, match=words) as refusal:
        require_like(loaded, TEMPLATE)
    assert "\n" not in str(refusal.value)
