"""Episodic Backward Update: sample-efficient value-based reinforcement learning.

    import ebu
    agent = ebu.EBU("CartPole-v1", beta=0.5, seed=0).learn(20_000, progress_bar=True)
    print(ebu.evaluate(agent).mean)

Importing the package registers its environments with Gymnasium. Names are imported when first used, so that
``gymnasium.make("ebu:ebu/MNISTMaze-v0")`` and ``ebu --help`` do not wait for PyTorch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ebu.envs.registration import register

if TYPE_CHECKING:
    from ebu import targets
    from ebu.api import (
        DQN,
        EBU,
        AdaptiveEBU,
        Agent,
        NStepDQN,
        OptimalityTightening,
        PengQ,
        PrioritizedDQN,
        Retrace,
        WatkinsQ,
        evaluate,
        load,
    )
    from ebu.errors import RunFailure, UserError

__version__ = "0.1.0"
__all__ = [
    "DQN",
    "EBU",
    "AdaptiveEBU",
    "Agent",
    "NStepDQN",
    "OptimalityTightening",
    "PengQ",
    "PrioritizedDQN",
    "Retrace",
    "RunFailure",
    "UserError",
    "WatkinsQ",
    "evaluate",
    "load",
    "targets",
]

register()

_HOMES = {"RunFailure": "ebu.errors", "UserError": "ebu.errors"}


def __getattr__(name: str) -> Any:
    if name == "targets":
        return importlib.import_module("ebu.targets")
    if name in __all__:
        return getattr(importlib.import_module(_HOMES.get(name, "ebu.api")), name)
    raise AttributeError(f"module 'ebu' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
