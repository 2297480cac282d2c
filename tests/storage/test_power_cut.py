"""The power is cut at every moment that matters: a copy of a mounted disk's image is what the machine would find."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager

import pytest

from ebu.experiments.sweeps.trials import trial
from ebu.experiments.sweeps.worker import carry_out
from ebu.networks.policy_file import load_policy
from ebu.storage import files
from ebu.storage.finished import is_finished
from ebu.storage.run_folder import RunFolder
from ebu.storage.verify import verify_run

TINY = {"hidden_sizes": (8,), "learning_starts": 20, "eval_episodes": 1, "log_every": 20, "steps": 90, "eval_every": 0}
TRIALS = [trial("ebu", "CartPole-v1", seed, checkpoint_every=40, **TINY) for seed in range(3)]


@contextmanager
def mounted(image, place):
    """The journal is written when something is synced, and not every five seconds, which would hide what is missing."""
    place.mkdir()
    command = ["mount", "-o", "loop,commit=600", str(image), str(place)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"a disk image cannot be mounted here: {done.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)
        place.rmdir()


@pytest.fixture
def image(tmp_path):
    if not sys.platform.startswith("linux") or shutil.which("mkfs.ext4") is None:
        pytest.skip("there is no mkfs.ext4 here")
    path = tmp_path / "disk.img"
    with path.open("wb") as file:
        file.truncate(48 << 20)
    subprocess.run(["mkfs.ext4", "-q", str(path)], check=True)
    return path


class PowerCuts(files.Disk):
    """After every rename and before every removal of a name, the image is copied as it is."""

    def __init__(self, image):
        self.image, self.copies, self.finished = image, [], []

    def cut(self):
        copy = self.image.with_name(f"cut-{len(self.copies)}.img")
        subprocess.run(["cp", "--sparse=always", str(self.image), str(copy)], check=True)
        self.copies.append((copy, list(self.finished)))

    def rename(self, old, new):
        super().rename(old, new)
        self.cut()

    def sync_folder(self, path):
        super().sync_folder(path)
        self.cut()


@pytest.mark.slow
def test_no_power_cut_loses_a_finished_trial_or_a_checkpoint(image, tmp_path, monkeypatch):
    with mounted(image, tmp_path / "disk") as disk:
        cuts = PowerCuts(image)
        monkeypatch.setattr(files, "DISK", cuts)
        for one in TRIALS:
            assert carry_out(disk / one.id, one.config()).state == "finished"
            cuts.finished.append(one.id)
            cuts.cut()
        monkeypatch.setattr(files, "DISK", files.Disk())
    assert len(cuts.copies) > 30
    checkpoints = 0
    for copy, done in cuts.copies:
        with mounted(copy, tmp_path / "found") as found:
            for name in done:
                assert is_finished(found / name), f"{copy.name}: {name} was finished and is lost"
            for path in found.iterdir():
                if path.name == "lost+found" or not os.listdir(path):
                    continue
                folder = RunFolder(path)
                if folder.is_finished:
                    assert verify_run(folder) == [], copy.name
                    load_policy(folder.policy)
                elif any(folder.checkpoints.glob("generation-????????")):
                    checkpoints += 1
                    assert verify_run(folder) == [], copy.name
                    folder.read_config()
        copy.unlink()
    assert checkpoints > 5
