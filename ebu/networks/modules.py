"""Value networks: states in, one value per action out. Chosen from the observation, overridable by name."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ebu.config import NetworkConfig
from ebu.envs.spaces import ObservationSpec
from ebu.errors import UserError
from ebu.networks.factories import OwnNetwork, is_own
from ebu.networks.histogram import BINS, Histogram

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
        return torch.zeros(x.shape[0], sum(self.categories), device=x.device).scatter_(1, index, 1.0)


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


def hidden_layer(layer: nn.Module, shape: Sequence[int], layer_norm: bool) -> list[nn.Module]:
    """A layer with outputs of this shape, normalised where wanted, and rectified."""
    return [layer, *([nn.LayerNorm(list(shape))] if layer_norm else []), nn.ReLU()]


class Dueling(nn.Module):
    """Q(s, a) = V(s) + A(s, a) − mean A(s, ·), each stream with its own hidden layer (Wang et al., 2016)."""

    def __init__(
        self, features: int, hidden: int, actions: int, layer_norm: bool, linear: type[nn.Linear] = nn.Linear
    ) -> None:
        super().__init__()
        self.value = _stream(features, hidden, 1, layer_norm, linear)
        self.advantage = _stream(features, hidden, actions, layer_norm, linear)

    def forward(self, x: Tensor) -> Tensor:
        advantage = self.advantage(x)
        return self.value(x) + advantage - advantage.mean(-1, keepdim=True)


class WithPrior(nn.Module):
    """f(s) + scale · p(s), where p keeps its random weights (Osband et al., 2018); two networks of one shape."""

    def __init__(self, network: nn.Module, prior: nn.Module, scale: float) -> None:
        super().__init__()
        self.network = network
        self.prior = prior
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x) + self.scale * self.prior(x)


def output_layers(network: nn.Module) -> list[str]:
    """The names of the linear layers that give the values: the last one, or that of each stream of a dueling network."""
    if isinstance(network, WithPrior):
        return [f"network.{name}" for name in output_layers(network.network)]
    streams = [
        f"{name}.{stream}." if name else f"{stream}."
        for name, module in network.named_modules()
        if isinstance(module, Dueling)
        for stream in ("value", "advantage")
    ]
    linear = [name for name, module in network.named_modules() if isinstance(module, nn.Linear)]
    last = [[name for name in linear if name.startswith(stream)][-1] for stream in streams] or linear[-1:]
    if not last:
        users = "reset_every and redistribute_rewards change the last linear layer"
        raise UserError(f"{users}, and this network has none; leave both off")
    return last


def _stream(features: int, hidden: int, outputs: int, layer_norm: bool, linear: type[nn.Linear]) -> nn.Sequential:
    """From features to outputs through one hidden layer."""
    return nn.Sequential(*hidden_layer(linear(features, hidden), (hidden,), layer_norm), nn.Linear(hidden, outputs))


def _head(
    features: int, hidden: int, actions: int, config: NetworkConfig, linear: type[nn.Linear] = nn.Linear
) -> list[nn.Module]:
    """From features to action values through one hidden layer."""
    if config.dueling:
        return [Dueling(features, hidden, actions, config.layer_norm, linear)]
    return list(_stream(features, hidden, actions, config.layer_norm, linear))


class PartsNetwork(nn.Module):
    """Dictionaries and tuples with images: convolutions for each image, one layer for all the rest, then the head.

    As mlp, all parts are flattened, images scaled, and go through the hidden layers together.
    """

    def __init__(self, spec: ObservationSpec, actions: int, stack: int, config: NetworkConfig) -> None:
        super().__init__()
        self.spec = spec
        self._stack = stack
        names = [self._name_for(part, config) for part in spec.parts]
        self.trunks = nn.ModuleList()  # of the parts that have one, in their order
        features = rest = 0
        for name, part in zip(names, spec.parts):
            if name == "mlp":
                rest += stack * part.features
            else:
                trunk, size = _trunk(name, part, stack, config.layer_norm)
                self.trunks.append(nn.Sequential(*trunk))
                features += size
        self._has_trunk = [name != "mlp" for name in names]
        self.readers = nn.ModuleList(_reader(part, stack) for part in spec.parts)
        hidden = list(config.hidden_sizes)
        if len(self.trunks):
            width, hidden = hidden[0], [config.features_dim or max(CONVOLUTIONS[n][1] for n in names if n != "mlp")]
            layers = hidden_layer(nn.Linear(rest, width), (width,), config.layer_norm) if rest else []
            self.rest = nn.Sequential(*layers)
            features += width if rest else 0
        else:
            self.rest = nn.Sequential()
            features = rest
        self.head = nn.Sequential(*_hidden_and_head(features, hidden, actions, config))

    @staticmethod
    def _name_for(part: ObservationSpec, config: NetworkConfig) -> str:
        """The convolutions for a part, or mlp for none."""
        if part.kind != "image" or config.network == "mlp":
            return "mlp"
        return choose(part) if config.network == "auto" else config.network

    def forward(self, states: Tensor) -> Tensor:
        return self.combine(self.split(states))

    def split(self, states: Tensor) -> list[Tensor]:
        """States [B, stack, 1, bytes] → the frames of each part, [B, stack, *shape]."""
        frames, parts, start = states.flatten(2), [], 0
        for part in self.spec.parts:
            end = start + part.frame_bytes
            # A copy even of a single state: its slice counts as contiguous, with the strides and the offset of the frame.
            own = frames[:, :, start:end].clone(memory_format=torch.contiguous_format)
            numbers = own.view(getattr(torch, part.dtype))
            parts.append(numbers.unflatten(2, part.shape))
            start = end
        return parts

    def combine(self, parts: Sequence[Tensor]) -> Tensor:
        """From the frames of each part to the action values."""
        trunks = iter(self.trunks)
        pictures, rest = [], []
        for part, has_trunk, reader in zip(parts, self._has_trunk, self.readers):
            if has_trunk:
                pictures.append(next(trunks)(part.flatten(1, 2)))
            else:
                rest.append(reader(part.flatten(1)))
        if rest:
            pictures.append(self.rest(torch.cat(rest, 1)))
        return self.head(torch.cat(pictures, 1))


def _reader(part: ObservationSpec, stack: int) -> nn.Module:
    """From the flat numbers of a part's frames to the network's flat input."""
    return OneHot(part.categories * stack) if part.kind == "onehot" else Scale(part.scale)


def choose(spec: ObservationSpec) -> str:
    """The network that suits an observation: by kind, and for images by their shorter side."""
    if spec.kind != "image":
        return "mlp"
    side = min(spec.shape[1:])
    return "nature" if side >= 64 else "maze" if side >= 20 else "minatar"


def build_network(spec: ObservationSpec, actions: int, stack: int, config: NetworkConfig) -> nn.Module:
    """An unplaced network (parameters have shapes but no values) from stored states to action values.

    One of the user's own is made by its factory, on the CPU and with values: its layers may need to know theirs.
    """
    if config.value_head == "histogram":
        if config.dueling or config.prior_scale:
            other = "dueling" if config.dueling else "prior_scale"
            raise UserError(f"value_head='histogram' does not combine with {other}; choose one of the two")
        return Histogram(_build(spec, actions * BINS, stack, config))
    if not config.prior_scale:
        return _build(spec, actions, stack, config)
    network, prior = (_build(spec, actions, stack, config) for _ in range(2))
    return WithPrior(network, prior, config.prior_scale)


def _build(spec: ObservationSpec, actions: int, stack: int, config: NetworkConfig) -> nn.Module:
    if is_own(config.network):
        return OwnNetwork(config.network, spec, actions, stack)
    name = choose(spec) if config.network == "auto" else config.network
    with torch.device("meta"):  # values come from the run's own generator, not from the global one
        if spec.kind == "parts":
            return PartsNetwork(spec, actions, stack, config)
        if name == "mlp":
            return _mlp(spec, actions, stack, config)
        if spec.kind != "image":
            raise UserError(f"network {name!r} reads images, but the observation is a {spec.kind}; use --network mlp")
        return _convolutional(name, spec, actions, stack, config)


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
    return nn.Sequential(*layers, *_hidden_and_head(width, config.hidden_sizes, actions, config, linear))


def _hidden_and_head(
    width: int, hidden: Sequence[int], actions: int, config: NetworkConfig, linear: type[nn.Linear] = nn.Linear
) -> list[nn.Module]:
    """From features to action values through hidden layers; the first layer is of the kind ``linear``."""
    layers: list[nn.Module] = []
    *body, last = hidden
    for size in body:
        layers += hidden_layer(linear(width, size), (size,), config.layer_norm)
        width, linear = size, nn.Linear
    return [*layers, *_head(width, last, actions, config, linear)]


def _convolutional(name: str, spec: ObservationSpec, actions: int, stack: int, config: NetworkConfig) -> nn.Sequential:
    convolutions, hidden = CONVOLUTIONS[name]
    layers, features = _trunk(name, spec, stack, config.layer_norm)
    network = nn.Sequential(*layers, *_head(features, config.features_dim or hidden, actions, config))
    # With many channels, convolutions are faster where those of one pixel lie side by side.
    return network.to(memory_format=torch.channels_last) if len(convolutions) > 1 else network  # type: ignore[call-overload]


def _trunk(name: str, spec: ObservationSpec, stack: int, layer_norm: bool) -> tuple[list[nn.Module], int]:
    """From images to features, and how many there are."""
    channels, height, width = spec.shape
    channels *= stack
    layers: list[nn.Module] = [Scale(spec.scale)]
    for filters, kernel, stride in CONVOLUTIONS[name][0]:
        if min(height, width) < kernel:
            raise UserError(f"images of {spec.shape[1]}×{spec.shape[2]} are too small for network {name!r}; try minatar")
        convolution = nn.Conv2d(channels, filters, kernel, stride)
        channels, height, width = filters, (height - kernel) // stride + 1, (width - kernel) // stride + 1
        layers += hidden_layer(convolution, (channels, height, width), layer_norm)
    return [*layers, nn.Flatten()], channels * height * width
