"""Networks of a user's own: ``factory(observation_spec, actions) -> nn.Module``, a function or a name ``module:factory``.

A name in a file runs code, so it is looked up only where the user has said so: ``build_network`` itself imports nothing.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from ebu.envs.spaces import ObservationSpec
from ebu.errors import UserError
from ebu.plugins import inherited_plugins

Factory = Callable[[ObservationSpec, int], nn.Module]

_KNOWN: dict[str, Factory] = {}  # by name: what the user gave, named on the command line, or trusted a file to name
_CHECKED: set[tuple[Factory, ObservationSpec, int]] = set()


def is_own(name: str) -> bool:
    return ":" in name


def name_of(network: str | Factory) -> str:
    """The setting for what a user gave as ``network=``, which from now on is known by this name."""
    if isinstance(network, str):
        if is_own(network):
            _import(network)
        return network
    if not callable(network) or isinstance(network, nn.Module):
        raise UserError(
            f"network takes a name or a function (observation_spec, actions) -> nn.Module, got {type(network).__name__}"
        )
    kind = network if hasattr(network, "__qualname__") else type(network)
    name = f"{network.__module__}:{kind.__qualname__}"
    _KNOWN[name] = network
    return name


def admit(name: str, trusted: bool, file: object, network: Factory | None = None) -> None:
    """Make the network that a file names known: it is the one given, or is imported if the file is trusted."""
    if network is not None:
        if not is_own(name):
            raise UserError(f"{file} was made with the network {name!r}; network= is for files that name your own")
        name_of(network)  # refuses what is not a function
        _KNOWN[name] = network
    if not is_own(name) or name in _KNOWN or name.partition(":")[0] in inherited_plugins():
        return
    if not trusted:
        raise UserError(
            f"{file} names the network {name}, for which the module {name.partition(':')[0]} would be imported and run; "
            "add --trust-env (trust_env=True in Python) if you trust this file, or pass network= in Python"
        )
    _import(name)


def _import(name: str) -> None:
    """Import ``module:factory``; modules in the current folder are found, too."""
    module, _, path = name.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        found = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except Exception as error:  # of any kind: it is the user's own code
        reason = " ".join(str(error).split())
        raise UserError(f"the network {name} cannot be imported: {type(error).__name__}: {reason}") from error
    if not callable(found):
        raise UserError(f"the network {name} is not a function (observation_spec, actions) -> nn.Module: {found!r:.60}")
    _KNOWN[name] = found


def _factory(name: str) -> Factory:
    if name not in _KNOWN and name.partition(":")[0] in inherited_plugins():  # of a sweep's worker: imported and trusted
        _import(name)
    if name not in _KNOWN:
        raise UserError(f"the network {name} is not known here; pass its function as network=, or trust_env=True")
    return _KNOWN[name]


class OwnNetwork(nn.Module):
    """A user's module with what is needed to make others like it. Refuses modules that cannot be learned with."""

    def __init__(self, name: str, spec: ObservationSpec, actions: int, stack: int) -> None:
        super().__init__()
        self._name = name
        # What the factory is told is the state: all frames of the stack.
        self.spec = replace(spec, shape=(stack * spec.shape[0], *spec.shape[1:])) if stack > 1 else spec
        self._actions = actions
        self.module = self.made(seed=0)
        case = (_factory(name), self.spec, actions)
        if case not in _CHECKED:
            self._check()
            _CHECKED.add(case)

    def forward(self, states: Tensor) -> Tensor:
        return self.module(states)

    def made(self, seed: int) -> nn.Module:
        """A module with its own starting weights, drawn from this seed and nothing else."""
        factory = _factory(self._name)
        with _random_numbers_from(seed):
            try:
                module = factory(self.spec, self._actions)
                if isinstance(module, nn.Module) and any(is_lazy(p) for p in module.parameters()):
                    with torch.no_grad():
                        module(self._examples())
            except Exception as error:  # of any kind: it is the user's own code
                raise UserError(f"the network {self._name} cannot be created: {_reason(error)}") from error
        if not isinstance(module, nn.Module):
            raise UserError(f"the network {self._name} returned {type(module).__name__} instead of an nn.Module")
        return module

    # ------------------------------------------------------------------ what is refused

    def _refuse(self, words: str) -> None:
        raise UserError(f"the network {self._name} {words}")

    def _check(self) -> None:
        self._check_weights()
        before = {name: buffer.clone() for name, buffer in self.module.named_buffers()}
        states = self._examples()
        described = f"{str(states.dtype).removeprefix('torch.')} {list(states.shape)}"
        with _random_numbers_from(0):
            unused = torch.get_rng_state()
            try:
                with torch.no_grad():
                    values = self(states)
                    self._check_buffers(before)
                    alone = self(states[:1])
            except UserError:
                raise
            except Exception as error:  # of any kind: it is the user's own code
                raise UserError(f"the network {self._name} fails on states {described}: {_reason(error)}") from error
            if not torch.equal(unused, torch.get_rng_state()):
                self._refuse("draws random numbers, as Dropout does, so that a run could not be repeated; remove such layers")
        wanted = [len(states), self._actions]
        if not isinstance(values, Tensor) or list(values.shape) != wanted or values.dtype != torch.get_default_dtype():
            found = f"{values.dtype} {list(values.shape)}" if isinstance(values, Tensor) else type(values).__name__
            self._refuse(f"returns {found.removeprefix('torch.')} for states {described} instead of values {wanted}")
        if not torch.isfinite(values).all():
            self._refuse(f"returns values that are not finite for states {described}")
        if (values[:1] - alone).abs().max() > 1e-3 * values.abs().max():  # far more than rounding
            self._refuse("returns other values for a state in another batch, as BatchNorm does; use LayerNorm")

    def _check_buffers(self, before: dict[str, Tensor]) -> None:
        for name, buffer in self.module.named_buffers():
            if not torch.equal(buffer, before[name]):
                self._refuse(f"changes its buffer {name} when it is called, as BatchNorm does; use LayerNorm")

    def _check_weights(self) -> None:
        if not any(True for _ in self.module.parameters()):
            self._refuse("has no parameters to train")
        for name, parameter in self.module.named_parameters():
            if parameter.dtype != torch.get_default_dtype():
                self._refuse(f"has a parameter {name} of {parameter.dtype} instead of {torch.get_default_dtype()}")
            if not parameter.requires_grad:
                self._refuse(f"has a parameter {name} that does not require a gradient; make it a buffer")
        other = dict(self.made(seed=1).named_buffers())
        for name, buffer in self.module.named_buffers():
            if name not in other or not torch.equal(buffer, other[name]):
                self._refuse(f"has a buffer {name} that differs each time it is created; make it a parameter, or a constant")

    def _examples(self, count: int = 2) -> Tensor:
        """A few states as the network will get them."""
        rng, spec = np.random.default_rng(0), self.spec
        if spec.kind == "onehot":
            return torch.from_numpy(rng.integers(spec.categories, size=(count, *spec.shape)))
        if spec.kind == "parts":
            return torch.zeros((count, *spec.shape), dtype=torch.uint8)  # any bytes would be numbers of any size
        if spec.dtype == "uint8":
            return torch.from_numpy(rng.integers(0, 2, (count, *spec.shape)).astype(np.uint8))
        return torch.from_numpy(rng.normal(size=(count, *spec.shape)).astype(spec.dtype))


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


@contextmanager
def _random_numbers_from(seed: int) -> Iterator[None]:
    """PyTorch's global generator, which layers draw their starting weights from, set for a moment and put back."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
