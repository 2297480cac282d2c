"""(a) Backward targets: the associative scan against the NumPy transcription of Algorithm 2."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from bench.timing import interleave, repeat
from ebu.targets.backward import backward  # as the loop calls it; ebu.targets.backward also checks its arguments
from tests.reference.backward import algorithm_2

CASES = ((4_500, 18, 11, 10.0), (100, 18, 1, 1.0))  # T, A, K and the least ratio we promise


def run() -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    rows = []
    for steps, actions, learners, promised in CASES:
        rewards = rng.normal(size=steps).astype(np.float32)
        discounts = np.full(steps, 0.99, np.float32)
        discounts[-1] = 0.0
        taken = rng.integers(actions, size=steps)
        q_next = rng.normal(size=(learners, steps, actions)).astype(np.float32)
        betas = np.linspace(0, 1, learners, dtype=np.float32)
        tensors = [torch.from_numpy(x) for x in (rewards, discounts, taken, q_next, betas)]

        def loop(r: Any = rewards, d: Any = discounts, a: Any = taken, q: Any = q_next, b: Any = betas) -> None:
            for k in range(len(b)):
                algorithm_2(r, d, a, q[k], b[k])

        def scan(x: Any = tensors) -> None:
            backward(*x)

        times = max(1, 2_000 // (steps * learners // 100))
        seconds = interleave({"scan": repeat(scan, times), "loop": repeat(loop, times)}, turns=7)
        rows.append(
            {
                "what": f"backward targets, T = {steps:,}, A = {actions}, K = {learners}",
                "ours": f"{seconds['scan'] / times * 1e3:.2f} ms",
                "peer": f"Algorithm 2 in NumPy: {seconds['loop'] / times * 1e3:.2f} ms",
                "ratio": seconds["loop"] / seconds["scan"],
                "at_least": promised,
            }
        )
    return rows
