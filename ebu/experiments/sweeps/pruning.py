"""A trial of a study tells Optuna each of its evaluations, and ends early where it falls behind the others.

The trial's folder says which study it belongs to (``tuning.json``), so that the trial finds it on whichever machine an
engine runs it. A pruned trial is a finished run that is shorter than planned; ``pruned.json`` marks it.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ebu.errors import UserError
from ebu.storage.files import MAX_JSON_FILE, make_folders, read_text, write_atomically
from ebu.training.events import Evaluated, Event

MEMBERSHIP, MARK = "tuning.json", "pruned.json"
WARM_UP_TRIALS = 5  # run to their ends, so that there is something to compare with
WARM_UP_SHARE = 0.2  # of a trial, in which nothing is pruned
BUSY_SECONDS = 60  # how long a process waits for another that writes to the same SQLite file


@dataclass(frozen=True)
class Membership:
    """The place of a trial in its study."""

    storage: str
    study: str
    trial: int  # its id in the storage
    pruner: str
    steps: int

    def write(self, folder: Path) -> None:
        make_folders(folder)
        write_atomically(folder / MEMBERSHIP, json.dumps(asdict(self)))


def was_pruned(folder: Path) -> bool:
    return (folder / MARK).exists()


def pruner_of(folder: Path) -> Pruner | None:
    """The listener of a trial that belongs to a study."""
    if not (folder / MEMBERSHIP).exists():
        return None
    return Pruner(folder, Membership(**json.loads(read_text(folder / MEMBERSHIP, MAX_JSON_FILE))))


class Pruner:
    """Called with every event of the trial; False stops it."""

    def __init__(self, folder: Path, membership: Membership) -> None:
        optuna = import_optuna()
        self._folder = folder
        study = optuna.load_study(
            study_name=membership.study,
            storage=open_storage(membership.storage),
            pruner=make_pruner(membership.pruner, membership.steps),
        )
        self._trial = optuna.trial.Trial(study, membership.trial)
        self.has_pruned = was_pruned(folder)

    def __call__(self, event: Event) -> bool:
        if not isinstance(event, Evaluated):
            return True
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # after a resume a step may be told twice
            self._trial.report(event.evaluation.mean, event.step)
        if self._trial.should_prune():
            write_atomically(self._folder / MARK, json.dumps({"step": event.step}))
            self.has_pruned = True
        return not self.has_pruned


def import_optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise UserError("ebu tune needs an extra: pip install 'episodic-backward-update[tune]'") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def open_storage(url: str) -> Any:
    """An Optuna storage by its address, such as ``sqlite:///study.db`` or ``postgresql://…``."""
    optuna = import_optuna()
    try:
        if url.startswith("sqlite:"):
            return optuna.storages.RDBStorage(url, engine_kwargs={"connect_args": {"timeout": BUSY_SECONDS}})
        return optuna.storages.get_storage(url)
    except Exception as error:  # of the database's own kinds
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"the storage {url} cannot be used: {reason}; an example is sqlite:///study.db") from error


def make_pruner(name: str, steps: int) -> Any:
    optuna = import_optuna()
    if name == "median":
        return optuna.pruners.MedianPruner(n_startup_trials=WARM_UP_TRIALS, n_warmup_steps=int(WARM_UP_SHARE * steps))
    if name == "hyperband":
        return optuna.pruners.HyperbandPruner(min_resource=max(int(WARM_UP_SHARE * steps), 1), max_resource=steps)
    return optuna.pruners.NopPruner()
