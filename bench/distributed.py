"""Adaptive EBU's update, K = 11 on the Nature network: one process with two threads against two ranks with one each.

Two ranks also pay for what they exchange: the minibatch, the states of a sampled episode and their values, and, where the
learner that plays is elsewhere, its weights.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from typing import Any

import numpy as np
import torch

from bench.timing import interleave, repeat
from bench.updates import CASES, filled_agent, learn
from ebu.distributed.processes import ProcessGroup

SETTINGS = CASES["nature"][0]
UPDATES, FETCHES = 4, 4
AT_MOST = 1.1  # two ranks over one process, both on two cores
WORKER = """
import sys
from ebu.distributed.learner import work
from ebu.distributed.processes import ProcessGroup
with ProcessGroup(1, 2, 1, 2) as group:
    sys.exit(work(group))
"""


def run() -> list[dict[str, Any]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free.getsockname()[1]))
    before = torch.get_num_threads()
    worker = subprocess.Popen([sys.executable, "-c", WORKER])
    try:
        with ProcessGroup(0, 2, 0, 2) as group:
            return _rows(group)
    finally:
        torch.set_num_threads(before)
        worker.wait(timeout=60)


def _rows(group: ProcessGroup) -> list[dict[str, Any]]:
    alone = filled_agent("adaptive-ebu", SETTINGS)
    torch.set_num_threads(1)  # which the other rank takes over
    together = filled_agent("adaptive-ebu", SETTINGS, group)

    def turn(agent: Any, threads: int) -> None:
        torch.set_num_threads(threads)
        learn(agent, UPDATES)

    seconds = interleave(
        {"one": lambda: turn(alone, 2), "one thread": lambda: turn(alone, 1), "two": lambda: turn(together, 1)}, turns=5
    )
    torch.set_num_threads(1)
    network, state = together.loop.learner.online, np.zeros((4, 84, 84), np.uint8)
    here, elsewhere = (network.state_values(k) for k in (0, 10))

    def fetch() -> None:
        network.forget()
        elsewhere(state)

    acting = interleave({"here": repeat(lambda: here(state), FETCHES), "elsewhere": repeat(fetch, FETCHES)}, turns=5)
    return [
        {
            "what": "one update of adaptive-ebu on 2 ranks × 1 thread over 1 process × 2 threads, nature network",
            "ours": f"{seconds['two'] / UPDATES * 1e3:.1f} ms",
            "peer": f"one process: {seconds['one'] / UPDATES * 1e3:.1f} ms",
            "ratio": seconds["two"] / seconds["one"],
            "at_most": AT_MOST,
        },
        {
            "what": "one update of adaptive-ebu on 2 ranks × 1 thread over 1 process × 1 thread, nature network",
            "ours": f"{seconds['two'] / UPDATES * 1e3:.1f} ms",
            "peer": f"one process: {seconds['one thread'] / UPDATES * 1e3:.1f} ms",
            "ratio": seconds["two"] / seconds["one thread"],
            "at_most": 1.0,  # else a second rank buys nothing
        },
        {
            "what": "an update with the weights of a learner elsewhere fetched after it, over the update alone",
            "ours": f"{(acting['elsewhere'] - acting['here']) / FETCHES * 1e3:.2f} ms to fetch",
            "peer": f"one update on 2 ranks: {seconds['two'] / UPDATES * 1e3:.1f} ms",
            "ratio": 1 + (acting["elsewhere"] - acting["here"]) / FETCHES / (seconds["two"] / UPDATES),
            "at_most": 1.1,
        },
    ]
