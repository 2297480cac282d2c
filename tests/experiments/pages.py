"""Every item's page in seconds: training items over run folders written by hand, the others on their smallest settings."""

from __future__ import annotations

import contextlib
import functools
import json
import tempfile
from pathlib import Path
from unittest import mock

import numpy as np

from ebu.config import to_json
from ebu.envs.families import family
from ebu.experiments.items import find_item, item_names, toy_text

ITEMS = item_names()
COMPUTED = [item for item in ITEMS if find_item(item).run is not None]
SCORES = [item for item in ITEMS if item not in COMPUTED and not find_item(item).trials("quick")]  # trained runs if there are
TRAINED = [item for item in ITEMS if item not in COMPUTED and item not in SCORES]
SMALLEST = {
    "figure1": {"runs": 200},
    "figure3": {"draws": 100, "walks": 2},
    "appendix-f": {"lengths": (3, 5, 8, 12), "passes": 5},
    "theorem1": {"operators": 4, "mdps": 2, "episodes": 40},
    "theorem2": {"mdps": 40},
    "toy-text": {"seeds": 2, "steps": 0.002, "tuning_seeds": 0},
}


def write_trial(folder: Path, one, points: int = 8) -> Path:
    """The run folder of a trial, as if it had been trained: numbers that improve, from the trial's own seed."""
    config = one.config()
    rng = np.random.default_rng([one.seed, len(one.label), len(one.env)])
    steps = [config.steps * (i + 1) // points for i in range(points)]
    rows = []
    for i, step in enumerate(steps):
        if family(one.env).name == "maze":
            length = float(1 + 50 * np.exp(-i) * rng.uniform(0.5, 1))
            rows.append({"kind": "train", "step": step, "relative_length": length, "ep_rew_mean": 900.0})
            expected = {"mean_q": 300.0 + i, "mean_discounted_return": 100.0 + i}
            known = {"mean_reward": 990.0 + i, "relative_lengths": [round(length)], **expected}
            rows.append({"kind": "eval", "step": step, **known})
        else:
            score = float(5 * i + rng.uniform(0, 5))
            known = {"mean_reward": score, "mean_q": score / 20, "mean_discounted_return": score / 25}
            rows.append({"kind": "eval", "step": step, **known})
        if one.algo == "adaptive-ebu":
            rows.append({"kind": "sync", "step": step, "learner": 0, "beta": float(rng.choice(config.target.betas))})
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(to_json(config))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "timing.jsonl").write_text(json.dumps({"step": config.steps, "seconds": config.steps * 0.01}) + "\n")
    (folder / "summary.json").write_text(json.dumps({"algo": one.algo, "steps": config.steps}))
    return folder


def trained(item, out: Path, budget="quick", trials=None):
    """The rows of a training item over such folders."""
    trials = find_item(item).trials(budget) if trials is None else trials
    folders = [write_trial(out / "trials" / one.id, one) for one in trials]
    return find_item(item).analyse(budget, trials, folders, out)


def build(item, out: Path):
    """Rows, picture, table and page of an item."""
    if item not in COMPUTED:
        return trained(item, out)
    made, smallest = find_item(item), SMALLEST.get(item)
    with mock.patch.dict(made.settings, {"quick": smallest} if smallest else {}):
        if item == "toy-text":
            with mock.patch.multiple(toy_text, EVALUATIONS=10, CURVE=10):
                return made.run("quick", out)
        return made.run("quick", out)


KEPT: list[tempfile.TemporaryDirectory] = []  # removed when Python ends


@functools.cache
def built(item) -> tuple[list, Path]:
    """The rows and the folder of an item that is built once for all tests that only look at it."""
    folder = tempfile.TemporaryDirectory(prefix=f"ebu-{item}-")
    KEPT.append(folder)
    out = Path(folder.name)
    with contextlib.chdir(out):  # where there are no committed runs
        return build(item, out), out
