"""What a family of environments is: one record with all that the package needs to know of environments of a kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium

from ebu.envs.arguments import registered_arguments
from ebu.errors import UserError

AnyEnv = gymnasium.Env[Any, Any]
Settings = Mapping[str, Any]  # flat names, as ebu.presets.configure takes them

DEFAULT_PRESET = "quick"


@dataclass(frozen=True)
class Cost:
    """Measured seconds on one core of two that are both busy, and how many steps an evaluation episode typically lasts."""

    act: float  # one training step without learning, averaged over ε
    update: float  # one minibatch of DQN's, of the preset's size
    evaluate: float  # one evaluation step
    episode: int  # steps
    learner: float = 0.5  # one of several learners, over DQN's update; small networks are trained all at once


SMALL_NETWORK = Cost(act=0.00005, update=0.0015, evaluate=0.00005, episode=300, learner=0.15)


def make_by_id(name: str, training: bool, **arguments: Any) -> AnyEnv:
    """The environment that Gymnasium has registered under this id; the same for training and for evaluation."""
    return gymnasium.make(name, disable_env_checker=True, **arguments)


def nothing_to_register() -> None:
    """For environments that Gymnasium knows already."""


@dataclass(frozen=True)
class Family:
    """Environments that are recognised, created and configured in the same way, at similar costs.

    ``ebu.envs.families.register_family`` makes one known to the command line, the agents and the experiments.
    """

    name: str
    recognises: Callable[[str], bool]
    """Whether an environment's name is of this family; asked before anything is imported."""
    presets: Mapping[str, Settings]
    """Preset → settings that differ from the defaults in ``ebu.config``. ``quick`` is the one used unless another is named."""
    make: Callable[..., AnyEnv] = make_by_id
    """``make(name, training, **arguments)`` → an environment to train in or to evaluate in, wrappers included."""
    register: Callable[[], None] = nothing_to_register
    """Registers the family's ids with Gymnasium; called before every ``make``."""
    arguments: Callable[[str], list[str]] = registered_arguments
    """The arguments that ``make`` takes for a name; they are listed when one is misspelt."""
    module: str = ""
    """The module that must be installed."""
    extra: str = ""
    """The extra of this package that installs the module; without one, messages name the module's own package."""
    packages: tuple[str, ...] = ()
    """Distributions whose versions decide what the environments do; a run folder records them."""
    threads: int = 0
    """CPU threads for networks that see images; 0 for as many as PyTorch takes. Small networks are faster with one."""
    costs: Mapping[str, Cost] = field(default_factory=dict)
    """Preset → measured cost. A preset without one is expected to cost what a small network costs."""
    examples: Mapping[str, str] = field(default_factory=dict)
    """Ids that a reader would try first, with a few words on each, for ``ebu list``."""

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise UserError("a family of environments needs a name")
        if DEFAULT_PRESET not in self.presets:
            known = ", ".join(self.presets) or "none"
            raise UserError(f"family {self.name!r} needs a preset called {DEFAULT_PRESET!r}; it has {known}")
        if unknown := [preset for preset in self.costs if preset not in self.presets]:
            raise UserError(f"family {self.name!r} has a cost for {', '.join(unknown)}, but no such preset")

    def cost(self, preset: str) -> Cost:
        return self.costs.get(preset, SMALL_NETWORK)
