"""A training loop with everything it needs to continue, in one file: ``agent.save(path, memory=True)``."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ebu.config import Config, to_json
from ebu.errors import RunFailure, UserError
from ebu.networks.policy_file import save_policy
from ebu.storage.bundle import CHECKPOINTS, POLICY, pack, unpack
from ebu.storage.checkpoints import CheckpointStore
from ebu.storage.codec import require_like
from ebu.training.best import policy_of
from ebu.training.loop import TrainingLoop
from ebu.training.loop_state import restore, state_of


def save_whole(path: Path, loop: TrainingLoop, config: Config) -> None:
    """The loop as a checkpoint would hold it, with the policy, in one file."""
    tree = {
        "config": to_json(config),
        "loop": state_of(loop),
        "environments": loop.actors.environments.capture(),
        "episode_starts": loop.memory.starts(),
    }
    try:
        with tempfile.TemporaryDirectory(dir=path.absolute().parent) as folder:
            CheckpointStore(Path(folder) / CHECKPOINTS).save(loop.step, tree, loop.memory)
            save_policy(Path(folder) / POLICY, policy_of(loop, config))
            pack(path, Path(folder))
    except FileNotFoundError as error:
        raise RunFailure(f"cannot write {path}: there is no folder {path.parent}") from error
    except OSError as error:
        raise RunFailure(f"cannot write {path}: {error.strerror}") from error


@contextmanager
def opened(path: Path) -> Iterator[Path]:
    """The files of a saved agent, for as long as they are read."""
    with tempfile.TemporaryDirectory() as folder:
        unpack(path, Path(folder))
        yield Path(folder)


def load_whole(path: Path, folder: Path, loop: TrainingLoop, announce: Callable[[str], None]) -> None:
    """Bring a fresh loop back to what ``folder``, the opened file, holds."""
    loaded = CheckpointStore(folder / CHECKPOINTS).load(announce)
    if loaded is None:
        raise UserError(f"{path}: invalid agent file: it holds no checkpoint")
    try:
        require_like(loaded.tree["loop"], state_of(loop), "loop")
        restore(loop, loaded.tree["loop"], loaded.episodes)
        loop.actors.bring_back(loaded.tree["environments"], announce)
    except UserError:
        raise
    except Exception as error:  # of any kind: a hostile file can cause any of them
        raise UserError(f"{path}: invalid agent file: {type(error).__name__}: {error}") from error
