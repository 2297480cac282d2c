"""Rank-based priorities computed from their definition, and a plain list that does what the heap should."""

from __future__ import annotations

from itertools import pairwise

import numpy as np


def rank_probabilities(size, alpha):
    """P(i) = rank^−α / Σ rank^−α, for ranks 1 … size."""
    priorities = [(1 / rank) ** alpha for rank in range(1, size + 1)]
    return np.array(priorities) / sum(priorities)


def segmented_probabilities(bounds, size):
    """The probability of each rank when a segment is drawn uniformly, then a point of it: segment by segment."""
    count = len(bounds) - 1
    result = np.zeros(size)
    for left, right in pairwise(bounds):
        for rank in range(int(left), min(size, int(np.ceil(right)))):
            overlap = min(right, rank + 1) - max(left, rank)
            result[rank] += overlap / (right - left) / count
    return result


class PlainPriorities:
    """step → priority; nothing clever."""

    def __init__(self):
        self.priorities = {}
        self.top = 1.0
        self.end = 0

    def extend(self, first, end):
        self.priorities.update(dict.fromkeys(range(first, end), self.top))
        self.end = max(self.end, end)

    def drop_before(self, step):
        self.priorities = {s: p for s, p in self.priorities.items() if s >= step}
        self.end = max(self.end, step)

    def update(self, steps, priorities):
        for step, priority in zip(steps, priorities):
            if step in self.priorities:
                self.priorities[step] = priority
        self.top = max([self.top, *priorities])
