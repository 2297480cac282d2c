"""What a memory will take, said before it is filled."""

from __future__ import annotations

import numpy as np
import pytest

from ebu.envs.mnist_maze import MNISTMaze
from ebu.memory.episodes import EpisodeMemory
from ebu.training.footprint import ExpectedMemory, available_bytes, expect
from ebu.types import Episode
from tests.conftest import random_pictures


def filled(capacity, frames, **settings):
    """A memory as full as it gets, of episodes that all have these frames."""
    memory = EpisodeMemory(capacity, frames.shape[1:], frames.dtype, gamma=0.9, **settings)
    length = len(frames) - 1
    zeros = np.zeros(length)
    for _ in range(2 * capacity // length):
        memory.add(Episode(frames, zeros.astype(np.int64), zeros.astype(np.float32), zeros.astype(np.float32), True))
    return memory


@pytest.mark.parametrize("capacity", [900, 2_000, 3_000])
@pytest.mark.parametrize(("shape", "dtype"), [((4,), np.float32), ((1,), np.int64), ((4, 10, 10), np.uint8)])
def test_what_is_stored_plainly_is_known_exactly(capacity, shape, dtype):
    expected = expect(capacity, shape, dtype)
    assert expected.low == expected.high == filled(capacity, np.zeros((51, *shape), dtype)).nbytes


def test_room_grows_to_a_power_of_two_and_one_observation_more_than_steps_counts():
    assert expect(4096, (8,), np.float32).high == 4096 * 32 + 1024 * 8 + 8192 * 8 * 4


def test_compressed_frames_are_told_as_a_range():
    expected = expect(4_000, (1, 84, 84), np.uint8, stack=4)
    rng = np.random.default_rng(0)
    frames = random_pictures(rng, 401)
    frames[:, 0, 0] = rng.integers(256, size=(401, 84))  # a line that nothing foretells
    assert expected.low < filled(4_000, frames).nbytes < expected.high
    assert expected.uncompressed == 4_000 * 56_448


@pytest.mark.parametrize("redraw_digits", [False, True])
def test_the_maze_s_digits_stay_within_the_range(redraw_digits):
    env, rng = MNISTMaze(redraw_digits=redraw_digits), np.random.default_rng(0)
    frames, over = [env.reset(seed=0)[0]], False
    while not over:
        frame, _, terminated, truncated, _ = env.step(int(rng.integers(4)))
        frames.append(frame)
        over = terminated or truncated
    frames = np.stack(frames)
    expected = expect(3_000, frames.shape[1:], frames.dtype)
    assert expected.low < filled(3_000, frames).nbytes < expected.high
    assert "shrink 3 to 20 times, as small pictures do" in expected.words()


@pytest.mark.parametrize(("compress", "is_range"), [("auto", True), ("always", True), ("never", False)])
def test_the_setting_decides_about_compression(compress, is_range):
    expected = expect(1_000, (1, 84, 84), np.uint8, compress=compress)
    assert (expected.low < expected.high) == is_range
    assert is_range or expected.high > 1_000 * 84 * 84


def test_the_paper_s_memory_in_one_line():
    assert expect(1_000_000, (1, 84, 84), np.uint8, stack=4).words() == (
        "memory: up to 1,000,000 steps in 69 MB to 386 MB if frames shrink 20 to 200 times, as those of games do "
        "(56 GB as pairs of uncompressed states)"
    )


@pytest.mark.parametrize(
    ("count", "words"), [(500, "0.5 kB"), (48_160, "48.2 kB"), (3_100_000, "3.1 MB"), (12 * 10**9, "12 GB")]
)
def test_sizes_in_words(count, words):
    assert ExpectedMemory(7, count, count, 0).words() == f"memory: up to 7 steps in {words}"


def test_more_than_there_is_gets_a_warning_and_nothing_else_does():
    expected = ExpectedMemory(10, 10**9, 3 * 10**9, 0)
    assert "3.0 GB" in expected.warning(2 * 10**9) and "2.0 GB are free" in expected.warning(2 * 10**9)
    assert expected.warning(4 * 10**9) is None
    assert expected.warning(None) is None


def test_what_is_free_is_known_here():
    free = available_bytes()
    assert free is None or 10**6 < free < 10**15
