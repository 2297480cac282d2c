"""Fair timing on a shared machine: contestants take turns, and the median of many turns counts."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable


def rounds(
    contestants: dict[str, Callable[[], object]], turns: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Seconds of each turn of each contestant, played in rotation after one turn to warm up."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(turns + 1):
        for name, play in contestants.items():
            elapsed = _seconds(play, clock)
            if turn:
                seconds[name].append(elapsed)
    return seconds


def interleave(contestants: dict[str, Callable[[], object]], turns: int) -> dict[str, float]:
    """Median seconds of one turn of each contestant, played in rotation after one turn to warm up."""
    return {name: statistics.median(values) for name, values in rounds(contestants, turns).items()}


def seconds_of(function: Callable[[], object], times: int) -> float:
    """Median seconds of one call, after one to warm up."""
    return interleave({"": function}, times)[""]


def repeat(function: Callable[[], object], times: int) -> Callable[[], None]:
    def run() -> None:
        for _ in range(times):
            function()

    return run


def _seconds(function: Callable[[], object], clock: Callable[[], float]) -> float:
    start = clock()
    function()
    return clock() - start
