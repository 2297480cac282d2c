"""Runs the benchmarks and prints each ratio beside what is promised. Nothing else should run meanwhile.

``python -m bench [NAME…] [--save] [--quick] [--avx2]``: --save keeps the rows in results/bench.jsonl; --quick shortens the
long ones to see whether they run, not what they measure; --avx2 keeps PyTorch from using AVX-512, as on processors without it.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import sys
from pathlib import Path
from typing import Any

BENCHMARKS = (
    "targets",
    "cartpole",
    "vector",
    "minatar",
    "updates",
    "memory",
    "frames",
    "atari",
    "engine",
    "page",
    "checkpoint",
)
RESULTS = Path(__file__).parent.parent / "results" / "bench.jsonl"
AVX2 = {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}  # read when PyTorch is imported


def main(arguments: list[str]) -> int:
    names = [a for a in arguments if not a.startswith("-")] or list(BENCHMARKS)
    if "--avx2" in arguments:
        os.environ |= AVX2
    print(f"instructions: {instructions()}", flush=True)
    rows: list[dict[str, Any]] = []
    for name in names:
        run = importlib.import_module(f"bench.{name}").run
        options = {"quick": True} if "--quick" in arguments and "quick" in inspect.signature(run).parameters else {}
        for row in run(**options):
            if "--avx2" in arguments:
                row["what"] += ", AVX2"
            rows.append({"bench": name, **row, "instructions": instructions()})
            print(describe(row), flush=True)
    if "--save" in arguments:
        save(rows)
    return 0 if all(kept(row) for row in rows) else 1


def instructions() -> str:
    """What PyTorch's own loops use."""
    import torch

    return torch.backends.cpu.get_cpu_capability()


def kept(row: dict[str, Any]) -> bool:
    return row.get("at_least", 0.0) <= row["ratio"] <= row.get("at_most", float("inf"))


def describe(row: dict[str, Any]) -> str:
    promise = f"at least {row['at_least']:g}" if "at_least" in row else f"at most {row['at_most']:g}"
    verdict = "ok  " if kept(row) else "MISS"
    return f"{verdict} {row['ratio']:8.2f}×  ({promise})  {row['what']}: {row['ours']}  |  {row['peer']}"


def save(rows: list[dict[str, Any]]) -> None:
    """Replace the rows of the benchmarks that ran; keep the others'."""
    ran = {(row["bench"], row["instructions"]) for row in rows}
    old = [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []
    RESULTS.parent.mkdir(exist_ok=True)
    kept_rows = [row for row in old if (row["bench"], row.get("instructions", instructions())) not in ran]
    RESULTS.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in [*kept_rows, *rows]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
