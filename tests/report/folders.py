"""Run folders written by hand, so that every number on a page is known beforehand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from PIL import Image

from ebu.config import override, to_json
from ebu.presets import configure


def evaluation(step, score, **more):
    return {"kind": "eval", "step": step, "mean_reward": score, "returns": [score], "lengths": [10], **more}


def write_run(
    folder: Path, algo="ebu", env="CartPole-v1", scores=(1.0, 2.0), every=100, finished=True, rows=(), **settings
) -> Path:
    """A run evaluated every ``every`` steps with these scores; ``rows`` are added to its metrics as they are."""
    folder.mkdir(parents=True)
    steps = every * len(scores)
    config = override(configure(algo, env), **{"steps": steps, "eval_every": every, **settings})
    (folder / "config.json").write_text(to_json(config))
    found = [
        evaluation(every * (i + 1), score, mean_q=score / 2, mean_discounted_return=score / 4)
        for i, score in enumerate(scores)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*found, *rows]))
    if finished:
        (folder / "summary.json").write_text(json.dumps({"algo": algo, "steps": steps}))
    return folder


def write_maze_run(folder: Path, lengths=(50.0, 1.0), **more) -> Path:
    rows = [evaluation(100 * (i + 1), 1.0, relative_lengths=[length]) for i, length in enumerate(lengths)]
    write_run(folder, env="maze", rows=rows, **more)
    noise = np.random.default_rng(0).integers(0, 255, (60, 60, 3), np.uint8)  # does not compress, as the worst picture
    Image.fromarray(noise).save(folder / "maze.png")
    return folder
