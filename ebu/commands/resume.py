"""``ebu resume``, ``ebu verify`` and ``ebu rescue``: continue a run, check that one can be continued, save its policy."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from ebu.agent import Agent, Ranks
from ebu.api import rescue as rescue_policy
from ebu.commands.parsing import parse
from ebu.commands.ranks import with_ranks
from ebu.commands.train import train_and_report
from ebu.config import Config, override
from ebu.envs.make import require_trust
from ebu.errors import UserError
from ebu.plugins import look_in_current_folder
from ebu.storage.lock import RunLock
from ebu.storage.run_folder import RunFolder
from ebu.storage.verify import is_unlisted, verify_run


@dataclass(frozen=True)
class ResumeArguments:
    """Continue a run exactly from its last checkpoint; with --steps, extend a finished one."""

    run: Annotated[Path, tyro.conf.Positional]
    """The run folder."""
    steps: int | None = None
    """Extend a finished run to this many steps in total, with ε and learning rate planned for that length."""
    tensorboard: bool = True
    """Write TensorBoard events into the run folder; a run that was started without them continues without."""
    quiet: bool = False
    """Print no progress while training."""
    trust_env: bool = False
    """Import the module of an environment or network that the folder names as module:id."""
    drop_damaged: bool = False
    """If every checkpoint refers to damaged episodes: continue without them, no longer exactly."""


@dataclass(frozen=True)
class RescueArguments:
    """Save the policy of the newest checkpoint with intact weights, even if episodes or other parts are damaged."""

    run: Annotated[Path, tyro.conf.Positional]
    """The run folder; nothing in it is changed."""
    out: Path
    """The policy file to write."""
    trust_env: bool = False
    """Import the module of an environment or network that the folder names as module:id."""


@dataclass(frozen=True)
class VerifyArguments:
    """Check a run folder: checkpoints, settings, metrics, policy, and every file of a finished run."""

    run: Annotated[Path, tyro.conf.Positional]
    """The run folder."""
    prove: bool = False
    """Also train briefly twice with these settings, once interrupted, and compare weights and metrics byte for byte."""
    steps: int = 600
    """Steps of the runs of --prove."""
    trust_env: bool = False
    """For --prove: import the module of an environment or network that the folder names as module:id."""


def resume(arguments: list[str]) -> int:
    return with_ranks(lambda ranks: _resume(arguments, ranks))


def _resume(arguments: list[str], ranks: Ranks | None) -> int:
    from ebu.networks.factories import admit

    args = parse(ResumeArguments, arguments, "ebu resume")
    if args.trust_env:
        look_in_current_folder()
    folder = RunFolder.open_run(args.run)
    if args.steps is None and folder.is_finished and not folder.checkpoints.exists():  # a trial of `ebu reproduce`
        print(f"{folder.path} is finished; nothing is left to do")
        return 0
    with RunLock(folder.path):
        config = folder.restore_config(lambda text: print(text, file=sys.stderr))
        if args.steps is not None:
            config = folder.extended_config(args.steps)
        require_trust(config.environment.env, args.trust_env, args.run)
        admit(config.network.network, args.trust_env, args.run)
        agent = Agent.from_config(config, ranks=ranks)
        folder.extend(config)
        tensorboard = args.tensorboard and folder.has_curves
        return train_and_report(folder, agent, tensorboard, args.quiet, resume=True, drop_damaged=args.drop_damaged)


def rescue(arguments: list[str]) -> int:
    args = parse(RescueArguments, arguments, "ebu rescue")
    if args.trust_env:
        look_in_current_folder()
    step = rescue_policy(args.run, args.out, announce=lambda text: print(text, file=sys.stderr), trust_env=args.trust_env)
    print(f"{args.out}: the policy of step {step:,}")
    return 0


def verify(arguments: list[str]) -> int:
    args = parse(VerifyArguments, arguments, "ebu verify")
    if args.trust_env:
        look_in_current_folder()
    folder = RunFolder.open_run(args.run)
    problems = verify_run(folder)
    if args.prove:
        from ebu.networks.factories import admit

        config = folder.config()
        require_trust(config.environment.env, args.trust_env, args.run)
        admit(config.network.network, args.trust_env, args.run)
        problems += prove(config, args.steps)
    for problem in problems:
        print(problem)
    if not problems:
        limits = " as far as it can be checked (finished by an older version, without files.json)" * is_unlisted(folder)
        print(f"{folder.path}: good{limits}" + (f"; resuming is exact over {args.steps} steps" if args.prove else ""))
    return 1 if problems else 0


def prove(config: Config, steps: int) -> list[str]:
    """Train twice for ``steps``, once stopped halfway and resumed in a fresh agent; what differs, if anything."""
    if steps < 2:
        raise UserError(f"--steps must be at least 2, got {steps}")
    small = override(config, steps=steps, learning_starts=min(config.learner.learning_starts, steps // 4), log_every=50)
    with tempfile.TemporaryDirectory() as temporary:
        straight = RunFolder.create(Path(temporary) / "straight", small)
        weights = _train(straight, small, stop_at=None)
        halved = RunFolder.create(Path(temporary) / "halved", small)
        _train(halved, small, stop_at=steps // 2)
        resumed = _train(halved, small, stop_at=None)
        problems = []
        if weights != resumed:
            problems.append("after resuming, the weights differ from those of a run that was never interrupted")
        if straight.metrics.read_bytes() != halved.metrics.read_bytes():
            problems.append("after resuming, the metrics differ from those of a run that was never interrupted")
        return problems


def _train(folder: RunFolder, config: Config, stop_at: int | None) -> bytes:
    from ebu.training.trainer import Trainer

    agent = Agent.from_config(config)
    trainer = Trainer(agent.loop, config.steps, folder=folder)
    trainer.resume()
    finished = trainer.run([lambda event: stop_at is None or event.step < stop_at], tensorboard=False)
    if not finished and stop_at is None:
        raise KeyboardInterrupt  # the signal was for the proof, not for one of its runs
    return agent.loop.learner.state_dict()["online"]["parameters"].numpy(force=True).tobytes()
