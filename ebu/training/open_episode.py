"""The episode being played: it grows step by step, and is saved and restored in the middle."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ebu.types import Array, Episode


@dataclass
class OpenEpisode:
    """The episode being played."""

    seed: int
    observations: list[Array]
    actions: list[int] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)  # as learned from
    behaviour: list[float] = field(default_factory=list)
    score: float = 0.0  # raw

    def append(self, action: int, probability: float, frame: Array, reward: float, learned_reward: float) -> None:
        """One step: what was done, with which probability, and what came back."""
        self.observations.append(frame)
        self.actions.append(action)
        self.rewards.append(learned_reward)
        self.behaviour.append(probability)
        self.score += reward

    def state_dict(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "observations": np.stack(self.observations),
            "actions": np.array(self.actions, np.int64),
            "rewards": np.array(self.rewards, np.float64),
            "behaviour": np.array(self.behaviour, np.float64),
            "score": self.score,
        }

    @classmethod
    def from_state_dict(cls, state: dict[str, Any], frame_shape: tuple[int, ...], dtype: str, actions: int) -> OpenEpisode:
        """Back from a saved state; ValueError where it cannot be an episode of such frames and actions."""
        taken, steps = state["actions"], len(state["actions"])
        expected: dict[str, tuple[str, tuple[int, ...]]] = {
            "observations": (dtype, (steps + 1, *frame_shape)),
            "actions": ("int64", (steps,)),
            "rewards": ("float64", (steps,)),
            "behaviour": ("float64", (steps,)),
        }
        if any((str(state[name].dtype), state[name].shape) != kind for name, kind in expected.items()):
            raise ValueError("inconsistent lengths in the open episode")
        if ((taken < 0) | (taken >= actions)).any():
            raise ValueError(f"the open episode has an action outside 0 … {actions - 1}")
        return cls(
            seed=int(state["seed"]),
            observations=list(state["observations"]),
            actions=taken.tolist(),
            rewards=state["rewards"].tolist(),
            behaviour=state["behaviour"].tolist(),
            score=float(state["score"]),
        )

    def finish(self, terminated: bool) -> Episode:
        return Episode(
            observations=np.stack(self.observations),
            actions=np.array(self.actions, np.int64),
            rewards=np.array(self.rewards, np.float32),
            behaviour=np.array(self.behaviour, np.float32),
            terminated=terminated,
        )
