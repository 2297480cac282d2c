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
    config = override(Config(), algo=algo, env=env, preset=preset, **presets[preset])
    config = override(config, **find_method(algo).defaults)
    if "env_args" in settings:
        given = environment_pairs(settings["env_args"])
        settings["env_args"] = merge_environment_arguments(config.environment.env_args, given)
    return override(config, **settings)
