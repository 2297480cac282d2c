"""The value network as a plain module: raw observations in, Q(s, ·) out. For other programs, and for ONNX."""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from ebu.envs.spaces import ObservationSpec, describe_leaf, has_channels_last, leaves_of
from ebu.errors import UserError
from ebu.networks.modules import PartsNetwork


class PlainNetwork(nn.Module):
    """Q(s, ·), [B, A], from observations as the environment returns them, one tensor for each part of the space.

    Each tensor is [B, *shape of the part], or [B, stack, *shape] where states are stacks of frames, oldest first; zeros
    before an episode's first. Numbers are of the space's own type. ``names`` lists the parts; there is one,
    "observation", where the space is no dictionary or tuple.
    """

    def __init__(self, network: nn.Module, space: gymnasium.Space[Any], spec: ObservationSpec, stack: int) -> None:
        super().__init__()
        self.network = network
        self.stack = stack
        self._kind = spec.kind
        leaves = list(leaves_of(space))
        self._spaces = [leaf for _, leaf in leaves]
        self._specs = [describe_leaf(leaf).spec for leaf in self._spaces]
        self.names = ["/".join(map(str, path)) or "observation" for path, _ in leaves]

    def forward(self, *observations: Tensor) -> Tensor:
        return self._values(self.network, observations)

    def _values(self, network: nn.Module, observations: Sequence[Tensor]) -> Tensor:
        if self._kind == "parts":
            assert isinstance(network, PartsNetwork)
            return network.combine([self._frames(i, x) for i, x in enumerate(observations)])
        if len(self._spaces) > 1 or not isinstance(self._spaces[0], _KNOWN):
            return network(torch.cat([_flat(leaf, x) for leaf, x in zip(self._spaces, observations)], 1))
        return network(self._frames(0, observations[0]).flatten(1, 2) if self.stack > 1 else self._frame(observations[0]))

    def _frame(self, observation: Tensor) -> Tensor:
        return _stored(self._spaces[0], self._specs[0], observation)

    def _frames(self, part: int, observations: Tensor) -> Tensor:
        """[B, (stack,) *shape] → [B, stack, *stored shape]"""
        space, spec = self._spaces[part], self._specs[part]
        if self.stack == 1:
            return _stored(space, spec, observations).unsqueeze(1)
        return _stored(space, spec, observations.flatten(0, 1)).unflatten(0, (-1, self.stack))

    def examples(self, count: int = 2, seed: int = 0) -> tuple[Tensor, ...]:
        """A few observations of every part, drawn at random from the space."""
        lead = (count,) if self.stack == 1 else (count, self.stack)
        return tuple(_examples(space, lead, seed + i) for i, space in enumerate(self._spaces))


class PlainEnsemble(PlainNetwork):
    """The mean of several networks."""

    network: nn.ModuleList

    def forward(self, *observations: Tensor) -> Tensor:
        return torch.stack([self._values(member, observations) for member in self.network]).mean(0)


_KNOWN = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


def _stored(space: gymnasium.Space[Any], spec: ObservationSpec, x: Tensor) -> Tensor:
    """A batch of raw observations as ``ebu.envs.spaces`` stores them."""
    if isinstance(space, spaces.Discrete):
        return (x - int(space.start)).reshape(-1, 1)
    if isinstance(space, spaces.MultiDiscrete):
        return x.flatten(1) - torch.as_tensor(np.asarray(space.start).reshape(-1), device=x.device)
    if spec.kind == "image":
        assert space.shape is not None
        x = x.permute(0, 3, 1, 2) if has_channels_last(space.shape) else x
        return x.reshape(-1, *spec.shape)
    return x.to(torch.get_default_dtype()).flatten(1)


def _flat(space: gymnasium.Space[Any], x: Tensor) -> Tensor:
    """As ``gymnasium.spaces.flatten``, for a batch."""
    if isinstance(space, spaces.Discrete):
        return nn.functional.one_hot(x - int(space.start), int(space.n)).to(torch.get_default_dtype())
    if isinstance(space, spaces.MultiDiscrete):
        index, counts = _stored(space, describe_leaf(space).spec, x), np.asarray(space.nvec).reshape(-1)
        columns = [nn.functional.one_hot(index[:, i], int(n)) for i, n in enumerate(counts)]
        return torch.cat(columns, 1).to(torch.get_default_dtype())
    return x.to(torch.get_default_dtype()).flatten(1)


def _examples(space: gymnasium.Space[Any], lead: tuple[int, ...], seed: int) -> Tensor:
    space = copy.deepcopy(space)
    space.seed(seed)
    samples = np.stack([np.asarray(space.sample()) for _ in range(int(np.prod(lead)))])
    return torch.from_numpy(samples.reshape(*lead, *samples.shape[1:]))


def plain_network(
    network: nn.Module, tensors: dict[str, Tensor], space: gymnasium.Space[Any], spec: ObservationSpec, stack: int
) -> PlainNetwork:
    """A network with these weights, a copy of its own, on the CPU; the mean of several where the weights are of several."""
    for _, leaf in leaves_of(space):
        if not isinstance(leaf, _KNOWN):
            raise UserError(f"observations of {leaf} cannot be given as tensors; use agent.q_values")
    name, first = next(network.named_parameters())
    if tensors[name].ndim == first.ndim:
        return PlainNetwork(_with_weights(network, tensors), space, spec, stack).eval()
    members = [{name: tensor[k] for name, tensor in tensors.items()} for k in range(len(tensors[name]))]
    networks = nn.ModuleList(_with_weights(network, weights) for weights in members)
    return PlainEnsemble(networks, space, spec, stack).eval()


def _with_weights(network: nn.Module, tensors: dict[str, Tensor]) -> nn.Module:
    own = copy.deepcopy(network)
    if any(parameter.is_meta for parameter in own.parameters()):
        own = own.to_empty(device="cpu")
    own.load_state_dict({name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}, strict=False)
    return own.requires_grad_(False)


def export_onnx(network: PlainNetwork, path: str) -> None:
    """Write the network as ONNX, with the parts of an observation as named inputs, the values as ``values``; checked."""
    try:
        import onnx  # noqa: F401
        import onnxruntime
        import onnxscript  # noqa: F401
    except ImportError as error:
        words = "pip install 'episodic-backward-update[onnx]'"
        raise UserError(f"ONNX files need an extra; install it with: {words}") from error
    examples = network.examples()
    batch = torch.export.Dim("batch")
    with _without_remarks():
        torch.onnx.export(
            network,
            examples,
            path,
            input_names=network.names,
            output_names=["values"],
            dynamic_shapes={"observations": tuple({0: batch} for _ in examples)},
            dynamo=True,
            external_data=False,
            verbose=False,
        )
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    _compare(session, network, network.examples(5, seed=1))


@contextmanager
def _without_remarks() -> Iterator[None]:
    """Without what the exporter says of packages that no network here uses, and of its own deprecated calls."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(action="ignore", category=FutureWarning):
            yield
    finally:
        logger.setLevel(level)


def _compare(session: Any, network: PlainNetwork, observations: Sequence[Tensor]) -> None:
    """Another runtime sums in another order, and no more than that may differ."""
    found = session.run(["values"], {name: x.numpy() for name, x in zip(network.names, observations)})[0]
    expected = network(*observations).numpy()
    if not np.allclose(found, expected, rtol=1e-3, atol=1e-3 * float(np.abs(expected).max())):
        worst = float(np.abs(found - expected).max())
        raise UserError(
            f"the values of ONNX Runtime differ from the agent's by up to {worst:.2g}; the file was written anyway"
        )
