"""A configuration from a preset: the starting values that an environment's family has for it, and what is set on top."""

from __future__ import annotations

from typing import Any

from ebu.config import Config, merge_environment_arguments, override
from ebu.envs.families import family
from ebu.envs.family import DEFAULT_PRESET
from ebu.errors import UserError

# Where a method learns best with another value than the common one.
METHOD_DEFAULTS: dict[str, dict[str, Any]] = {
    "peng": {"trace_lambda": 0.7},  # λ = 1 would be the plain Monte-Carlo return
}


def preset_names(env: str) -> list[str]:
    return list(family(env).presets)


def configure(algo: str = "ebu", env: str = "maze", preset: str = DEFAULT_PRESET, **settings: Any) -> Config:
    """The preset for this environment with the given settings on top."""
    presets = family(env).presets
    if preset not in presets:
        raise UserError(f"there is no preset {preset!r} for {env}; choose from {', '.join(presets)}")
    config = override(Config(), algo=algo, env=env, preset=preset, **presets[preset])
    config = override(config, **METHOD_DEFAULTS.get(algo, {}))
    if isinstance(settings.get("env_args"), tuple):
        settings["env_args"] = merge_environment_arguments(config.environment.env_args, settings["env_args"])
    return override(config, **settings)
