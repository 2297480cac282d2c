"""The local engine against the same trials run by hand: `ebu train` in plain processes, two at a time."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.timing import interleave
from ebu.experiments.sweeps.engine import run_trials
from ebu.experiments.sweeps.local_engine import ONE_THREAD, LocalEngine
from ebu.experiments.sweeps.trials import trial

TOGETHER = 2
SETTINGS: dict[str, Any] = {"steps": 12_000, "eval_every": 3_000}
TRIALS = [trial(algo, "CartPole-v1", seed, **SETTINGS) for seed in range(2) for algo in ("ebu", "dqn")]


def run() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        seconds = interleave(
            {"engine": lambda: with_engine(_new(root, "engine")), "hand": lambda: by_hand(_new(root, "hand"))}, turns=3
        )
        assert _rows(root / "engine-0") == _rows(root / "hand-0"), "the two did not do the same work"
    return [
        {
            "what": f"{len(TRIALS)} trials of CartPole-v1, {TOGETHER} at a time, local engine",
            "ours": f"{seconds['engine']:.1f} s",
            "peer": f"by hand: {seconds['hand']:.1f} s",
            "ratio": seconds["engine"] / seconds["hand"],
            "at_most": 1.03,
        }
    ]


def _new(root: Path, name: str) -> Path:
    return root / f"{name}-{sum(path.name.startswith(name) for path in root.iterdir())}"


def with_engine(out: Path) -> None:
    run_trials(TRIALS, out, LocalEngine(workers=TOGETHER))


def by_hand(out: Path) -> None:
    out.mkdir()

    def train(i: int) -> None:
        one = TRIALS[i]
        options = {"--algo": one.algo, "--env": one.env, "--seed": one.seed, "--threads": 1, "--run": out / one.id}
        options |= {f"--{name.replace('_', '-')}": value for name, value in one.settings}
        options |= {"--tensorboard": False, "--quiet": True}
        command = [sys.executable, "-m", "ebu.cli", "train", *(str(word) for pair in options.items() for word in pair)]
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, **ONE_THREAD})

    with ThreadPoolExecutor(TOGETHER) as pool:
        list(pool.map(train, range(len(TRIALS))))


def _rows(out: Path) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in out.rglob("metrics.jsonl")}
