"""What a method consists of, and the one list of methods that agents, command line, sweeps, docs and tests read.

Nothing here imports PyTorch: ``ebu list`` and ``ebu train --help`` read titles and defaults from this list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ebu.errors import UserError
from ebu.search_space import SearchSpace, usual_space

if TYPE_CHECKING:
    from torch import Tensor

    from ebu.config import Config
    from ebu.learning.span_values import SpanValues
    from ebu.memory.samplers import Sampler
    from ebu.types import Targets

    Rule = Callable[[SpanValues], Targets]
    # (targets, values of the taken actions, the rule's extra columns) → targets, each [K, B]
    Correction = Callable[[Tensor, Tensor, Mapping[str, Tensor]], Tensor]


def _one_learner(config: Config) -> int:
    return 1


def _no_overrides(config: Config) -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class Method:
    """One learning method: which spans are sampled and which rule makes their targets. Everything else is as in DQN."""

    name: str
    """As ``--algo`` takes it."""
    title: str
    """One line for ``ebu list``."""
    sampler: Callable[[Config], Sampler]
    """What is replayed: whole episodes, single steps, …"""
    rule: Callable[[Config], Rule]
    """Makes the target rule: from a span with its network values to targets [K, N]."""
    learners: Callable[[Config], int] = _one_learner
    """How many networks are trained side by side."""
    ensemble: bool = False
    """The learners are one agent: its policy is greedy in their mean values, and none is copied to the others."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Settings that start from another value than the environment's preset."""
    overrides: Callable[[Config], dict[str, Any]] = _no_overrides
    """Settings of the training loop that follow from the run's, such as a scaled step size."""
    correction: Callable[[Config], Correction] | None = None
    """For a rule whose targets depend on the values at the moment of the update."""
    needs_behaviour: bool = False
    """The probability of each action is recorded, which costs a forward pass at every step."""
    settings: tuple[str, ...] = ()
    """The settings that are its own, which ``repr(agent)`` shows."""
    uses: tuple[str, ...] | None = None
    """Of the settings that only some methods read, those that it reads; giving others draws a warning. None: not known."""
    search: Callable[[Config], SearchSpace] = usual_space
    """What ``ebu tune`` varies, given the settings it starts from."""
    cost: float = 1.0
    """Seconds of a minibatch over DQN's, for the expected duration of a sweep."""


_METHODS: dict[str, Method] = {}


def add_method(method: Method) -> None:
    """Put a method on the list; names are unique."""
    if _METHODS.get(method.name, method) is not method:
        raise UserError(f"there is already a method named {method.name!r}; choose another name")
    _METHODS[method.name] = method


def find_method(name: str) -> Method:
    """The method of this name, in upper or lower case: ``EBU`` and ``N_Step`` are found, too."""
    spelt = {known.lower(): known for known in _METHODS}
    found = _METHODS.get(name) or _METHODS.get(spelt.get(name.lower().replace("_", "-"), ""))
    if found is None:
        raise UserError(f"there is no algorithm {name!r}; choose from {', '.join(_METHODS)}, or name its module with --plugin")
    return found


def methods() -> dict[str, Method]:
    """All methods by name, in the order they were registered."""
    return dict(_METHODS)
