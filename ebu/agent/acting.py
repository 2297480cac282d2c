"""How an agent acts: ``predict``, values, scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from ebu.agent.base import AnyEnvironment, BaseAgent, example_of
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
        are ε-greedy with the evaluation's ε.

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
        epsilon = 0.0 if deterministic else self.config.evaluation.eval_epsilon
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

        if episodes < 1:
            raise UserError(f"episodes must be at least 1, got {episodes}")
        if not 0 <= epsilon <= 1:
            raise UserError(f"epsilon must be between 0 and 1, got {epsilon}")
        if env is None:
            env = self.make_env()
        else:
            env = make_environment(env, training=False) if isinstance(env, str) else example_of(env)
        self.interface.require_same(Interface.of(env, self.config.memory.stack))
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
