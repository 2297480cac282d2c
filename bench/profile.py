"""Where the time of an Atari step goes: ``python -m bench.profile`` prints the table of docs/performance.md.

The agents of ``bench.atari`` train on Breakout, and every part of the loop that matters is timed. A part's time excludes
the parts it calls.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch

import ebu
from bench.atari import STEPS_PER_UPDATE, THREADS, bare_passes, ours

WARM_UP, STEPS = 2_000, 4_000
OTHER = "everything else: targets, loss, loop"


class Stopwatch:
    """Seconds spent in each part, without those of the parts within it."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self._inner = [0.0]  # of the calls under way: seconds spent in the parts within

    def time(self, part: str, call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        self._inner.append(0.0)
        start = time.perf_counter()
        result = call(*arguments, **options)
        elapsed = time.perf_counter() - start
        self.seconds[part] += elapsed - self._inner.pop()
        self._inner[-1] += elapsed
        return result

    def watch(self, part: str, owner: Any, method: str) -> None:
        call = getattr(owner, method)
        setattr(owner, method, lambda *arguments, **options: self.time(part, call, *arguments, **options))


def main() -> None:
    torch.set_num_threads(THREADS)
    columns = {algo.__name__: shares(ours(algo, "Breakout")) for algo in (ebu.DQN, ebu.EBU)}
    print(f"|  | {' | '.join(columns)} |")
    print("| --- |" + " --- |" * len(columns))
    for part in next(iter(columns.values())):
        print(f"| {part} | {' | '.join(column[part] for column in columns.values())} |")


def shares(train: Any) -> dict[str, str]:
    """Part → its share of the time; last the time of as many steps as there are to an update, and that of bare passes."""
    loop = train.__self__.loop
    train(WARM_UP)
    watch = Stopwatch()
    for part, owner, method in parts(loop):
        watch.watch(part, owner, method)
    watch.time(OTHER, train, STEPS)
    bare = bare_passes(torch.channels_last)
    bare(STEPS // 10)
    total = watch.seconds.total()
    watch.time("bare", bare, STEPS)
    per_update = 1e3 * STEPS_PER_UPDATE / STEPS
    return {
        **{part: f"{watch.seconds[part] / total:.0%}" for part, *_ in [*parts(loop), (OTHER,)]},
        f"{STEPS_PER_UPDATE} steps and an update": f"{total * per_update:.1f} ms",
        "the bare passes alone": f"{watch.seconds['bare'] * per_update:.1f} ms",
    }


def parts(loop: Any) -> list[tuple[str, Any, str]]:
    """What is timed: its name, and the method that does it."""
    env = loop.actors.environments.environment.env.unwrapped
    online, target = loop.learner.online, loop.learner.target
    return [
        ("online network, backward pass", online, "_backward"),
        ("online network, forward pass", online, "differentiate"),
        ("target network, forward passes", target, "values"),
        ("online network, forward passes of one state (acting)", loop.policies[0], "values"),
        ("bytes turned and made floats", online, "_images"),
        ("bytes turned and made floats", target, "_images"),
        ("bytes turned and made floats", online, "_image"),
        ("optimiser (Adam, 1.7 million weights)", loop.learner._optimiser, "step"),
        ("emulator", env, "_emulate"),
        ("screen of 84 × 84", env, "_observe"),
        ("sampling, unpacking frames", loop.sampler, "sample"),
        ("minibatches from the backlog", loop.backlog, "pop"),
    ]


if __name__ == "__main__":
    main()
