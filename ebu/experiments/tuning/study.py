"""The study: what is tuned, the trials that are asked for and told, the best settings as a preset file.

A study is opened again by the same command, here or on another machine that reaches its storage. Trials that were
interrupted are continued by the machine that began them.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ebu.config import Config, flat, override
from ebu.errors import RunFailure, UserError
from ebu.experiments.sweeps.engine import Engine, run_trials
from ebu.experiments.sweeps.pruning import Membership, import_optuna, make_pruner, open_storage, was_pruned
from ebu.experiments.sweeps.trials import Trial
from ebu.preset_files import preset_text
from ebu.presets import differences
from ebu.registry import find_method
from ebu.search_space import Choice, Range, SearchSpace
from ebu.storage.files import Damaged, write_atomically
from ebu.storage.finished import is_finished
from ebu.storage.run_folder import RunFolder, evaluations

OWN = "ebu"  # the attribute of a study that says what it is about
LAST_EVALUATIONS = 3  # whose mean is a trial's value: one alone is chance
CONFIRM_SEEDS = 1_000_000  # from here on, seeds that no trial of a study has


@dataclass(frozen=True)
class Plan:
    """What is tuned: the settings to start from, and how trials are pruned."""

    config: Config
    pruner: str = "median"

    @property
    def space(self) -> SearchSpace:
        return find_method(self.config.algo).search(self.config)

    @property
    def default(self) -> dict[str, Any]:
        """The values to start from, of the settings that are varied."""
        values = flat(self.config)
        return {name: values[name] for name in self.space}

    def subject(self) -> dict[str, Any]:
        """What must be the same when a study is continued."""
        fixed = {name: value for name, value in differences(self.config).items() if name not in ("algo", "env")}
        head = {"algo": self.config.algo, "env": self.config.environment.env, "steps": self.config.steps}
        return json.loads(json.dumps(head | {"settings": fixed, "search": {n: repr(s) for n, s in self.space.items()}}))

    def trial(self, seed: int, values: dict[str, Any], label: str) -> Trial:
        fixed = {name: value for name, value in differences(self.config).items() if name not in ("algo", "env")}
        settings = fixed | {"steps": self.config.steps, "eval_every": self.config.evaluation.eval_every} | values
        return Trial(self.config.algo, self.config.environment.env, seed, tuple(sorted(settings.items())), label)


def open_study(plan: Plan, storage: str, name: str) -> Any:
    """The study of this name, made where there is none; one about something else is refused."""
    optuna = import_optuna()
    opened = open_storage(storage)
    study = optuna.create_study(study_name=name, storage=opened, direction="maximize", load_if_exists=True)
    known = study.user_attrs.get(OWN)
    if known is None and study.trials:
        raise UserError(f"the study {name!r} in {storage} was not made by ebu tune; choose another --study")
    if known is not None and known != plan.subject():
        wanted = plan.subject()
        apart = ", ".join(key for key in wanted if known.get(key) != wanted[key])
        about = f"{known.get('algo')} on {known.get('env')} for {known.get('steps'):,} steps"
        raise UserError(
            f"the study {name!r} in {storage} is about {about} (it differs in {apart}); choose another --out or --study"
        )
    if known is None:
        study.set_user_attr(OWN, plan.subject())
        study.enqueue_trial(plan.default)  # so that the best is never worse than the starting settings
    seed = plan.config.run.seed + len(study.trials)  # a study that is continued does not draw the same again
    study.sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
    study.pruner = make_pruner(plan.pruner, plan.config.steps)
    return study


@dataclass(frozen=True)
class Work:
    """Trials of a study on this machine."""

    plan: Plan
    study: Any
    storage: str
    out: Path
    engine: Engine
    together: int
    """Trials that are asked for at once."""

    @property
    def best_file(self) -> Path:
        return self.out / "best.toml"

    def run(self, trials: int) -> None:
        """Run until the study has this many ended trials, including those of other machines."""
        while batch := self._next(trials):
            try:
                self._carry_out(batch)
            finally:
                self.save_best()

    def _next(self, wanted: int) -> list[Any]:
        """What was begun here and not finished, and new trials as there is room."""
        optuna = import_optuna()
        running = self.study.get_trials(deepcopy=False, states=[optuna.trial.TrialState.RUNNING])
        over = len(over_trials(self.study))
        mine = [optuna.trial.Trial(self.study, one._trial_id) for one in running if one.user_attrs.get("place") == self._place]
        room = min(self.together - len(mine), wanted - over - len(running))
        return mine + [self._ask() for _ in range(room)]

    @property
    def _place(self) -> str:
        return f"{socket.gethostname()}:{self.out.resolve()}"

    def _ask(self) -> Any:
        asked = self.study.ask({name: distribution(one) for name, one in self.plan.space.items()})
        asked.set_user_attr("place", self._place)
        asked.set_user_attr("seed", self.plan.config.run.seed + asked.number)
        return asked

    def _carry_out(self, batch: Sequence[Any]) -> None:
        trials = [self.plan.trial(one.user_attrs["seed"], one.params, f"trial {one.number}") for one in batch]
        for asked, one in zip(batch, trials):
            asked.set_user_attr("folder", one.id)
            place = Membership(self.storage, self.study.study_name, asked._trial_id, self.plan.pruner, self.plan.config.steps)
            place.write(self._folder(one))
        failure = None
        interrupted = True
        try:
            run_trials(trials, self.out, self.engine)
            interrupted = False
        except RunFailure as error:
            failure, interrupted = error, False
        finally:
            told = [self._tell(asked, self._folder(one), interrupted) for asked, one in zip(batch, trials)]
        if failure is not None and not any(told):
            raise failure

    def _folder(self, one: Trial) -> Path:
        return self.out.resolve() / "trials" / one.id

    def _tell(self, asked: Any, folder: Path, interrupted: bool) -> bool:
        """Tell the study how a trial ended; an interrupted one is continued later."""
        states = import_optuna().trial.TrialState
        value = score(folder)
        if is_finished(folder) and was_pruned(folder):
            self.study.tell(asked, state=states.PRUNED)
        elif is_finished(folder) and value is not None:
            self.study.tell(asked, value)
        elif not interrupted:
            self.study.tell(asked, state=states.FAIL)
        return is_finished(folder)

    def save_best(self) -> None:
        """The best settings so far, as a preset file."""
        best = best_trial(self.study)
        if best is not None:
            words = (
                f"{self.plan.config.algo} on {self.plan.config.environment.env}: trial {best.number} of "
                f"{len(over_trials(self.study))}, score {best.value:.5g} after {self.plan.config.steps:,} steps"
            )
            settings = differences(override(self.plan.config, **best.params))
            write_atomically(self.best_file, preset_text(settings, f"Found by ebu tune. {words}"))

    def confirm(self, seeds: int) -> dict[str, list[float]]:
        """Scores of the best and of the starting settings, both on seeds that no trial used."""
        best = best_trial(self.study)
        if best is None or not seeds:
            return {}
        sides = {"tuned": dict(best.params), "default": self.plan.default}
        trials = {
            name: [self.plan.trial(CONFIRM_SEEDS + self.plan.config.run.seed + i, values, name) for i in range(seeds)]
            for name, values in sides.items()
        }
        run_trials([one for several in trials.values() for one in several], self.out, self.engine)
        found = {name: [score(self._folder(one)) for one in several] for name, several in trials.items()}
        return {name: [value for value in values if value is not None] for name, values in found.items()}

    def confirmed_folders(self, seeds: int) -> list[Path]:
        best = best_trial(self.study)
        if best is None:
            return []
        sides = (dict(best.params), self.plan.default)
        trials = [
            self.plan.trial(CONFIRM_SEEDS + self.plan.config.run.seed + i, side, "") for side in sides for i in range(seeds)
        ]
        return [folder for folder in map(self._folder, trials) if is_finished(folder)]


def distribution(one: Range | Choice) -> Any:
    distributions = import_optuna().distributions
    if isinstance(one, Choice):
        return distributions.CategoricalDistribution(one.values)
    if one.whole:
        return distributions.IntDistribution(int(one.low), int(one.high), log=one.log)
    return distributions.FloatDistribution(one.low, one.high, log=one.log)


def over_trials(study: Any) -> list[Any]:
    return [one for one in study.get_trials(deepcopy=False) if one.state.is_finished()]


def best_trial(study: Any) -> Any | None:
    with suppress(ValueError):  # no trial is complete
        return study.best_trial
    return None


def score(folder: Path) -> float | None:
    """A trial's value: the mean of its last evaluations."""
    try:
        last = [row["mean_reward"] for row in evaluations(RunFolder(folder).rows())][-LAST_EVALUATIONS:]
    except (Damaged, UserError, OSError):
        return None
    return sum(last) / len(last) if last else None
