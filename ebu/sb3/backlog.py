"""The queue between targets and minibatches: an episode is handed out from its end backward, then the next."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import torch
from torch import Tensor

from ebu.sb3.buffers import Episodes, Observations


class Backlog:
    """(observation, action, target), in the order in which they are trained on."""

    def __init__(self) -> None:
        self._queue: deque[tuple[Observations, Tensor, Tensor]] = deque()
        self._used = 0  # of the first

    def __len__(self) -> int:
        return sum(len(targets) for _, _, targets in self._queue) - self._used

    def push(self, episodes: Episodes, targets: Tensor) -> None:
        order = backward_order(episodes.continues)
        self._queue.append((_rows(episodes.observations, order), episodes.actions[order], targets[order]))

    def pop(self, count: int) -> tuple[Observations, Tensor, Tensor]:
        """The next ``count`` steps; there are as many."""
        parts = []
        while count:
            observations, actions, targets = self._queue[0]
            rows = slice(self._used, self._used + count)
            parts.append((_rows(observations, rows), actions[rows], targets[rows]))
            taken = len(parts[-1][2])
            count, self._used = count - taken, self._used + taken
            if self._used == len(targets):
                self._queue.popleft()
                self._used = 0
        observations_of, actions_of, targets_of = zip(*parts)
        return _joined(list(observations_of)), torch.cat(actions_of), torch.cat(targets_of)


def backward_order(continues: Tensor) -> Tensor:
    """Positions in which episodes that lie end to end are handed out: the first episode from its end, then the second, …"""
    ends = (~continues.bool()).nonzero().flatten()
    episode = torch.searchsorted(ends, torch.arange(len(continues), device=continues.device))
    first = torch.cat([ends.new_zeros(1), ends[:-1] + 1])[episode]
    return first + ends[episode] - torch.arange(len(continues), device=continues.device)


def parts_of(observations: Observations, length: int, size: int) -> Iterator[Observations]:
    """Consecutive pieces of at most this many rows."""
    for first in range(0, length, size):
        yield _rows(observations, slice(first, first + size))


def _rows(observations: Observations, rows: slice | Tensor) -> Observations:
    if isinstance(observations, dict):
        return {key: values[rows] for key, values in observations.items()}
    return observations[rows]


def _joined(parts: list[Observations]) -> Observations:
    if isinstance(parts[0], dict):
        return {key: torch.cat([part[key] for part in parts]) for key in parts[0]}  # type: ignore[index]
    return torch.cat(parts)  # type: ignore[arg-type]
