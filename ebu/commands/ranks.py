"""Commands under torchrun: rank 0 runs the command, the other ranks make the calls it announces."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ebu.agent import Ranks


def with_ranks(command: Callable[[Ranks | None], int]) -> int:
    """Run a command; ``ebu.distributed`` is imported only where torchrun started more than one process."""
    if "TORCHELASTIC_RUN_ID" not in os.environ or os.environ.get("WORLD_SIZE") == "1":
        return command(None)
    from ebu.distributed.learner import lead_or_work

    return lead_or_work(command)
