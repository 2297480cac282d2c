"""What is replayed: fairly drawn, in the right order, with what a target needs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from ebu.memory.episodes import EpisodeMemory
from ebu.memory.samplers import EpisodeSampler, TransitionSampler, steps_with_followers, whole_episodes
from ebu.types import Episode


def filled(lengths, capacity=10**6):
    """A memory whose rewards are the steps' numbers, so that every sample says where it came from."""
    memory = EpisodeMemory(capacity, (1,), np.float32, gamma=0.9)
    for length in lengths:
        added(memory, length)
    return memory


def added(memory, length):
    """The memory with one more episode of this kind."""
    number, step = memory.end_episode, memory.end_step
    memory.add(
        Episode(
            observations=np.arange(step + number, step + number + length + 1, dtype=np.float32)[:, None],
            actions=np.zeros(length, np.int64),
            rewards=np.arange(step, step + length, dtype=np.float32),
            behaviour=np.ones(length, np.float32),
            terminated=number % 2 == 0,
        )
    )


def trained_steps(span):
    return span.steps[span.trained].tolist()


def test_episodes_are_equally_likely_whatever_their_length():
    lengths = [1, 50, 2, 100, 5, 1, 30, 7, 3, 200]
    memory, rng = filled(lengths), np.random.default_rng(0)
    first_steps = np.cumsum([0, *lengths[:-1]])
    drawn = np.zeros(len(lengths))
    for _ in range(5000):
        span = EpisodeSampler().sample(memory, 1, rng)
        drawn[np.searchsorted(first_steps, span.steps[0], side="right") - 1] += 1
    assert stats.chisquare(drawn).pvalue > 0.01


def test_transitions_are_equally_likely_whatever_their_episode():
    memory, rng = filled([1, 50, 2, 30, 17]), np.random.default_rng(1)
    span = TransitionSampler().sample(memory, 20_000, rng)
    assert stats.chisquare(np.bincount(span.steps, minlength=100)).pvalue > 0.01


def test_only_what_is_still_stored_is_sampled():
    memory, rng = filled([10] * 30, capacity=55), np.random.default_rng(2)
    assert memory.first_step == 250
    assert set(TransitionSampler().sample(memory, 2000, rng).steps.tolist()) == set(range(250, 300))
    episodes = {EpisodeSampler().sample(memory, 1, rng).steps[0].item() for _ in range(200)}
    assert episodes == {250, 260, 270, 280, 290}


def test_an_episode_is_handed_out_from_its_end_backward():
    memory = filled([3, 5])
    span = whole_episodes(memory, np.array([1]))
    assert span.steps.tolist() == [3, 4, 5, 6, 7]
    assert trained_steps(span) == [7, 6, 5, 4, 3]
    assert span.continues.tolist() == [True, True, True, True, False]


def test_several_episodes_are_each_handed_out_backward_in_the_order_drawn():
    memory = filled([3, 1, 2])
    span = whole_episodes(memory, np.array([2, 0, 1, 2]))
    assert span.steps.tolist() == [4, 5, 0, 1, 2, 3, 4, 5]
    assert trained_steps(span) == [5, 4, 2, 1, 0, 3, 5, 4]
    assert span.continues.tolist() == [True, False, True, True, False, False, True, False]


@pytest.mark.parametrize("wanted", [1, 7, 64])
def test_whole_episodes_are_added_until_enough_steps_are_there(wanted):
    memory, rng = filled([4, 9, 2, 6]), np.random.default_rng(3)
    for _ in range(50):
        span = EpisodeSampler().sample(memory, wanted, rng)
        assert len(span.trained) >= wanted
        pieces = np.flatnonzero(~span.continues) + 1
        last = pieces[-2] if len(pieces) > 1 else 0
        assert last < wanted  # without its last episode the span would be too short
        assert sorted(span.trained.tolist()) == list(range(len(span)))


def test_single_transitions_are_pieces_of_one_step():
    memory = filled([3, 4])
    span = steps_with_followers(memory, np.array([6, 0, 2, 6]), 1)
    assert span.steps.tolist() == trained_steps(span) == [6, 0, 2, 6]
    assert not span.continues.any()
    np.testing.assert_allclose(span.discounts, [0.9, 0.9, 0.0, 0.9], rtol=1e-6)  # 2 terminated, 6 was truncated
    assert span.states(span.rows).reshape(-1).tolist() == [7, 0, 2, 7]
    assert span.states(span.rows + 1).reshape(-1).tolist() == [8, 1, 3, 8]


def test_followers_stop_at_the_episodes_end_and_only_the_first_is_trained():
    memory = filled([3, 4])
    span = steps_with_followers(memory, np.array([1, 3, 6]), 3)
    assert span.steps.tolist() == [1, 2, 3, 4, 5, 6]
    assert trained_steps(span) == [1, 3, 6]
    assert span.continues.tolist() == [True, False, True, True, False, False]


@pytest.mark.parametrize("length", [1, 3, 1000])
def test_a_transition_sampler_hands_out_exactly_what_is_wanted(length):
    memory, rng = filled([5, 1, 12]), np.random.default_rng(4)
    span = TransitionSampler(length).sample(memory, 32, rng)
    assert len(span.trained) == 32
    starts = span.trained
    ends = np.append(starts[1:], len(span)) - 1
    assert not span.continues[ends].any()
    assert (ends - starts + 1 <= length).all()


@pytest.mark.parametrize("sampler", [EpisodeSampler, TransitionSampler])
def test_the_same_generator_gives_the_same_sample(sampler):
    memory = filled([5, 1, 12, 3])
    first, again = (sampler().sample(memory, 10, np.random.default_rng(5)) for _ in range(2))
    other = sampler().sample(memory, 10, np.random.default_rng(6))
    assert first.steps.tolist() == again.steps.tolist()
    assert first.steps.tolist() != other.steps.tolist()
    assert sampler().state_dict() == {}
