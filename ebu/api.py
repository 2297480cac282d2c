"""Functions around agents: load a policy, resume a run, score an agent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ebu.agent import Agent
from ebu.config import override
from ebu.envs.make import require_trust
from ebu.errors import UserError
from ebu.storage.lock import RunLock
from ebu.storage.run_folder import RunFolder
from ebu.types import Evaluation

if TYPE_CHECKING:
    import gymnasium

    from ebu.training.events import Listener


def load(
    path: str | Path, env: gymnasium.Env[Any, Any] | None = None, device: str = "auto", trust_env: bool = False
) -> Agent:
    """An agent with a saved policy. ``env`` is needed where the policy was trained on an object without an id.

    A file that names an environment as ``module:id`` has that module imported, which runs its code: only with
    ``trust_env``, or with an ``env`` of your own.
    """
    from ebu.networks.policy_file import load_policy

    saved = load_policy(Path(path))
    require_trust(saved.config.environment.env, trust_env or env is not None, path)
    agent = Agent.from_config(override(saved.config, device=device), env)
    agent.restore(saved)
    return agent


def resume(
    run: str | Path,
    env: gymnasium.Env[Any, Any] | None = None,
    callback: Listener | list[Listener] | None = None,
    progress_bar: bool = False,
    announce: Callable[[str], None] = print,
    trust_env: bool = False,
) -> Agent:
    """Continue a run folder exactly from its last checkpoint, to the end of its plan.

    ``trust_env`` as for ``ebu.load``.
    """
    folder = RunFolder.open(Path(run))
    listeners = list(callback) if isinstance(callback, list) else [callback] if callback is not None else []
    if folder.is_finished and not folder.checkpoints.exists():
        raise UserError(f"{run} is a finished trial without checkpoints; load its policy with ebu.load")
    with RunLock(folder.path):
        config = folder.restore_config(announce)
        require_trust(config.environment.env, trust_env or env is not None, run)
        agent = Agent.from_config(config, env)
        agent.train_in(folder, resume=True, listeners=listeners, progress_bar=progress_bar, announce=announce)
    return agent


def evaluate(
    agent: Agent,
    env: gymnasium.Env[Any, Any] | None = None,
    episodes: int = 30,
    epsilon: float = 0.05,
    seed: int = 0,
) -> Evaluation:
    """Scores of an agent over whole episodes, raw rewards; by default on a fresh copy of its own environment."""
    return agent.evaluate(env, episodes, epsilon, seed)
