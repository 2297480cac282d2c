"""The whole chain in one file:

environment → policy → Episode → memory → sampler → Span → target rule → Targets → backlog → learner → evaluation → events

The whole state of the loop is in fields, so that ``loop_state.py`` can save it between any two steps.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ebu.config import Config
from ebu.errors import Interrupted, UserError
from ebu.learning.backlog import Backlog
from ebu.learning.learner import Learner
from ebu.learning.policies import Policies
from ebu.learning.policy import Policy
from ebu.learning.reward_model import RewardModel
from ebu.learning.rotation import Rotation
from ebu.learning.schedules import epsilon_schedule, learning_rate
from ebu.learning.span_values import SpanValues
from ebu.memory.episodes import EpisodeMemory
from ebu.memory.samplers import Sampler
from ebu.seeding import Streams, torch_generator, unchanged_if_interrupted
from ebu.storage.faults import reached
from ebu.training.actors import Actors
from ebu.training.due import due_after
from ebu.training.environment import Environment, Interface, Step, game_score, relative_length
from ebu.training.environments import Environments
from ebu.training.evaluate import evaluate
from ebu.training.events import EpisodeEnded, Evaluated, Event, Synchronised, Trained
from ebu.training.logger import Logger
from ebu.training.statistics import TrainingStatistics
from ebu.types import Span, Targets


class TrainingLoop:
    """Trains on one environment or several: ``plan`` the run, then ``advance`` it, which yields events as they happen."""

    def __init__(
        self,
        config: Config,
        interface: Interface,
        environments: Environments,
        evaluation_environment: Environment | None,
        *,
        sampler: Sampler,
        rule: Callable[[SpanValues], Targets],
        learner: Learner,
        reward_model: RewardModel | None = None,
        learners: int = 1,
        ensemble: bool = False,
        needs_behaviour: bool = False,
    ) -> None:
        self.config = config
        self.interface = interface
        self.evaluation_environment = evaluation_environment
        self.streams = Streams(config.run.seed)
        self.learner = learner
        self.learner.initialise(torch_generator(self.streams.initialisation), config.network.initialisation)
        self.reward_model = reward_model
        if reward_model is not None:
            generator = torch_generator(self.streams.initialisation)
            reward_model.initialise(generator, config.network.initialisation)
        by_mean = config.target.acting == "mean"
        self.policies = Policies(
            learner, learners, interface.actions, needs_behaviour, ensemble=ensemble, acts_by_mean=by_mean
        )
        self.actors = Actors(environments, interface.stack, config.exploration.random_first_actions)
        interval = None if ensemble else config.target.sync_interval
        self.rotation = Rotation(learners, interval, config.target.sync_score, len(self.actors))
        self.memory = EpisodeMemory(
            config.memory.buffer_size,
            interface.spec.shape,
            interface.spec.dtype,
            gamma=config.target.gamma,
            stack=interface.stack,
            truncation_is_terminal=config.target.truncation_is_terminal,
            compress=config.memory.compress,
        )
        self.sampler = sampler
        self.rule = rule
        self.backlog = Backlog(self.device)
        self.statistics = TrainingStatistics(self.device)
        self.logger = Logger()

        self.step = 0
        self.episodes = 0
        self.updates = 0
        self.plan_start = 0  # the step at which the present plan begins …
        self.planned_steps = 0  # … and how many steps it has: schedules are functions of both
        self.epsilon = epsilon_schedule(config.exploration, 0, 0)
        self.due: list[str] = []  # phases still to be done after the last step
        self.phases: dict[str, Callable[[], Event | None]] = {
            "learn": self._learn,
            "update_target": self.learner.update_target,
            "log": lambda: Trained(self.step, self.metrics(), self.logger.take()),
            "evaluate": self.evaluate,
        }
        self.longest_episode = min(config.environment.max_episode_steps, config.memory.buffer_size)
        self.should_stop: Callable[[], bool] = lambda: False  # asked during long computations
        self.while_evaluating: Callable[[], None] = lambda: None  # called at every step of an evaluation

    @property
    def device(self) -> torch.device:
        return self.learner.online.device

    @property
    def has_begun(self) -> bool:
        """Whether anything was played, learned or remembered."""
        return bool(self.step or self.updates or self.memory.end_episode)

    def plan(self, steps: int, start: int = 0) -> None:
        """Schedules of ε, the learning rate and priorities over this many steps from step ``start`` on."""
        self.plan_start, self.planned_steps = start, steps
        until_learning = max(self.config.learner.learning_starts - start, 0)
        self.epsilon = epsilon_schedule(self.config.exploration, steps, until_learning)

    def request_evaluation(self) -> None:
        """Have the policy evaluated next, whatever the interval."""
        self.due.append("evaluate")

    @property
    def is_busy(self) -> bool:
        """Whether something is still due after the last step."""
        return bool(self.due)

    def advance(self) -> Iterator[Event]:
        """A step in every environment and everything that is due after it, or what is still due after an interruption.

        What is due is recorded before it is done and removed after, so that a run interrupted in a long computation
        continues with it.
        """
        if not self.due:
            before, episodes = self.step, self.episodes
            try:
                played = self._play()
            except BaseException:  # the environment's state is unknown
                self.drop_open_episodes()
                raise
            self.due = due_after(self, before, episodes)
            yield from played
        while self.due:
            if self.should_stop():
                raise Interrupted
            event = self.phases[self.due[0]]()
            del self.due[0]
            if event is not None:
                yield event

    # ------------------------------------------------------------------ environment → policy → Episode → memory

    def _play(self) -> list[Event]:
        epsilon = self.epsilon(self.step - self.plan_start)
        policies = [self.policies.acting(learner) for learner in self.rotation.playing]
        events: list[Event] = []
        for actor, result in enumerate(self.actors.play(policies, epsilon, self.streams, f"at step {self.step + 1}")):
            self.step += 1
            was_cut = not result.over and self.actors.length(actor) >= self.longest_episode
            if result.over or was_cut:
                events += self._end_episode(actor, result, was_cut)
        return events

    def _end_episode(self, actor: int, last: Step, was_cut: bool) -> list[Event]:
        episode, score = self.actors.finish(actor, last.terminated)
        self.memory.add(episode)
        self.episodes += 1
        ended = EpisodeEnded(
            step=self.step,
            episode=self.episodes,
            score=score,
            length=len(episode),
            terminated=last.terminated,
            relative_length=relative_length(len(episode), last.info),
            was_cut=was_cut,
            game_score=game_score(last.info),
        )
        self.statistics.episode_ended(ended)
        self.rotation.episode_ended(score, actor)
        return [ended, self._synchronise()] if self.rotation.is_due(self.step) else [ended]

    def _synchronise(self) -> Event:
        """Adaptive EBU: the learner that scored best is copied to all."""
        best, scores = self.rotation.leader(), self.rotation.scores()
        self.learner.copy_to_all(best)
        reached("synchronise")
        self.rotation.synchronised(self.step)
        return Synchronised(self.step, best, self.config.target.betas[best], scores)

    # ------------------------------------------------------------------ sampler → Span → Targets → backlog → learner

    def _learn(self) -> None:
        passed = self.step - self.plan_start
        self.update(passed, self.planned_steps, self.epsilon(passed))

    def update(self, passed: int, planned: int, epsilon: float) -> None:
        """One gradient step, ``passed`` of ``planned`` steps into the schedules; ``epsilon`` is the behaviour's."""
        config = self.config.learner
        if len(self.backlog) < (1 if config.whole_episode else config.batch_size):
            wanted = 1 if config.whole_episode else self.sampler.minibatches * config.batch_size - len(self.backlog)
            progress = min(passed / planned, 1.0)
            with unchanged_if_interrupted(self.streams.sampling):
                span = self.sampler.sample(self.memory, wanted, self.streams.sampling, progress)
                reached("targets")
                self._make_targets(span, epsilon)
        batch = self.backlog.pop(len(self.backlog) if config.whole_episode else config.batch_size)
        self.learner.set_learning_rate(learning_rate(config, passed, planned))
        update = self.learner.update(batch)
        if self.sampler.wants_errors:
            self.sampler.feedback(batch.steps, update.first_errors)
        self.statistics.updated(update)
        self.updates += 1
        if config.reset_every and self.updates % config.reset_every == 0:
            self.learner.reset_outputs(torch_generator(self.streams.initialisation), self.config.network.initialisation)

    def _make_targets(self, span: Span, epsilon: float) -> None:
        """From a span's rewards or, with a reward model, from redistributed ones."""
        if self.reward_model is None:
            self._push(span, epsilon)
            return
        self.reward_model.judge(self.memory, self.should_stop)
        lesson = self.reward_model.redistribute(span, self.should_stop)
        self._push(lesson.span, epsilon)
        self.reward_model.learn(lesson)  # after all that may be interrupted and done again

    def _push(self, span: Span, epsilon: float) -> None:
        values = SpanValues(span, self.learner, epsilon, self.should_stop, self.updates)
        targets = self.rule(values)
        self._require_targets(targets, [self.learner.online.learners, len(span.rewards)])
        self.backlog.push(span, targets, values.states)

    def _require_targets(self, targets: Any, shape: list[int]) -> None:
        """A rule may be the user's own."""
        values = targets.values if isinstance(targets, Targets) else None
        if not isinstance(values, torch.Tensor) or list(values.shape) != shape:
            got = f"values {list(values.shape)}" if isinstance(values, torch.Tensor) else f"a {type(targets).__name__}"
            wanted = f"Targets(values) with values [K, N], here {shape}"
            raise UserError(f"the rule of {self.config.algo} returned {got} instead of {wanted} (docs/own-method.md)")

    # ------------------------------------------------------------------ evaluation and metrics

    @property
    def policy(self) -> Policy:
        """The policy to be evaluated."""
        return self.policies.judged(self.rotation.leader())

    def evaluate(self) -> Evaluated:
        """The current policy on whole episodes of its own environment."""
        assert self.evaluation_environment is not None
        config = self.config.evaluation
        rng = copy.deepcopy(self.streams.evaluation)  # so that a checkpoint written meanwhile has it as it was before
        result = evaluate(
            self.policy,
            self.evaluation_environment,
            episodes=config.eval_episodes,
            epsilon=config.eval_epsilon,
            gamma=self.config.target.gamma,
            rng=rng,
            stack=self.interface.stack,
            random_first_actions=self.config.exploration.random_first_actions,
            max_steps=self.config.environment.max_episode_steps,
            should_stop=self._evaluation_should_stop,
        )
        self.streams.evaluation.bit_generator.state = rng.bit_generator.state
        return Evaluated(self.step, result)

    def _evaluation_should_stop(self) -> bool:
        self.while_evaluating()
        return self.should_stop()

    def metrics(self) -> dict[str, Any]:
        metrics = {
            "episodes": self.episodes,
            "updates": self.updates,
            "epsilon": round(self.epsilon(self.step - self.plan_start), 6),
            "memory_steps": self.memory.steps,
            "memory_episodes": self.memory.episodes,
            **self.statistics.episodes(),
            **self.statistics.take_updates(self.step),
        }
        if "loss" in metrics and self.rotation.learners > 1 and self.policies.mean is None:
            metrics["beta"] = self.config.target.betas[self.rotation.chosen]
        if self.reward_model is not None:
            metrics["explained_returns"] = round(self.reward_model.statistics.explained, 6)
        return metrics

    def drop_open_episodes(self) -> None:
        """Forget what is being played: what cannot be continued exactly must not be learned from as if it were."""
        for actor in range(len(self.actors)):
            self.actors.drop(actor)
