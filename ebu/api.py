"""The public agents: ``EBU("CartPole-v1").learn(20_000)``."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import gymnasium
import numpy as np
import torch
from gymnasium.envs.registration import EnvSpec
from rich.console import Console

from ebu.algorithms import composition, find
from ebu.config import Config, check, environment_arguments, override
from ebu.distributed.learner import require_work_for_all
from ebu.distributed.processes import Team
from ebu.envs.families import family
from ebu.envs.make import EnvironmentSource
from ebu.envs.spaces import count_actions, describe
from ebu.errors import UserError
from ebu.learning.policy import FrameStack, Policy
from ebu.networks.modules import build_network
from ebu.networks.policy_file import SavedPolicy, load_policy, save_policy
from ebu.presets import configure
from ebu.training.evaluate import evaluate as evaluate_policy
from ebu.training.events import Event
from ebu.training.footprint import require_room
from ebu.training.loop import TrainingLoop
from ebu.training.progress import ProgressBar
from ebu.types import Array, Evaluation

Listener = Callable[[Event], Any]

PREDICT_STREAM = 1  # apart from the streams of training, which spawn from the seed alone


class Agent:
    """A learning method on one environment.

    Args:
      env: a Gymnasium id, "maze", or an environment object with discrete actions.
      preset: starting values of all settings.
      settings: any setting by its name, as on the command line: ``beta=0.5, learning_rate=1e-3, seed=0, …``.
    """

    algo: ClassVar[str]

    def __init__(self, env: str | gymnasium.Env[Any, Any], preset: str = "quick", **settings: Any) -> None:
        name, given = (env, None) if isinstance(env, str) else (_name_of(env), env)
        config = configure(self.algo, name, preset, **settings)
        if given is not None and given.spec is not None:  # so that a saved policy finds the same environment again
            config = override(config, env_args=_arguments_of(given.spec))
        self._setup(config, given)

    @classmethod
    def from_config(
        cls, config: Config, env: gymnasium.Env[Any, Any] | None = None, team: Team | None = None
    ) -> Agent:
        """The agent a configuration describes, whatever its method. A team's ranks divide its learners among them."""
        find(config.algo)
        agent = object.__new__(AGENTS[config.algo])
        agent._setup(config, env, team)
        return agent

    def _setup(self, config: Config, env: gymnasium.Env[Any, Any] | None, team: Team | None = None) -> None:
        check(config)
        self.config = config
        self.device = choose_device(config.run.device)
        self._team = team
        if team is not None:
            require_work_for_all(config.algo, find(config.algo).learners(config), team.size)
            self.device = team.own_device(self.device)
        self._world = EnvironmentSource(config.environment.env, environment_arguments(config.environment.env_args))
        self.env = env if env is not None else self._world.make(training=True)
        self.observations = describe(self.env.observation_space)
        self.actions = count_actions(self.env.action_space)
        self._own_env_given = env is not None
        network = build_network(self.observations.spec, self.actions, self.stack, config.network)  # refuses what does not fit
        learners, values = find(config.algo).learners(config), self.stack * self.observations.spec.features
        require_room(network, learners, values, config.learner.batch_size)
        self._predict_rng = np.random.default_rng([config.run.seed, PREDICT_STREAM])
        self._loop: TrainingLoop | None = None
        self._restored: SavedPolicy | None = None

    # ------------------------------------------------------------------ learning

    @property
    def loop(self) -> TrainingLoop:
        """The training loop, made at first use."""
        if self._loop is None:
            try:
                evaluation_env = self.make_env()
            except UserError:
                if not self._own_env_given:
                    raise
                evaluation_env = None  # the user's own object; without a copy there is no evaluation during training
            self._loop = TrainingLoop(
                env=self.env,
                evaluation_env=evaluation_env,
                device=self.device,
                team=self._team,
                **composition(self.config),
            )
            if self._restored is not None:  # learning goes on from the weights of a loaded policy
                for network in (self._loop.learner.online, self._loop.learner.target):
                    network.load_named_tensors(self._restored.tensors)
        return self._loop

    def make_env(self, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
        """Another copy of the agent's environment, to evaluate, play or draw without disturbing the training's."""
        if not self._own_env_given:
            return self._world.make(training=False, render_mode=render_mode)
        try:
            if self.env.spec is None:
                raise ValueError("it has no id")
            return gymnasium.make(self.env.spec, disable_env_checker=True, render_mode=render_mode)
        except (ValueError, TypeError, gymnasium.error.Error) as error:
            reason = " ".join(str(error).split())
            words = f"the environment was given as an object and cannot be made again ({reason}); pass env="
            raise UserError(words) from error

    def learn(
        self, total_timesteps: int, callback: Listener | list[Listener] | None = None, progress_bar: bool = False
    ) -> Self:
        """Train for this many agent steps; called again, it continues with memory, counters and schedules as they are.

        Each callback is called with every event; one that returns False stops the training.
        """
        if total_timesteps < 0:
            raise UserError(f"total_timesteps must be at least 0, got {total_timesteps}")
        if total_timesteps == 0:
            return self
        listeners = list(callback) if isinstance(callback, list) else [callback] if callback is not None else []
        loop = self.loop
        start = loop.step
        with ExitStack() as stack:
            stack.enter_context(self.threads())
            bar = None
            if progress_bar:
                bar = ProgressBar(total_timesteps, self.algo, Console(stderr=True))
                stack.callback(bar.close)
                listeners.append(bar)
            loop.plan(total_timesteps)
            stop = False
            while not stop and (loop.step < start + total_timesteps or loop.is_busy):
                for event in loop.advance():  # all events of a step, also when one of them asks to stop
                    for listener in listeners:
                        stop |= listener(event) is False
                if bar is not None:
                    bar.advance(loop.step - start)
        return self

    @property
    def ranks(self) -> int:
        """How many processes share the learners."""
        return 1 if self._team is None else self._team.size

    def threads(self) -> _threads:
        """A context with the number of CPU threads that suits the network."""
        return _threads(self.config, self.observations.spec.kind)

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
        return Policy(self._restored.place(self.device).state_values(0), self.actions)

    @property
    def stack(self) -> int:
        return self.config.memory.stack if self.observations.spec.kind == "image" else 1

    def predict(
        self, observation: Any, state: FrameStack | None = None, episode_start: bool = False, deterministic: bool = True
    ) -> tuple[int, FrameStack | None]:
        """The action for an observation. Without ``deterministic``, ε-greedy with the evaluation's ε.

        Where states are stacks of frames, the second value holds the frames so far: pass it back as ``state``, and None
        (or ``episode_start``) with an episode's first observation.
        """
        frame = self.observations.encode(observation)
        frames = FrameStack(self.stack) if state is None or episode_start else state
        stacked = frames.begin(frame) if state is None or episode_start else frames.push(frame)
        values = self.policy.values(stacked)
        action = int(values.argmax())
        if not deterministic:
            rng = self._predict_rng  # not the training's, which must not depend on who looks
            if rng.random() < self.config.evaluation.eval_epsilon:
                action = int(rng.integers(self.actions))
        return action, frames if self.stack > 1 else None

    def q_values(self, observations: list[Any]) -> Array:
        """Q(s, ·) for single observations, [B, A]; only where a state is one frame."""
        return np.stack([self.policy.values(self.observations.encode(o)) for o in observations])

    # ------------------------------------------------------------------ files

    def save(self, path: str | Path) -> None:
        """Write the policy (weights and settings, no replay memory) to one file without pickle."""
        if self._loop is None and self._restored is not None:
            save_policy(Path(path), self._restored)
            return
        tensors = self.loop.learner.online.named_tensors(self.loop.rotation.leader())
        save_policy(Path(path), SavedPolicy(self.config, self.observations.spec, self.actions, self.stack, tensors))


class EBU(Agent):
    """Episodic Backward Update with diffusion factor ``beta`` (Lee, Choi and Chung, 2019)."""

    algo = "ebu"


class AdaptiveEBU(Agent):
    """EBU with one learner for each of ``betas``; every ``sync_interval`` steps the best is copied to all."""

    algo = "adaptive-ebu"


class DQN(Agent):
    """One-step targets on uniformly sampled steps (Mnih et al., 2015)."""

    algo = "dqn"


class NStepDQN(Agent):
    """Uncorrected ``n_steps``-step returns, or with "episode" returns to the episode's end."""

    algo = "n-step"


class PrioritizedDQN(Agent):
    """DQN with rank-based prioritised replay (Schaul et al., 2016)."""

    algo = "per"


class Retrace(Agent):
    """Retrace(λ) on whole episodes (Munos et al., 2016)."""

    algo = "retrace"


class PengQ(Agent):
    """Peng's Q(λ) on whole episodes (Peng and Williams, 1996)."""

    algo = "peng"


class WatkinsQ(Agent):
    """Watkins' Q(λ) on whole episodes (Watkins, 1989)."""

    algo = "watkins"


class OptimalityTightening(Agent):
    """DQN with bounds from neighbouring steps (He et al., 2017)."""

    algo = "optimality-tightening"


AGENTS: dict[str, type[Agent]] = {
    cls.algo: cls
    for cls in (
        EBU,
        AdaptiveEBU,
        DQN,
        NStepDQN,
        PrioritizedDQN,
        Retrace,
        PengQ,
        WatkinsQ,
        OptimalityTightening,
    )
}


def load(path: str | Path, env: gymnasium.Env[Any, Any] | None = None, device: str = "auto") -> Agent:
    """An agent with a saved policy. ``env`` is needed where the policy was trained on an object without an id."""
    saved = load_policy(Path(path))
    agent = Agent.from_config(override(saved.config, device=device), env)
    if agent.observations.spec != saved.observation or agent.actions != saved.actions:
        raise UserError(f"{path} was trained on other observations or actions than {saved.config.environment.env} has now")
    agent._restored = saved
    return agent


def evaluate(
    agent: Agent,
    env: gymnasium.Env[Any, Any] | None = None,
    episodes: int = 30,
    epsilon: float = 0.05,
    seed: int = 0,
) -> Evaluation:
    """Scores of an agent over whole episodes, raw rewards; by default on a fresh copy of its own environment."""
    if episodes < 1:
        raise UserError(f"episodes must be at least 1, got {episodes}")
    if not 0 <= epsilon <= 1:
        raise UserError(f"epsilon must be between 0 and 1, got {epsilon}")
    env = agent.make_env() if env is None else env
    if describe(env.observation_space).spec != agent.observations.spec or count_actions(env.action_space) != agent.actions:
        raise UserError("the environment's observations or actions differ from those the agent was trained on")
    return evaluate_policy(
        agent.policy.values,
        env,
        episodes=episodes,
        epsilon=epsilon,
        gamma=agent.config.target.gamma,
        reward_clip=agent.config.environment.reward_clip,
        stack=agent.stack,
        random_first_actions=agent.config.exploration.random_first_actions,
        rng=np.random.default_rng(seed),
    )


def choose_device(name: str) -> torch.device:
    """auto takes a GPU where there is one; a device that is not there is refused in one line."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UserError(f"there is no device {name!r}; choose auto, cpu or cuda") from error
    here = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not here.get(device.type, False):
        raise UserError(f"device {name!r} asked for, but PyTorch sees no {device.type} device here; use --device cpu")
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


class _threads:
    """The number of CPU threads while training, put back afterwards. Small networks are slower with more than one."""

    def __init__(self, config: Config, kind: str) -> None:
        suited = family(config.environment.env).threads if kind == "image" else 1
        self._wanted = config.run.threads or suited or torch.get_num_threads()

    def __enter__(self) -> None:
        self._before = torch.get_num_threads()
        torch.set_num_threads(self._wanted)

    def __exit__(self, *_: object) -> None:
        torch.set_num_threads(self._before)
