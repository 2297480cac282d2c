"""How much RAM networks, minibatches and the replay memory will take: stated, or refused, before a run starts.

A process that the system kills when memory runs out cannot say why.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ebu.errors import UserError
from ebu.memory.episodes import STEP
from ebu.memory.frames import Compression, is_compressed
from ebu.memory.ring import room_for

if TYPE_CHECKING:
    from torch import nn

COPIES = 6  # of the parameters: online, target, gradient, two accumulators of the optimiser, a checkpoint on its way
FLOAT_BYTES = 4
STATES = 2  # of each step of a minibatch, this one and the next

# How many times smaller compressed frames were found to be: in eight Atari games (`python -m bench frames`), and the
# maze's digits, redrawn or fixed (`python -m bench memory`).
SCREENS, SMALL_PICTURES = (20, 200), (3, 20)
SCREEN_BYTES = 84 * 84  # and more


@dataclass(frozen=True)
class ExpectedMemory:
    """Bytes when ``steps`` steps are stored; ``low`` and ``high`` differ only where frames are compressed."""

    steps: int
    low: int
    high: int
    uncompressed: int  # a state and its successor for each step, as a plain replay buffer keeps them
    shrinking: tuple[int, int] = SCREENS

    def words(self) -> str:
        """One line for the user who starts the run."""
        if self.low == self.high:
            return f"memory: up to {self.steps:,} steps in {_size(self.high)}"
        least, most = self.shrinking
        kind = "those of games" if self.shrinking == SCREENS else "small pictures"
        return (
            f"memory: up to {self.steps:,} steps in {_size(self.low)} to {_size(self.high)} if frames shrink {least} to "
            f"{most} times, as {kind} do ({_size(self.uncompressed)} as pairs of uncompressed states)"
        )

    def warning(self, available: int | None) -> str | None:
        """What to say where this is more than there is; None where it fits, or where the available memory is unknown."""
        if available is None or self.high <= available:
            return None
        return (
            f"the memory may need {_size(self.high)} when it is full, and {_size(available)} are free: a smaller "
            "--buffer-size keeps fewer steps"
        )


def expect(
    capacity: int,
    shape: tuple[int, ...],
    dtype: Any,
    *,
    stack: int = 1,
    compress: Compression = "auto",
) -> ExpectedMemory:
    """For ``capacity`` steps in few episodes; each episode takes one observation more than it has steps."""
    frame = int(np.prod(shape)) * np.dtype(dtype).itemsize
    table = room_for(capacity) * STEP.itemsize + room_for(1) * np.dtype(np.int64).itemsize
    shrinking = SCREENS if frame >= SCREEN_BYTES else SMALL_PICTURES
    if is_compressed(shape, dtype, compress):
        least, most = shrinking
        low, high = table + capacity * frame // most, table + capacity * frame // least
    else:
        low = high = table + room_for(capacity + 1) * frame
    return ExpectedMemory(capacity, low, high, capacity * 2 * stack * frame, shrinking)


def available_bytes() -> int | None:
    """RAM that is free or can be freed; None where the system does not say."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _size(count: int) -> str:
    """Bytes for people, two digits of them."""
    for unit, size in (("GB", 10**9), ("MB", 10**6)):
        if count >= size:
            return f"{count / size:.1f} {unit}" if count < 10 * size else f"{count / size:.0f} {unit}"
    return f"{max(count / 1e3, 0.1):.1f} kB"


def require_room(network: nn.Module, learners: int, state_values: int, batch_size: int, room: float | None = None) -> None:
    """Refuse networks and minibatches that cannot fit, with the numbers that make them large."""
    parameters = sum(weights.numel() for weights in network.parameters())
    needed = FLOAT_BYTES * (COPIES * parameters * learners + STATES * batch_size * state_values)
    room = machine_bytes() if room is None else room
    if needed > room:
        raise UserError(
            f"this would need {needed / 2**30:,.1f} GiB and the machine has {room / 2**30:,.1f}: {learners} × {parameters:,} "
            f"weights, {batch_size:,} × {state_values:,} numbers a minibatch; make hidden_sizes, betas or batch_size smaller"
        )


def machine_bytes() -> float:
    """The machine's memory; without a limit where it does not tell."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return math.inf
