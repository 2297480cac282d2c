"""Environments in which something happens to the process, at a moment a test can choose.

``tests.experiments.mortal:Mortal-v0`` and ``tests.experiments.mortal:Gated-v0``.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import gymnasium

from tests.conftest import Corridor


class Mortal(Corridor):
    """Takes the process with it at step ``step``, as one that runs out of memory does; ``lives`` times, kept in ``folder``."""

    def __init__(self, folder="", step=250, lives=1, render_mode=None):
        super().__init__()
        self.folder, self.at, self.lives, self.total = Path(folder), step, lives, 0

    def step(self, action):
        self.total += 1
        if self.total == self.at:
            spent = len(list(self.folder.iterdir())) if self.folder.is_dir() else self.lives
            if spent < self.lives:
                (self.folder / str(spent)).touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return super().step(action)


class Gated(Corridor):
    """Waits at step ``step`` until there is a file ``open`` in ``folder``, or until it is interrupted."""

    def __init__(self, folder="", step=350, render_mode=None):
        super().__init__()
        self.folder, self.at, self.total = Path(folder), step, 0

    def step(self, action):
        self.total += 1
        if self.total == self.at:
            self._wait()
        return super().step(action)

    def _wait(self):
        interrupted = []
        before = signal.getsignal(signal.SIGINT)

        def note(number, frame):
            interrupted.append(number)
            before(number, frame)

        signal.signal(signal.SIGINT, note)
        (self.folder / f"waiting-{os.getpid()}").touch()
        while not interrupted and not (self.folder / "open").exists():
            time.sleep(0.01)
        signal.signal(signal.SIGINT, before)


gymnasium.register("Mortal-v0", Mortal)
gymnasium.register("Gated-v0", Gated)
