"""Functions around agents: load a policy, resume a run, score an agent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ebu.agent import Agent, AnyEnvironment
from ebu.agent.base import example_of
from ebu.config import Config, from_json, override
from ebu.envs.make import require_trust
from ebu.errors import UserError
from ebu.storage.lock import RunLock
from ebu.storage.run_folder import RunFolder
from ebu.training.events import as_listeners
from ebu.types import Evaluation

if TYPE_CHECKING:
    from ebu.networks.factories import Factory
    from ebu.networks.policy_file import SavedPolicy
    from ebu.training.events import Listener


def load(
    path: str | Path,
    env: AnyEnvironment | None = None,
    device: str = "auto",
    trust_env: bool = False,
    best: bool = False,
    network: Factory | None = None,
) -> Agent:
    """An agent with the policy of a file or a run folder; with ``best``, the run's policy of the best evaluation.

    A file written with ``agent.save(path, memory=True)`` gives the whole agent, which continues exactly where it stopped.

    ``env``, an environment or the name of one, is needed if the policy was trained on an object that cannot be recreated.

    If a file names an environment as ``module:id``, loading imports that module and so runs its code: only with
    ``trust_env``, or with an ``env`` of your own. The same holds for a network of your own and ``network``.
    """
    return Agent.load(path, env, device, trust_env=trust_env, best=best, network=network)


def resume(
    run: str | Path,
    env: AnyEnvironment | None = None,
    callback: Listener | list[Listener] | None = None,
    progress_bar: bool = False,
    announce: Callable[[str], None] = print,
    trust_env: bool = False,
    drop_damaged: bool = False,
    steps: int | None = None,
    network: Factory | None = None,
) -> Agent:
    """Continue a run folder exactly from its last checkpoint, to the end of its plan.

    With ``steps`` a finished run is extended to this many steps in total. From there on its schedules (ε, learning rate) are
    those of a run of that length, as ``learn(…, reset_num_timesteps=False)`` plans them.

    ``trust_env`` and ``network`` as for ``ebu.load``. Where every checkpoint refers to damaged episodes, ``drop_damaged``
    continues without them, no longer exactly, and reports what was lost.
    """
    from ebu.networks.factories import admit

    folder = RunFolder.open_run(Path(run))
    listeners = as_listeners(callback)
    if steps is None and folder.is_finished and not folder.checkpoints.exists():
        raise UserError(f"{run} is a finished trial without checkpoints; load its policy with ebu.load")
    with RunLock(folder.path):
        config = folder.restore_config(announce)
        if steps is not None:
            config = folder.extended_config(steps)
        require_trust(config.environment.env, trust_env or env is not None, run)
        admit(config.network.network, trust_env, run, network)
        agent = Agent.from_config(config, env)
        folder.extend(config)
        agent.train_in(
            folder,
            resume=True,
            drop_damaged=drop_damaged,
            listeners=listeners,
            progress_bar=progress_bar,
            announce=announce,
        )
    return agent


def rescue(
    run: str | Path,
    out: str | Path,
    env: AnyEnvironment | None = None,
    announce: Callable[[str], None] = print,
    trust_env: bool = False,
    network: Factory | None = None,
) -> int:
    """Save the policy of the newest checkpoint with intact weights, whatever else is damaged; returns the checkpoint's step.

    Nothing in the run folder is changed. ``env``, ``trust_env`` and ``network`` as for ``ebu.load``.
    """
    from ebu.networks.factories import admit
    from ebu.networks.policy_file import save_policy
    from ebu.storage.checkpoints import CheckpointStore

    folder = RunFolder.open_run(Path(run))
    loaded = CheckpointStore(folder.checkpoints).load_weights(announce)
    if loaded is None:
        words = f"its policy is {folder.policy}" if folder.has_policy() else "it has no policy either"
        raise UserError(f"{run} has no checkpoint; {words}")
    try:
        config = from_json(loaded.tree["config"])
        require_trust(config.environment.env, trust_env or env is not None, run)
        admit(config.network.network, trust_env, run, network)
        policy = _policy_in(loaded.tree["loop"], config, env)
    except UserError:
        raise
    except Exception as error:  # of any kind: a hostile file can cause any of them
        raise UserError(f"invalid checkpoint in {run}: {type(error).__name__}: {error}") from error
    save_policy(Path(out), policy)
    return loaded.step


def _policy_in(state: dict[str, Any], config: Config, env: AnyEnvironment | None) -> SavedPolicy:
    """The policy in the saved state of a loop: that of the leading learner, or of an ensemble."""
    import torch

    from ebu.learning.rotation import Rotation
    from ebu.networks.ensemble import stacked
    from ebu.networks.fastest import fastest_ensemble
    from ebu.networks.modules import build_network
    from ebu.networks.policy_file import SavedPolicy
    from ebu.storage.codec import require_like
    from ebu.training.loop_state import from_earlier_version

    one = env if env is None or isinstance(env, str) else example_of(env)
    agent = Agent.from_config(override(config, device="cpu", n_envs=1), one)  # for the shapes of the environment
    interface, target = agent.interface, override(config, **agent.method.overrides(config)).target
    skeleton = build_network(interface.spec, interface.actions, interface.stack, config.network)
    network = fastest_ensemble(skeleton, agent.learners, torch.device("cpu"))
    rotation = Rotation(agent.learners, target.sync_interval, target.sync_score, config.environment.n_envs)
    state = from_earlier_version(state)
    require_like(state["learner"]["online"], network.state_dict(), "weights")
    require_like(state["rotation"], rotation.state_dict(), "rotation")
    network.load_state_dict(state["learner"]["online"])
    rotation.load_state_dict(state["rotation"])
    of_all = agent.method.ensemble
    tensors = stacked([network.named_tensors(k) for k in (range(agent.learners) if of_all else [rotation.leader()])])
    return SavedPolicy(config, interface.spec, interface.actions, interface.stack, tensors)


def evaluate(
    agent: Agent,
    env: AnyEnvironment | None = None,
    episodes: int = 30,
    epsilon: float = 0.05,
    seed: int = 0,
) -> Evaluation:
    """Scores of an agent over whole episodes, raw rewards; by default on a fresh copy of its own environment."""
    if not isinstance(agent, Agent):
        raise UserError(f"agent must be an agent of this package, got {type(agent).__name__}; ebu.load(path) loads one")
    return agent.evaluate(env, episodes, epsilon, seed)
