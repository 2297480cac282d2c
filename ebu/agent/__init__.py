"""The agent: a method on an environment. It learns, acts, and is saved and loaded.

Importing this package does not import PyTorch; making an agent does.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium

from ebu.agent.base import Ranks, choose_device
from ebu.agent.learning import Learning, Progress, create_run
from ebu.agent.sb3_names import refuse_foreign
from ebu.config import Config, override
from ebu.envs.objects import describe_object, name_of
from ebu.presets import configure
from ebu.registry import Method, add_method, find_method

__all__ = ["AGENTS", "Agent", "Progress", "Ranks", "choose_device", "create_run", "register"]

AGENTS: dict[str, type[Agent]] = {}  # by the method's name


class Agent(Learning):
    """A learning method on one environment.

    Args:
      env: a Gymnasium id, "maze", or an environment object with discrete actions.
      preset: starting values of all settings.
      tensorboard_log: folder for TensorBoard curves of trainings without a run folder.
      settings: any setting by its name, as on the command line: ``beta=0.5, learning_rate=1e-3, seed=0, …``.

    A subclass with a ``method`` is an agent class of its own, known to the API, the command line and sweeps.
    """

    def __init_subclass__(cls) -> None:
        if "method" in vars(cls):
            add_method(cls.method)
            cls.algo = cls.method.name
            AGENTS[cls.algo] = cls

    def __init__(
        self,
        env: str | gymnasium.Env[Any, Any],
        preset: str = "quick",
        *,
        tensorboard_log: str | Path | None = None,
        **settings: Any,
    ) -> None:
        refuse_foreign(env, settings)
        name, given = (env, None) if isinstance(env, str) else (name_of(env), env)
        config = configure(self.algo, name, preset, **settings)
        if given is not None and given.spec is not None:  # so that a saved policy finds the same environment again
            description = describe_object(given)
            config = override(config, env_args=description.arguments, env_wrappers=description.wrappers)
        self._setup(config, given)
        self._tensorboard_log = None if tensorboard_log is None else Path(tensorboard_log)

    @classmethod
    def from_config(cls, config: Config, env: gymnasium.Env[Any, Any] | None = None, ranks: Ranks | None = None) -> Agent:
        """The agent a configuration describes, whatever its method, with its learners divided among ranks."""
        agent = object.__new__(AGENTS[find_method(config.algo).name])
        agent._setup(config, env, ranks)
        return agent


def register(method: Method) -> type[Agent]:
    """Make a method known everywhere (API, command line, sweeps), and give its agent class."""
    name = "".join(part.capitalize() for part in method.name.replace("_", "-").split("-"))
    return type(name, (Agent,), {"method": method, "__doc__": method.title})
