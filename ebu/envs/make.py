"""Environments by name, with one clear line for a name that is unknown or an extra that is missing."""

from __future__ import annotations

import difflib
import importlib.util
import os
import sys
from dataclasses import dataclass
from typing import Any

import gymnasium

from ebu.envs.arguments import explain_unknown_argument
from ebu.envs.delay import DelayedReward
from ebu.envs.families import families, family, import_module_of
from ebu.envs.family import AnyEnv, Family
from ebu.envs.objects import require_rebuilt, wrap
from ebu.errors import UserError


@dataclass(frozen=True)
class EnvironmentSource:
    """How to make an environment, for training and for evaluation, as often as needed."""

    name: str
    arguments: dict[str, Any]
    wrappers: tuple[str, ...] = ()

    def make(self, training: bool, render_mode: str | None = None) -> AnyEnv:
        require_rebuilt(self.name, self.wrappers)
        return wrap(make_environment(self.name, self.arguments, training, render_mode), self.wrappers)


def make_environment(
    name: str, arguments: dict[str, Any] | None = None, training: bool = True, render_mode: str | None = None
) -> AnyEnv:
    """The environment of this name; any failure is a UserError of one line.

    The argument ``reward_delay`` is not the environment's: any environment takes it, see ``ebu.envs.DelayedReward``.
    """
    import_module_of(name)
    kind = family(name)
    options = dict(arguments or {})
    if render_mode is not None:
        options["render_mode"] = render_mode
    delay = options.pop("reward_delay", None)
    _require_module(name, kind)
    try:
        kind.register()
        made = kind.make(name, training, **options)
        return made if delay is None else DelayedReward(made, delay)
    except UserError:
        raise
    except gymnasium.error.DependencyNotInstalled as error:
        raise UserError(f"{name} needs a package that is not installed: {_one_line(error)}") from error
    except ModuleNotFoundError as error:
        missing = error.name or getattr(error.__cause__ or error.__context__, "name", None)  # Gymnasium's own has no name
        if _names_the_module(name, missing):
            words = "neither in the current folder nor among the installed packages"
            raise UserError(f"there is no environment {name!r}: no module {name.partition(':')[0]}, {words}") from error
        raise UserError(f"{name} needs the package {missing}, which is not installed") from error
    except gymnasium.error.UnregisteredEnv as error:
        raise UserError(f"there is no environment {name!r}{_suggestion(name)}") from error
    except Exception as error:  # of any kind: others wrote the environment, and its arguments come from outside
        if explained := explain_unknown_argument(name, error, kind.arguments):
            raise UserError(explained) from error
        reason = _one_line(error) or type(error).__name__
        raise UserError(f"{name} could not be created with {options or 'its defaults'}: {reason}") from error


def require_trust(name: str, trusted: bool, file: object) -> None:
    """Refuse to import a module because a file names it: the author of the file could run code here.

    ``module:id`` on the user's own command line is another matter, and so is a module that is imported already.
    """
    if not trusted:
        _refuse_module(name, file, "add --trust-env (trust_env=True in Python) if you trust this file")


def require_named(name: str, file: object) -> None:
    """The same for a file whose environment the user can name instead."""
    _refuse_module(name, file, f"if you trust it, name it yourself: --env {name}")


def names_module(name: str) -> bool:
    """Whether making the environment imports a module of the user's: ``module:id``."""
    module, colon, _ = name.partition(":")
    return bool(colon) and module != "ebu"


def _refuse_module(name: str, file: object, remedy: str) -> None:
    module = name.partition(":")[0]
    if names_module(name) and module not in sys.modules:
        words = f"{file} names the environment {name}, for which the module {module} would be imported and run"
        raise UserError(f"{words}; {remedy}")


def _require_module(name: str, kind: Family) -> None:
    if not kind.module:
        return
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    if importlib.util.find_spec(kind.module) is not None:
        return
    if kind.extra:
        raise UserError(f"{name} needs an extra; install it with: pip install 'episodic-backward-update[{kind.extra}]'")
    raise UserError(f"{name} needs the package {kind.module}, which is not installed")


def _names_the_module(name: str, missing: str | None) -> bool:
    """Whether the module that is missing is the one in ``module:id``, or a package it would be in."""
    module, colon, _ = name.partition(":")
    return bool(colon and missing) and f"{module}.".startswith(f"{missing}.")


def _suggestion(name: str) -> str:
    module, colon, _ = name.partition(":")
    if colon:  # suggestions from other modules would be of no use
        own = [id for id, spec in gymnasium.registry.items() if _is_from(spec, module)]
        return f"; {module} registers {', '.join(own) or 'none'}"
    examples = [example for kind in families() for example in kind.examples]
    known = [*gymnasium.registry, *examples]  # where several end alike, the one `ebu list` names is meant
    by_ending = {key.rsplit("/", 1)[-1].lower(): key for key in known}
    close = difflib.get_close_matches(name.rsplit("/", 1)[-1].lower(), by_ending, n=1, cutoff=0.5)
    return f"; did you mean {by_ending[close[0]]}?" if close else "; `ebu list` names some that work"


def _is_from(spec: gymnasium.envs.registration.EnvSpec, module: str) -> bool:
    """Whether an environment's class is of this module, or of one inside it."""
    made_by = spec.entry_point
    place = made_by.partition(":")[0] if isinstance(made_by, str) else getattr(made_by, "__module__", "")
    return f"{place}.".startswith(f"{module}.")


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
