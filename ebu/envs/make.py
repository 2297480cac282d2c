"""Environments by name, with one clear line for a name that is unknown or an extra that is missing."""

from __future__ import annotations

import difflib
import importlib.util
import os
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium

from ebu.envs.atari_games import find_game
from ebu.envs.registration import MAZE_ID, register
from ebu.errors import UserError

Family = Literal["maze", "atari", "minatar", "minigrid", "other"]

# The module each family needs and the extra that installs it.
_EXTRAS = {"atari": ("ale_py", "atari"), "minatar": ("minatar", "minatar"), "minigrid": ("minigrid", "minigrid")}

# Ids that a reader of the paper or of Gymnasium's documentation would try first.
EXAMPLES = {
    "maze": "the paper's 2D MNIST maze (ebu/MNISTMaze-v0)",
    "CartPole-v1": "classic control; also Acrobot-v1, MountainCar-v0",
    "FrozenLake-v1": "toy text; also Taxi-v4, CliffWalking-v1",
    "LunarLander-v3": "needs the box2d extra of gymnasium",
    "ALE/Breakout-v5": "extra: atari; also plain breakout; the paper's 49 games and others",
    "MinAtar/Breakout-v1": "extra: minatar; also Asterix, Freeway, Seaquest, SpaceInvaders",
    "MiniGrid-Empty-5x5-v0": "extra: minigrid; any MiniGrid id",
}


def family(name: str) -> Family:
    """What an environment's name says about its kind, before anything is imported."""
    if name in ("maze", MAZE_ID):
        return "maze"
    if name.startswith("MinAtar/"):
        return "minatar"
    if name.startswith(("MiniGrid", "BabyAI")):
        return "minigrid"
    if name.startswith("ALE/") or find_game(name) is not None:
        return "atari"
    return "other"


@dataclass(frozen=True)
class EnvironmentSource:
    """How to make an environment, for training and for evaluation, as often as needed."""

    name: str
    arguments: dict[str, Any]

    def make(self, training: bool, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
        return make_environment(self.name, self.arguments, training, render_mode)


def make_environment(
    name: str, arguments: dict[str, Any] | None = None, training: bool = True, render_mode: str | None = None
) -> gymnasium.Env[Any, Any]:
    """The environment of this name; every way this can fail is a UserError of one line.

    Only Atari games differ between training (a life is an episode) and evaluation (whole games).
    """
    kind = family(name)
    _require_extra(name, kind)
    register()
    identifier = MAZE_ID if kind == "maze" else name
    options = dict(arguments or {})
    if render_mode is not None:
        options["render_mode"] = render_mode
    try:
        if kind == "atari":
            from ebu.envs.atari import make_atari

            return make_atari(name, training, **options)
        env = gymnasium.make(identifier, disable_env_checker=True, **options)
    except UserError:
        raise
    except gymnasium.error.DependencyNotInstalled as error:
        raise UserError(f"{name} needs a package that is not installed: {_one_line(error)}") from error
    except ModuleNotFoundError as error:
        if identifier in gymnasium.registry:
            raise UserError(f"{name} needs the package {error.name}, which is not installed") from error
        raise UserError(f"there is no environment {name!r}{_suggestion(name)}") from error
    except gymnasium.error.UnregisteredEnv as error:
        raise UserError(f"there is no environment {name!r}{_suggestion(name)}") from error
    except Exception as error:  # of any kind: others wrote the environment, and its arguments come from outside
        reason = _one_line(error) or type(error).__name__
        raise UserError(f"{name} could not be made with {options or 'its defaults'}: {reason}") from error
    if kind == "minigrid":
        from minigrid.wrappers import ImgObsWrapper

        env = ImgObsWrapper(env)  # the mission text is not an observation a value network can read
    return env


def _require_extra(name: str, kind: Family) -> None:
    if kind not in _EXTRAS:
        return
    module, extra = _EXTRAS[kind]
    if importlib.util.find_spec(module) is None:
        raise UserError(f"{name} needs an extra; install it with: pip install 'episodic-backward-update[{extra}]'")
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    if kind == "minatar":
        from minatar import gym

        if not any(known.startswith("MinAtar/") for known in gymnasium.registry):
            gym.register_envs()
    elif kind == "minigrid":
        import minigrid

        if not any(known.startswith("MiniGrid") for known in gymnasium.registry):
            minigrid.register_minigrid_envs()


def _suggestion(name: str) -> str:
    known = [*gymnasium.registry, *EXAMPLES]  # where several end alike, the one we name in the list is meant
    by_ending = {key.rsplit("/", 1)[-1].lower(): key for key in known}
    close = difflib.get_close_matches(name.rsplit("/", 1)[-1].lower(), by_ending, n=1, cutoff=0.5)
    return f"; did you mean {by_ending[close[0]]}?" if close else "; `ebu list` names some that work"


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
