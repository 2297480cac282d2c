"""Value networks: states in, one value per action out. Chosen from the observation, overridable by name."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ebu.config import NetworkConfig
from ebu.envs.spaces import ObservationSpec
from ebu.errors import UserError

# name → convolutions (channels, kernel, stride), then one hidden layer
CONVOLUTIONS: dict[str, tuple[Sequence[tuple[int, int, int]], int]] = {
    "maze": (((64, 4, 3), (64, 3, 1)), 512),  # the paper, Appendix D
    "nature": (((32, 8, 4), (64, 4, 2), (64, 3, 1)), 512),  # Mnih et al. (2015), without padding
    "minatar": (((16, 3, 1),), 128),  # Young and Tian (2019)
}


class Scale(nn.Module):
    """Stored images to network input: bytes to floats, brought to about [0, 1]."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        x = x.to(torch.get_default_dtype())
        return x if self.scale == 1.0 else x * self.scale


class OneHot(nn.Module):
    """Integers [B, n], each below its number of categories, to concatenated one-hot vectors."""

    def __init__(self, categories: Sequence[int]) -> None:
        super().__init__()
        self.categories = tuple(categories)
        self.offsets = [sum(self.categories[:i]) for i in range(len(self.categories))]

    def forward(self, x: Tensor) -> Tensor:
        index = x + torch.tensor(self.offsets, device=x.device)
        return torch.zeros(len(x), sum(self.categories), device=x.device).scatter_(1, index, 1.0)


class Places(nn.Module):
    """Integers [B, n], each below its number of categories, to the places of the ones in ``OneHot``'s vector: [B, n]."""

    def __init__(self, categories: Sequence[int]) -> None:
        super().__init__()
        self.offsets = OneHot(categories).offsets

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.tensor(self.offsets, device=x.device)


class SparseLinear(nn.Linear):
    """A linear layer on a vector of zeros and n ones that is given by the places of the ones, [B, n].

    The same weights and values as a linear layer on the vector itself, at the cost of n columns instead of all.
    """

    def forward(self, places: Tensor) -> Tensor:
        return self.weight[:, places].sum(-1).t() + self.bias


class Dueling(nn.Module):
    """Q(s, a) = V(s) + A(s, a) − mean A(s, ·), each stream with its own hidden layer (Wang et al., 2016)."""

    def __init__(self, features: int, hidden: int, actions: int, linear: type[nn.Linear] = nn.Linear) -> None:
        super().__init__()
        self.value = nn.Sequential(linear(features, hidden), nn.ReLU(), nn.Linear(hidden, 1))
        self.advantage = nn.Sequential(linear(features, hidden), nn.ReLU(), nn.Linear(hidden, actions))

    def forward(self, x: Tensor) -> Tensor:
        advantage = self.advantage(x)
        return self.value(x) + advantage - advantage.mean(-1, keepdim=True)


def _head(features: int, hidden: int, actions: int, dueling: bool, linear: type[nn.Linear] = nn.Linear) -> list[nn.Module]:
    """From features to action values through one hidden layer."""
    if dueling:
        return [Dueling(features, hidden, actions, linear)]
    return [linear(features, hidden), nn.ReLU(), nn.Linear(hidden, actions)]


def choose(spec: ObservationSpec) -> str:
    """The network that suits an observation: by kind, and for images by their shorter side."""
    if spec.kind != "image":
        return "mlp"
    side = min(spec.shape[1:])
    return "nature" if side >= 64 else "maze" if side >= 20 else "minatar"


def build_network(spec: ObservationSpec, actions: int, stack: int, config: NetworkConfig) -> nn.Module:
    """An unplaced network (parameters have shapes but no values) from stored states to action values."""
    name = choose(spec) if config.network == "auto" else config.network
    with torch.device("meta"):  # values come from the run's own generator, not from the global one
        if name == "mlp":
            return _mlp(spec, actions, stack, config)
        if spec.kind != "image":
            raise UserError(f"network {name!r} reads images, but the observation is a {spec.kind}; use --network mlp")
        return _convolutional(name, spec, actions, stack, config.dueling)


def _mlp(spec: ObservationSpec, actions: int, stack: int, config: NetworkConfig) -> nn.Sequential:
    layers: list[nn.Module] = []
    width = spec.features
    linear: type[nn.Linear] = nn.Linear  # of the next layer
    if spec.is_sparse:
        layers.append(Places(spec.categories))
        linear = SparseLinear
    elif spec.kind == "onehot":
        layers.append(OneHot(spec.categories))
    elif spec.kind == "image":
        layers += [Scale(spec.scale), nn.Flatten()]
        width *= stack
    *body, last = config.hidden_sizes
    for size in body:
        layers += [linear(width, size), nn.ReLU()]
        width, linear = size, nn.Linear
    return nn.Sequential(*layers, *_head(width, last, actions, config.dueling, linear))


def _convolutional(name: str, spec: ObservationSpec, actions: int, stack: int, dueling: bool) -> nn.Sequential:
    convolutions, hidden = CONVOLUTIONS[name]
    channels, height, width = spec.shape
    channels *= stack
    layers: list[nn.Module] = [Scale(spec.scale)]
    for filters, kernel, stride in convolutions:
        if min(height, width) < kernel:
            raise UserError(f"images of {spec.shape[1]}×{spec.shape[2]} are too small for network {name!r}; try minatar")
        layers += [nn.Conv2d(channels, filters, kernel, stride), nn.ReLU()]
        channels, height, width = filters, (height - kernel) // stride + 1, (width - kernel) // stride + 1
    network = nn.Sequential(*layers, nn.Flatten(), *_head(channels * height * width, hidden, actions, dueling))
    # With many channels, convolutions are faster where those of one pixel lie side by side.
    return network.to(memory_format=torch.channels_last) if len(convolutions) > 1 else network  # type: ignore[call-overload]
