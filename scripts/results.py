"""Writes the README's table of results from the rows under results/. ``--check`` only says whether it is up to date."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
BEGIN, END = "<!-- results:begin -->", "<!-- results:end -->"


def rows(name: str) -> list[dict[str, Any]]:
    path = ROOT / "results" / name
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def learning() -> list[str]:
    lines = ["| what was learned | how | result |", "| --- | --- | --- |"]
    mazes = rows("maze-quick.jsonl")
    if mazes:
        solved = sum(row["final"] == 1.0 for row in mazes)
        lines.append(
            f"| MNIST maze, wall density 0.3, {len(mazes)} mazes | EBU, `quick` preset, 10,000 steps | greedy path = "
            f"shortest path in {solved} of {len(mazes)} |"
        )
    scores: dict[str, list[float]] = {}
    for row in rows("cartpole.jsonl"):
        scores.setdefault(row["algo"], []).append(row["last_five"])
    for algo, values in scores.items():
        listed = ", ".join(f"{value:.0f}" for value in values)
        lines.append(f"| CartPole-v1, {len(values)} seeds | `{algo}`, 50,000 steps | greedy return {listed} |")
    return lines if len(lines) > 2 else []


def speed() -> list[str]:
    measured = rows("bench.jsonl")
    if not measured:
        return []
    lines = ["| measured side by side | ours | beside it | ratio |", "| --- | --- | --- | --- |"]
    lines += [f"| {row['what']} | {row['ours']} | {row['peer']} | {row['ratio']:.2f}× |" for row in measured]
    return lines


def block() -> str:
    parts = [
        "## Results",
        "Made by `python scripts/evidence.py` and `make bench`; the mean of the last five evaluations counts as a seed's "
        "return. The rows are in `results/`.",
        "\n".join(learning()),
        "\n".join(speed()),
    ]
    return "\n\n".join(part for part in parts if part)


def rendered() -> str:
    text = README.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{block()}\n{END}{tail}"


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(rendered() != README.read_text(encoding="utf-8"))
    README.write_text(rendered(), encoding="utf-8")
