"""``ebu resume`` and ``ebu verify``: go on with a run, and check that one can."""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from ebu.api import Agent
from ebu.commands.parsing import parse
from ebu.commands.train import carry_on
from ebu.config import Config, override
from ebu.distributed.learner import as_team
from ebu.distributed.processes import Team
from ebu.errors import UserError
from ebu.storage.checkpoints import CheckpointStore
from ebu.storage.checkpoints import verify as verify_checkpoints
from ebu.storage.lock import RunLock
from ebu.storage.run_folder import RunFolder
from ebu.training.trainer import Session

MAX_ROW_BYTES = 64 << 20  # a longer line is no row
MAX_PROBLEMS = 20  # of one kind that are listed


@dataclass(frozen=True)
class ResumeArguments:
    """Go on with a run exactly where its last checkpoint stands."""

    run: Annotated[Path, tyro.conf.Positional]
    """The run folder."""
    tensorboard: bool = True
    quiet: bool = False
    """No progress bar."""


@dataclass(frozen=True)
class VerifyArguments:
    """Check a run folder: hashes, manifest, settings, metrics."""

    run: Annotated[Path, tyro.conf.Positional]
    """The run folder."""
    prove: bool = False
    """Also train briefly twice with these settings, once interrupted, and compare weights and metrics byte for byte."""
    steps: int = 600
    """Steps of the proof."""


def resume(arguments: list[str]) -> int:
    return as_team(lambda team: _resume(arguments, team))


def _resume(arguments: list[str], team: Team | None) -> int:
    args = parse(ResumeArguments, arguments, "ebu resume")
    folder = RunFolder.open(args.run)
    if folder.is_finished and not folder.checkpoints.exists():  # a trial of `ebu reproduce`
        print(f"{folder.path} is finished; nothing is left to do")
        return 0
    with RunLock(folder.path):
        config = folder.restore_config(lambda text: print(text, file=sys.stderr))
        agent = Agent.from_config(config, team=team)
        return carry_on(folder, agent, args.tensorboard, args.quiet, resume=True)


def verify(arguments: list[str]) -> int:
    args = parse(VerifyArguments, arguments, "ebu verify")
    folder = RunFolder.open(args.run)
    config = folder.config()
    problems = verify_checkpoints(folder.path / "checkpoints") + _problems_of_metrics(folder)
    if not problems:
        problems = _problems_between(folder)
    if args.prove:
        problems += prove(config, args.steps)
    for problem in problems:
        print(problem)
    if not problems:
        print(f"{folder.path}: good" + (f"; resuming is exact over {args.steps} steps" if args.prove else ""))
    return 1 if problems else 0


def _problems_of_metrics(folder: RunFolder) -> list[str]:
    """Rows that cannot be read, or whose steps go back. A torn last line belongs to a run that is going or was killed."""
    if not folder.metrics.exists():
        return [f"{folder.metrics} is missing"]
    problems, last, number, line = [], 0, 0, b"\n"
    with folder.metrics.open("rb") as file:
        while (line := file.readline(MAX_ROW_BYTES)).endswith(b"\n"):
            number += 1
            step = _step_of(line)
            if step is None:
                problems.append(f"{folder.metrics} line {number} is not a row of metrics")
            elif step < last:
                problems.append(f"{folder.metrics} line {number}: step {step} after step {last}")
            last = last if step is None else step
            if len(problems) == MAX_PROBLEMS:
                return [*problems, f"{folder.metrics}: the lines after these were not looked at"]
    if line and folder.summary.exists():
        problems.append(f"{folder.metrics} ends in the middle of a line")
    return problems


def _problems_between(folder: RunFolder) -> list[str]:
    """Whether the metrics reach as far as the newest checkpoint says."""
    loaded = CheckpointStore(folder.path / "checkpoints").load(announce=lambda text: None)
    if loaded is None:
        return []
    there, then = folder.metrics.stat().st_size, loaded.tree.get("metrics_bytes") if isinstance(loaded.tree, dict) else None
    if not isinstance(then, int):
        return [f"the checkpoint of step {loaded.step} is not that of a run"]
    if there < then:
        return [f"{folder.metrics} has {there} bytes, and had {then} when the checkpoint of step {loaded.step} was written"]
    return []


def _step_of(line: bytes) -> int | None:
    try:
        step = json.loads(line)["step"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return step if isinstance(step, int) else None


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
    agent = Agent.from_config(config)
    session = Session(folder, agent.loop, config.steps, announce=lambda text: None)
    session.resume()
    finished = session.run([lambda event: stop_at is None or event.step < stop_at], lambda step: None, tensorboard=False)
    if not finished and stop_at is None:
        raise KeyboardInterrupt  # the signal was for the proof, not for one of its runs
    return agent.loop.learner.state_dict()["online"]["parameters"].numpy(force=True).tobytes()
