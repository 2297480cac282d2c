"""Trials of a second each, for the tests of the engines and for the processes these start."""

from __future__ import annotations

import json
from pathlib import Path

from ebu.experiments.sweeps.engine import run_trials
from ebu.experiments.sweeps.local_engine import LocalEngine
from ebu.experiments.sweeps.trials import trial
from ebu.storage.lock import Held, RunLock

TINY = {
    "hidden_sizes": (16,),
    "batch_size": 32,
    "train_freq": 4,
    "learning_starts": 200,
    "eval_episodes": 1,
    "log_every": 100,
    "checkpoint_every": 200,
}


def tiny_trials():
    cartpole = {**TINY, "steps": 600, "eval_every": 300}
    return [
        trial("ebu", "CartPole-v1", 0, label="EBU", **cartpole),
        trial("dqn", "CartPole-v1", 1, label="DQN", **cartpole),
        trial("ebu", "maze", 0, label="EBU", **{**TINY, "steps": 500, "eval_every": 250}),
        trial("n-step", "CartPole-v1", 0, label="n-step", **{**cartpole, "steps": 500}),
    ]


def sweep(out, engine=None):
    return run_trials(tiny_trials(), Path(out), engine or LocalEngine(workers=2))


def mortal(folder, lives):
    """Its process dies at step 250."""
    arguments = (f"folder={folder}", f"lives={lives}")
    return trial("ebu", "tests.experiments.mortal:Mortal-v0", 0, env_args=arguments, **{**TINY, "steps": 600})


def gated(folder, seed=0):
    """It waits at step 350, beyond its first checkpoint, until there is a file ``open`` in the folder."""
    settings = {**TINY, "steps": 600, "env_args": (f"folder={folder}",)}
    return trial("ebu", "tests.experiments.mortal:Gated-v0", seed, **settings)


def straight(one, folder):
    """The rows of a trial that is carried out here, in this process, without a break."""
    from ebu.experiments.sweeps.worker import carry_out  # with all of PyTorch, which a sweep's own process does not need

    assert carry_out(folder, one.config()).state == "finished"
    return {one.id: (folder / "metrics.jsonl").read_bytes()}


def rows(folders):
    return {folder.name: (folder / "metrics.jsonl").read_bytes() for folder in folders}


def rows_of(out):
    return rows(out / "trials" / one.id for one in tiny_trials())


def steps_by_the_clock(folder):
    """The steps of a run in the order in which they were recorded; rows of the metrics are trimmed, these are not."""
    return [json.loads(line)["step"] for line in (folder / "timing.jsonl").open()]


def is_free(folder):
    """Whether nobody writes to a run folder."""
    try:
        with RunLock(folder):
            return True
    except Held:
        return False
