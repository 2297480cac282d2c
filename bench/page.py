"""How long a page over 50 runs takes, and how much it weighs: 40 runs as long as the paper's, and 10 mazes with pictures."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from ebu.report.page import build_page
from tests.report.folders import write_maze_run, write_run

EPOCHS, EPOCH_STEPS, GAMES_A_TEST, LOG_EVERY = 40, 62_500, 30, 2_500
GAMES = ("ALE/Breakout-v5", "ALE/Pong-v5")
METHODS = ("ebu", "adaptive-ebu", "dqn", "per")
SEEDS, MAZES = 5, 10
MAX_SECONDS, MAX_BYTES = 20.0, 8e6


def run() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        runs = list(write_runs(root / "runs"))
        start = time.perf_counter()
        page = build_page(runs, root / "page.html", "50 runs")
        seconds, size = time.perf_counter() - start, page.stat().st_size
    return [
        {
            "what": f"time to build a page over {len(runs)} runs",
            "ours": f"{seconds:.1f} s",
            "peer": f"limit: {MAX_SECONDS:.0f} s",
            "ratio": seconds / MAX_SECONDS,
            "at_most": 1.0,
        },
        {
            "what": f"weight of a page over {len(runs)} runs",
            "ours": f"{size / 1e6:.1f} MB",
            "peer": f"limit: {MAX_BYTES / 1e6:.0f} MB",
            "ratio": size / MAX_BYTES,
            "at_most": 1.0,
        },
    ]


def write_runs(root: Path) -> list[Path]:
    rng = np.random.default_rng(0)
    found = []
    for env in GAMES:
        for algo in METHODS:
            for seed in range(SEEDS):
                folder = root / f"{algo}-{env.replace('/', '-')}-{seed}"
                scores = np.cumsum(rng.normal(5, 10, EPOCHS)).tolist()
                rows = [*training_rows(rng), *(sync_rows(rng) if algo == "adaptive-ebu" else [])]
                settings = {"seed": seed, "preset": "paper"}
                found.append(write_run(folder, algo, env, scores, EPOCH_STEPS, rows=rows, **settings))
    found += [write_maze_run(root / f"maze-{i}", np.linspace(50, 1, 20).tolist(), seed=i) for i in range(MAZES)]
    return found


def training_rows(rng: np.random.Generator) -> list[dict[str, Any]]:
    steps = range(LOG_EVERY, EPOCHS * EPOCH_STEPS + 1, LOG_EVERY)
    names = ("ep_rew_mean", "ep_len_mean", "epsilon", "loss", "q_mean")
    return [{"kind": "train", "step": step, **dict(zip(names, rng.random(len(names)).tolist()))} for step in steps]


def sync_rows(rng: np.random.Generator) -> list[dict[str, Any]]:
    chosen = rng.integers(11, size=EPOCHS).tolist()
    return [
        {"kind": "sync", "step": EPOCH_STEPS * (i + 1), "learner": k, "beta": k / 10, "scores": rng.random(11).tolist()}
        for i, k in enumerate(chosen)
    ]
