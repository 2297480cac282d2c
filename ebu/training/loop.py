"""The whole chain in one file:

environment → actor → Episode → memory → sampler → Span → target rule → Targets → backlog → learner → evaluation → events

Everything the loop knows lives in fields, so that it can be saved between any two steps.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import gymnasium
import numpy as np
import torch

from ebu.config import Config
from ebu.distributed.learner import DistributedLearner, Plan
from ebu.distributed.processes import Team
from ebu.envs.spaces import count_actions, describe
from ebu.errors import EnvironmentFailure, Interrupted, RunFailure
from ebu.learning.backlog import Backlog
from ebu.learning.learner import Learner, Update
from ebu.learning.policy import FrameStack, Policy
from ebu.learning.rotation import Rotation
from ebu.learning.schedules import epsilon_schedule, learning_rate
from ebu.learning.span_values import SpanValues
from ebu.memory.episodes import EpisodeMemory
from ebu.memory.samplers import Sampler
from ebu.seeding import Streams, draw_seed, torch_generator
from ebu.storage.faults import reached
from ebu.training.environment_state import told_as_failure
from ebu.training.evaluate import clip_reward, evaluate
from ebu.training.events import EpisodeEnded, Evaluated, Event, Synchronised, Trained
from ebu.training.open_episode import OpenEpisode
from ebu.types import Array, Targets

RECENT_EPISODES = 100
LARGEST_REWARD = float(np.finfo(np.float32).max)  # rewards are stored as float32


class TrainingLoop:
    """Trains on one environment: ``plan`` the run, then ``advance`` step by step, which yields events as they happen."""

    def __init__(
        self,
        config: Config,
        env: gymnasium.Env[Any, Any],
        evaluation_env: gymnasium.Env[Any, Any] | None,
        *,
        sampler: Sampler,
        rule: Callable[[SpanValues], Targets],
        device: torch.device,
        learners: int = 1,
        needs_behaviour: bool = False,
        team: Team | None = None,
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
        plan = Plan(config, spec, self.actions, stack, learners)
        self.learner: Learner | DistributedLearner = (
            plan.build(learners, device) if team is None else DistributedLearner(team, plan, device)
        )
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
        self._due: list[str] = []  # phases still to be done after the last step
        self._phases: dict[str, Callable[[], Event | None]] = {
            "learn": self._learn,
            "update_target": self.learner.update_target,
            "log": lambda: Trained(self.step, self._training_metrics()),
            "evaluate": self.evaluate,
        }
        self.should_stop: Callable[[], bool] = lambda: False  # asked during long computations

    def plan(self, steps: int) -> None:
        """Fix the schedules for a run of this many steps; a plan made before stays."""
        if not self.planned_steps:
            self.planned_steps = steps
            self.epsilon = epsilon_schedule(self.config.exploration, steps, self.config.learner.learning_starts)

    def request_evaluation(self) -> None:
        """Have the policy evaluated next, whatever the interval."""
        self._due.append("evaluate")

    @property
    def is_busy(self) -> bool:
        """Whether something is still due after the last step."""
        return bool(self._due)

    def advance(self) -> Iterator[Event]:
        """One agent step and everything that is due after it, or what is still due after an interruption.

        What is due is noted before it is done and crossed out after, so that a run interrupted in a long computation
        goes on with it.
        """
        if not self._due:
            try:
                played = self._play()
            except EnvironmentFailure:  # nobody knows what state the environment is in
                self.drop_open_episode()
                raise
            yield from played
            self._due = self._what_is_due()
        while self._due:
            if self.should_stop():
                raise Interrupted
            event = self._phases[self._due[0]]()
            del self._due[0]
            if event is not None:
                yield event

    def _what_is_due(self) -> list[str]:
        """The names of the phases that follow the step just played."""
        learner, evaluation, step = self.config.learner, self.config.evaluation, self.step
        due = []
        if step > learner.learning_starts and step % learner.train_freq == 0 and self.memory.episodes:
            due += ["learn"] * learner.gradient_steps
        if step % learner.target_update_interval == 0:
            due.append("update_target")
        if step % self.config.run.log_every == 0:
            due.append("log")
        if evaluation.eval_every and step % evaluation.eval_every == 0 and self.evaluation_env is not None:
            due.append("evaluate")
        return due

    # ------------------------------------------------------------------ environment → actor → Episode → memory

    def _play(self) -> list[Event]:
        if self.open is None:
            self._begin_episode()
        assert self.open is not None and self.state is not None
        opening = len(self.open.actions) < self.config.exploration.random_first_actions
        epsilon = 1.0 if opening else self.epsilon(self.step)
        policy = self.policies[self.rotation.current]
        action, probability = policy.act(self.state, epsilon, self.streams.exploration)
        with told_as_failure(f"at step {self.step + 1}, after action {action}"):
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
        with told_as_failure(f"at the reset before step {self.step + 1}"):
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
        reached("synchronise")
        self.rotation.synchronised(self.step)
        return Synchronised(self.step, best, self.config.target.betas[best], scores)

    def _require_finite(self, frame: Array, reward: float, learned_reward: float, action: int | None) -> None:
        """A damaged number must not reach the memory, from where it would spread to every weight."""
        after = "at reset" if action is None else f"after action {action}"
        if not (math.isfinite(reward) and abs(learned_reward) <= LARGEST_REWARD):
            raise EnvironmentFailure(f"the environment returned the reward {reward} at step {self.step + 1}, {after}")
        if self._frames_can_be_damaged and not np.isfinite(frame).all():
            place = np.argwhere(~np.isfinite(frame))[0].tolist()
            raise EnvironmentFailure(
                f"the environment returned an observation with {frame[tuple(place)]} at index {place} "
                f"at step {self.step + 1}, {after}"
            )

    # ------------------------------------------------------------------ sampler → Span → Targets → backlog → learner

    def _learn(self) -> None:
        config = self.config.learner
        if len(self.backlog) < (1 if config.whole_episode else config.batch_size):
            wanted = 1 if config.whole_episode else self.sampler.minibatches * config.batch_size - len(self.backlog)
            self.sampler.progress = min(self.step / self.planned_steps, 1.0)
            with unchanged_if_interrupted(self.streams.sampling):
                span = self.sampler.sample(self.memory, wanted, self.streams.sampling)
                reached("targets")
                valued = SpanValues(span, self.learner, self.epsilon(self.step), self.should_stop)
                self.backlog.push(span, self.rule(valued))
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
        with unchanged_if_interrupted(self.streams.evaluation):
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
                should_stop=self.should_stop,
            )
        return Evaluated(self.step, result)

    # ------------------------------------------------------------------ saving

    def state_dict(self) -> dict[str, Any]:
        """Everything but the environment and the stored episodes."""
        self._since_row = [Update(u.loss.sum(), u.values.mean(), u.errors) for u in self._since_row]
        return {
            "step": self.step,
            "episodes": self.episodes,
            "updates": self.updates,
            "planned_steps": self.planned_steps,
            "due": list(self._due),
            "streams": self.streams.state_dict(),
            "learner": self.learner.state_dict(),
            "memory": self.memory.state_dict(),
            "sampler": self.sampler.state_dict(),
            "backlog": self.backlog.state_dict(),
            "rotation": self.rotation.state_dict(),
            "recent": [asdict(ended) for ended in self._recent],
            "losses": np.array([float(u.loss) for u in self._since_row], np.float32),
            "values": np.array([float(u.values) for u in self._since_row], np.float32),
            "open": self.open.state_dict() if self.open is not None else None,
        }

    def load_state_dict(self, state: dict[str, Any], episodes: Iterable[tuple[int, bytes]]) -> None:
        """Back to a saved state. The environment is brought back by the caller, who may have to drop the open episode."""
        self.plan(int(state["planned_steps"]))
        self.step, self.episodes, self.updates = (int(state[key]) for key in ("step", "episodes", "updates"))
        self._due = list(state["due"])
        if not set(self._due) <= self._phases.keys() or min(self.step, self.episodes, self.updates) < 0:
            raise ValueError("it stands at an impossible place")
        self.streams.load_state_dict(state["streams"])
        self.learner.load_state_dict(state["learner"])
        self.memory.restart(int(state["memory"]["first_episode"]), int(state["memory"]["first_step"]))
        for number, packed in episodes:
            self.memory.unpack(number, packed)
        self.sampler.load_state_dict(state["sampler"])
        self.backlog.load_state_dict(state["backlog"], self.rotation.learners, self.actions)
        self.rotation.load_state_dict(state["rotation"])
        for ended in state["recent"]:
            optional = ("relative_length", "game_score")
            if not all(isinstance(v, int | float) or (v is None and k in optional) for k, v in ended.items()):
                raise ValueError("an episode's score is not a number")
            self._recent.append(EpisodeEnded(**ended))
        losses, values = (torch.from_numpy(np.array(state[key])).to(self.device) for key in ("losses", "values"))
        self._since_row = [Update(loss, value, value) for loss, value in zip(losses, values)]
        if state["open"] is not None:
            spec = self.observations.spec
            self.open = OpenEpisode.from_state_dict(state["open"], spec.shape, spec.dtype, self.actions)
            self.state = self.frame_stack.begin(self.open.observations[0])
            for frame in self.open.observations[1:]:
                self.state = self.frame_stack.push(frame)

    def drop_open_episode(self) -> None:
        """Forget the episode being played: what cannot be continued exactly must not be learned from as if it were."""
        self.open = self.state = None

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


@contextmanager
def unchanged_if_interrupted(rng: np.random.Generator) -> Iterator[None]:
    """Work that is abandoned gives its random numbers back, so that doing it again gives the same result."""
    before = rng.bit_generator.state
    try:
        yield
    except (Interrupted, EnvironmentFailure):
        rng.bit_generator.state = before
        raise


def relative_length(length: int, info: dict[str, Any]) -> float | None:
    """Steps taken over the shortest path's, where the environment knows it."""
    return length / info["shortest_path"] if "shortest_path" in info else None
