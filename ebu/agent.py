"""The agent: a method on an environment. It learns, acts, and is saved and loaded.

Importing this module does not import PyTorch; making an agent does.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Protocol, Self

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec

from ebu.config import Config, check, environment_arguments, override
from ebu.envs.families import family
from ebu.envs.make import EnvironmentSource
from ebu.envs.spaces import InvalidValue
from ebu.errors import UserError
from ebu.learning.policy import FrameStack, Policy
from ebu.presets import configure
from ebu.registry import Method, add_method, find_method
from ebu.storage.lock import RunLock
from ebu.storage.run_folder import RunFolder
from ebu.training.environment import Environment, Interface
from ebu.training.events import Listener, as_listeners
from ebu.types import Array, Evaluation

if TYPE_CHECKING:
    import torch

    from ebu.learning.learner import Blueprint, Learner
    from ebu.networks.policy_file import SavedPolicy
    from ebu.training.loop import TrainingLoop

PREDICT_STREAM = 1  # apart from the streams of training, which spawn from the seed alone

AGENTS: dict[str, type[Agent]] = {}  # by the method's name


def silent(text: str) -> None:
    pass


def warn(text: str) -> None:
    """For what a training without a run folder has to say."""
    warnings.warn(text, stacklevel=2)


@dataclass(frozen=True)
class Progress:
    """How far a run was taken."""

    finished: bool
    interrupted: bool  # by a signal
    steps: int  # taken now
    seconds: float


class Ranks(Protocol):
    """Several processes that divide the learners among them; ``ebu.distributed`` has the real one."""

    size: int

    def require_work(self, algo: str, learners: int) -> None: ...

    def own_device(self, device: torch.device) -> torch.device: ...

    def make_learner(self, blueprint: Blueprint, device: torch.device) -> Learner: ...


class Agent:
    """A learning method on one environment.

    Args:
      env: a Gymnasium id, "maze", or an environment object with discrete actions.
      preset: starting values of all settings.
      settings: any setting by its name, as on the command line: ``beta=0.5, learning_rate=1e-3, seed=0, …``.

    A subclass with a ``method`` is an agent class of its own, known to the API, the command line and sweeps.
    """

    method: ClassVar[Method]
    algo: ClassVar[str]

    def __init_subclass__(cls) -> None:
        if "method" in vars(cls):
            add_method(cls.method)
            cls.algo = cls.method.name
            AGENTS[cls.algo] = cls

    def __init__(self, env: str | gymnasium.Env[Any, Any], preset: str = "quick", **settings: Any) -> None:
        name, given = (env, None) if isinstance(env, str) else (_name_of(env), env)
        config = configure(self.algo, name, preset, **settings)
        if given is not None and given.spec is not None:  # so that a saved policy finds the same environment again
            config = override(config, env_args=_arguments_of(given.spec))
        self._setup(config, given)

    @classmethod
    def from_config(cls, config: Config, env: gymnasium.Env[Any, Any] | None = None, ranks: Ranks | None = None) -> Agent:
        """The agent a configuration describes, whatever its method, with its learners divided among ranks."""
        find_method(config.algo)
        agent = object.__new__(AGENTS[config.algo])
        agent._setup(config, env, ranks)
        return agent

    def _setup(self, config: Config, env: gymnasium.Env[Any, Any] | None, ranks: Ranks | None = None) -> None:
        from ebu.networks.modules import build_network
        from ebu.training.footprint import require_room

        check(config)
        self.config = config
        self.device = choose_device(config.run.device)
        self._ranks = ranks
        if ranks is not None:
            ranks.require_work(config.algo, self.learners)
            self.device = ranks.own_device(self.device)
        self._source = EnvironmentSource(config.environment.env, environment_arguments(config.environment.env_args))
        self.env = env if env is not None else self._source.make(training=True)
        self.interface = Interface.of(self.env, config.memory.stack)
        self._environment = Environment(self.env, config.environment.reward_clip)
        self._own_env_given = env is not None
        spec, stack = self.interface.spec, self.interface.stack
        network = build_network(spec, self.interface.actions, stack, config.network)  # refuses what does not fit
        require_room(network, self.learners, stack * spec.network_inputs, config.learner.batch_size)
        self._predict_rng = np.random.default_rng([config.run.seed, PREDICT_STREAM])
        self._loop: TrainingLoop | None = None
        self._restored: SavedPolicy | None = None
        self._turn = threading.Lock()

    @property
    def ranks(self) -> int:
        """How many processes share the learners."""
        return 1 if self._ranks is None else self._ranks.size

    @property
    def learners(self) -> int:
        """How many networks are trained side by side."""
        return self.method.learners(self.config)

    # ------------------------------------------------------------------ learning

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
        from ebu.learning.learner import Blueprint
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
        return TrainingLoop(
            config,
            interface,
            self._environment,
            self._evaluation_environment(),
            sampler=method.sampler(self.config),
            rule=method.rule(self.config),
            learner=learner,
            learners=self.learners,
            needs_behaviour=method.needs_behaviour,
        )

    def _evaluation_environment(self) -> Environment | None:
        try:
            return Environment(self.make_env(), self.config.environment.reward_clip)
        except UserError:
            if not self._own_env_given:
                raise
            return None  # the user's own object; without a copy there is no evaluation during training

    def make_env(self, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
        """Another copy of the agent's environment, to evaluate, play or draw without disturbing the training's."""
        if not self._own_env_given:
            return self._source.make(training=False, render_mode=render_mode)
        try:
            if self.env.spec is None:
                raise ValueError("it has no id")
            return gymnasium.make(self.env.spec, disable_env_checker=True, render_mode=render_mode)
        except (ValueError, TypeError, gymnasium.error.Error) as error:
            reason = " ".join(str(error).split())
            words = f"the environment was given as an object and cannot be made again ({reason}); pass env="
            raise UserError(words) from error

    def __copy__(self) -> NoReturn:
        raise UserError("an agent cannot be copied or pickled; use agent.save(path) and ebu.load(path)")

    def __deepcopy__(self, memo: Any) -> NoReturn:
        self.__copy__()

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        self.__copy__()

    def learn(
        self,
        total_timesteps: int,
        callback: Listener | list[Listener] | None = None,
        progress_bar: bool = False,
        run: str | Path | None = None,
        reset_num_timesteps: bool = True,
    ) -> Self:
        """Train for this many agent steps; called again, it continues with network, memory and counters as they are.

        Schedules (ε, the step size) are planned over the steps now asked for; with ``reset_num_timesteps=False`` over the
        sum of these and the steps of the calls before, as in Stable-Baselines3.

        Each callback is called with every event; one that returns False stops the training. With ``run`` the training
        keeps a run folder as ``ebu train`` does: metrics, TensorBoard curves, checkpoints, the policy, a summary;
        ``ebu.resume(run)`` continues it exactly from its last checkpoint.
        """
        if total_timesteps < 0:
            raise UserError(f"total_timesteps must be at least 0, got {total_timesteps}")
        if total_timesteps == 0:
            return self
        listeners = as_listeners(callback)
        loop = self.loop
        until = loop.step + total_timesteps
        start = loop.step if reset_num_timesteps or not loop.planned_steps else loop.plan_start
        with self._learning():
            self._learn(until, start, listeners, progress_bar, run)
        return self

    def _learn(
        self, until: int, plan_start: int, listeners: list[Listener], progress_bar: bool, run: str | Path | None
    ) -> None:
        from ebu.training.trainer import Trainer

        if run is not None:
            folder = create_run(Path(run), override(self.config, steps=until))
            self.config = folder.config()
            with RunLock(folder.path):
                progress = self.train_in(folder, plan_start=plan_start, listeners=listeners, progress_bar=progress_bar)
                interrupted = progress.interrupted
        else:
            with self.threads(), self._bar(progress_bar, self.loop.step, until) as bars:
                trainer = Trainer(self.loop, until, plan_start, announce=warn)
                trainer.run([*listeners, *bars])
                interrupted = trainer.interrupted
        if interrupted:  # between two steps, with nothing half done: learn continues where it stopped
            raise KeyboardInterrupt

    @contextmanager
    def _learning(self) -> Iterator[None]:
        """One ``learn`` at a time: two would take each other's steps."""
        if not self._turn.acquire(blocking=False):
            raise UserError("this agent is already learning, in another thread or in a callback; make a second agent")
        try:
            yield
        finally:
            self._turn.release()

    def train_in(
        self,
        folder: RunFolder,
        *,
        resume: bool = False,
        plan_start: int = 0,
        drop_damaged: bool = False,
        tensorboard: bool = True,
        listeners: Sequence[Listener] = (),
        progress_bar: bool = False,
        announce: Callable[[str], None] = silent,
    ) -> Progress:
        """Train to the end of the folder's plan, or to a signal. The policy is saved either way; a finished run has a
        summary. The caller holds the folder's lock.
        """
        from ebu.training.conclusion import conclude
        from ebu.training.trainer import Trainer

        with self.threads():
            trainer = Trainer(self.loop, self.config.steps, plan_start, folder, announce)
            if resume:
                trainer.resume(drop_damaged)
            if trainer.is_finished:
                announce("the run is finished; nothing is left to do")
            start, start_step = time.perf_counter(), self.loop.step
            with self._bar(progress_bar, start_step, self.config.steps) as bars:
                finished = trainer.run([*listeners, *bars], tensorboard)
            seconds = time.perf_counter() - start
        with folder.failures_told():
            self.save(folder.policy)
            if finished:
                conclude(folder, self)
        return Progress(finished, trainer.interrupted, self.loop.step - start_step, seconds)

    @contextmanager
    def _bar(self, wanted: bool, start: int, until: int) -> Iterator[list[Listener]]:
        if not wanted:
            yield []
            return
        from rich.console import Console

        from ebu.training.progress import ProgressBar

        with closing(ProgressBar(until, self.algo, Console(file=sys.stderr), start)) as bar:
            yield [bar]

    @contextmanager
    def threads(self) -> Iterator[None]:
        """The number of CPU threads that suits the network, put back afterwards. Small ones are slower with more than one."""
        import torch

        before = torch.get_num_threads()
        own = family(self.config.environment.env).threads if self.interface.spec.kind == "image" else 1
        torch.set_num_threads(self.config.run.threads or own or before)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    # ------------------------------------------------------------------ acting

    @property
    def policy(self) -> Policy:
        """The current greedy policy."""
        if self._loop is None and self._restored is not None:
            return self._restored_policy
        return self.loop.policy

    @cached_property
    def _restored_policy(self) -> Policy:
        """The policy of a loaded file, placed once and not at every prediction."""
        assert self._restored is not None
        return Policy(self._restored.place(self.device).state_values(0), self.interface.actions)

    def predict(
        self, observation: Any, state: FrameStack | None = None, episode_start: bool = False, deterministic: bool = True
    ) -> tuple[int, FrameStack | None]:
        """The action for an observation. Without ``deterministic``, ε-greedy with the evaluation's ε.

        Where states are stacks of frames, the second value holds the frames so far: pass it back as ``state``, and None
        (or ``episode_start``) with an episode's first observation.
        """
        frame = self._encode(observation)
        frames = FrameStack(self.interface.stack) if state is None or episode_start else state
        stacked = frames.begin(frame) if state is None or episode_start else frames.push(frame)
        epsilon = 0.0 if deterministic else self.config.evaluation.eval_epsilon
        action, _ = self.policy.act(stacked, epsilon, self._predict_rng)  # not the training's generator: looking is free
        return action, frames if self.interface.stack > 1 else None

    def _encode(self, observation: Any) -> Array:
        try:
            return self._environment.encode(observation)
        except InvalidValue as error:
            raise UserError(f"the agent was given an observation of another kind than it was trained on: {error}") from error

    def q_values(self, observations: list[Any]) -> Array:
        """Q(s, ·) for single observations, [B, A]; only where a state is one frame."""
        return np.stack([self.policy.values(self._encode(o)) for o in observations])

    def evaluate(self, env: gymnasium.Env[Any, Any] | None, episodes: int, epsilon: float, seed: int) -> Evaluation:
        """As ``ebu.evaluate``, which has the documentation."""
        from ebu.training.evaluate import evaluate

        if episodes < 1:
            raise UserError(f"episodes must be at least 1, got {episodes}")
        if not 0 <= epsilon <= 1:
            raise UserError(f"epsilon must be between 0 and 1, got {epsilon}")
        env = self.make_env() if env is None else env
        if Interface.of(env, self.config.memory.stack) != self.interface:
            raise UserError("the environment's observations or actions differ from those the agent was trained on")
        return evaluate(
            self.policy,
            Environment(env, self.config.environment.reward_clip),
            episodes=episodes,
            epsilon=epsilon,
            gamma=self.config.target.gamma,
            rng=np.random.default_rng(seed),
            stack=self.interface.stack,
            random_first_actions=self.config.exploration.random_first_actions,
            max_steps=self.config.environment.max_episode_steps,
        )

    # ------------------------------------------------------------------ files

    def save(self, path: str | Path) -> None:
        """Write the policy (weights and settings, no replay memory) to one file without pickle."""
        from ebu.networks.policy_file import SavedPolicy, save_policy

        saved = self._restored
        if self._loop is not None or saved is None:
            tensors = self.loop.learner.online.named_tensors(self.loop.rotation.leader())
            saved = SavedPolicy(self.config, self.interface.spec, self.interface.actions, self.interface.stack, tensors)
        save_policy(Path(path), saved)

    def restore(self, saved: SavedPolicy) -> None:
        """Act with, and learn on from, the weights of a policy file."""
        if (self.interface.spec, self.interface.actions) != (saved.observation, saved.actions):
            name = saved.config.environment.env
            raise UserError(f"the policy was trained on other observations or actions than {name} has now")
        self._restored = saved


def register(method: Method) -> type[Agent]:
    """Make a method known everywhere (API, command line, sweeps), and give its agent class."""
    name = "".join(part.capitalize() for part in method.name.replace("_", "-").split("-"))
    return type(name, (Agent,), {"method": method, "__doc__": method.title})


def create_run(path: Path, config: Config) -> RunFolder:
    """A new run folder that records the versions of what its environment depends on."""
    return RunFolder.create(path, config, family(config.environment.env).packages)


def choose_device(name: str) -> torch.device:
    """auto takes a GPU where there is one; a device that is not there is refused in one line."""
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UserError(f"there is no device {name!r}; choose auto, cpu or cuda") from error
    here = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not here.get(device.type, False):
        raise UserError(f"device {name!r} is not available: PyTorch finds no {device.type} device here; use --device cpu")
    return device


def _arguments_of(spec: EnvSpec) -> tuple[str, ...]:
    """The arguments an environment was made with, as far as they can be written down."""
    pairs = []
    for key, value in (spec.kwargs or {}).items():
        try:
            pairs.append(f"{key}={json.dumps(value)}")
        except TypeError:
            continue
    return tuple(pair for pair in pairs if not pair.startswith("render_mode="))


def _name_of(env: gymnasium.Env[Any, Any]) -> str:
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__
