"""The whole chain in one file:

environment → actor → Episode → memory → sampler → Span → target rule → Targets → backlog → learner → evaluation → events

Everything the loop knows lives in fields, so that it can be saved between any two steps.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
import torch

from ebu.agent.actor import FrameStack, Policy
from ebu.agent.adaptive import Rotation
from ebu.agent.backlog import Backlog
from ebu.agent.learner import Learner, Update
from ebu.agent.networks import build_network
from ebu.agent.schedules import epsilon_schedule, learning_rate
from ebu.agent.valued import ValuedSpan
from ebu.config import Config
from ebu.envs.spaces import count_actions, describe
from ebu.errors import RunFailure
from ebu.memory.episodes import EpisodeMemory
from ebu.memory.samplers import Sampler
from ebu.seeding import Streams, draw_seed, torch_generator
from ebu.training.evaluate import clip_reward, evaluate
from ebu.training.events import EpisodeEnded, Evaluated, Event, Synchronised, Trained
from ebu.types import Array, Episode, Targets

RECENT_EPISODES = 100
LARGEST_REWARD = float(np.finfo(np.float32).max)  # rewards are stored as float32


@dataclass
class OpenEpisode:
    """The episode being played."""

    seed: int
    observations: list[Array]
    actions: list[int] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)  # as learned from
    behaviour: list[float] = field(default_factory=list)
    score: float = 0.0  # raw

    def finish(self, terminated: bool) -> Episode:
        return Episode(
            observations=np.stack(self.observations),
            actions=np.array(self.actions, np.int64),
            rewards=np.array(self.rewards, np.float32),
            behaviour=np.array(self.behaviour, np.float32),
            terminated=terminated,
            truncated=not terminated,
        )


class TrainingLoop:
    """Trains on one environment; ``run`` yields events as they happen."""

    def __init__(
        self,
        config: Config,
        env: gymnasium.Env[Any, Any],
        evaluation_env: gymnasium.Env[Any, Any] | None,
        *,
        sampler: Sampler,
        rule: Callable[[ValuedSpan], Targets],
        device: torch.device,
        learners: int = 1,
        needs_behaviour: bool = False,
    ) -> None:
        self.config = config
        self.env = env
        self.evaluation_env = evaluation_env
        self.device = device
        self.streams = Streams(config.run.seed)
        self.observations = describe(env.observation_space)
        self.actions = count_actions(env.action_space)
        self._frames_can_be_damaged = self.observations.spec.can_be_damaged

        spec = self.observations.spec
        stack = config.memory.stack if spec.kind == "image" else 1
        skeleton = build_network(spec, self.actions, stack, config.network)
        self.learner = Learner(skeleton, learners, config.learner, config.target.tightening_weight, device)
        self.learner.initialise(torch_generator(self.streams.initialisation), config.network.initialisation)
        self.policies = [
            Policy(self.learner.online.state_values(k), self.actions, needs_behaviour) for k in range(learners)
        ]
        self.rotation = Rotation(learners, config.target.sync_interval, config.target.sync_score)
        self.memory = EpisodeMemory(
            config.memory.buffer_size,
            spec.shape,
            spec.dtype,
            gamma=config.target.gamma,
            stack=stack,
            truncation_is_terminal=config.target.truncation_is_terminal,
            compress=config.memory.compress,
        )
        self.sampler = sampler
        self.rule = rule
        self.backlog = Backlog(device)
        self.frame_stack = FrameStack(stack)

        self.step = 0
        self.episodes = 0
        self.updates = 0
        self.planned_steps = 0  # of the first run, which fixes the schedules
        self.epsilon = epsilon_schedule(config.exploration, 0, 0)
        self.open: OpenEpisode | None = None
        self.state: Array | None = None
        self._recent: deque[EpisodeEnded] = deque(maxlen=RECENT_EPISODES)
        self._since_row: list[Update] = []

    def run(self, steps: int) -> Iterator[list[Event]]:
        """Train for ``steps`` more agent steps, yielding what happened at each. The first call fixes the schedules."""
        if not self.planned_steps:
            self.planned_steps = steps
            self.epsilon = epsilon_schedule(self.config.exploration, steps, self.config.learner.learning_starts)
        until = self.step + steps
        while self.step < until:
            yield self.advance()

    def advance(self) -> list[Event]:
        """One agent step and everything that is due after it."""
        learner, evaluation = self.config.learner, self.config.evaluation
        events = self._play()
        if self.step > learner.learning_starts and self.step % learner.train_freq == 0 and self.memory.episodes:
            for _ in range(learner.gradient_steps):
                self._learn()
        if self.step % learner.target_update_interval == 0:
            self.learner.update_target()
        if self.step % self.config.run.log_every == 0:
            events.append(Trained(self.step, self._training_metrics()))
        if evaluation.eval_every and self.step % evaluation.eval_every == 0 and self.evaluation_env is not None:
            events.append(self.evaluate())
        return events

    # ------------------------------------------------------------------ environment → actor → Episode → memory

    def _play(self) -> list[Event]:
        if self.open is None:
            self._begin_episode()
        assert self.open is not None and self.state is not None
        opening = len(self.open.actions) < self.config.exploration.random_first_actions
        epsilon = 1.0 if opening else self.epsilon(self.step)
        policy = self.policies[self.rotation.current]
        action, probability = policy.act(self.state, epsilon, self.streams.exploration)
        observation, reward, terminated, truncated, info = self.env.step(action)
        frame = self.observations.encode(observation)
        learned_reward = clip_reward(float(reward), self.config.environment.reward_clip)
        self._require_finite(frame, float(reward), learned_reward, action)

        self.open.observations.append(frame)
        self.open.actions.append(action)
        self.open.rewards.append(learned_reward)
        self.open.behaviour.append(probability)
        self.open.score += float(reward)
        self.state = self.frame_stack.push(frame)
        self.step += 1
        return self._end_episode(terminated, info) if terminated or truncated else []

    def _begin_episode(self) -> None:
        seed = draw_seed(self.streams.episodes)
        observation, _ = self.env.reset(seed=seed)
        frame = self.observations.encode(observation)
        self._require_finite(frame, 0.0, 0.0, None)
        self.open = OpenEpisode(seed, [frame])
        self.state = self.frame_stack.begin(frame)

    def _end_episode(self, terminated: bool, info: dict[str, Any]) -> list[Event]:
        assert self.open is not None
        episode = self.open.finish(terminated)
        self.memory.add(episode)
        self.episodes += 1
        ended = EpisodeEnded(
            step=self.step,
            episode=self.episodes,
            score=self.open.score,
            length=len(episode),
            terminated=terminated,
            relative_length=relative_length(len(episode), info),
            game_score=info.get("score") if info.get("game_over") else None,
        )
        self._recent.append(ended)
        self.rotation.episode_ended(self.open.score)
        self.open = self.state = None
        return [ended, self._synchronise()] if self.rotation.is_due(self.step) else [ended]

    def _synchronise(self) -> Event:
        """Adaptive EBU: the learner that scored best is copied to all."""
        best, scores = self.rotation.leader(), self.rotation.scores()
        self.learner.copy_to_all(best)
        self.rotation.synchronised(self.step)
        return Synchronised(self.step, best, self.config.target.betas[best], scores)

    def _require_finite(self, frame: Array, reward: float, learned_reward: float, action: int | None) -> None:
        """A damaged number must not reach the memory, from where it would spread to every weight."""
        after = "at reset" if action is None else f"after action {action}"
        if not (math.isfinite(reward) and abs(learned_reward) <= LARGEST_REWARD):
            raise RunFailure(f"the environment returned the reward {reward} at step {self.step + 1}, {after}")
        if self._frames_can_be_damaged and not np.isfinite(frame).all():
            place = np.argwhere(~np.isfinite(frame))[0].tolist()
            raise RunFailure(
                f"the environment returned an observation with {frame[tuple(place)]} at index {place} "
                f"at step {self.step + 1}, {after}"
            )

    # ------------------------------------------------------------------ sampler → Span → Targets → backlog → learner

    def _learn(self) -> None:
        config = self.config.learner
        missing = (1 if config.whole_episode else config.batch_size) - len(self.backlog)
        if missing > 0:
            self.sampler.progress = min(self.step / self.planned_steps, 1.0)
            span = self.sampler.sample(self.memory, missing, self.streams.sampling)
            self.backlog.push(span, self.rule(ValuedSpan(span, self.learner, self.epsilon(self.step))))
        batch = self.backlog.pop(len(self.backlog) if config.whole_episode else config.batch_size)
        self.learner.set_learning_rate(learning_rate(config, self.step, self.planned_steps))
        update = self.learner.update(batch)
        if self.sampler.wants_errors:
            self.sampler.feedback(batch.steps, update.errors[0].numpy(force=True))
        self._since_row.append(update)
        self.updates += 1

    # ------------------------------------------------------------------ evaluation and metrics

    @property
    def policy(self) -> Policy:
        """The policy to be judged: of K learners, the one that leads and would be copied to all."""
        return self.policies[self.rotation.leader()]

    def evaluate(self) -> Evaluated:
        """The current policy on whole episodes of its own environment."""
        assert self.evaluation_env is not None
        config = self.config.evaluation
        result = evaluate(
            self.policy.values,
            self.evaluation_env,
            episodes=config.eval_episodes,
            epsilon=config.eval_epsilon,
            random_first_actions=self.config.exploration.random_first_actions,
            gamma=self.config.target.gamma,
            reward_clip=self.config.environment.reward_clip,
            stack=self.memory.stack,
            rng=self.streams.evaluation,
        )
        return Evaluated(self.step, result)

    def _training_metrics(self) -> dict[str, Any]:
        metrics: dict[str, Any] = {
            "episodes": self.episodes,
            "updates": self.updates,
            "epsilon": round(self.epsilon(self.step), 6),
            "memory_steps": self.memory.steps,
            "memory_episodes": self.memory.episodes,
        }
        if self._recent:
            metrics["ep_rew_mean"] = float(np.mean([e.score for e in self._recent]))
            metrics["ep_len_mean"] = float(np.mean([e.length for e in self._recent]))
            games = [e.game_score for e in self._recent if e.game_score is not None]
            if games:
                metrics["game_score_mean"] = float(np.mean(games))
            if self._recent[-1].relative_length is not None:
                metrics["relative_length"] = self._recent[-1].relative_length
        if self._since_row:
            metrics["loss"] = float(torch.stack([u.loss.sum() for u in self._since_row]).mean())
            metrics["q_mean"] = float(torch.stack([u.values.mean() for u in self._since_row]).mean())
            if self.rotation.learners > 1:
                metrics["beta"] = self.config.target.betas[self.rotation.chosen]
            if not math.isfinite(metrics["loss"]):
                raise RunFailure(
                    f"the loss became {metrics['loss']} before step {self.step}; try a smaller --learning-rate"
                )
            self._since_row.clear()
        return metrics


def relative_length(length: int, info: dict[str, Any]) -> float | None:
    """Steps taken over the shortest path's, where the environment knows it."""
    return length / info["shortest_path"] if "shortest_path" in info else None
