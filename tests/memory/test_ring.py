"""Rows by growing numbers, against a plain list."""

from __future__ import annotations

import numpy as np
import pytest

from ebu.memory.ring import Ring


def rows(ring):
    return ring.take(np.arange(ring.first, ring.end)).tolist()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("room", [1, 4, 16])
def test_random_appends_and_drops_equal_a_list(seed, room):
    rng = np.random.default_rng(seed)
    ring, everything, first = Ring((), np.int64, room=room), [], 0
    for _ in range(300):
        if rng.random() < 0.6:
            block = rng.integers(1000, size=int(rng.integers(0, 9)))
            ring.append(block)
            everything += block.tolist()
        else:
            first = int(rng.integers(first, len(everything) + 1))
            ring.drop_before(first)
        assert (ring.first, ring.end, len(ring)) == (first, len(everything), len(everything) - first)
        assert rows(ring) == everything[first:]


def test_growing_while_the_rows_lie_around_the_end_keeps_them():
    ring = Ring((2,), np.float32, room=4)
    ring.append(np.arange(6, dtype=np.float32).reshape(3, 2))
    ring.drop_before(2)
    ring.append(np.arange(6, 12, dtype=np.float32).reshape(3, 2))  # slots 3, 0, 1: the rows now lie around the end
    ring.append(np.arange(12, 24, dtype=np.float32).reshape(6, 2))  # and no longer fit
    assert ring.take(np.arange(2, 12)).reshape(-1).tolist() == list(range(4, 24))


def test_room_is_reused_and_does_not_grow_with_what_was_forgotten():
    ring = Ring((), np.int64, room=8)
    for number in range(1000):
        ring.append(np.array([number]))
        ring.drop_before(max(0, number - 6))
    assert ring.nbytes == 8 * 8
    assert rows(ring) == list(range(993, 1000))


def test_taken_rows_are_copies():
    ring = Ring((), np.int64, room=4)
    ring.append(np.array([1, 2, 3]))
    taken = ring.take(np.array([0, 1, 2]))
    ring.drop_before(3)
    ring.append(np.array([7, 8, 9, 10]))
    assert taken.tolist() == [1, 2, 3]


def test_restarting_forgets_the_rows_and_continues_from_a_number():
    other = Ring((), np.int64, room=4)
    other.append(np.array([99]))
    other.restart(2)
    assert (len(other), other.first) == (0, 2)
    other.append(np.arange(2, 9))
    assert (other.first, other.end) == (2, 9)
    other.append(np.array([9, 10]))
    assert rows(other) == list(range(2, 11))
