"""What a row of training metrics says: the latest episodes, and the updates since the last row."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ebu.errors import RunFailure
from ebu.learning.learner import Update
from ebu.training.events import EpisodeEnded

RECENT_EPISODES = 100


class TrainingStatistics:
    """Scores of the latest episodes; loss and value of each update since the last row, on a GPU as scalars there.

    On the CPU they are plain numbers: thousands of small tensors between the large ones of each update would keep what those
    leave free from being used again, and the process would grow by gigabytes until the next row.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._recent: deque[EpisodeEnded] = deque(maxlen=RECENT_EPISODES)
        self._losses: list[Tensor | float] = []
        self._values: list[Tensor | float] = []

    def episode_ended(self, ended: EpisodeEnded) -> None:
        self._recent.append(ended)

    def updated(self, update: Update) -> None:
        """Kept without waiting for the device."""
        self._losses.append(self._kept(update.total_loss))
        self._values.append(self._kept(update.mean_value))

    def episodes(self) -> dict[str, float]:
        """Means over the latest episodes; nothing before the first has ended."""
        if not self._recent:
            return {}
        metrics = {
            "ep_rew_mean": float(np.mean([ended.score for ended in self._recent])),
            "ep_len_mean": float(np.mean([ended.length for ended in self._recent])),
        }
        games = [ended.game_score for ended in self._recent if ended.game_score is not None]
        if games:
            metrics["game_score_mean"] = float(np.mean(games))
        if self._recent[-1].relative_length is not None:
            metrics["relative_length"] = self._recent[-1].relative_length
        return metrics

    def take_updates(self, step: int) -> dict[str, float]:
        """Means over the updates since the last row, which are forgotten; nothing if there were none.

        A loss that is no longer a number ends the run: the row is due at this ``step``.
        """
        if not self._losses:
            return {}
        metrics = {"loss": _mean(self._losses), "q_mean": _mean(self._values)}
        self._losses.clear()
        self._values.clear()
        if not math.isfinite(metrics["loss"]):
            raise RunFailure(f"the loss became {metrics['loss']} before step {step}; try a smaller --learning-rate")
        return metrics

    def state_dict(self) -> dict[str, Any]:
        return {
            "recent": [asdict(ended) for ended in self._recent],
            "losses": np.array([float(loss) for loss in self._losses], np.float32),
            "values": np.array([float(value) for value in self._values], np.float32),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        optional = ("relative_length", "game_score")
        for ended in state["recent"]:
            if not all(isinstance(v, int | float) or (v is None and k in optional) for k, v in ended.items()):
                raise ValueError("an episode's score is not a number")
        self._recent.clear()
        self._recent.extend(EpisodeEnded(**ended) for ended in state["recent"])
        self._losses, self._values = (
            [self._kept(scalar) for scalar in torch.from_numpy(np.array(state[key])).to(self._device)]
            for key in ("losses", "values")
        )

    def _kept(self, scalar: Tensor | float) -> Tensor | float:
        return scalar.item() if isinstance(scalar, Tensor) and self._device.type == "cpu" else scalar


def _mean(scalars: Sequence[Tensor | float]) -> float:
    if all(type(scalar) is float for scalar in scalars):
        return float(torch.tensor(scalars).mean())
    return float(torch.stack([torch.as_tensor(scalar) for scalar in scalars]).mean())
