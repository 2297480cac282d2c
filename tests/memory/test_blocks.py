"""Blocks of bytes in large chunks, against a plain list."""

from __future__ import annotations

import numpy as np
import pytest

from ebu.memory.blocks import CHUNK_BYTES, BlockQueue


def contents(queue, first):
    return [bytes(block) for block in queue.take(np.arange(first, queue.end))]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("largest", [10, 3_000, CHUNK_BYTES // 2 + 1, 2 * CHUNK_BYTES])
def test_random_appends_and_drops_equal_a_list(seed, largest):
    rng = np.random.default_rng([seed, largest])
    queue, everything, first = BlockQueue(), [], 0
    for _ in range(60):
        if rng.random() < 0.7:
            block = rng.bytes(int(rng.integers(1, largest + 1)))
            queue.append(block)
            everything.append(block)
        else:
            first = int(rng.integers(first, len(everything) + 1))
            queue.drop_before(first)
        assert queue.end == len(everything)
        assert contents(queue, first) == everything[first:]


def test_what_is_kept_takes_little_more_than_its_size_and_what_left_takes_nothing():
    queue = BlockQueue()
    empty = queue.nbytes
    for number in range(5_000):
        queue.append(bytes(1_000))
        queue.drop_before(max(0, number - 999))
    assert 1_000_000 <= queue.nbytes - empty <= 1_000_000 + 2 * CHUNK_BYTES
    queue.drop_before(5_000)
    assert queue.nbytes == empty
    queue.append(b"more")
    assert contents(queue, 5_000) == [b"more"]


def test_a_block_larger_than_a_chunk_has_a_chunk_of_its_own():
    queue = BlockQueue()
    blocks = [b"a", bytes(3 * CHUNK_BYTES), b"b"]
    for block in blocks:
        queue.append(block)
    assert contents(queue, 0) == blocks
    queue.drop_before(2)
    assert contents(queue, 2) == [b"b"]


def test_restarting_forgets_everything():
    queue = BlockQueue()
    queue.append(b"old")
    queue.restart(7)
    queue.append(b"new")
    assert (queue.end, contents(queue, 7)) == (8, [b"new"])


def test_the_queue_owns_what_it_was_given():
    queue = BlockQueue()
    source = bytearray(b"x" * 500)
    queue.append(source)
    source[:] = b"y" * 500
    assert contents(queue, 0) == [b"x" * 500]
