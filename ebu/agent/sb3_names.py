"""Keywords of Stable-Baselines3 that mean something else here: each is refused with a hint at what to use instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ebu.errors import UserError

PAGE = "docs/from-stable-baselines3.md"
POLICIES = ("MlpPolicy", "CnnPolicy", "MultiInputPolicy")

ELSEWHERE = {
    "policy": "the network follows from the observations; network= and hidden_sizes= change it",
    "lr": "it is learning_rate",
    "policy_kwargs": 'net_arch is hidden_sizes=, optimizer_class is optimizer=, e.g. hidden_sizes=(64, 64), optimizer="adam"',
    "verbose": "learn(…, progress_bar=True) shows the progress",
    "replay_buffer_class": "what is replayed belongs to the method: ebu.PrioritizedDQN, ebu.EBU, …",
    "replay_buffer_kwargs": "buffer_size= and compress= describe the memory",
    "optimize_memory_usage": "each frame is stored once anyway, and compressed",
    "stats_window_size": "means are over the latest 100 episodes",
    "monitor_wrapper": "scores are recorded without a Monitor",
    "action_noise": "actions are discrete; exploration_*= describe ε",
}


def refuse_foreign(env: Any, settings: Mapping[str, object]) -> None:
    """Refuse arguments of Stable-Baselines3 that no setting here corresponds to."""
    if isinstance(env, str) and env in POLICIES:
        raise UserError(f"the first argument is the environment: leave out {env!r}, {ELSEWHERE['policy']}")
    for name in settings:
        if name in ELSEWHERE:
            raise UserError(f"there is no setting {name!r}: {ELSEWHERE[name]} ({PAGE})")
    if callable(settings.get("learning_rate")):
        raise UserError(f'learning_rate must be a number; use learning_rate_schedule="linear" in place of a function ({PAGE})')
    if isinstance(frequency := settings.get("train_freq"), tuple | list):
        raise UserError(f"train_freq must be a number of steps, such as 4, got {frequency!r} ({PAGE})")
    if settings.get("gradient_steps") == -1:
        raise UserError(f"gradient_steps must be at least 1; -1 in Stable-Baselines3 means as many as train_freq ({PAGE})")
