"""Describes an environment object by its name, arguments and wrappers, so that the same one can be created again.

A file may come from a stranger, so only wrappers that do nothing but compute are created from its description. Those that hold
learned state, open files or belong to the user's own program are named and refused.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec, WrapperSpec

from ebu.envs.delay import DelayedReward
from ebu.envs.families import family
from ebu.envs.family import AnyEnv, make_by_id
from ebu.errors import UserError

# Functions of what passes through them, whose arguments are plain values.
REBUILT = (
    "AtariPreprocessing",
    "ClipReward",
    "DelayObservation",
    "DiscretizeObservation",
    "FilterObservation",
    "FlattenObservation",
    "FrameStackObservation",
    "GrayscaleObservation",
    "MaxAndSkipObservation",
    "RepeatAction",
    "ReshapeObservation",
    "ResizeObservation",
    "StickyAction",
    "TimeAwareObservation",
)
# The agent sees the same with and without these.
WITHOUT_EFFECT = {
    "gymnasium.wrappers:HumanRendering",
    "gymnasium.wrappers:OrderEnforcing",
    "gymnasium.wrappers:PassiveEnvChecker",
    "gymnasium.wrappers:RecordEpisodeStatistics",
    "gymnasium.wrappers:RecordVideo",
    "gymnasium.wrappers:RenderCollection",
    "stable_baselines3.common.monitor:Monitor",
}
LEARNED = {"gymnasium.wrappers:NormalizeObservation", "gymnasium.wrappers:NormalizeReward"}


@dataclass(frozen=True)
class Description:
    """What a file says of an environment that was given as an object."""

    arguments: tuple[str, ...]
    wrappers: tuple[str, ...]  # on top of what the name alone makes; one with a colon cannot be made again


def describe_object(env: AnyEnv) -> Description:
    """Its arguments and wrappers; of one without an id only that it was an object, which no name leads back to."""
    spec = env.spec
    if spec is None:
        return Description((), (f"object:{type(env).__name__}",))
    arguments, refused = _arguments_of(spec)
    wrappers, base = tuple(map(_written, _with_effect(spec))), _wrappers_of_family(spec.id)
    if base is None or wrappers[: len(base)] != base:
        return Description(arguments, (f"object:{type(env).__name__}",))
    return Description(arguments, (*refused, *wrappers[len(base) :]))


def wrap(env: AnyEnv, wrappers: Sequence[str]) -> AnyEnv:
    """The environment in the wrappers that a description names, innermost first."""
    for text in wrappers:
        name, _, arguments = text.partition(" ")
        if name not in (*REBUILT, DelayedReward.__name__):
            known = ", ".join((*REBUILT, DelayedReward.__name__))
            raise UserError(f"the wrapper {name} cannot be made from its name; env_wrappers takes {known}")
        wrapper = DelayedReward if name == DelayedReward.__name__ else getattr(gymnasium.wrappers, name)
        try:
            env = wrapper(env, **(json.loads(arguments) if arguments else {}))
        except UserError:
            raise
        except Exception as error:  # of any kind: its arguments come from outside
            reason = " ".join(str(error).split()) or type(error).__name__
            raise UserError(f"the environment could not be wrapped in {text}: {reason}") from error
    return env


def lost_parts(wrappers: Sequence[str]) -> list[str]:
    """Those that cannot be made again from their description."""
    return [text.partition(":")[2].rpartition(":")[2] for text in wrappers if ":" in text.partition(" ")[0]]


def require_rebuilt(name: str, wrappers: Sequence[str]) -> None:
    """Refuse in one line an environment that cannot be recreated from its description."""
    if lost := lost_parts(wrappers):
        raise UserError(
            f"trained on {name} as an object ({', '.join(lost)}) that cannot be recreated from its name alone; pass env="
        )


def copy_spec(env: AnyEnv) -> EnvSpec:
    """What Gymnasium needs to recreate an environment object; a ValueError where that would be a different one."""
    if env.spec is None:
        raise ValueError("it has no id")
    spec = copy.copy(env.spec)
    for wrapper in spec.additional_wrappers:
        if _place(wrapper) in LEARNED:
            raise ValueError(f"{wrapper.name} holds statistics of the episodes so far")
    spec.additional_wrappers = tuple(_with_effect(spec))
    return spec


def name_of(env: AnyEnv) -> str:
    """Its id; without one its class with the module, so that a class called Breakout or maze is not taken for another's."""
    if env.spec is not None:
        return env.spec.id
    own = type(env.unwrapped)
    return f"{own.__module__.rpartition('.')[2]}.{own.__name__}"


def _arguments_of(spec: EnvSpec) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The arguments an environment was made with, and those that cannot be written down."""
    registered = gymnasium.registry.get(spec.id)
    given: dict[str, Any] = {key: value for key, value in (spec.kwargs or {}).items() if key != "render_mode"}
    if registered is not None and spec.max_episode_steps not in (None, registered.max_episode_steps):
        given["max_episode_steps"] = spec.max_episode_steps
    pairs, refused = [], []
    for key, value in given.items():
        try:
            pairs.append(f"{key}={json.dumps(value)}")
        except TypeError:
            refused.append(f"argument:{key}")
    return tuple(pairs), tuple(refused)


def _with_effect(spec: EnvSpec) -> list[WrapperSpec]:
    return [wrapper for wrapper in spec.additional_wrappers if _place(wrapper) not in WITHOUT_EFFECT]


def _place(wrapper: WrapperSpec) -> str:
    """module:class, with Gymnasium's own under the name they are exported by."""
    module, _, name = wrapper.entry_point.partition(":")
    return f"gymnasium.wrappers:{name}" if module.startswith("gymnasium.wrappers.") else wrapper.entry_point


def _written(wrapper: WrapperSpec) -> str:
    place = _place(wrapper)
    name = place.rpartition(":")[2]
    known = place == f"gymnasium.wrappers:{name}" and name in REBUILT
    ours = wrapper.entry_point == f"{DelayedReward.__module__}:{DelayedReward.__name__}"
    if not known and not ours:
        return place
    try:
        return name if not wrapper.kwargs else f"{name} {json.dumps(wrapper.kwargs)}"
    except TypeError:
        return place


def _wrappers_of_family(name: str) -> tuple[str, ...] | None:
    """What is put around an environment that is made by its name; None where that cannot be said."""
    kind = family(name)
    if kind.make is make_by_id:
        return ()
    try:
        made = kind.make(name, training=True)
    except Exception:  # of any kind: then the name is no way back to the object
        return None
    spec = made.spec
    made.close()
    return None if spec is None else tuple(map(_written, _with_effect(spec)))
