"""Whether the machine has room for what was asked. Asked before anything is taken: a process that the system ends for want
of memory cannot say why.
"""

from __future__ import annotations

import math
import os

from torch import nn

from ebu.errors import UserError

COPIES = 6  # of the parameters: online, target, gradient, two accumulators of the optimiser, a checkpoint on its way
FLOAT_BYTES = 4
STATES = 2  # of each step of a minibatch, this one and the next


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
