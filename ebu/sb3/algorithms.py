"""DQN of Stable-Baselines3 with whole episodes replayed from their ends and the targets of ``ebu.targets``.

Everything else is SB3's: exploration, the target network, the optimiser, the loss and the clipping of gradients.
"""

from __future__ import annotations

import io
import pathlib
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import DQN
from torch import Tensor
from torch.nn.functional import smooth_l1_loss

from ebu.errors import UserError
from ebu.sb3.backlog import Backlog, parts_of
from ebu.sb3.buffers import DictEpisodeReplayBuffer, EpisodeReplayBuffer, Episodes, Observations
from ebu.targets import backward, chosen_by, double_backward, peng

MINIBATCHES_AHEAD = 8  # short episodes are drawn several at a time: one computation of targets serves some minibatches
CHUNK_STEPS = 1_024  # states that pass through a network at once, where an episode is longer


class EpisodicDQN(DQN):
    """Replays whole episodes; a subclass says what their targets are.

    An episode's targets are computed once, with the target network of that moment, and are used up in minibatches from the
    episode's end backward.

    Args:
      double_q: the online network chooses the action inside the maximum, the target network values it.
      options: all that SB3's ``DQN`` takes.
    """

    replay_buffer: Any

    def __init__(self, *arguments: Any, double_q: bool = False, **options: Any) -> None:
        if options.get("n_steps", 1) != 1:
            words = f"n_steps must be 1, got {options['n_steps']}"
            raise UserError(f"{words}; {type(self).__name__} already looks ahead to the end of the episode")
        self.double_q = double_q
        super().__init__(*arguments, **options)

    def episode_targets(self, episodes: Episodes, discounts: Tensor, q_next: Tensor, q_online_next: Tensor | None) -> Tensor:
        """y[N] for the steps of some episodes; ``q_next`` is [N, A], and so is ``q_online_next`` with double Q."""
        raise NotImplementedError

    # ------------------------------------------------------------------ what SB3 calls

    def _setup_model(self) -> None:
        if self.replay_buffer_class is None:
            of_dictionaries = isinstance(self.observation_space, spaces.Dict)
            self.replay_buffer_class = DictEpisodeReplayBuffer if of_dictionaries else EpisodeReplayBuffer
        super()._setup_model()
        self._require_episodes()
        self._backlog = Backlog()

    def set_random_seed(self, seed: int | None = None) -> None:
        super().set_random_seed(seed)
        self._rng = np.random.default_rng(seed)

    def _setup_learn(
        self, total_timesteps: int, callback: Any = None, reset_num_timesteps: bool = True, *more: Any, **options: Any
    ) -> tuple[int, Any]:
        if reset_num_timesteps or self._last_obs is None:  # SB3 will reset the environments
            self.replay_buffer.end_open_episodes()
        return super()._setup_learn(total_timesteps, callback, reset_num_timesteps, *more, **options)

    def learn(
        self,
        total_timesteps: int,
        callback: Any = None,
        log_interval: int = 4,
        tb_log_name: str | None = None,
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> Self:
        name = type(self).__name__ if tb_log_name is None else tb_log_name
        return super().learn(total_timesteps, callback, log_interval, name, reset_num_timesteps, progress_bar)

    def load_replay_buffer(self, path: str | pathlib.Path | io.BufferedIOBase, truncate_last_traj: bool = True) -> None:
        """As SB3's. The episodes in progress count as cut, unless ``truncate_last_traj`` is false and they are continued."""
        super().load_replay_buffer(path, truncate_last_traj)
        self._require_episodes()
        if truncate_last_traj:
            self.replay_buffer.end_open_episodes()
        self._backlog = Backlog()

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "_backlog"]

    def train(self, gradient_steps: int, batch_size: int = 32) -> None:
        self._update_learning_rate(self.policy.optimizer)
        losses = []
        for _ in range(gradient_steps):
            observations, actions, targets = self._next_batch(batch_size)
            self.policy.set_training_mode(True)
            values = self.q_net(observations).gather(1, actions.unsqueeze(1)).squeeze(1)
            loss = smooth_l1_loss(values, targets)
            self.policy.optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
            self.policy.optimizer.step()
            losses.append(loss.item())
        self._n_updates += gradient_steps
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self.logger.record("train/loss", np.mean(losses))

    # ------------------------------------------------------------------ targets

    def _next_batch(self, batch_size: int) -> tuple[Observations, Tensor, Tensor]:
        if len(self._backlog) < batch_size:
            wanted = MINIBATCHES_AHEAD * batch_size - len(self._backlog)
            episodes = self.replay_buffer.sample_episodes(wanted, self._rng, env=self._vec_normalize_env)
            self._backlog.push(episodes, self._targets_of(episodes))
        return self._backlog.pop(batch_size)

    @torch.no_grad()
    def _targets_of(self, episodes: Episodes) -> Tensor:
        self.policy.set_training_mode(False)
        q_next = torch.cat([self.q_net_target(part) for part in self._chunks(episodes)])
        q_online_next = None
        if self.double_q:
            q_online_next = torch.cat([self.q_net(part) for part in self._chunks(episodes)])
        discounts = self.gamma * (1 - episodes.terminated)
        return self.episode_targets(episodes, discounts, q_next, q_online_next)

    def _chunks(self, episodes: Episodes) -> Iterator[Observations]:
        return parts_of(episodes.next_observations, len(episodes), CHUNK_STEPS)

    def _require_episodes(self) -> None:
        if not hasattr(self.replay_buffer, "sample_episodes"):
            needed = f"{EpisodeReplayBuffer.__name__} or {DictEpisodeReplayBuffer.__name__} of ebu.sb3"
            given = type(self.replay_buffer).__name__
            raise UserError(f"{type(self).__name__} replays whole episodes: its buffer must be {needed}, got {given}")


class EBU(EpisodicDQN):
    """Episodic Backward Update (Lee, Choi and Chung, 2019) as an algorithm of Stable-Baselines3.

    Args:
      beta: the diffusion factor: 0 is one-step, 1 trusts the backward value fully.
      options: as for ``EpisodicDQN``.
    """

    def __init__(self, *arguments: Any, beta: float = 0.5, **options: Any) -> None:
        self.beta = _share("beta", beta)
        super().__init__(*arguments, **options)

    def episode_targets(self, episodes: Episodes, discounts: Tensor, q_next: Tensor, q_online_next: Tensor | None) -> Tensor:
        tables = (q_next,) if q_online_next is None else (q_next, q_online_next)
        rule: Any = backward if q_online_next is None else double_backward
        return rule(episodes.rewards, discounts, episodes.actions, *tables, self.beta, episodes.continues)


class PengQ(EpisodicDQN):
    """Peng's Q(λ) (Peng and Williams, 1996) as an algorithm of Stable-Baselines3.

    Args:
      trace_lambda: λ; 1 is the Monte-Carlo return.
      options: as for ``EpisodicDQN``.
    """

    def __init__(self, *arguments: Any, trace_lambda: float = 0.7, **options: Any) -> None:
        self.trace_lambda = _share("trace_lambda", trace_lambda)
        super().__init__(*arguments, **options)

    def episode_targets(self, episodes: Episodes, discounts: Tensor, q_next: Tensor, q_online_next: Tensor | None) -> Tensor:
        best = q_next if q_online_next is None else chosen_by(q_next, q_online_next)
        return peng(episodes.rewards, discounts, best, self.trace_lambda, episodes.continues)


def _share(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise UserError(f"{name} must be between 0 and 1, got {value!r}")
    return float(value)
