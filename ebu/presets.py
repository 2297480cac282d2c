"""A configuration from a preset: the starting values that an environment's family has for it, and what is set on top."""

from __future__ import annotations

from typing import Any

from ebu.config import Config, environment_pairs, merge_environment_arguments, override
from ebu.envs.families import family
from ebu.envs.family import DEFAULT_PRESET
from ebu.errors import UserError
from ebu.registry import find_method


def preset_names(env: str) -> list[str]:
    return list(family(env).presets)


def configure(algo: str = "ebu", env: str = "maze", preset: str = DEFAULT_PRESET, **settings: Any) -> Config:
    """The preset for this environment with the given settings on top."""
    presets = family(env).presets
    if preset not in presets:
        raise UserError(f"there is no preset {preset!r} for {env}; choose from {', '.join(presets)}")
    method = find_method(algo)
    config = override(Config(), algo=method.name, env=env, preset=preset, **presets[preset])
    config = override(config, **method.defaults)
    if "env_args" in settings:
        given = environment_pairs(settings["env_args"])
        settings["env_args"] = merge_environment_arguments(config.environment.env_args, given)
    return override(config, **settings)


def in_words(config: Config) -> str:
    """What the settings make of plain DQN, in one line: the "dqn" of a preset may well be a double DQN with soft targets."""
    learner = config.learner
    each = "every step" if learner.target_update_interval == 1 else f"every {learner.target_update_interval:,} steps"
    falling = " falling to 0" if learner.learning_rate_schedule == "linear" else ""
    updates = "every step" if learner.train_freq == 1 else f"every {learner.train_freq} steps"
    words = [
        "double Q-learning" if config.target.double_q else "",
        "dueling network" if config.network.dueling else "",
        f"soft target updates (τ = {learner.tau:g} {each})" if learner.tau < 1 else f"target network copied {each}",
        f"{_OPTIMIZERS[learner.optimizer]}, learning rate {learner.learning_rate:g}{falling}",
        _LOSSES[learner.loss],
        f"minibatches of {learner.batch_size} {updates}",
    ]
    return ", ".join(word for word in words if word)


_OPTIMIZERS = {"adam": "Adam", "rmsprop": "RMSProp", "deepmind-rmsprop": "RMSProp of the Nature DQN"}
_LOSSES = {"huber-sum": "Huber loss, summed", "huber-mean": "Huber loss", "mse": "squared error"}
