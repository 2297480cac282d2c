"""Observations, stored plainly or compressed: what comes out is what went in, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from ebu.memory.frames import BLOCK_FRAMES, CompressedFrames, PlainFrames, ranges
from tests.conftest import random_pictures

STORES = {"plain": PlainFrames, "compressed": CompressedFrames}


@pytest.fixture(params=STORES, ids=str)
def store_class(request):
    return STORES[request.param]


def noise(rng, count, shape, dtype):
    if np.dtype(dtype).kind == "f":
        return rng.normal(size=(count, *shape)).astype(dtype)
    return rng.integers(0, 2 if dtype == np.bool_ else 256, size=(count, *shape)).astype(dtype)


def test_ranges_lie_end_to_end():
    assert ranges(np.array([5, 100, 7]), np.array([3, 1, 2])).tolist() == [5, 6, 7, 100, 7, 8]


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.int64, np.bool_, np.float16])
@pytest.mark.parametrize("shape", [(3,), (2, 5, 4)])
def test_any_dtype_and_shape_is_restored_exactly(store_class, dtype, shape):
    rng = np.random.default_rng(0)
    store = store_class(shape, dtype)
    episodes = [noise(rng, count, shape, dtype) for count in (2, BLOCK_FRAMES, 5)]
    for frames in episodes:
        store.append(frames)
    starts = np.cumsum([0, *map(len, episodes)])
    for number, frames in enumerate(episodes):
        got = store.read(np.array([number]), starts[[number]], np.array([0]), np.array([len(frames)]))
        assert got.dtype == dtype and np.array_equal(got, frames)


@pytest.mark.parametrize("length", [1, 15, 16, 17, 31, 32, 33, 64, 200])
def test_pieces_that_cross_block_boundaries(store_class, length):
    rng = np.random.default_rng(length)
    frames = random_pictures(rng, length, shape=(6, 6))
    store = store_class((1, 6, 6), np.uint8)
    store.append(frames)
    starts = rng.integers(length, size=20)
    counts = np.array([rng.integers(1, length - start + 1) for start in starts])
    got = store.read(np.zeros(20, np.int64), np.zeros(20, np.int64), starts, counts)
    assert np.array_equal(got, np.concatenate([frames[s : s + c] for s, c in zip(starts, counts)]))


def test_frames_that_are_not_contiguous_are_stored_as_they_look(store_class):
    frames = random_pictures(np.random.default_rng(1), 10, shape=(8, 6))
    store = store_class((1, 6, 8), np.uint8)
    store.append(frames.swapaxes(2, 3))
    got = store.read(np.array([0]), np.array([0]), np.array([0]), np.array([10]))
    assert np.array_equal(got, frames.swapaxes(2, 3))


def test_the_store_owns_what_it_was_given(store_class):
    frames = np.ones((3, 4), np.float32)
    store = store_class((4,), np.float32)
    store.append(frames)
    frames[:] = 7.0
    first = store.read(np.array([0]), np.array([0]), np.array([0]), np.array([3]))
    assert (first == 1.0).all()
    first[:] = 9.0  # a reader may write into what it got
    assert (store.read(np.array([0]), np.array([0]), np.array([0]), np.array([3])) == 1.0).all()


def test_forgetting_the_oldest_leaves_the_others_readable(store_class):
    store = store_class((1,), np.float32)
    first_rows = [0]
    for number in range(6):
        store.append(np.full((number + 1, 1), number, np.float32))
        first_rows.append(first_rows[-1] + number + 1)
    store.drop_oldest(1)
    store.drop_oldest(2)
    for number in range(2, 6):
        got = store.read(np.array([number]), np.array([first_rows[number]]), np.array([0]), np.array([number + 1]))
        assert (got == number).all()


def test_compressed_frames_take_a_fraction_of_their_size_and_give_it_back():
    store = CompressedFrames((1, 84, 84), np.uint8)
    empty = store.nbytes
    rng = np.random.default_rng(2)
    frames = random_pictures(rng, 2_000)
    frames[:, 0, :4] = rng.integers(256, size=(2_000, 4, 84))  # lines that nothing foretells
    for part in (frames[:1_500], frames[1_500:]):
        store.append(part)
    full = store.nbytes
    assert 4 * 84 * 2_000 < full - empty < frames.nbytes / 10
    store.drop_oldest(1_500)
    assert empty < store.nbytes < full
    store.drop_oldest(500)
    assert store.nbytes == empty


def test_saving_and_restoring_keeps_everything(store_class):
    rng = np.random.default_rng(3)
    store = store_class((1, 6, 6), np.uint8)
    episodes = [random_pictures(rng, count, shape=(6, 6)) for count in (3, 70, 2)]
    for frames in episodes:
        store.append(frames)
    store.drop_oldest(3)
    other = store_class((1, 6, 6), np.uint8)
    other.append(episodes[2])
    other.restart(episode=1, row=3)  # whatever was there is forgotten
    for number, first, frames in ((1, 3, episodes[1]), (2, 73, episodes[2])):
        other.unpack(store.pack(number, first, len(frames)), len(frames))
    other.append(episodes[0])
    for number, first, frames in ((1, 3, episodes[1]), (2, 73, episodes[2]), (3, 75, episodes[0])):
        got = other.read(np.array([number]), np.array([first]), np.array([0]), np.array([len(frames)]))
        assert np.array_equal(got, frames)
    store.append(episodes[0])
    assert other.nbytes == store.nbytes
