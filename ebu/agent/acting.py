"""How an agent acts: ``predict``, values, scores."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from ebu.agent.base import BaseAgent
from ebu.envs.spaces import InvalidValue
from ebu.errors import UserError
from ebu.learning.policy import FrameStack
from ebu.training.environment import Environment, Interface
from ebu.types import Array, Evaluation


class Acting(BaseAgent):
    """The part of an agent that acts."""

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
