"""A configuration from a preset: the starting values that an environment's family or a file has, and what is set on top."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ebu.config import Config, field_names, flat, override
from ebu.env_arguments import environment_pairs, merge_environment_arguments
from ebu.envs.families import family
from ebu.envs.family import DEFAULT_PRESET
from ebu.errors import UserError
from ebu.preset_files import is_file_name, read_preset
from ebu.registry import find_method


def preset_names(env: str) -> list[str]:
    return list(family(env).presets)


def configure(algo: str = "ebu", env: str = "maze", preset: str = DEFAULT_PRESET, **settings: Any) -> Config:
    """The preset for this environment, or the preset file, with the given settings on top.

    The configuration records the environment's preset that a file starts from, and every setting: a file is not needed again.
    """
    if is_file_name(preset):
        found = {name: value for name, value in read_preset(preset).items() if name not in ("algo", "env")}
        config = configure(algo, env, found.pop("preset", DEFAULT_PRESET))
        return _with_settings(_with_settings(config, found), settings)
    presets = family(env).presets
    if preset not in presets:
        raise UserError(f"there is no preset {preset!r} for {env}; choose from {', '.join(presets)}, or name a .toml file")
    method = find_method(algo)
    config = override(Config(), algo=method.name, env=env, preset=preset, **presets[preset])
    config = override(config, **method.defaults)
    return _with_settings(config, settings)


def as_meant(config: Config, given: Collection[str]) -> Config:
    """The configuration with what follows from settings that a user gave by hand, by name, for those that were not given.

    A longer interval between target updates means hard copies, as in Stable-Baselines3: the τ of a preset is the share of a
    move at every update, and with one move in 500 steps nothing would be learned. Preset files and trials say what they mean.
    """
    learner = config.learner
    interval_alone = "target_update_interval" in given and "tau" not in given
    is_longer = interval_alone and _is_longer(learner.target_update_interval, learner.train_freq)
    return override(config, tau=1.0) if is_longer else config


def _is_longer(interval: object, other: object) -> bool:
    """Of settings that are not checked yet."""
    return isinstance(interval, int | float) and isinstance(other, int | float) and interval > other


def _with_settings(config: Config, settings: dict[str, Any]) -> Config:
    """Arguments of the environment are added to those there are; everything else is replaced."""
    if "env_args" in settings:
        given = environment_pairs(settings["env_args"])
        settings = settings | {"env_args": merge_environment_arguments(config.environment.env_args, given)}
    return override(config, **settings)


def differences(config: Config) -> dict[str, Any]:
    """What a preset file needs to give this configuration again: preset, method, environment, and what was set on top.

    Not the settings of the run as a whole, such as its seed and device: those belong to whoever runs it.
    """
    usual = flat(configure(config.algo, config.environment.env, config.preset))
    stages = field_names()
    own = {name: value for name, value in flat(config).items() if stages[name] != "run" and value != usual[name]}
    return {"preset": config.preset, "algo": config.algo, "env": config.environment.env} | own


def in_words(config: Config) -> str:
    """What the settings make of plain DQN, in one line: the "dqn" of a preset may well be a double DQN with soft targets."""
    learner = override(config, **find_method(config.algo).overrides(config)).learner
    each = "every step" if learner.target_update_interval == 1 else f"every {learner.target_update_interval:,} steps"
    falling = " falling to 0" if learner.learning_rate_schedule == "linear" else ""
    updates = "every step" if learner.train_freq == 1 else f"every {learner.train_freq} steps"
    words = [
        "double Q-learning" if config.target.double_q else "",
        "dueling network" if config.network.dueling else "",
        f"soft target updates (τ = {learner.tau:g} {each})" if learner.tau < 1 else f"target network copied {each}",
        f"{_OPTIMIZERS[learner.optimizer]}, learning rate {learner.learning_rate:g}{falling}",
        _LOSSES[learner.loss] if config.network.value_head == "scalar" else "cross-entropy on histograms of values",
        f"minibatches of {learner.batch_size} {updates}",
    ]
    return ", ".join(word for word in words if word)


_OPTIMIZERS = {"adam": "Adam", "rmsprop": "RMSProp", "deepmind-rmsprop": "RMSProp of the Nature DQN"}
_LOSSES = {"huber-sum": "Huber loss, summed", "huber-mean": "Huber loss", "mse": "squared error"}
