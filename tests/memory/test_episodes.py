"""The episode memory against its naive twin, under whatever is added, read and forgotten."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ebu.memory.episodes import UNKNOWN_RETURN, EpisodeMemory
from ebu.types import Episode
from tests.conftest import random_pictures
from tests.reference.naive_memory import NaiveMemory

GAMMA = 0.97


def make_episode(rng, length, frames, terminated=None):
    terminated = bool(rng.random() < 0.5) if terminated is None else terminated
    return Episode(
        observations=frames,
        actions=rng.integers(18, size=length),
        rewards=rng.normal(size=length).astype(np.float32),
        behaviour=rng.random(length).astype(np.float32),
        terminated=terminated,
    )


def vector_episode(rng, length, terminated=None):
    return make_episode(rng, length, rng.normal(size=(length + 1, 3)).astype(np.float32), terminated)


def picture_episode(rng, length, side=8, channels=1):
    return make_episode(rng, length, random_pictures(rng, length + 1, (side, side), channels))


def assert_same_span(memory, twin, pieces):
    span = memory.read(*(np.array(column) for column in zip(*pieces)))
    rows = twin.read(pieces)
    assert len(span) == len(rows)
    assert np.array_equal(span.states(span.rows), np.stack([row["state"] for row in rows]))
    assert np.array_equal(span.states(span.rows + 1), np.stack([row["next_state"] for row in rows]))
    for name, column in (
        ("action", span.actions),
        ("reward", span.rewards),
        ("behaviour", span.behaviour),
        ("discount", span.discounts),
        ("continues", span.continues),
        ("step", span.steps),
    ):
        assert column.tolist() == [row[name].item() if hasattr(row[name], "item") else row[name] for row in rows], name
    if len(rows) <= 100:  # the twin adds them up one by one
        observed = [UNKNOWN_RETURN if row["return"] is None else row["return"] for row in rows]
        np.testing.assert_allclose(span.returns, observed, rtol=1e-4, atol=1e-4)
    assert (span.actions.dtype, span.rewards.dtype, span.discounts.dtype) == (np.int64, np.float32, np.float32)
    assert span.trained.tolist() == list(range(len(rows)))


def assert_same_contents(memory, twin):
    assert memory.steps == twin.steps
    assert memory.episodes == len(twin.kept)
    assert memory.end_step == twin.added_steps and memory.end_episode == twin.added_episodes
    assert list(range(memory.first_episode, memory.end_episode)) == twin.numbers
    assert memory.first_step == memory.end_step - twin.steps
    lengths = memory.lengths(np.array(twin.numbers, np.int64))
    assert lengths.tolist() == [len(episode) for _, _, episode in twin.kept]


def random_pieces(rng, twin, count):
    pieces = []
    for number in rng.choice(twin.numbers, size=count):
        length = len(twin.find(number)[1])
        start = int(rng.integers(length))
        pieces.append((int(number), start, int(rng.integers(1, length - start + 1))))
    return pieces


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("capacity", [1, 60, 700, 3000])
def test_vectors_under_random_adds_and_reads_equal_the_naive_twin(seed, capacity):
    rng = np.random.default_rng([seed, capacity])
    memory, twin = EpisodeMemory(capacity, (3,), np.float32, gamma=GAMMA), NaiveMemory(capacity, GAMMA)
    for turn in range(250):
        episode = vector_episode(rng, int(rng.integers(1, 40)) if rng.random() < 0.98 else int(rng.integers(1000, 1500)))
        assert memory.add(episode) == twin.add(episode)
        assert_same_contents(memory, twin)
        if turn % 5 == 0:
            assert_same_span(memory, twin, random_pieces(rng, twin, int(rng.integers(1, 5))))
    steps = rng.integers(memory.first_step, memory.end_step, 50)
    located = list(zip(*(x.tolist() for x in memory.locate(steps))))
    assert located == [twin.locate(step) for step in steps]


@pytest.mark.parametrize("compress", ["always", "never"])
@pytest.mark.parametrize("stack", [1, 2, 3, 4])
@pytest.mark.parametrize("channels", [1, 2])
def test_pictures_and_their_stacks_equal_the_naive_twin(compress, stack, channels):
    rng = np.random.default_rng([stack, channels])
    memory = EpisodeMemory(300, (channels, 8, 8), np.uint8, gamma=GAMMA, stack=stack, compress=compress)
    twin = NaiveMemory(300, GAMMA, stack)
    for _ in range(40):
        episode = picture_episode(rng, int(rng.integers(1, 90)), channels=channels)
        assert memory.add(episode) == twin.add(episode)
        assert_same_contents(memory, twin)
        assert_same_span(memory, twin, random_pieces(rng, twin, 3))


def repack(memory, restored):
    """What a checkpoint does: the numbers, then every episode as bytes."""
    restored.restart(memory.first_episode, memory.first_step)
    for number in range(memory.first, memory.end):
        restored.unpack(number, memory.pack(number))


class MemoryMachine(RuleBasedStateMachine):
    """Any order of adding, reading, saving and restoring; Hypothesis looks for the shortest that goes wrong."""

    @initialize(
        capacity=st.integers(1, 30),
        stack=st.integers(1, 4),
        compress=st.sampled_from(["always", "never"]),
        cut=st.booleans(),
    )
    def start(self, capacity, stack, compress, cut):
        self.make = lambda: EpisodeMemory(
            capacity, (1, 3, 3), np.uint8, gamma=GAMMA, stack=stack, truncation_is_terminal=cut, compress=compress
        )
        self.memory = self.make()
        self.twin = NaiveMemory(capacity, GAMMA, stack, truncation_is_terminal=cut)

    @rule(length=st.integers(1, 12), terminated=st.booleans(), seed=st.integers(0, 2**16))
    def add(self, length, terminated, seed):
        rng = np.random.default_rng(seed)
        frames = rng.integers(256, size=(length + 1, 1, 3, 3)).astype(np.uint8)
        episode = make_episode(rng, length, frames, terminated)
        assert self.memory.add(episode) == self.twin.add(episode)

    @precondition(lambda self: self.twin.kept)
    @rule(data=st.data())
    def read(self, data):
        pieces = []
        for _ in range(data.draw(st.integers(1, 3))):
            number = data.draw(st.sampled_from(self.twin.numbers))
            length = len(self.twin.find(number)[1])
            start = data.draw(st.integers(0, length - 1))
            pieces.append((number, start, data.draw(st.integers(1, length - start))))
        assert_same_span(self.memory, self.twin, pieces)

    @rule()
    def save_and_restore(self):
        restored = self.make()
        repack(self.memory, restored)
        self.memory = restored

    @invariant()
    def the_contents_are_the_twins(self):
        if hasattr(self, "memory"):
            assert_same_contents(self.memory, self.twin)


TestAnyOrderOfOperations = MemoryMachine.TestCase
TestAnyOrderOfOperations.settings = settings(max_examples=40, stateful_step_count=15)


# ---------------------------------------------------------------------- ends and limits, one by one


@pytest.mark.parametrize(
    ("terminated", "cut_is_end", "discount"),
    [(True, False, 0.0), (True, True, 0.0), (False, False, GAMMA), (False, True, 0.0)],
)
def test_only_termination_ends_the_value_unless_truncation_counts_as_one(terminated, cut_is_end, discount):
    rng = np.random.default_rng(0)
    memory = EpisodeMemory(100, (3,), np.float32, gamma=GAMMA, truncation_is_terminal=cut_is_end)
    memory.add(vector_episode(rng, 3, terminated))
    span = memory.read(np.array([0]), np.array([0]), np.array([3]))
    np.testing.assert_allclose(span.discounts, [GAMMA, GAMMA, discount], rtol=1e-6)


def test_the_oldest_whole_episodes_leave_when_the_capacity_is_exceeded():
    rng = np.random.default_rng(2)
    memory = EpisodeMemory(10, (3,), np.float32, gamma=GAMMA)
    for length in (4, 3, 3):
        memory.add(vector_episode(rng, length))
    assert (memory.episodes, memory.steps) == (3, 10)  # exactly full: nothing leaves
    memory.add(vector_episode(rng, 1))
    assert (memory.first_episode, memory.episodes, memory.steps, memory.first_step) == (1, 3, 7, 4)
    memory.add(vector_episode(rng, 10))
    assert (memory.first_episode, memory.episodes, memory.steps) == (4, 1, 10)


def test_an_episode_longer_than_the_capacity_is_kept_alone_and_whole():
    rng = np.random.default_rng(3)
    memory, twin = EpisodeMemory(10, (3,), np.float32, gamma=GAMMA), NaiveMemory(10, GAMMA)
    for length in (5, 5, 2000, 3):
        episode = vector_episode(rng, length)
        memory.add(episode)
        twin.add(episode)
        if length == 2000:
            assert (memory.episodes, memory.steps) == (1, 2000)
            assert_same_span(memory, twin, [(2, 0, 2000)])
    assert (memory.episodes, memory.steps, memory.first_step) == (1, 3, 2010)


def test_stacks_are_padded_with_zeros_before_the_first_frame_and_never_reach_into_another_episode():
    memory = EpisodeMemory(100, (1, 2, 2), np.uint8, gamma=GAMMA, stack=4)
    for value in (10, 20):
        frames = np.stack([np.full((1, 2, 2), value + t, np.uint8) for t in range(4)])
        memory.add(make_episode(np.random.default_rng(0), 3, frames))
    span = memory.read(np.array([1]), np.array([0]), np.array([3]))
    assert span.states(span.rows)[:, :, 0, 0].tolist() == [[0, 0, 0, 20], [0, 0, 20, 21], [0, 20, 21, 22]]
    assert span.states(span.rows + 1)[-1, :, 0, 0].tolist() == [20, 21, 22, 23]


def test_a_stack_in_the_middle_of_an_episode_reads_the_frames_before_it():
    frames = np.stack([np.full((1, 2, 2), t + 1, np.uint8) for t in range(101)])
    memory = EpisodeMemory(1000, (1, 2, 2), np.uint8, gamma=GAMMA, stack=3, compress="always")
    memory.add(make_episode(np.random.default_rng(0), 100, frames))
    span = memory.read(np.array([0, 0]), np.array([70, 1]), np.array([1, 1]))
    assert span.states(span.rows)[:, :, 0, 0].tolist() == [[69, 70, 71], [0, 1, 2]]


def test_a_span_keeps_its_values_when_its_episode_is_forgotten():
    rng = np.random.default_rng(4)
    memory, twin = EpisodeMemory(20, (3,), np.float32, gamma=GAMMA), NaiveMemory(10**9, GAMMA)
    for _ in range(3):
        episode = vector_episode(rng, 6)
        memory.add(episode)
        twin.add(episode)
    span = memory.read(np.array([0]), np.array([0]), np.array([6]))
    for _ in range(400):  # overwrites the ring more than once
        memory.add(vector_episode(rng, 6))
    assert np.array_equal(span.frames, twin.find(0)[1].observations)
    assert np.array_equal(span.rewards, twin.find(0)[1].rewards)


def test_steps_have_growing_numbers_that_survive_eviction():
    rng = np.random.default_rng(5)
    memory = EpisodeMemory(10, (3,), np.float32, gamma=GAMMA)
    for _ in range(5):
        number = memory.add(vector_episode(rng, 4))
    assert memory.read(np.array([number]), np.array([1]), np.array([3])).steps.tolist() == [17, 18, 19]


def test_malformed_episodes_are_refused():
    rng = np.random.default_rng(6)
    memory = EpisodeMemory(10, (3,), np.float32, gamma=GAMMA)
    good = vector_episode(rng, 3)
    with pytest.raises(ValueError, match="at least one step"):
        memory.add(vector_episode(rng, 0))
    with pytest.raises(ValueError, match="3 steps need 4 observations, got 3"):
        memory.add(Episode(**{**vars(good), "observations": good.observations[:3]}))
    assert memory.episodes == 0


@pytest.mark.parametrize(
    ("shape", "dtype", "mode", "compressed"),
    [
        ((1, 84, 84), np.uint8, "auto", True),
        ((2, 28, 28), np.uint8, "auto", True),
        ((4, 10, 10), np.uint8, "auto", False),  # MinAtar: below 1 KiB
        ((2000,), np.float32, "auto", False),  # a vector, however long
        ((1, 84, 84), np.uint8, "never", False),
        ((4, 10, 10), np.uint8, "always", True),
    ],
)
def test_images_of_a_kibibyte_and_more_are_compressed(shape, dtype, mode, compressed):
    memory = EpisodeMemory(10_000, shape, dtype, gamma=GAMMA, compress=mode)
    frames = np.zeros((4001, *shape), dtype)
    memory.add(make_episode(np.random.default_rng(0), 4000, frames))
    assert (memory.nbytes < frames.nbytes / 2) == compressed


def test_memory_use_stays_flat_once_the_capacity_is_reached():
    rng = np.random.default_rng(7)
    memory = EpisodeMemory(2000, (3,), np.float32, gamma=GAMMA)
    for _ in range(200):
        memory.add(vector_episode(rng, 20))
    full = memory.nbytes
    for _ in range(500):
        memory.add(vector_episode(rng, 20))
    assert memory.nbytes == full


@pytest.mark.parametrize("compress", ["always", "never"])
def test_a_damaged_episode_is_refused(compress):
    def make():
        return EpisodeMemory(100, (1, 8, 8), np.uint8, gamma=GAMMA, compress=compress)

    memory = make()
    memory.add(picture_episode(np.random.default_rng(0), 5))
    packed = memory.pack(0)
    for damaged in (b"", packed[:7], packed[:60], packed[:-1], packed + b"x", (10**9).to_bytes(8, "little") + packed[8:]):
        with pytest.raises(ValueError):
            make().unpack(0, damaged)
    with pytest.raises(ValueError, match="out of order"):
        make().unpack(1, packed)


@pytest.mark.parametrize("compress", ["always", "never"])
def test_a_restored_memory_continues_like_the_original(compress):
    rng = np.random.default_rng(8)

    def make():
        return EpisodeMemory(100, (1, 8, 8), np.uint8, gamma=GAMMA, stack=2, compress=compress)

    memory, twin = make(), NaiveMemory(100, GAMMA, stack=2)
    for _ in range(30):
        episode = picture_episode(rng, int(rng.integers(1, 30)))
        memory.add(episode)
        twin.add(episode)
    restored = make()
    restored.add(picture_episode(rng, 5))  # whatever was there is replaced
    repack(memory, restored)
    for _ in range(10):
        assert_same_contents(restored, twin)
        assert_same_span(restored, twin, random_pieces(rng, twin, 3))
        episode = picture_episode(rng, int(rng.integers(1, 30)))
        assert restored.add(episode) == twin.add(episode)


@pytest.mark.parametrize(("compress", "stack"), [("always", 1), ("never", 1), ("never", 3)])
def test_single_steps_are_read_as_pieces_of_one_step(compress, stack):
    rng = np.random.default_rng(4)
    memory = EpisodeMemory(200, (1, 8, 8), np.uint8, gamma=GAMMA, stack=stack, compress=compress)
    for _ in range(30):
        memory.add(picture_episode(rng, int(rng.integers(1, 20))))
    steps = rng.integers(memory.first_step, memory.end_step, 40)
    fast, slow = memory.read_single(steps), memory.read(*memory.locate(steps), np.ones_like(steps))
    for name in ("frames", "rows", "actions", "rewards", "discounts", "behaviour", "continues", "returns", "steps", "trained"):
        assert np.array_equal(getattr(fast, name), getattr(slow, name)), name
    assert np.array_equal(fast.states(fast.rows), slow.states(slow.rows))
