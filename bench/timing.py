"""Fair timing on a shared machine: contestants take turns, and the median of many turns counts."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable


def interleave(contestants: dict[str, Callable[[], object]], turns: int) -> dict[str, float]:
    """Median seconds of one turn of each contestant, played in rotation after one turn to warm up."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(turns + 1):
        for name, play in contestants.items():
            start = time.perf_counter()
            play()
            if turn:
                seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def repeat(function: Callable[[], object], times: int) -> Callable[[], None]:
    def run() -> None:
        for _ in range(times):
            function()

    return run
