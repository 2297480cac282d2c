"""What every part of an agent shares: its settings, its environment, its training loop and its current policy."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Protocol

import gymnasium
import numpy as np

from ebu.config import Config, flat, override
from ebu.config_check import check
from ebu.env_arguments import environment_arguments
from ebu.envs.make import EnvironmentSource
from ebu.envs.objects import copy_spec, describe_object, lost_parts, name_of
from ebu.errors import UserError
from ebu.learning.policy import Policy, mean_of
from ebu.registry import Method
from ebu.training.environment import Environment, Interface
from ebu.training.logger import Logger

if TYPE_CHECKING:
    import torch

    from ebu.learning.blueprint import Blueprint
    from ebu.learning.learner import Learner
    from ebu.networks.policy_file import SavedPolicy
    from ebu.training.environments import Environments
    from ebu.training.loop import TrainingLoop

SYMBOLS = {"beta": "β", "betas": "β", "n_steps": "n", "trace_lambda": "λ", "trace_lambdas": "λ", "priority_alpha": "α"}

Factory = Callable[[], gymnasium.Env[Any, Any]]
GivenEnv = gymnasium.Env[Any, Any] | Sequence[Factory]
"""An environment that a user passes instead of a name: an object, or a list with a function for each of several."""
AnyEnvironment = str | GivenEnv
"""An environment, or the name of one."""

PREDICT_STREAM = 1  # apart from the streams of training, which spawn from the seed alone


class Ranks(Protocol):
    """Several processes that divide the learners among them; ``ebu.distributed`` implements it."""

    size: int

    def require_work(self, algo: str, learners: int) -> None: ...

    def own_device(self, device: torch.device) -> torch.device: ...

    def make_learner(self, blueprint: Blueprint, device: torch.device) -> Learner: ...


class BaseAgent:
    """A method on an environment."""

    method: ClassVar[Method]
    algo: ClassVar[str]

    def _setup(self, config: Config, env: GivenEnv | None, ranks: Ranks | None = None) -> None:
        from ebu.networks.modules import build_network, output_layers
        from ebu.training.footprint import require_room

        check(config)
        require_episodes(self.method, config)
        self.config = config
        self.device = choose_device(config.run.device)
        self._ranks = ranks
        if ranks is not None:
            ranks.require_work(config.algo, self.learners)
            self.device = ranks.own_device(self.device)
        factories = factories_of(env, config.environment.n_envs)
        make = factories[0] if factories else partial(source_of(config).make, training=True)
        made = env if isinstance(env, gymnasium.Env) else make()
        self._take_environment(config, made, env)
        self.interface = Interface.of(made, config.memory.stack)
        spec, stack = self.interface.spec, self.interface.stack
        network = build_network(spec, self.interface.actions, stack, config.network)  # refuses what does not fit
        if config.learner.reset_every or config.target.redistribute_rewards:
            output_layers(network)  # refuses a network without a linear layer
        networks = self.learners + config.target.redistribute_rewards  # the model of rewards is one more
        require_room(network, networks, stack * spec.network_inputs, config.learner.batch_size)
        self._predict_rng = np.random.default_rng([config.run.seed, PREDICT_STREAM])
        self._loop: TrainingLoop | None = None
        self._restored: SavedPolicy | None = None
        self._turn = threading.Lock()
        self._tensorboard_log: Path | None = None
        self._told: set[str] = set()  # what is said once: "evaluations" that cannot be made, "updates" that were not

    @property
    def ranks(self) -> int:
        """How many processes share the learners."""
        return 1 if self._ranks is None else self._ranks.size

    @property
    def learners(self) -> int:
        """How many networks are trained side by side."""
        return self.method.learners(self.config)

    @property
    def num_timesteps(self) -> int:
        """Steps taken in the current plan: since the last ``learn`` with ``reset_num_timesteps``, as in Stable-Baselines3."""
        return 0 if self._loop is None else self._loop.step - self._loop.plan_start

    @property
    def logger(self) -> Logger:
        """``agent.logger.record("my/value", 3.0)`` adds your own value to the next row of metrics, and its curve."""
        return self.loop.logger

    @property
    def loop(self) -> TrainingLoop:
        """The training loop, made at first use."""
        if self._loop is None:
            self._loop = self._make_loop()
            if self._restored is not None:  # learning continues from the weights of a loaded policy
                for networks in (self._loop.learner.online, self._loop.learner.target):
                    networks.load_named_tensors(self._restored.tensors)
        return self._loop

    def _make_loop(self) -> TrainingLoop:
        from ebu.learning.blueprint import Blueprint
        from ebu.learning.reward_model import RewardModel
        from ebu.training.loop import TrainingLoop

        method, interface = self.method, self.interface
        config = override(self.config, **method.overrides(self.config))
        blueprint = Blueprint(config, interface.spec, interface.actions, interface.stack, self.learners)
        learner: Learner
        if self._ranks is not None:
            learner = self._ranks.make_learner(blueprint, self.device)
        else:
            correction = method.correction(config) if method.correction is not None else None
            learner = blueprint.build(self.learners, self.device, correction)
        reward_model = RewardModel(blueprint.build_reward_learner(self.device)) if config.target.redistribute_rewards else None
        return TrainingLoop(
            config,
            interface,
            self._environments(),
            self._evaluation_environment(),
            sampler=method.sampler(self.config),
            rule=method.rule(self.config),
            learner=learner,
            reward_model=reward_model,
            learners=self.learners,
            ensemble=method.ensemble,
            needs_behaviour=method.needs_behaviour,
        )

    def _environments(self) -> Environments:
        """The environments to train in; several of them are created anew, each in the process that runs it."""
        from ebu.training.environments import SingleEnvironment

        config = self.config.environment
        if config.n_envs == 1:
            return SingleEnvironment(self._environment)
        from ebu.training.vector import VectorEnvironments

        return VectorEnvironments(
            self._factories or [partial(self._source.make, training=True)] * config.n_envs,
            config.vectorization,
            config.env,
            self.interface,
            self.config.memory.stack,
            config.reward_clip,
        )

    def _evaluation_environment(self) -> Environment | None:
        try:
            return Environment(self.make_env(), self.config.environment.reward_clip)
        except UserError:
            if not self._own_env_given:
                raise
            return None  # the user's own object; without a copy there is no evaluation during training

    def make_env(self, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
        """Another copy of the agent's environment, to evaluate, play or draw without disturbing the one it trains in."""
        if not self._own_env_given:
            return self._source.make(training=False, render_mode=render_mode)
        if self._factories and render_mode is None:
            return self._factories[0]()
        try:
            asked: dict[str, Any] = {} if render_mode is None else {"render_mode": render_mode}  # not every class takes it
            return gymnasium.make(copy_spec(self.env), disable_env_checker=True, **asked)
        except (ValueError, TypeError, gymnasium.error.Error) as error:
            reason = " ".join(str(error).split())
            words = f"the environment was given as an object and cannot be recreated ({reason}); pass env="
            raise UserError(words) from error

    @property
    def policy(self) -> Policy:
        """The current greedy policy."""
        if self._loop is None and self._restored is not None:
            return self._restored_policy
        return self.loop.policy

    @cached_property
    def _restored_policy(self) -> Policy:
        """The policy of a loaded file, moved to the device once and not at every prediction."""
        assert self._restored is not None
        network = self._restored.place(self.device)
        return Policy(mean_of([network.state_values(k) for k in range(network.learners)]), self.interface.actions)

    def __repr__(self) -> str:
        own = {name: flat(self.config)[name] for name in self.method.settings}
        is_loaded = self._loop is None and self._restored is not None
        facts = ["a loaded policy" if is_loaded else f"steps={0 if self._loop is None else self._loop.step:_}"]
        facts += [f"device={self.device}"]
        facts += [f"{SYMBOLS.get(name, name)}={value}" for name, value in own.items()]
        return f'{type(self).__name__}("{self.config.environment.env}", {", ".join(facts)})'

    def get_env(self) -> gymnasium.Env[Any, Any]:
        """The environment it learns on."""
        return self.env

    def set_env(self, env: AnyEnvironment, force_reset: bool = True) -> None:
        """From now on, learn on another environment with the same observations and actions; the open episode is dropped.

        ``force_reset`` is Stable-Baselines3's: an episode cannot be continued in another environment, so it must be true.
        """
        if not force_reset:
            raise UserError("an episode cannot continue in another environment; leave out force_reset=False")
        if isinstance(env, str):
            config = override(self.config, env=env, env_args=(), env_wrappers=())
            made = source_of(config).make(training=True)
        else:
            made = example_of(env)
            config = described(self.config, made)
        self.interface.require_same(Interface.of(made, config.memory.stack))
        self._take_environment(config, made, None if isinstance(env, str) else env)
        if self._loop is not None:
            self._loop.drop_open_episodes()
            self._loop.actors.environments = self._environments()
            self._loop.evaluation_environment = self._evaluation_environment()

    def _take_environment(self, config: Config, env: gymnasium.Env[Any, Any], given: GivenEnv | None) -> None:
        self._factories = factories_of(given, config.environment.n_envs)  # before anything is changed: it may refuse
        self.config, self.env = config, env
        self._source = source_of(config)
        self._environment = Environment(env, config.environment.reward_clip)
        self._own_env_given = given is not None

    def __copy__(self) -> NoReturn:
        raise UserError("an agent cannot be copied or pickled; use agent.save(path) and ebu.load(path)")

    def __deepcopy__(self, memo: Any) -> NoReturn:
        self.__copy__()

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        self.__copy__()


def require_episodes(method: Method, config: Config) -> None:
    """Refuse settings for methods that replay whole episodes with one that does not."""
    sampler = method.sampler(config)
    choice, made = config.memory.episode_choice, getattr(sampler, "choice", None)
    words = f"is for methods that replay whole episodes, such as ebu; {config.algo} does not"
    if choice != "uniform" and made != choice:
        raise UserError(f"episode_choice={choice!r} {words}")
    if config.target.redistribute_rewards and made is None:
        raise UserError(f"redistribute_rewards {words}")
    if config.learner.whole_episode and getattr(sampler, "draws_steps", False):
        raise UserError(f"whole_episode {words}")


def source_of(config: Config) -> EnvironmentSource:
    world = config.environment
    return EnvironmentSource(world.env, environment_arguments(world.env_args), world.env_wrappers)


def is_own(config: Config, name: str) -> bool:
    """Whether a name leads to the environment of these settings, with its arguments and wrappers."""
    return name == config.environment.env and not lost_parts(config.environment.env_wrappers)


def described(config: Config, env: gymnasium.Env[Any, Any]) -> Config:
    """The settings with a description of the environment object, so that a saved policy can recreate it."""
    found = describe_object(env)
    return override(config, env=name_of(env), env_args=found.arguments, env_wrappers=found.wrappers)


def example_of(env: GivenEnv) -> gymnasium.Env[Any, Any]:
    """The environment a user gave, or one of several."""
    if isinstance(env, list | tuple):
        if not env or not callable(env[0]):
            raise UserError("a list for env must contain functions that each create an environment, such as [make, make]")
        return env[0]()
    if not isinstance(env, gymnasium.Env):
        name = f"{type(env).__module__}.{type(env).__name__}"
        words = "env must be an id, a gymnasium.Env, or a list of functions that each create one"
        if callable(env):
            raise UserError(f"{words}, got a function; give what it returns, or [{getattr(env, '__name__', 'make')}]")
        if isinstance(env, gymnasium.vector.VectorEnv):
            raise UserError(f"{words}, got {name}; n_envs=2 plays two copies at once (docs/many-environments.md)")
        raise UserError(f"{words}, got {name} (docs/own-environment.md)")
    return env


def factories_of(env: Any, n_envs: int) -> list[Factory]:
    """The functions that create the environments, if a user gave any; refuses what cannot be created ``n_envs`` times."""
    if isinstance(env, list | tuple):
        if len(env) != n_envs or not all(callable(make) for make in env):
            raise UserError(f"n_envs={n_envs} needs a list of {n_envs} functions that each create one, got {len(env)} items")
        return list(env)
    if env is not None and n_envs > 1:
        raise UserError(f"an environment object cannot be played {n_envs} times at once; give its id, or a list of functions")
    return []


def choose_device(name: str) -> torch.device:
    """``auto`` takes a GPU if there is one; an unavailable device is refused in one line."""
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UserError(f"there is no device {name!r}; choose auto, cpu or cuda") from error
    here = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not here.get(device.type, False):
        words = f"PyTorch finds no {device.type} device here"
        raise UserError(f'device {name!r} is not available: {words}; use device="cpu" (--device cpu)')
    return device
