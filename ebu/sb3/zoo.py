"""EBU and Peng's Q(λ) in the RL Zoo: its own commands, with two more algorithms.

    python -m ebu.sb3.zoo train --algo ebu --env CartPole-v1
    python -m ebu.sb3.zoo enjoy --algo ebu --env CartPole-v1 --folder logs

Everything after the first word is the Zoo's. Settings come from its file for DQN unless ``--conf-file`` names another.
The Zoo comes with the extra ``zoo``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

try:
    import rl_zoo3
except ImportError as error:
    words = "ebu.sb3.zoo needs the RL Zoo; install it with: pip install 'episodic-backward-update[zoo]'"
    raise ImportError(words) from error

from rl_zoo3.cli import main as zoo
from rl_zoo3.hyperparams_opt import HYPERPARAMS_CONVERTER, HYPERPARAMS_SAMPLER, convert_offpolicy_params, sample_dqn_params

from ebu.sb3 import EBU, PengQ

ALGORITHMS = {
    "ebu": (EBU, "beta"),
    "peng": (PengQ, "trace_lambda"),
}  # class, and what it adds to DQN


def register() -> None:
    """Make the Zoo know both, in training, playing and tuning (``--optimize``)."""
    for name, (algorithm, setting) in ALGORITHMS.items():
        rl_zoo3.ALGOS[name] = algorithm
        HYPERPARAMS_SAMPLER[name] = sampler(setting)
        HYPERPARAMS_CONVERTER[name] = convert_offpolicy_params


def sampler(setting: str) -> Callable[..., dict[str, Any]]:
    """What the Zoo tunes for DQN, and ``setting`` between one-step (0) and full backward values (1)."""

    def sample(trial: Any, *details: Any) -> dict[str, Any]:
        return {**sample_dqn_params(trial, *details), setting: trial.suggest_float(setting, 0.0, 1.0)}

    return sample


def with_settings_of_dqn(arguments: list[str]) -> list[str]:
    """Training with ``--algo`` one of ours and no file of settings reads DQN's, tuned for each environment."""
    given = {word.split("=")[0] for word in arguments}
    names = {*arguments, *(word.partition("=")[2] for word in arguments)}
    if arguments[:1] != ["train"] or given & {"-conf", "--conf-file"} or not names & ALGORITHMS.keys():
        return arguments
    return [*arguments, "--conf-file", str(Path(rl_zoo3.__file__).parent / "hyperparams" / "dqn.yml")]


if __name__ == "__main__":
    register()
    sys.argv[1:] = with_settings_of_dqn(sys.argv[1:])
    zoo()
