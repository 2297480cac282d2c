"""Episodic Backward Update: sample-efficient value-based reinforcement learning.

    import ebu
    agent = ebu.EBU("CartPole-v1", beta=0.5, seed=0).learn(20_000, progress_bar=True)
    print(ebu.evaluate(agent).mean)

Importing the package registers its environments with Gymnasium and its methods with ``ebu.registry``. PyTorch is imported
when first used, so that ``gymnasium.make("ebu:ebu/MNISTMaze-v0")`` and ``ebu --help`` do not wait for it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ebu import algorithms as _algorithms  # noqa: F401 - registers the methods
from ebu.agent import AGENTS, Agent, register
from ebu.api import evaluate, load, rescue, resume
from ebu.envs.registration import register as _register_environments
from ebu.errors import RunFailure, UserError
from ebu.registry import Method
from ebu.version import __version__

if TYPE_CHECKING:
    from ebu import callbacks, targets
    from ebu.algorithms.adaptive_ebu import AdaptiveEBU
    from ebu.algorithms.dqn import DQN
    from ebu.algorithms.ebu import EBU
    from ebu.algorithms.ensemble_q import EnsembleQ
    from ebu.algorithms.n_step import NStepDQN
    from ebu.algorithms.optimality_tightening import OptimalityTightening
    from ebu.algorithms.peng import PengQ
    from ebu.algorithms.per import PrioritizedDQN
    from ebu.algorithms.redistributed_q import RedistributedQ
    from ebu.algorithms.retrace import Retrace
    from ebu.algorithms.watkins import WatkinsQ

__all__ = [
    "DQN",
    "EBU",
    "AdaptiveEBU",
    "Agent",
    "EnsembleQ",
    "Method",
    "NStepDQN",
    "OptimalityTightening",
    "PengQ",
    "PrioritizedDQN",
    "RedistributedQ",
    "Retrace",
    "RunFailure",
    "UserError",
    "WatkinsQ",
    "__version__",
    "callbacks",
    "evaluate",
    "load",
    "register",
    "rescue",
    "resume",
    "targets",
]

_register_environments()


def __getattr__(name: str) -> Any:
    """Agent classes by name, including a user's own, the callbacks, and the target rules, which need PyTorch."""
    if name in ("callbacks", "targets"):
        return importlib.import_module(f"ebu.{name}")
    for agent in AGENTS.values():
        if agent.__name__ == name:
            return agent
    raise AttributeError(f"module 'ebu' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
