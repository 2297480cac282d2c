"""Runs that show what README and docs claim; rows go to results/.

``python scripts/evidence.py maze|cartpole|minigrid [--seeds 0 1 2]``
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from ebu.agent import AGENTS
from ebu.presets import configure
from ebu.registry import methods
from ebu.training.events import Evaluated, Event

RESULTS = Path(__file__).parent.parent / "results"


def train(algo: str, env: str, **settings: Any) -> tuple[list[Evaluated], float]:
    """All evaluations of one run, and its seconds."""
    agent = AGENTS[algo](env, threads=1, **settings)
    tests: list[Evaluated] = []

    def listen(event: Event) -> None:
        if isinstance(event, Evaluated):
            tests.append(event)

    start = time.perf_counter()
    agent.learn(agent.config.steps, callback=listen)
    return tests, time.perf_counter() - start


def maze(algos: list[str], seeds: list[int]) -> None:
    """The quick preset on ten mazes: the greedy path over the shortest."""
    quick = configure("ebu", "maze").environment.env_args
    for seed in seeds:
        tests, seconds = train("ebu", "maze", seed=seed, env_args=(*quick, f"maze_seed={seed}"))
        curve = [test.evaluation.relative_lengths[0] for test in tests]
        save("maze-quick.jsonl", {"algo": "ebu", "maze_seed": seed, "curve": curve, "final": curve[-1], "seconds": seconds})


def cartpole(algos: list[str], seeds: list[int]) -> None:
    """Default settings on CartPole-v1: mean greedy return over the last five evaluations."""
    for seed in seeds:
        for algo in algos:
            tests, seconds = train(algo, "CartPole-v1", seed=seed)
            curve = [test.evaluation.mean for test in tests]
            last_five = sum(curve[-5:]) / 5
            save("cartpole.jsonl", {"algo": algo, "seed": seed, "curve": curve, "last_five": last_five, "seconds": seconds})


MINIGRID: dict[str, tuple[str, dict[str, Any]]] = {
    "DQN": ("dqn", {}),
    "EBU (β=0.5)": ("ebu", {"beta": 0.5}),
    "EBU (β=1)": ("ebu", {"beta": 1.0}),
}
DISCOUNTS = (0.99, 0.95, 0.9)


def minigrid(algos: list[str], seeds: list[int]) -> None:
    """How the discount decides whether EBU learns a maze of MiniGrid: default settings, an update per step."""
    common = {"steps": 100_000, "eval_every": 5_000, "eval_episodes": 20}
    for seed in seeds:
        for label, (algo, own) in MINIGRID.items():
            for gamma in DISCOUNTS if algo in algos else ():
                tests, seconds = train(algo, "MiniGrid-DoorKey-5x5-v0", seed=seed, gamma=gamma, **common, **own)
                row: dict[str, Any] = {"method": label, "gamma": gamma, "seed": seed, "every": common["eval_every"]}
                row["curve"] = [round(test.evaluation.mean, 4) for test in tests]
                row["q"] = [round(test.evaluation.mean_q, 4) for test in tests]
                save("minigrid-discount.jsonl", row | {"seconds": seconds})


STUDIES = {"maze": (maze, 10), "cartpole": (cartpole, 3), "minigrid": (minigrid, 3)}  # with how many seeds


def save(name: str, row: dict[str, Any]) -> None:
    row["seconds"] = round(row["seconds"], 1)
    print(json.dumps(row), flush=True)
    with (RESULTS / name).open("a") as file:
        file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=tuple(STUDIES))
    parser.add_argument("--algos", nargs="*", default=list(methods()))
    parser.add_argument("--seeds", type=int, nargs="*", default=None)
    arguments = parser.parse_args()
    study, count = STUDIES[arguments.what]
    study(arguments.algos, arguments.seeds or list(range(count)))
