"""Adaptive EBU over several processes: K learners divided among ranks.

Rank 0 runs the training loop: environment, policy, memory, targets, metrics and checkpoints. Each rank, rank 0 included, holds
a share of the learners. Rank 0 announces a call with its arguments, every rank makes it on its share, and the results are
gathered at rank 0. No learner's arithmetic involves another's, so the K learners equal those of a single process.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from ebu.config import flat, from_json
from ebu.distributed.processes import LostRank, ProcessGroup, join, shares_of
from ebu.envs.spaces import ObservationSpec
from ebu.errors import UserError
from ebu.learning.blueprint import Blueprint
from ebu.learning.learner import Update
from ebu.networks.ensemble import Ensemble
from ebu.networks.factories import name_of
from ebu.networks.fastest import fastest_ensemble
from ebu.types import Array, Batch

NetworkName = Literal["online", "target"]
NO_STEPS = np.empty(0, np.int64)  # which steps a batch holds is known to rank 0 and matters to the memory only


def blueprint_to_json(blueprint: Blueprint) -> str:
    numbers = {"actions": blueprint.actions, "stack": blueprint.stack, "learners": blueprint.learners}
    return json.dumps({**numbers, "observation": blueprint.observation.to_json(), "config": flat(blueprint.config)})


def blueprint_from_json(text: str) -> Blueprint:
    values = json.loads(text)
    observation = ObservationSpec.from_json(values.pop("observation"))
    config = from_json(json.dumps(values.pop("config")))
    name_of(config.network.network)  # rank 0 knows its own network, this rank imports it
    return Blueprint(config=config, observation=observation, **values)


class Share:
    """The learners of one rank, and the calls that all ranks make together. Results are complete at rank 0 only."""

    def __init__(self, group: ProcessGroup, blueprint: Blueprint, device: torch.device) -> None:
        self._group = group
        self._blueprint = blueprint
        self.device = device
        self._shares = shares_of(blueprint.learners, group.size)
        self.own = self._shares[group.rank]
        self.learner = blueprint.build(len(self.own), device)

    @classmethod
    def from_call(cls, group: ProcessGroup, text: Tensor, device: str, threads: int) -> Share:
        """As rank 0 announces it."""
        torch.set_num_threads(threads)
        blueprint = blueprint_from_json(text.numpy().tobytes().decode())
        return cls(group, blueprint, group.own_device(torch.device(device)))

    @property
    def learners(self) -> int:
        """Those of all ranks."""
        return self._blueprint.learners

    def network(self, name: NetworkName) -> Ensemble:
        return self.learner.online if name == "online" else self.learner.target

    def initialise(self, generator_state: Tensor, scheme: Literal["torch", "he"]) -> None:
        weights = self._own_weights(generator_state, scheme)
        for network in (self.learner.online, self.learner.target):
            network.parameters.copy_(weights)

    def reset_outputs(self, generator_state: Tensor, scheme: Literal["torch", "he"]) -> None:
        self.learner.renew_outputs(self._own_weights(generator_state, scheme))

    def _own_weights(self, generator_state: Tensor, scheme: Literal["torch", "he"]) -> Tensor:
        """Every rank draws the weights of all learners, in the order of one process, and keeps its own."""
        generator = torch.Generator()
        generator.set_state(generator_state)
        everyone = fastest_ensemble(self._blueprint.skeleton(), self._blueprint.learners, torch.device("cpu"))
        everyone.initialise(generator, scheme)
        return everyone.parameters[self.own.start : self.own.stop]

    @torch.no_grad()
    def values(self, name: NetworkName, states: Tensor) -> Tensor | None:
        """[K, B, A]"""
        return self._group.gather(self.network(name).values(states), self._shares)

    def update(self, learning_rate: float, states: Tensor, actions: Tensor, targets: Tensor) -> Update | None:
        self.learner.set_learning_rate(learning_rate)
        update = self.learner.update(Batch(states, actions, targets[self.own.start : self.own.stop], NO_STEPS))
        seen = torch.stack((update.loss, update.values, update.errors), dim=1)  # [k, 3, B]: one message
        whole = self._group.gather(seen, self._shares)
        return None if whole is None else Update(*whole.transpose(0, 1).contiguous())

    def update_target(self) -> None:
        self.learner.update_target()

    @torch.no_grad()
    def copy_to_all(self, learner: int) -> None:
        """θ and θ⁻ of one learner, from the rank that has it to every learner of every rank."""
        row = learner - self.own.start if learner in self.own else 0  # elsewhere any row will do: it is overwritten
        for network in (self.learner.online, self.learner.target):
            weights = self._group.broadcast(network.parameters[row].clone(), self._owner(learner))
            network.parameters.copy_(weights.expand_as(network.parameters))

    @torch.no_grad()
    def fill(self, name: NetworkName, weights: Tensor) -> None:
        """To every learner its own of these weights [K, P]."""
        self.network(name).parameters.copy_(weights[self.own.start : self.own.stop])

    def fetch(self, name: NetworkName, learner: int, into: Tensor | None = None) -> None:
        """The weights of one learner of another rank, written into rank 0's tensor."""
        if learner in self.own:
            self._group.send(self.network(name).parameters[learner - self.own.start], 0)
        elif into is not None:
            self._group.receive(into, self._owner(learner))

    def state_dict(self) -> dict[str, Any]:
        return self._gathered(self.learner.state_dict())

    def load_state_dict(self, state: dict[str, Any] | None = None) -> None:
        self.learner.load_state_dict(self._scattered(state, self.learner.state_dict()))

    def _owner(self, learner: int) -> int:
        return next(rank for rank, share in enumerate(self._shares) if learner in share)

    def _gathered(self, part: Any) -> Any:
        """A state as of all learners: tensors begin with the learners' axis, everything else is alike on every rank."""
        if isinstance(part, dict):
            return {key: self._gathered(value) for key, value in part.items()}
        return self._group.gather(part, self._shares) if isinstance(part, Tensor) else part

    def _scattered(self, whole: Any, part: Any) -> Any:
        """The reverse, in the same order; ``part`` gives the form."""
        if isinstance(part, dict):
            return {key: self._scattered(None if whole is None else whole[key], value) for key, value in part.items()}
        return self._group.scatter(whole, part, self._shares) if isinstance(part, Tensor) else self._group.tell(whole)


class DistributedEnsemble:
    """K networks of which rank 0 has some: what the loop needs of a ``Ensemble``."""

    images_at_once = Ensemble.images_at_once

    def __init__(self, name: NetworkName, share: Share, call: Callable[..., Any], skeleton: nn.Module) -> None:
        self.device, self.learners = share.device, share.learners
        self._name = name
        self._share = share
        self._call = call
        self._skeleton = skeleton
        self._visiting: int | None = None

    @cached_property
    def _visitor(self) -> Ensemble:
        """A network of rank 0's for the weights of one learner of another rank."""
        return fastest_ensemble(self._skeleton, 1, self.device)

    def values(self, states: Tensor) -> Tensor:
        """Q(s, ·) of every learner: [K, B, A]."""
        return self._call("values", self._name, states)

    def state_values(self, learner: int) -> Callable[[Array], Array]:
        """A function from one state to Q(s, ·)[A] of one learner.

        Weights of another rank are fetched when they have changed, which is once for a whole evaluation. Asking that rank
        for values instead would cost a message every step.
        """
        if learner in self._share.own:
            return self._share.network(self._name).state_values(learner)
        return self._of_visitor(learner, self._visitor.state_values(0))

    def batch_values(self, learner: int) -> Callable[[Array], Array]:
        """The same for several states at once: [B, …] → [B, A]."""
        if learner in self._share.own:
            return self._share.network(self._name).batch_values(learner)
        return self._of_visitor(learner, self._visitor.batch_values(0))

    def _of_visitor(self, learner: int, visitor_values: Callable[[Array], Array]) -> Callable[[Array], Array]:
        def values(states: Array) -> Array:
            self._invite(learner)
            return visitor_values(states)

        return values

    def named_tensors(self, learner: int = 0) -> dict[str, Tensor]:
        """One learner's weights by name, for a policy file."""
        if learner in self._share.own:
            return self._share.network(self._name).named_tensors(learner)
        self._invite(learner)
        return self._visitor.named_tensors()

    def load_named_tensors(self, tensors: dict[str, Tensor]) -> None:
        """One learner's weights, given to all; or those of as many learners as there are."""
        everyone = fastest_ensemble(self._skeleton, self._share.learners, self.device)
        everyone.load_named_tensors(tensors)
        self._call("fill", self._name, everyone.parameters)
        self.forget()

    def forget(self) -> None:
        """The weights have changed."""
        self._visiting = None

    def _invite(self, learner: int) -> None:
        if self._visiting != learner:
            self._call("fetch", self._name, learner, into=self._visitor.parameters[0])
            self._visiting = learner


class DistributedLearner:
    """K learners of which rank 0 has some: what the loop needs of a ``Learner``, at rank 0. A group has one at a time."""

    def __init__(self, group: ProcessGroup, blueprint: Blueprint, device: torch.device) -> None:
        self._group = group
        self._share = Share(group, blueprint, device)
        text = torch.frombuffer(bytearray(blueprint_to_json(blueprint).encode()), dtype=torch.uint8)
        with group.together("build", text, device.type, torch.get_num_threads()):
            skeleton = blueprint.skeleton()
            self.online = DistributedEnsemble("online", self._share, self._call, skeleton)
            self.target = DistributedEnsemble("target", self._share, self._call, skeleton)
        self._learning_rate = blueprint.config.learner.learning_rate

    def initialise(self, generator: torch.Generator, scheme: Literal["torch", "he"]) -> None:
        self._change("initialise", generator.get_state(), scheme)

    def reset_outputs(self, generator: torch.Generator, scheme: Literal["torch", "he"]) -> None:
        self._change("reset_outputs", generator.get_state(), scheme)

    def update(self, batch: Batch) -> Update:
        assert not batch.columns and batch.weights is None, "methods with columns or weights have one learner"
        return self._change("update", self._learning_rate, batch.states, batch.actions, batch.targets)

    def update_target(self) -> None:
        self._call("update_target")
        self.target.forget()

    def copy_to_all(self, learner: int) -> None:
        self._change("copy_to_all", learner)

    def set_learning_rate(self, learning_rate: float) -> None:
        self._learning_rate = learning_rate  # sent with the next update

    def state_dict(self) -> dict[str, Any]:
        return self._call("state_dict")

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._change("load_state_dict", state=state)

    def _call(self, name: str, *arguments: Any, **at_rank_0: Any) -> Any:
        with self._group.together(name, *arguments):
            return getattr(self._share, name)(*arguments, **at_rank_0)

    def _change(self, name: str, *arguments: Any, **at_rank_0: Any) -> Any:
        """A call that changes the weights of both networks, or of the online one."""
        result = self._call(name, *arguments, **at_rank_0)
        self.online.forget()
        self.target.forget()
        return result


# ---------------------------------------------------------------------- processes


def require_work_for_all(algo: str, learners: int, ranks: int) -> None:
    """Refuse more ranks than learners."""
    if learners == 1:
        raise UserError(f"{algo} has one learner, nothing to divide among {ranks} ranks; start it without torchrun")
    if learners < ranks:
        raise UserError(f"{algo} has {learners} learners for {ranks} ranks; start fewer ranks, or give it more learners")


class Ranks:
    """The ranks of a run as an agent at rank 0 sees them."""

    def __init__(self, group: ProcessGroup) -> None:
        self._group = group
        self.size = group.size

    def require_work(self, algo: str, learners: int) -> None:
        """Refuse more ranks than learners."""
        require_work_for_all(algo, learners, self.size)

    def own_device(self, device: torch.device) -> torch.device:
        return self._group.own_device(device)

    def make_learner(self, blueprint: Blueprint, device: torch.device) -> DistributedLearner:
        return DistributedLearner(self._group, blueprint, device)


def lead_or_work(lead: Callable[[Ranks | None], int]) -> int:
    """Run a command at rank 0 while the other ranks make the calls it announces; by itself where there is one rank."""
    group = join()
    if group is None:
        return lead(None)
    with group:
        return work(group) if group.rank else lead(Ranks(group))


def work(group: ProcessGroup) -> int:
    """Make the calls that rank 0 announces, until it says stop or is gone.

    A signal that asks to stop is for rank 0, which still needs the weights of this rank for its checkpoint.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    share: Share | None = None
    try:
        while True:
            name, arguments = group.listen()
            if name == "stop":
                return 0
            if name == "build":
                share = Share.from_call(group, *arguments)
            else:
                getattr(share, name)(*arguments)
    except LostRank:
        return 1  # rank 0 says why, if it can
