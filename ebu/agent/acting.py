"""How an agent acts: ``predict``, values, scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from ebu.agent.base import AnyEnvironment, BaseAgent, example_of
from ebu.config_check import is_whole
from ebu.envs.make import make_environment
from ebu.envs.spaces import InvalidValue, split_batch
from ebu.errors import UserError
from ebu.learning.policy import FrameStack
from ebu.training.environment import Environment, Interface
from ebu.types import Array, Evaluation

Frames = FrameStack | tuple[FrameStack, ...] | None
"""The frames so far, where states are stacks of them: of one observation, or of each in a batch."""


class Acting(BaseAgent):
    """The part of an agent that acts."""

    def predict(
        self, observation: Any, state: Frames = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[Any, Frames]:
        """The action for an observation, or for each of a batch, as in Stable-Baselines3.

        A batch has one axis more than the observation space; its actions are an array. Without ``deterministic``, actions
        are ε-greedy with the evaluation's ε, or where that is 0 with the one at the end of exploration.

        Where states are stacks of frames, the second value holds the frames so far: pass it back as ``state``. None, or a
        true ``episode_start`` (for a batch, one for each observation), begins an episode.
        """
        batch = split_batch(self.env.observation_space, observation)
        if batch is None:
            frames = state[0] if isinstance(state, tuple) else state
            action, frames = self._predict_one(observation, frames, bool(np.any(episode_start)), deterministic)
            return action, frames if self.interface.stack > 1 else None
        before = state if isinstance(state, tuple) else (state,) * len(batch) if state is None else (state,)
        starts = np.broadcast_to(np.asarray(False if episode_start is None else episode_start, bool), len(batch))
        if len(before) != len(batch):
            raise UserError(f"the state belongs to {len(before)} observations, the batch has {len(batch)}")
        pairs = [self._predict_one(*one, deterministic) for one in zip(batch, before, starts)]
        actions = np.array([action for action, _ in pairs], np.int64)
        return actions, tuple(frames for _, frames in pairs) if self.interface.stack > 1 else None

    def _predict_one(
        self, observation: Any, state: FrameStack | None, starts: bool, deterministic: bool
    ) -> tuple[int, FrameStack]:
        frame = self._encode(observation)
        frames = FrameStack(self.interface.stack) if state is None or starts else state
        stacked = frames.begin(frame) if state is None or starts else frames.push(frame)
        exploring = self.config.evaluation.eval_epsilon or self.config.exploration.exploration_final_eps
        epsilon = 0.0 if deterministic else exploring
        action, _ = self.policy.act(stacked, epsilon, self._predict_rng)  # its own: predicting does not affect training
        return action, frames

    def _encode(self, observation: Any) -> Array:
        try:
            return self._environment.encode(observation)
        except InvalidValue as error:
            raise UserError(f"the observation does not match what the agent was trained on: {error}") from error

    def q_values(self, observations: list[Any]) -> Array:
        """Q(s, ·) for single observations, [B, A]; only where a state is one frame."""
        return np.stack([self.policy.values(self._encode(o)) for o in observations])

    def evaluate(self, env: AnyEnvironment | None, episodes: int, epsilon: float, seed: int) -> Evaluation:
        """As ``ebu.evaluate``, which documents the arguments."""
        from ebu.training.evaluate import evaluate

        if not is_whole(episodes) or episodes < 1:
            raise UserError(f"episodes must be a whole number of at least 1, got {episodes!r}")
        if not isinstance(epsilon, int | float | np.number) or not 0 <= epsilon <= 1:
            raise UserError(f"epsilon must be a number between 0 and 1, got {epsilon!r}")
        if not is_whole(seed) or seed < 0:
            raise UserError(f"seed must be a whole number of at least 0, got {seed!r}")
        if env is None:
            env = self.make_env()
        else:
            env = make_environment(env, training=False) if isinstance(env, str) else example_of(env)
        self.interface.require_same(Interface.of(env, self.config.memory.stack))
        try:
            return evaluate(
                self.policy,
                Environment(env, self.config.environment.reward_clip),
                episodes=int(episodes),
                epsilon=float(epsilon),
                gamma=self.config.target.gamma,
                rng=np.random.default_rng(int(seed)),
                stack=self.interface.stack,
                random_first_actions=self.config.exploration.random_first_actions,
                max_steps=self.config.environment.max_episode_steps,
            )
        finally:
            plays_in_it = self.config.environment.n_envs == 1 and env.unwrapped is self.env.unwrapped  # several have their own
            if self._loop is not None and plays_in_it:
                self._loop.drop_open_episodes()  # what it trains in stands elsewhere now
