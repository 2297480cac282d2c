"""What a checkpoint costs at 200,000 stored Atari steps: bytes, the pause it makes, and its share of a run.

Breakout is played by the real emulator through the real session (EBU, the paper's preset, one learner), with random
actions until 200,000 steps are stored and then with learning. Checkpoints are taken at the default interval, as a run
does; the last one holds a trained step's worth of everything: optimiser, pending targets, the open episode. The same
state is then written once into an empty folder, where every episode is new.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ebu
from ebu.config import Config
from ebu.presets import configure
from ebu.storage.checkpoints import CheckpointStore
from ebu.storage.run_folder import RunFolder
from ebu.training.trainer import Trainer

STORED, LEARNED = 200_000, 400  # steps before learning starts, and steps over which its speed is measured
MEGABYTES, SECONDS, SHARE = 100.0, 2.0, 0.02  # what is promised
DEFAULTS = Config().run


@dataclass(frozen=True)
class Saved:
    step: int
    megabytes: float
    seconds: float

    def __str__(self) -> str:
        return f"{self.megabytes:.1f} MB in {self.seconds:.2f} s"


def run(quick: bool = False) -> list[dict[str, Any]]:
    stored, learned = (3_000, 40) if quick else (STORED, LEARNED)
    settings = {"learning_starts": stored, "eval_every": 0, "checkpoint_minutes": 1e6}
    every = min(DEFAULTS.checkpoint_every, stored // 4)
    config = configure("ebu", "ALE/Breakout-v5", "paper", steps=stored + learned, checkpoint_every=every, **settings)
    with tempfile.TemporaryDirectory() as temporary:
        saved, whole, speed = _train(config, Path(temporary), stored)
    steady = max((s for s in saved if s.step <= stored), key=lambda s: s.seconds)  # each with an interval's new episodes
    interval = min(DEFAULTS.checkpoint_every / speed, 60 * DEFAULTS.checkpoint_minutes)
    what = f"a checkpoint at {stored:,} stored steps of Breakout"
    return [
        _row(f"{what}, all of it new: MB", whole, whole.megabytes, MEGABYTES),
        _row(f"{what}, all of it new: seconds of pause", whole, whole.seconds, SECONDS),
        _row(f"{what}, {every:,} steps new: MB", steady, steady.megabytes, MEGABYTES),
        _row(f"{what}, {every:,} steps new: seconds of pause", steady, steady.seconds, SECONDS),
        _row(
            f"share of a run at the default interval (every {interval:.0f} s at {speed:,.0f} steps/s)",
            f"{steady.seconds / interval:.2%}",
            steady.seconds / interval,
            SHARE,
        ),
    ]


def _train(config: Config, place: Path, stored: int) -> tuple[list[Saved], Saved, float]:
    """Every checkpoint of the run, one of everything at its end, and the steps per second while learning."""
    agent = ebu.Agent.from_config(config)
    agent.loop.evaluation_environment = None  # a run ends with an evaluation, which is not what is measured
    session = Trainer(agent.loop, config.steps, folder=RunFolder.create(place / "run", config), announce=print)
    saved: list[Saved] = []
    clock = {stored: 0.0, config.steps: 0.0}

    class Clock:
        """Reads the clock at the steps of interest."""

        def __call__(self, event: Any) -> None:
            pass

        def advance(self, step: int) -> None:
            if step in clock:
                clock[step] = time.perf_counter()

    _watch(session, lambda megabytes, seconds: saved.append(Saved(agent.loop.step, megabytes, seconds)))
    with agent.threads():
        session.run([Clock()], tensorboard=True)
    session._saves._store = CheckpointStore(place / "whole")
    session._saves._saved_place = None
    pauses = sum(s.seconds for s in saved if s.step == stored)  # the one between the two readings of the clock
    speed = (config.steps - stored) / (clock[config.steps] - clock[stored] - pauses)
    _watch(session, lambda megabytes, seconds: saved.append(Saved(agent.loop.step, megabytes, seconds)))
    session.run(tensorboard=False)
    return saved[:-1], saved[-1], speed


def _watch(session: Trainer, tell: Callable[[float, float], None]) -> None:
    """Have each checkpoint's bytes told, and the seconds for which it stops the run."""
    saves = session._saves
    assert saves is not None
    save, write = type(saves).save, saves._store.save
    written: list[int] = []

    def timed(evaluated_at_end: bool) -> None:
        start = time.perf_counter()
        save(saves, evaluated_at_end)
        if written:
            tell(written.pop() / 1e6, time.perf_counter() - start)

    def counted(*arguments: Any) -> int:
        written.append(write(*arguments))
        return written[-1]

    saves.save = timed  # type: ignore[method-assign]
    saves._store.save = counted  # type: ignore[method-assign]


def _row(what: str, ours: object, value: float, limit: float) -> dict[str, Any]:
    return {"what": what, "ours": str(ours), "peer": f"limit {limit:g}", "ratio": value / limit, "at_most": 1.0}
