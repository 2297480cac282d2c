"""Rank-based prioritised replay: Schaul, Quan, Antonoglou and Silver (2016), section 3.3 and appendix B.2.

A step is replayed with probability P(i) ∝ rank(i)^−α, its rank being its place when all steps are ordered by the size
of their last temporal-difference error. Keeping a million steps ordered is expensive; a binary heap is nearly ordered and an
update of it costs O(log n), so the position in the heap approximates the rank, and at intervals the heap is sorted.
"""

from __future__ import annotations

import dataclasses
from array import array
from typing import Any

import numpy as np

from ebu.memory.episodes import EpisodeMemory
from ebu.memory.samplers import steps_with_followers
from ebu.types import Array, Span

SORT_INTERVAL = 1_000_000  # changes between full sorts
REBUILD_SHARE = 32  # from one in so many steps on, sorting everything is faster than moving one step at a time
COUNT_DRIFT = 0.01  # the segments are recomputed when the number of steps has changed by more than this share …
ALPHA_DRIFT = 0.005  # … or α by more than this
MAX_SEGMENTS = 1_000_000  # of a saved state: no minibatch is larger


class PriorityHeap:
    """Steps ``first … end − 1`` in an array-backed binary max-heap of their priorities.

    Numbers only grow, as in the memory: new steps join at the end, evicted ones leave at the front. A step's place in
    the heap is kept in slot ``step & (room − 1)``, room being a power of two. Storage is ``array``, whose single items
    are read several times faster than numpy's and whose buffer numpy shares for everything done in bulk.
    """

    def __init__(self, sort_interval: int = SORT_INTERVAL) -> None:
        self.first = 0
        self.end = 0
        self.top_priority = 1.0  # the largest seen so far; new steps get it, so that each is replayed soon
        self._sort_interval = sort_interval
        self._changes = 0  # since the last sort
        self._segments_of: tuple[int, int, float] | None = None  # count, size and α the segments were computed for
        self._segments = np.empty(0)
        self._allocate(1024)

    def __len__(self) -> int:
        return self.end - self.first

    # ------------------------------------------------------------------ changing

    def extend(self, first: int, end: int) -> None:
        """Add steps ``first … end − 1`` at the largest priority seen so far; they follow the last one held."""
        if len(self) and first != self.end:
            raise ValueError(f"steps are added in order: {self.end} comes next, got {first}")
        if not len(self):
            self.first = self.end = first
        size, count = len(self), end - first
        if size + count > len(self._places):
            self._grow(size + count)
        if count * REBUILD_SHARE > size:
            np.frombuffer(self._steps, np.int64)[size : size + count] = np.arange(first, end)
            np.frombuffer(self._priorities)[size : size + count] = self.top_priority
            self.end = end
            self.sort()
        else:
            for step in range(first, end):
                self.end = step + 1
                self._rise(step - self.first, step, self.top_priority)
            self._changed(count)

    def drop_before(self, step: int) -> None:
        """Forget all steps before this one."""
        if step >= self.end:
            self.first = self.end = step
            return
        count = step - self.first
        if count * REBUILD_SHARE > len(self):
            steps, priorities = self._contents()
            kept = steps >= step
            steps, priorities = steps[kept], priorities[kept]
            self.first = step
            self._fill(steps, priorities)
            self.sort()
        else:
            mask = len(self._places) - 1
            for gone in range(self.first, self.first + count):
                place, last = self._places[gone & mask], len(self) - 1
                self.first = gone + 1
                if place < last:
                    self._put(place, self._steps[last], self._priorities[last])

    def renumber(self, kept: Array, first: int) -> None:
        """Step ``kept[i]`` is now ``first + i``; steps that are not among them are forgotten."""
        steps, priorities = (column.copy() for column in self._contents())
        is_kept = np.isin(steps, kept)
        self.first, self.end = (first + int(np.searchsorted(kept, bound)) for bound in (self.first, self.end))
        self._fill(first + np.searchsorted(kept, steps[is_kept]), priorities[is_kept])
        self.sort()

    def update(self, steps: Array, priorities: Array) -> None:
        """New priorities of some steps, O(log n) each. Steps that are gone are passed over."""
        first, end, mask = self.first, self.end, len(self._places) - 1
        for step, priority in zip(steps.tolist(), priorities.tolist()):
            if first <= step < end:
                self._put(self._places[step & mask], step, priority)
        self.top_priority = max(self.top_priority, float(priorities.max(initial=0.0)))
        self._changed(len(steps))

    def sort(self) -> None:
        """Order the heap fully: the place of each step is then its rank. Equal priorities keep their order."""
        steps, priorities = self._contents()
        order = np.argsort(-priorities, kind="stable")
        self._fill(steps[order], priorities[order])
        self._changes = 0

    # ------------------------------------------------------------------ sampling

    def sample(self, count: int, alpha: float, rng: np.random.Generator) -> tuple[Array, Array]:
        """Steps, and the probability of each in one draw, both ``[count]``.

        The ranks are cut into ``count`` segments of equal probability under P(i) ∝ rank^−α and one step is drawn
        uniformly from each: the paper's stratified minibatch. The probability is the one in force, uniform within a
        segment. Segments may begin and end within a rank, so that they are equally likely exactly.
        """
        size = len(self)
        if not size:
            raise ValueError("there is no step to sample: add some first")
        bounds = self._bounds(count, alpha)
        drawn = bounds[:-1] + rng.random(count) * np.diff(bounds)
        places = np.minimum(drawn.astype(np.int64), size - 1)
        cumulative = np.arange(count + 1) / count
        probabilities = np.interp(places + 1, bounds, cumulative) - np.interp(places, bounds, cumulative)
        return np.frombuffer(self._steps, np.int64)[places], probabilities

    def _bounds(self, count: int, alpha: float) -> Array:
        """Where the segments begin and end on the axis of ranks, ``[count + 1]`` from 0 to the number of steps.

        Recomputed only when the number of steps or α has changed noticeably; stretched to fit meanwhile.
        """
        size = len(self)
        known = self._segments_of
        if (
            known is None
            or count != known[0]
            or abs(size - known[1]) > COUNT_DRIFT * known[1]
            or abs(alpha - known[2]) > ALPHA_DRIFT
        ):
            known = self._segments_of = (count, size, alpha)
            self._segments = equal_segments(*known)
        return self._segments * (size / known[1])

    # ------------------------------------------------------------------ the heap

    def _put(self, place: int, step: int, priority: float) -> None:
        """Set a place of the heap and restore its order from there."""
        if place and priority > self._priorities[(place - 1) >> 1]:
            self._rise(place, step, priority)
        else:
            self._sink(place, step, priority)

    def _rise(self, place: int, step: int, priority: float) -> None:
        steps, priorities, places = self._steps, self._priorities, self._places
        mask = len(places) - 1
        while place:
            parent = (place - 1) >> 1
            above = priorities[parent]
            if above >= priority:
                break
            moved = steps[parent]
            steps[place], priorities[place], places[moved & mask] = moved, above, place
            place = parent
        steps[place], priorities[place], places[step & mask] = step, priority, place

    def _sink(self, place: int, step: int, priority: float) -> None:
        steps, priorities, places = self._steps, self._priorities, self._places
        mask, size = len(places) - 1, len(self)
        child = 2 * place + 1
        while child < size:
            below = priorities[child]
            if child + 1 < size:
                right = priorities[child + 1]
                if right > below:
                    child, below = child + 1, right
            if below <= priority:
                break
            moved = steps[child]
            steps[place], priorities[place], places[moved & mask] = moved, below, place
            place, child = child, 2 * child + 1
        steps[place], priorities[place], places[step & mask] = step, priority, place

    def _changed(self, count: int) -> None:
        self._changes += count
        if self._changes >= self._sort_interval:
            self.sort()

    # ------------------------------------------------------------------ storage

    def _allocate(self, room: int) -> None:
        self._steps = array("q", bytes(8 * room))  # by place in the heap
        self._priorities = array("d", bytes(8 * room))  # by place in the heap
        self._places = array("q", bytes(8 * room))  # by slot of the step

    def _contents(self) -> tuple[Array, Array]:
        """Steps and priorities in heap order, as views."""
        size = len(self)
        return np.frombuffer(self._steps, np.int64)[:size], np.frombuffer(self._priorities)[:size]

    def _fill(self, steps: Array, priorities: Array) -> None:
        """Write the whole heap from the top."""
        np.frombuffer(self._steps, np.int64)[: len(steps)] = steps
        np.frombuffer(self._priorities)[: len(steps)] = priorities
        places = np.frombuffer(self._places, np.int64)
        places[steps & (len(places) - 1)] = np.arange(len(steps))

    def _grow(self, needed: int) -> None:
        steps, priorities = self._contents()
        self._allocate(1 << (needed - 1).bit_length())
        self._fill(steps, priorities)

    # ------------------------------------------------------------------ saving

    def state_dict(self) -> dict[str, Any]:
        steps, priorities = self._contents()
        return {
            "first": self.first,
            "steps": steps.copy(),
            "priorities": priorities.copy(),
            "top_priority": self.top_priority,
            "changes": self._changes,
            "segments_of": self._segments_of,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        steps, priorities = np.asarray(state["steps"]), np.asarray(state["priorities"])
        self.first = int(state["first"])
        self.end = self.first + len(steps)
        self._allocate(1 << max(10, (len(steps) - 1).bit_length()))
        self._fill(steps, priorities)
        self.top_priority = float(state["top_priority"])
        self._changes = int(state["changes"])
        self._segments_of = None
        if state["segments_of"] is not None:
            count, size, alpha = state["segments_of"]
            if not (0 < count <= MAX_SEGMENTS and 0 < size <= 2 * len(self) + 1024):  # a table of this length is made
                raise ValueError("invalid segment bounds of the priorities")
            self._segments_of = (int(count), int(size), float(alpha))
            self._segments = equal_segments(*self._segments_of)


def equal_segments(count: int, size: int, alpha: float) -> Array:
    """Bounds ``[count + 1]`` that cut the axis [0, size] into segments of equal mass, rank i having mass ∝ i^−α.

    The mass of a rank is spread evenly over its unit of the axis, which makes the cumulative mass piecewise linear.
    """
    cumulative = np.zeros(size + 1)
    np.cumsum(np.arange(1, size + 1, dtype=np.float64) ** -alpha, out=cumulative[1:])
    bounds = np.interp(np.linspace(0.0, cumulative[-1], count + 1), cumulative, np.arange(size + 1))
    bounds[-1] = size
    return bounds


class PrioritySampler:
    """Single steps, those whose error was large more often; the preference α fades to none over the run.

    α is linear from its first value to 0 at the end of the run. The loop reports the errors of replayed steps.
    """

    draws_steps = True  # so that a minibatch cannot be a whole episode

    def __init__(self, alpha: float, importance_beta: float = 0.0, sort_interval: int = SORT_INTERVAL) -> None:
        self._progress = 0.0  # at the last sample
        self.wants_errors = True
        self.minibatches = 1  # priorities change with every update
        self._alpha = alpha
        self._importance_beta = importance_beta
        self._heap = PriorityHeap(sort_interval)

    def sample(self, memory: EpisodeMemory, wanted: int, rng: np.random.Generator, progress: float = 0.0) -> Span:
        self._progress = progress
        self._follow(memory)
        steps, probabilities = self._heap.sample(wanted, self._alpha * (1.0 - progress), rng)
        span = steps_with_followers(memory, steps, 1)
        if not self._importance_beta:
            return span
        weights = (len(self._heap) * probabilities) ** -self._importance_beta
        return dataclasses.replace(span, weights=(weights / weights.max()).astype(np.float32))

    def feedback(self, steps: Array, errors: Array) -> None:
        """The errors δ ``[B]`` these steps were just replayed with; their size counts up to 1, as in DQN's loss."""
        sizes = np.minimum(np.abs(errors), 1.0).astype(np.float64)
        self._heap.update(steps, np.nan_to_num(sizes, nan=1.0))  # stopping a run at NaN is the loop's task

    def renumber(self, kept: Array, first: int) -> None:
        self._heap.renumber(kept, first)

    def _follow(self, memory: EpisodeMemory) -> None:
        """Take over what the memory has stored and forgotten since the last sample."""
        heap = self._heap
        if heap.first < memory.first_step:
            heap.drop_before(memory.first_step)
        if heap.end < memory.end_step:
            heap.extend(heap.end, memory.end_step)

    def state_dict(self) -> dict[str, Any]:
        return {"progress": self._progress, "heap": self._heap.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._progress = float(state["progress"])
        self._heap.load_state_dict(state["heap"])
