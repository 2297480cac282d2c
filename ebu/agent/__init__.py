"""The agent: a method on an environment. It learns, acts, and is saved and loaded.

Importing this package does not import PyTorch; making an agent does.
"""

from __future__ import annotations

import inspect
import os
import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from ebu.agent.base import AnyEnvironment, GivenEnv, Ranks, choose_device, described, example_of, is_own
from ebu.agent.learning import Learning, Progress, create_run, warn
from ebu.agent.sb3_names import refuse_foreign
from ebu.agent.settings import Settings
from ebu.agent.unused import unused_settings
from ebu.config import Config, override
from ebu.envs.make import make_environment, require_trust
from ebu.envs.objects import name_of
from ebu.errors import UserError, shown
from ebu.presets import as_meant, configure
from ebu.registry import Method, add_method, find_method
from ebu.storage.run_folder import RunFolder

if TYPE_CHECKING:
    from ebu.networks.factories import Factory
    from ebu.networks.policy_file import SavedPolicy

__all__ = ["AGENTS", "Agent", "AnyEnvironment", "Progress", "Ranks", "choose_device", "create_run", "register"]

AGENTS: dict[str, type[Agent]] = {}  # by the method's name


class Agent(Learning):
    """A learning method on one environment.

    Args:
      env: a Gymnasium id, "maze", or an environment object with discrete actions; or a list of functions, each of which
        makes one of several environments to be played at once.
      preset: starting values of all settings.
      tensorboard_log: folder for TensorBoard curves of trainings without a run folder.
      settings: any setting by its name, as on the command line: ``beta=0.5, learning_rate=1e-3, seed=0, …``;
        ``ebu.agent.settings.Settings`` describes each.

    A subclass with a ``method`` is an agent class of its own, known to the API, the command line and sweeps.
    """

    def __init_subclass__(cls) -> None:
        if "method" in vars(cls):
            add_method(cls.method)
            cls.algo = cls.method.name
            AGENTS[cls.algo] = cls
        if "__init__" in vars(cls):  # with arguments of its own
            parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
            cls.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]

    def __init__(
        self,
        env: str | GivenEnv,
        preset: str = "quick",
        *,
        tensorboard_log: str | Path | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        refuse_foreign(env, settings)
        given = set(settings)
        if "network" in settings:
            from ebu.networks.factories import name_of as network_name

            settings["network"] = network_name(settings["network"])  # a factory of the user's own
        if isinstance(env, str):
            self._setup(as_meant(configure(self.algo, env, preset, **settings), settings), None)
        else:
            _refuse_changes(settings)
            if isinstance(env, list | tuple):
                settings.setdefault("n_envs", len(env))
            example = example_of(env)
            config = as_meant(configure(self.algo, name_of(example), preset, **settings), settings)
            self._setup(described(config, example), env)
        self._tensorboard_log = None if tensorboard_log is None else Path(tensorboard_log)
        classes = {name: agent.__name__ for name, agent in AGENTS.items()}
        for unused in unused_settings(self.method, self.config, self.interface.spec, given):
            warnings.warn(unused.in_python(classes), stacklevel=2)
        if "steps" in given:
            warnings.warn("steps has no effect here; learn(steps) takes their number", stacklevel=2)

    @classmethod
    def load(
        cls,
        path: str | Path,
        env: AnyEnvironment | None = None,
        device: str = "auto",
        *,
        trust_env: bool = False,
        best: bool = False,
        network: Factory | None = None,
    ) -> Agent:
        """As ``ebu.load``, which documents the arguments; a policy of another method than this class's is refused."""
        from ebu.networks.policy_file import load_policy
        from ebu.storage.bundle import POLICY, is_bundle
        from ebu.training.whole_agent import load_whole, opened

        if not isinstance(path, str | os.PathLike):
            raise UserError(f"load takes the name of a file or of a run folder, got {shown(path)}")
        if os.path.isdir(path):  # accepts names that no file can have
            path = RunFolder.open(Path(path)).policy_file(best)
        elif best:
            raise UserError(f"best=True takes a run folder, got the file {path}")
        if not is_bundle(Path(path)):
            return cls._load(path, load_policy(Path(path), trust_env, network), env, device, trust_env)
        with opened(Path(path)) as folder:  # a whole agent, saved with its memory
            agent = cls._load(path, load_policy(folder / POLICY, trust_env, network), env, device, trust_env)
            load_whole(Path(path), folder, agent.loop, warn)
        return agent

    @classmethod
    def _load(cls, path: str | Path, saved: SavedPolicy, env: AnyEnvironment | None, device: str, trust_env: bool) -> Agent:
        if "method" in vars(cls) and saved.config.algo != cls.algo:
            raise UserError(f"{path} holds a policy of {saved.config.algo}, not of {cls.algo}; ebu.load loads any method")
        config = override(saved.config, device=device)
        if isinstance(env, str):
            config, env = config if is_own(config, env) else override(config, env=env, env_args=(), env_wrappers=()), None
        else:
            require_trust(config.environment.env, trust_env or env is not None, path)
            if env is not None:  # as many as are given, whatever it was trained on
                config = override(config, n_envs=len(env) if isinstance(env, list | tuple) else 1)
        agent = cls.from_config(config, env)
        agent.restore(saved)
        return agent

    @classmethod
    def from_config(cls, config: Config, env: AnyEnvironment | None = None, ranks: Ranks | None = None) -> Agent:
        """The agent a configuration describes, whatever its method, with its learners divided among ranks."""
        agent = object.__new__(AGENTS[find_method(config.algo).name])
        if isinstance(env, str):
            env = None if is_own(config, env) else _made_by_name(env, config.environment.n_envs)
        agent._setup(config, env, ranks)
        return agent


def _signature() -> inspect.Signature:
    """The signature of an agent class with every setting: notebooks complete from it, editors from ``Settings``."""
    parameters = list(inspect.signature(Agent.__init__).parameters.values())[1:-1]
    keyword = inspect.Parameter.KEYWORD_ONLY
    kinds = Settings.__annotations__.items()
    named = [inspect.Parameter(name, keyword, default=..., annotation=kind.__forward_arg__) for name, kind in kinds]
    return inspect.Signature([*parameters, *named])


Agent.__signature__ = _signature()  # type: ignore[attr-defined]


def register(method: Method) -> type[Agent]:
    """Register a method everywhere (API, command line, sweeps) and return its agent class."""
    name = "".join(part.capitalize() for part in method.name.replace("_", "-").split("-"))
    return type(name, (Agent,), {"method": method, "__doc__": method.title})


def _refuse_changes(settings: Settings) -> None:
    """An environment object is taken as it is."""
    for name in ("env_args", "env_wrappers"):
        if settings.get(name):
            words = "applies to an environment that is made by its id; change the object itself"
            raise UserError(f"{name} {words}, for instance ebu.envs.DelayedReward(env)")


def _made_by_name(name: str, n_envs: int) -> GivenEnv:
    return make_environment(name) if n_envs == 1 else [partial(make_environment, name)] * n_envs
