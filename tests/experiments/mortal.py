"""An environment whose process dies in it, as one that runs out of memory does: ``tests.experiments.mortal:Mortal-v0``."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import gymnasium

from tests.conftest import Corridor


class Mortal(Corridor):
    """Takes the process with it at step ``step`` of the run, as long as ``lives`` files can be made in ``folder``."""

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


gymnasium.register("Mortal-v0", Mortal)
