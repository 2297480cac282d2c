"""Settings that a user gave and that nothing reads: of another method, of another network, or beside one that overrules them.

Only what was given by hand is looked at. A preset, a preset file and a trial hold settings for all methods.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from ebu.config import Config, flat, override
from ebu.envs.spaces import ObservationSpec
from ebu.registry import Method, methods

MOST_NAMED = 4  # methods that use a setting; where more do, naming them is no help
OF_NETWORKS = ("hidden_sizes", "features_dim", "layer_norm", "dueling", "initialisation")
NOTHING = {"stack": 1, "features_dim": 0, "layer_norm": False, "dueling": False, "double_q": False, "vectorization": "sync"}
"""Values that ask for nothing."""


@dataclass(frozen=True)
class Unused:
    """A setting without effect."""

    name: str
    on: str
    users: tuple[str, ...] = ()
    """The methods that use it."""
    hint: str = ""

    def in_python(self, classes: dict[str, str]) -> str:
        """One line; ``classes`` are the names of the agent classes by method."""
        return self._line(self.name, [f"ebu.{classes[user]}" for user in self.users if user in classes])

    def on_the_command_line(self) -> str:
        users = [f"--algo {self.users[0]}", *self.users[1:]] if self.users else []
        return self._line(f"--{self.name.replace('_', '-')}", users)

    def _line(self, name: str, users: list[str]) -> str:
        hint = self.hint
        if 0 < len(users) <= MOST_NAMED:
            hint = f"{users[0]} uses it" if len(users) == 1 else f"{', '.join(users[:-1])} and {users[-1]} use it"
        return f"{name} has no effect on {self.on}" + (f"; {hint}" if hint else "")


def unused_settings(method: Method, config: Config, spec: ObservationSpec, given: Collection[str]) -> list[Unused]:
    """Of the settings that were given, those without an effect on an agent with this method, environment and network."""
    every = [*_of_other_methods(method, config), *_of_other_networks(config, spec), *_overruled(method, config)]
    values = flat(config)
    asked = [found for found in every if found.name in given and values[found.name] != NOTHING.get(found.name)]
    return sorted(asked, key=lambda found: found.name)


def _of_other_methods(method: Method, config: Config) -> Iterator[Unused]:
    if method.uses is None:  # one of the user's own, which may read anything
        return
    users: dict[str, list[str]] = {}
    for other in methods().values():
        for name in other.uses or ():
            users.setdefault(name, []).append(other.name)
    by_errors = config.memory.episode_choice == "errors"
    for name in users.keys() - {*method.uses}:
        if not (name == "priority_alpha" and by_errors):
            yield Unused(name, method.name, tuple(users[name]))


def _of_other_networks(config: Config, spec: ObservationSpec) -> Iterator[Unused]:
    from ebu.networks.factories import is_own
    from ebu.networks.modules import choose

    network = config.network
    if not spec.is_stacked:
        yield Unused("stack", f"{spec.kind} observations", hint="frames are stacked where there are images")
    if is_own(network.network):
        for name in OF_NETWORKS:
            yield Unused(name, "a network of your own", hint="its function decides")
        return
    if spec.kind == "parts":  # the network of each image, and hidden layers for the rest
        has_convolutions = network.network != "mlp" and any(part.kind == "image" for part in spec.parts)
        has_hidden = not has_convolutions or any(part.kind != "image" for part in spec.parts)
        name = "images alone" if has_convolutions else "mlp"
    else:
        name = choose(spec) if network.network == "auto" else network.network
        has_hidden, has_convolutions = name == "mlp", name != "mlp"
    if not has_hidden:
        yield Unused("hidden_sizes", f"the network {name}", hint="features_dim is the width of its hidden layer")
    if not has_convolutions:
        yield Unused("features_dim", f"the network {name}", hint="hidden_sizes are the widths of its hidden layers")


def _overruled(method: Method, config: Config) -> Iterator[Unused]:
    """By other settings."""
    learner, values = config.learner, flat(config)
    if config.network.value_head == "histogram":
        yield Unused("loss", "value_head=histogram", hint="it is learned by cross-entropy")
    if learner.optimizer == "adam":
        yield Unused("optimizer_decay", "optimizer=adam", hint="it is RMSProp's")
    if learner.learning_rate_schedule != "exponential":
        yield Unused(
            "learning_rate_final", f"learning_rate_schedule={learner.learning_rate_schedule}", hint="exponential uses it"
        )
    if learner.whole_episode:
        yield Unused("batch_size", "whole_episode=True", hint="a minibatch is an episode")
    if config.target.horizon_updates == 0 and "horizon_updates" in (method.uses or ()):
        for name in ("initial_lambda", "initial_horizon"):
            yield Unused(name, "horizon_updates=0", hint="λ and γ are final from the start")
    if config.run.log_interval:
        yield Unused("log_every", f"log_interval={config.run.log_interval}", hint="rows are written after so many episodes")
    if config.environment.n_envs == 1:
        yield Unused("vectorization", "one environment", hint="n_envs is their number")
    followed = method.overrides(config)
    for name, value in followed.items():
        is_changed = _is_number(values[name]) and values[name] != value
        if is_changed and method.overrides(override(config, **{name: 2 * values[name]})).get(name) == value:
            yield Unused(name, method.name, hint=f"here it follows from other settings and is {value}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
