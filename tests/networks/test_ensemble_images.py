"""Convolutions channels last with the chain rule written out equal the general path; the block's order is the same."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from ebu.config import NetworkConfig
from ebu.envs.spaces import ObservationSpec
from ebu.networks import ensemble_images
from ebu.networks.ensemble import Ensemble
from ebu.networks.ensemble_images import EnsembleImages
from ebu.networks.fastest import fastest_ensemble
from ebu.networks.modules import Scale, build_network
from tests.tolerance import assert_differentiates_as, assert_within, value_bound

CPU = torch.device("cpu")


def nature():
    return build_network(ObservationSpec("image", (1, 84, 84), "uint8", scale=1 / 255), 5, 4, NetworkConfig()), (4, 84, 84)


def maze():
    return build_network(ObservationSpec("image", (2, 28, 28), "uint8", scale=1 / 255), 5, 1, NetworkConfig()), (2, 28, 28)


def oblong():
    """Another kernel and stride each way, an image that is not square, two hidden layers, bytes as they are."""
    with torch.device("meta"):
        layers = [nn.Conv2d(3, 5, (4, 2), (2, 1)), nn.ReLU(), nn.Conv2d(5, 6, 3), nn.ReLU(), nn.Flatten()]
        head = [nn.Linear(6 * 2 * 7, 12), nn.ReLU(), nn.Linear(12, 7), nn.ReLU(), nn.Linear(7, 5)]
        return nn.Sequential(Scale(1.0), *layers, *head), (3, 10, 10)


def pair(skeleton, learners):
    """The fast path and the general one with the same weights."""
    fast, general = EnsembleImages(skeleton, learners, CPU), Ensemble(skeleton, learners, CPU)
    fast.initialise(torch.Generator().manual_seed(0))
    general.parameters.copy_(fast.parameters)
    return fast, general


def states(count, shape):
    return torch.from_numpy(np.random.default_rng(0).integers(256, size=(count, *shape)).astype(np.uint8))


@pytest.mark.parametrize("network", [nature, maze, oblong])
@pytest.mark.parametrize("learners", [1, 3])
def test_values_and_gradients_equal_those_of_autograd(double, network, learners):
    skeleton, shape = network()
    fast, general = pair(skeleton, learners)
    x = states(7, shape)
    slope = torch.randn(learners, 7, 5, generator=torch.Generator().manual_seed(1))
    assert_differentiates_as(fast, general, x, slope)


@pytest.mark.parametrize("network", [nature, oblong])
@pytest.mark.parametrize("learners", [1, 3])
def test_with_the_products_of_onednn_they_do_too(double, network, learners, monkeypatch):
    """Its products are of single precision; here the same products in double, so that no mistake hides behind rounding."""
    monkeypatch.setattr(ensemble_images, "prefers_onednn", lambda weights: True)
    monkeypatch.setattr(ensemble_images, "product", lambda x, weight: x @ weight.t())
    monkeypatch.setattr(ensemble_images, "rectified", lambda x, weight, bias: (x @ weight.t() + bias).relu())
    skeleton, shape = network()
    fast, general = pair(skeleton, learners)
    x = states(7, shape)
    assert_differentiates_as(fast, general, x, torch.randn(learners, 7, 5, generator=torch.Generator().manual_seed(1)))
    one = fast.state_values(learners - 1)(x[0].numpy())
    assert_within(torch.from_numpy(one), general.values(x[:1])[-1, 0], value_bound(fast, x[:1])[-1, 0])


@pytest.mark.parametrize("size", [84, 82])
def test_images_are_read_in_squares_where_these_fit(size):
    skeleton, shape = nature()[0], (4, size, size)
    fast = EnsembleImages(skeleton, 1, CPU)
    assert fast._in_squares(states(2, shape)) == (size == 84)
    assert not fast._in_squares(states(2, shape).float())


def test_floats_go_through_the_network_of_bytes_unchanged(double):
    skeleton, shape = nature()
    fast, _ = pair(skeleton, 1)
    x = states(3, shape)
    assert_within(fast.values(x.double()), fast.values(x), value_bound(fast, x))


def test_the_same_input_gives_the_same_bits():
    skeleton, shape = nature()
    results = []
    for _ in range(2):
        network, _ = pair(skeleton, 1)
        values, pullback = network.differentiate(states(32, shape))
        pullback(torch.ones_like(values))
        results.append((values, network.gradient.clone()))
    assert torch.equal(results[0][0], results[1][0]) and torch.equal(results[0][1], results[1][1])


@pytest.mark.parametrize("network", [nature, maze, oblong])
def test_values_of_one_state_follow_the_weights_as_they_change(double, network):
    skeleton, shape = network()
    fast, general = pair(skeleton, 2)
    by_patches, by_convolution, plain = fast.state_values(1), fast._state_values_by_convolution(1), general.state_values(1)
    states_of_one = states(1, shape)
    x = states_of_one[0].numpy()
    for _ in range(2):
        expected, bound = plain(x), value_bound(general, states_of_one)[1, 0]
        assert_within(by_patches(x), expected, bound)
        assert_within(by_convolution(x), expected, bound)
        for network in (fast, general):
            network.parameters.mul_(1.5)


@pytest.mark.parametrize("network", [nature, maze])
def test_states_that_come_channels_last_are_read_as_they_look(network):
    skeleton, shape = network()
    network, _ = pair(skeleton, 1)
    x = states(4, shape)
    turned = torch.from_numpy(np.ascontiguousarray(x.numpy().transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2))
    assert torch.equal(network.values(x), network.values(turned))


def test_kernels_lie_channels_last_in_the_block_and_everything_else_as_usual():
    network, _ = pair(nature()[0], 2)
    for name, weights in network.named_tensors(1).items():
        usual = not name.endswith("weight") or weights.ndim == 2
        assert weights.is_contiguous(memory_format=torch.contiguous_format if usual else torch.channels_last)
        assert weights.untyped_storage().data_ptr() == network.parameters.untyped_storage().data_ptr()
    assert sum(view[0].numel() for view in network.views(network.parameters)) == network.parameters.shape[1]


@pytest.mark.parametrize("network", [nature, maze, oblong])
def test_networks_of_several_convolutions_take_this_form(network):
    assert isinstance(fastest_ensemble(network()[0], 1, CPU), EnsembleImages)


@pytest.mark.parametrize(
    "layers",
    [
        [nn.Conv2d(4, 5, 3), nn.ReLU(), nn.Flatten(), nn.Linear(320, 6)],
        [nn.Conv2d(4, 5, 3, padding=1), nn.ReLU(), nn.Conv2d(5, 5, 3), nn.ReLU(), nn.Flatten(), nn.Linear(320, 6)],
        [nn.Conv2d(4, 4, 3, groups=2), nn.ReLU(), nn.Conv2d(4, 5, 3), nn.ReLU(), nn.Flatten(), nn.Linear(180, 6)],
        [nn.Conv2d(4, 5, 3), nn.Tanh(), nn.Conv2d(5, 5, 3), nn.ReLU(), nn.Flatten(), nn.Linear(180, 6)],
        [nn.Conv2d(4, 5, 3), nn.ReLU(), nn.Conv2d(5, 5, 3), nn.ReLU()],
        [nn.Flatten(), nn.Linear(400, 6)],
    ],
    ids=["one convolution", "padded", "grouped", "another activation", "no head", "none"],
)
def test_other_networks_are_left_to_other_paths(layers):
    assert not EnsembleImages.fits(nn.Sequential(Scale(1.0), *layers))


def test_two_streams_are_left_to_the_general_path():
    config = NetworkConfig(dueling=True)
    skeleton = build_network(ObservationSpec("image", (1, 84, 84), "uint8", scale=1 / 255), 5, 4, config)
    assert not EnsembleImages.fits(skeleton)
