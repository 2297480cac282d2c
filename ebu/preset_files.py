"""Presets as files: settings in TOML, by their flat names, so that what was found once travels.

    preset = "quick"            # the preset of the environment that the file starts from
    env = "CartPole-v1"         # used where the command line names none; so is algo
    learning_rate = 5e-4
    hidden_sizes = [128, 128]
    env_args = {slip = 0.1}

Nothing in a file is run, and every value is checked as one given by hand is.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ebu.config import Config, override
from ebu.errors import UserError
from ebu.storage.files import MAX_JSON_FILE, Damaged, read_text

SUFFIX = ".toml"


def is_file_name(preset: str) -> bool:
    """Whether ``--preset`` names a file and not one of the environment's presets."""
    return isinstance(preset, str) and preset.lower().endswith(SUFFIX)


def read_preset(path: str | Path) -> dict[str, Any]:
    """The settings in a preset file; a UserError of one line if there is no such file, or it is not a preset file."""
    path = Path(path)
    if not path.is_file():
        raise UserError(f"there is no preset file {path}; `ebu presets show quick > {path.name}` writes one to start from")
    try:
        settings = tomllib.loads(read_text(path.resolve(), MAX_JSON_FILE))
        override(Config(), **settings)
    except (Damaged, tomllib.TOMLDecodeError, RecursionError) as error:
        raise UserError(f"{path} is not a preset file: {error}") from error
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    if wrong := [name for name in ("preset", "algo", "env") if not isinstance(settings.get(name, ""), str)]:
        raise UserError(f"{path}: {wrong[0]} must be a name, got {settings[wrong[0]]!r}")
    if is_file_name(settings.get("preset", "")):
        raise UserError(f"{path}: a preset file starts from a preset of the environment, not from {settings['preset']!r}")
    return settings


def preset_text(settings: Mapping[str, Any], comment: str = "") -> str:
    """These settings as the text of a preset file."""
    lines = [f"# {line}".rstrip() for line in comment.splitlines()]
    lines += [f"{name} = {_value(value)}" for name, value in settings.items()]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)  # numbers and booleans are written alike in both
