"""Modules a user names on the command line (``--plugin mymethods``), imported so that they can register methods,
environment families and items. Worker processes of a sweep import the same ones.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable

from ebu.errors import UserError

VARIABLE = "EBU_PLUGINS"


def load_plugins(names: Iterable[str]) -> None:
    """Import these modules; those in the current folder are found, too."""
    names = [name for name in names if name]
    if names:
        look_in_current_folder()
    for name in names:
        try:
            importlib.import_module(name)
        except UserError:
            raise
        except ModuleNotFoundError as error:
            if error.name != name.partition(".")[0]:  # the plugin is there, and what it imports is not
                raise UserError(_no_plugin(name, error)) from error
            raise UserError(f"{_no_plugin(name, error)}; the current folder is {os.getcwd()}") from error
        except Exception as error:  # of any kind: it is the user's own code
            raise UserError(_no_plugin(name, error)) from error
    if names:
        known = inherited_plugins()
        os.environ[VARIABLE] = ",".join(dict.fromkeys([*known, *names]))


def _no_plugin(name: str, error: Exception) -> str:
    return f"the plugin {name!r} cannot be imported: {type(error).__name__}: {error}"


def look_in_current_folder() -> None:
    """Find modules in the current folder, too: for names that are the user's own, never for one that only a file names."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


def inherited_plugins() -> list[str]:
    """The plugins of the process that started this one."""
    return [name for name in os.environ.get(VARIABLE, "").split(",") if name]


def take_plugins(arguments: list[str]) -> tuple[list[str], list[str]]:
    """A command line without its ``--plugin`` flags, and what they name."""
    rest: list[str] = []
    names: list[str] = []
    arguments = list(arguments)
    while arguments:
        argument = arguments.pop(0)
        if argument.startswith("--plugin="):
            names.append(argument.partition("=")[2])
        elif argument == "--plugin":
            if not arguments or arguments[0].startswith("-"):
                raise UserError("--plugin takes the name of a module, for example --plugin mymethods")
            names.append(arguments.pop(0))
        else:
            rest.append(argument)
    return rest, names
