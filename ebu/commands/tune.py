"""``ebu tune``: settings found by search, as a preset file."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ebu.commands.help import describe_flags
from ebu.commands.train import read_settings, tell_unused
from ebu.config import Config
from ebu.errors import UserError

USAGE = """usage: ebu tune [ENV] [options]

Search for better settings with Optuna (pip install 'episodic-backward-update[tune]').

  ebu tune CartPole-v1 --trials 30 --steps 10k
  ebu train --preset tuning/ebu-CartPole-v1/best.toml

The same command again continues the study. The search starts from the preset and the settings given here; what is varied is
defined in the method's own file.
"""
COMMON = (
    *("env", "algo", "preset", "steps", "seed", "eval_every", "trials", "confirm", "pruner", "out", "storage", "study"),
    *("engine", "workers", "address", "cpus_per_trial", "gpus_per_trial"),
)


@dataclass(frozen=True)
class TuneArguments:
    """Options of ``ebu tune`` besides the settings to start from."""

    trials: int = 30
    """Trials of the study, including those of earlier calls and other machines."""
    confirm: int = 3
    """Number of seeds, none used in tuning, to compare the best settings with the starting ones; 0: no comparison."""
    pruner: Literal["median", "hyperband", "none"] = "median"
    """How trials are pruned, judged by their evaluations."""
    out: Path | None = None
    """Folder to write; by default tuning/ALGO-ENV. Trials are in its subfolder trials."""
    storage: str = ""
    """Where Optuna keeps the study (sqlite:///FILE, postgresql://…); by default study.db in the folder."""
    study: str = ""
    """The study's name in the storage; by default ALGO-ENV."""
    engine: Literal["local", "ray"] = "local"
    """Where trials run: processes on this machine, or a Ray cluster."""
    workers: int = 0
    """Trials in parallel; 0: one for each core."""
    address: str = ""
    """Address of a Ray cluster; without it, --engine ray starts one here."""
    cpus_per_trial: float = 1.0
    """CPUs for each trial on a Ray cluster."""
    gpus_per_trial: float = 0.0
    """GPUs for each trial on a Ray cluster; may be a fraction."""
    settings: Config = field(default_factory=Config)


def tune(arguments: list[str]) -> int:
    read = read_settings(TuneArguments, arguments, "ebu tune")
    if read.help_asked is not None:
        print(USAGE + "\n" + describe_flags(read.default, None if read.help_asked == "--help-all" else list(COMMON)))
        return 0
    args, config = read.parsed, read.config
    if args.trials < 1 or args.confirm < 0:
        raise UserError(f"--trials must be at least 1 and --confirm at least 0, got {args.trials} and {args.confirm}")
    if not config.evaluation.eval_every or config.evaluation.eval_every > config.steps:
        raise UserError(f"a trial is judged by its evaluations: --eval-every must be between 1 and --steps ({config.steps:,})")
    return _tune(args, config, shlex.join(["ebu", "tune", *arguments]), read.given)


def _tune(args: TuneArguments, config: Config, command: str, given: Collection[str]) -> int:
    from ebu.agent import Agent
    from ebu.experiments.sweeps.engine import make_engine
    from ebu.experiments.sweeps.local_engine import cores
    from ebu.experiments.tuning.page import write_page
    from ebu.experiments.tuning.study import Plan, Work, best_trial, open_study, over_trials

    tell_unused(Agent.from_config(config), given)  # everything that can be refused is refused here
    stem = f"{config.algo}-{config.environment.env.replace('/', '-').replace(':', '-')}"
    out = args.out or Path("tuning") / stem
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write to {out}: {error.strerror}; choose another --out folder") from error
    engine = make_engine(
        args.engine, args.workers, args.address, cpus_per_trial=args.cpus_per_trial, gpus_per_trial=args.gpus_per_trial
    )
    storage = args.storage or f"sqlite:///{out.resolve() / 'study.db'}"
    plan = Plan(config, args.pruner)
    study = open_study(plan, storage, args.study or stem)
    work = Work(plan, study, storage, out, engine, together=2 * (args.workers or cores()))
    print(f"{config.algo} on {config.environment.env}: {len(over_trials(study))} of {args.trials} trials ended", flush=True)
    work.run(args.trials)
    confirmed = work.confirm(args.confirm)
    page = write_page(work, confirmed, command)
    best = best_trial(study)
    if best is None:
        raise UserError(f"no trial of the study was completed; see {page}")
    print(f"best: trial {best.number}, score {best.value:.5g}")
    for name, values in confirmed.items():
        print(f"{name}: mean {sum(values) / len(values):.5g} over {len(values)} seeds not used in tuning")
    print(f"wrote {work.best_file} and {page}\n\n{work.best_file.read_text(encoding='utf-8')}")
    print(f"next: ebu train --preset {shlex.quote(str(work.best_file))}")
    return 0
