"""Rank-based prioritised replay: the heap against a plain twin, its sampling against the exact probabilities."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from ebu.memory.episodes import EpisodeMemory
from ebu.memory.priorities import PriorityHeap, PrioritySampler, equal_segments
from ebu.types import Episode
from tests.reference.priorities import PlainPriorities, rank_probabilities, segmented_probabilities


def heap_of(priorities, sort=True):
    """A heap of steps 0, 1, … with these priorities."""
    heap = PriorityHeap()
    heap.extend(0, len(priorities))
    heap.update(np.arange(len(priorities)), np.asarray(priorities, np.float64))
    if sort:
        heap.sort()
    return heap


def contents(heap):
    state = heap.state_dict()
    return state["steps"], state["priorities"]


def assert_is_a_heap_of(heap, plain):
    steps, priorities = contents(heap)
    assert len(heap) == len(plain.priorities)
    assert dict(zip(steps.tolist(), priorities.tolist())) == plain.priorities
    children = np.arange(1, len(priorities))
    assert (priorities[(children - 1) // 2] >= priorities[children]).all()


operations = st.lists(
    st.one_of(
        st.tuples(st.just("extend"), st.integers(0, 40)),
        st.tuples(st.just("drop"), st.integers(0, 30)),
        st.tuples(
            st.just("update"),
            st.lists(st.tuples(st.integers(-5, 60), st.floats(0, 3, allow_nan=False)), min_size=1, max_size=20),
        ),
        st.tuples(st.just("sort"), st.none()),
        st.tuples(st.just("reload"), st.none()),
    ),
    max_size=25,
)


@settings(max_examples=300, deadline=None)
@given(operations, st.sampled_from([7, 1_000_000]))
def test_any_sequence_of_operations_leaves_a_heap_with_what_a_plain_twin_holds(todo, sort_interval):
    heap, plain = PriorityHeap(sort_interval), PlainPriorities()
    for name, value in todo:
        if name == "extend":
            end = heap.end + value
            plain.extend(heap.end, end)
            heap.extend(heap.end, end)
        elif name == "drop":
            plain.drop_before(heap.first + value)
            heap.drop_before(heap.first + value)
        elif name == "update":
            steps = [heap.first + offset for offset, _ in value]
            priorities = [priority for _, priority in value]
            plain.update(steps, priorities)
            heap.update(np.array(steps), np.array(priorities))
        elif name == "sort":
            heap.sort()
            assert (np.diff(contents(heap)[1]) <= 0).all()
        else:
            state = heap.state_dict()
            heap = PriorityHeap(sort_interval)
            heap.load_state_dict(state)
        assert_is_a_heap_of(heap, plain)
        assert heap.end == plain.end


def test_a_large_heap_changed_one_step_at_a_time_agrees_with_the_plain_twin():
    rng = np.random.default_rng(0)
    heap, plain = PriorityHeap(), PlainPriorities()
    for _ in range(200):  # few steps of many: the path without rebuilding
        new = int(rng.integers(1, 60))
        plain.extend(heap.end, heap.end + new)
        heap.extend(heap.end, heap.end + new)
        steps, priorities = rng.integers(heap.first, heap.end, 40), rng.random(40)
        plain.update(steps.tolist(), priorities.tolist())
        heap.update(steps, priorities)
        if len(heap) > 2_500:
            step = heap.first + int(rng.integers(0, 70))
            plain.drop_before(step)
            heap.drop_before(step)
    assert_is_a_heap_of(heap, plain)
    assert heap.first > 0


def test_steps_are_added_in_order():
    heap = heap_of([1.0, 0.5])
    with pytest.raises(ValueError, match="2 comes next, got 5"):
        heap.extend(5, 6)


def test_an_empty_heap_says_so():
    with pytest.raises(ValueError, match="no step to sample"):
        PriorityHeap().sample(1, 0.5, np.random.default_rng(0))


def test_new_steps_get_the_largest_priority_seen():
    heap = heap_of([0.2, 3.0, 0.1])
    heap.update(np.array([1]), np.array([0.0]))
    heap.extend(3, 4)
    steps, priorities = contents(heap)
    assert (steps[0], priorities[0]) == (3, 3.0)


def test_the_heap_is_sorted_after_the_interval():
    rng = np.random.default_rng(1)
    heap = PriorityHeap(sort_interval=5_000)
    heap.extend(0, 4_000)
    heap.update(np.arange(4_000), rng.random(4_000))
    assert (np.diff(contents(heap)[1]) > 0).any()
    heap.update(np.arange(1_000), rng.random(1_000))
    assert (np.diff(contents(heap)[1]) <= 0).all()


# --- probabilities


@pytest.mark.parametrize("size", [1, 2, 31, 32, 1_000])
@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.7, 1.0])
def test_segments_hold_equal_shares_of_the_exact_rank_probabilities(size, alpha):
    bounds = equal_segments(32, size, alpha)
    assert bounds[0] == 0 and bounds[-1] == size and (np.diff(bounds) > 0).all()
    mass = np.interp(bounds, np.arange(size + 1), np.concatenate([[0.0], np.cumsum(rank_probabilities(size, alpha))]))
    np.testing.assert_allclose(np.diff(mass), 1 / 32, atol=1e-12)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.7])
def test_many_segments_sample_with_the_exact_rank_probabilities(alpha):
    size, segments = 60, 1_200
    rng = np.random.default_rng(2)
    priorities = rng.permutation(np.linspace(0.01, 1.0, size))
    heap = heap_of(priorities)
    by_rank = np.argsort(-priorities)
    # A stratified sample varies less than independent draws would; one draw of each set keeps the test's assumptions.
    drawn = np.concatenate([heap.sample(segments, alpha, rng)[0][rng.integers(segments, size=2)] for _ in range(10_000)])
    counts = np.bincount(drawn, minlength=size)[by_rank]
    assert chisquare(counts, rank_probabilities(size, alpha) * len(drawn)).pvalue > 0.01


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_a_minibatch_draws_each_segment_once_and_uniformly_within(alpha):
    size, count = 200, 8
    rng = np.random.default_rng(3)
    priorities = rng.permutation(np.linspace(0.01, 1.0, size))
    heap = heap_of(priorities)
    rank = np.empty(size, np.int64)
    rank[np.argsort(-priorities)] = np.arange(size)
    bounds = equal_segments(count, size, alpha)
    samples = np.stack([rank[heap.sample(count, alpha, rng)[0]] for _ in range(20_000)])  # [rounds, count]
    for i in range(count):
        assert samples[:, i].min() >= int(bounds[i]) and samples[:, i].max() <= bounds[i + 1]
    one_of_each = samples[np.arange(len(samples)), rng.integers(count, size=len(samples))]
    expected = segmented_probabilities(bounds, size)
    assert chisquare(np.bincount(one_of_each, minlength=size), expected * len(samples)).pvalue > 0.01


def test_reported_probabilities_are_those_in_force_and_sum_to_1():
    heap = heap_of(np.linspace(1.0, 0.1, 50))
    reported = {}
    rng = np.random.default_rng(4)
    for _ in range(2_000):
        reported.update(zip(*(x.tolist() for x in heap.sample(16, 0.6, rng))))
    expected = segmented_probabilities(equal_segments(16, 50, 0.6), 50)
    np.testing.assert_allclose([reported[step] for step in range(50)], expected, atol=1e-12)
    assert sum(reported.values()) == pytest.approx(1.0)


def test_alpha_0_is_uniform():
    rng = np.random.default_rng(5)
    heap = heap_of(rng.random(40))
    steps, probabilities = heap.sample(400, 0.0, rng)
    np.testing.assert_allclose(probabilities, 1 / 40)
    assert (np.bincount(steps) == 10).all()


@pytest.mark.parametrize("change", [-5, -1, 1, 5, 40])
def test_segments_kept_while_the_number_of_steps_drifts_never_reach_beyond_it(change):
    rng = np.random.default_rng(6)
    heap = heap_of(rng.random(1_000))
    heap.sample(32, 0.5, rng)
    heap.drop_before(max(0, -change))
    heap.extend(1_000, 1_000 + max(0, change))
    seen = np.concatenate([heap.sample(32, 0.5, rng)[0] for _ in range(3_000)])
    assert set(seen.tolist()) == set(range(heap.first, heap.end))


def test_segments_follow_alpha_once_it_has_moved_noticeably():
    heap = heap_of(np.linspace(1.0, 0.1, 100))
    _, before = heap.sample(100, 0.5, np.random.default_rng(7))
    _, close = heap.sample(100, 0.496, np.random.default_rng(7))
    _, after = heap.sample(100, 0.4, np.random.default_rng(7))
    np.testing.assert_array_equal(before, close)
    assert after[0] < before[0]


def test_a_heap_that_was_never_sorted_still_favours_large_errors():
    rng = np.random.default_rng(8)
    priorities = rng.random(10_000)
    heap = heap_of(priorities, sort=False)
    drawn = np.concatenate([heap.sample(32, 0.7, rng)[0] for _ in range(500)])
    exact = np.sort(priorities)[::-1] @ rank_probabilities(10_000, 0.7)
    assert priorities[drawn].mean() == pytest.approx(exact, abs=0.05)


def test_a_restored_heap_continues_identically():
    rng = np.random.default_rng(9)
    heap = heap_of(rng.random(3_000), sort=False)
    heap.sample(32, 0.5, rng)
    heap.extend(3_000, 3_010)  # within the drift: the segments in use are older than the heap
    twin = PriorityHeap()
    twin.load_state_dict(heap.state_dict())
    a, b = np.random.default_rng(10), np.random.default_rng(10)
    for _ in range(50):
        for x, y in zip(heap.sample(32, 0.498, a), twin.sample(32, 0.498, b)):
            np.testing.assert_array_equal(x, y)
        steps, errors = rng.integers(heap.first, heap.end, 32), rng.random(32)
        for each in (heap, twin):
            each.update(steps, errors)
            each.drop_before(each.first + 3)
            each.extend(each.end, each.end + 5)
    for x, y in zip(contents(heap), contents(twin)):
        np.testing.assert_array_equal(x, y)


# --- the sampler on a memory


def store(memory, *lengths):
    for length in lengths:
        memory.add(
            Episode(
                observations=np.arange(length + 1, dtype=np.float32)[:, None],
                actions=np.zeros(length, np.int64),
                rewards=np.ones(length, np.float32),
                behaviour=np.ones(length, np.float32),
                terminated=True,
            )
        )


def small_memory(*lengths, capacity=100):
    memory = EpisodeMemory(capacity, (1,), np.float32, gamma=0.9)
    store(memory, *lengths)
    return memory


def test_the_sampler_returns_single_steps_with_their_numbers():
    span = PrioritySampler(0.5).sample(small_memory(10, 20), 8, np.random.default_rng(0))
    assert len(span) == len(span.trained) == 8
    assert not span.continues.any()
    assert (np.diff(np.sort(span.steps)) >= 0).all() and span.steps.min() >= 0 and span.steps.max() < 30


def test_steps_evicted_with_their_episode_are_never_sampled():
    rng = np.random.default_rng(1)
    memory, sampler = small_memory(40, 30, 20), PrioritySampler(0.7)
    for _ in range(60):
        store(memory, *rng.integers(1, 60, size=rng.integers(1, 4)).tolist())
        for _ in range(10):
            steps = sampler.sample(memory, 16, rng).steps
            assert (steps >= memory.first_step).all() and (steps < memory.end_step).all()
            sampler.feedback(steps, rng.normal(size=16))


def test_the_sampler_catches_up_when_everything_it_knew_is_gone():
    rng = np.random.default_rng(2)
    memory, sampler = small_memory(50), PrioritySampler(0.5)
    sampler.sample(memory, 4, rng)
    store(memory, *[60] * 10)
    seen = np.concatenate([sampler.sample(memory, 16, rng).steps for _ in range(300)])
    assert set(seen.tolist()) == set(range(memory.first_step, memory.end_step))


def test_new_steps_are_sampled_soon():
    rng = np.random.default_rng(3)
    memory, sampler = small_memory(2_000, capacity=5_000), PrioritySampler(0.7)
    for _ in range(300):
        sampler.feedback(sampler.sample(memory, 32, rng).steps, np.full(32, 0.01))
    store(memory, 5)
    seen = set()
    for _ in range(60):
        steps = sampler.sample(memory, 32, rng).steps
        seen.update(steps.tolist())
        sampler.feedback(steps, np.full(32, 0.01))
    assert set(range(2_000, 2_005)) <= seen


@pytest.mark.parametrize("progress, alpha", [(0.0, 0.5), (0.5, 0.25), (1.0, 0.0)])
def test_alpha_fades_to_0_with_progress(monkeypatch, progress, alpha):
    asked = []

    def sample(self, count, alpha, rng):
        asked.append(alpha)
        return np.arange(count), np.full(count, 1 / count)

    monkeypatch.setattr(PriorityHeap, "sample", sample)
    PrioritySampler(0.5).sample(small_memory(30), 8, np.random.default_rng(0), progress)
    assert asked == [alpha]


def test_errors_count_by_their_size_up_to_1_and_nan_as_1():
    memory, sampler = small_memory(4), PrioritySampler(0.5)
    sampler.sample(memory, 4, np.random.default_rng(4))
    sampler.feedback(np.arange(4), np.array([-7.0, 0.25, np.nan, -0.5], np.float32))
    heap = sampler.state_dict()["heap"]
    assert dict(zip(heap["steps"].tolist(), heap["priorities"].tolist())) == {0: 1.0, 1: 0.25, 2: 1.0, 3: 0.5}
    assert heap["top_priority"] == 1.0


def test_importance_weights_undo_the_preference():
    rng = np.random.default_rng(5)
    memory = small_memory(50)
    assert PrioritySampler(0.7).sample(memory, 16, rng).weights is None
    sampler = PrioritySampler(0.7, importance_beta=1.0)
    values, estimates = rng.random(50), []
    sampler.sample(memory, 16, rng)
    sampler.feedback(np.arange(50), values)
    for _ in range(4_000):
        span = sampler.sample(memory, 16, rng)
        assert span.weights.shape == (16,) and span.weights.dtype == np.float32 and span.weights.max() == 1.0
        estimates.append((span.weights * values[span.steps]).sum() / span.weights.sum())
    assert np.mean(estimates) == pytest.approx(values.mean(), abs=0.02)


def test_a_restored_sampler_continues_identically():
    rng = np.random.default_rng(6)
    memory, sampler = small_memory(30, 30), PrioritySampler(0.5)
    sampler.feedback(sampler.sample(memory, 16, rng, progress=0.3).steps, rng.normal(size=16))
    twin = PrioritySampler(0.5)
    twin.load_state_dict(sampler.state_dict())
    a, b = np.random.default_rng(7), np.random.default_rng(7)
    store(memory, 10, 50)
    for _ in range(20):
        np.testing.assert_array_equal(sampler.sample(memory, 8, a).steps, twin.sample(memory, 8, b).steps)
