import numpy as np
import pytest
import torch
from torch import nn

from ebu.config import NetworkConfig
from ebu.envs.spaces import ObservationSpec
from ebu.networks.ensemble import Ensemble
from ebu.networks.ensemble_convolution import EnsembleConvolution
from ebu.networks.modules import Scale, build_network
from tests.tolerance import assert_within, network_bounds, value_bound

CPU = torch.device("cpu")
MINATAR = ObservationSpec("image", (4, 10, 10), "uint8", scale=1.0)


def minatar():
    return build_network(MINATAR, 6, 1, NetworkConfig(network="minatar"))


def strided():
    """Another kernel, another stride, two hidden layers, an image that is not square."""
    with torch.device("meta"):
        layers = [nn.Conv2d(4, 5, (4, 2), (2, 1)), nn.ReLU(), nn.Flatten(), nn.Linear(180, 12), nn.ReLU()]
        return nn.Sequential(Scale(1 / 255), *layers, nn.Linear(12, 7), nn.ReLU(), nn.Linear(7, 6))


def pair(skeleton, learners):
    """The fast path and the general one with the same weights."""
    fast, general = EnsembleConvolution(skeleton, learners, CPU), Ensemble(skeleton, learners, CPU)
    fast.initialise(torch.Generator().manual_seed(0))
    general.parameters.copy_(fast.parameters)
    return fast, general


def states(count):
    return torch.from_numpy(np.random.default_rng(0).integers(2, size=(count, 4, 10, 10)).astype(np.uint8))


@pytest.mark.parametrize("skeleton", [minatar, strided])
@pytest.mark.parametrize("learners", [1, 2, 11])
def test_values_and_gradients_equal_those_of_autograd(double, skeleton, learners):
    fast, general = pair(skeleton(), learners)
    x = states(9)
    slope = torch.randn(learners, 9, 6, generator=torch.Generator().manual_seed(1))
    value_bounds, gradient_bounds = network_bounds(general, x, slope)
    for network in (fast, general):
        values, pullback = network.differentiate(x)
        pullback(slope)
        assert_within(values, network.values(x), value_bounds)
    assert_within(fast.values(x), general.values(x), value_bounds)
    assert_within(fast.gradient, general.gradient, gradient_bounds)


def test_values_of_one_state_follow_the_weights_as_they_change(double):
    fast, general = pair(minatar(), 3)
    quick, plain = fast.state_values(2), general.state_values(2)
    x = states(1)
    for _ in range(2):
        assert_within(quick(x[0].numpy()), plain(x[0].numpy()), value_bound(general, x)[2, 0])
        for network in (fast, general):
            network.parameters.mul_(1.5)


@pytest.mark.parametrize(
    "layers",
    [
        [nn.Conv2d(4, 5, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(500, 6)],
        [nn.Conv2d(4, 5, 3), nn.ReLU(), nn.Conv2d(5, 5, 3), nn.ReLU(), nn.Flatten(), nn.Linear(180, 6)],
        [nn.Conv2d(4, 4, 3, groups=2), nn.ReLU(), nn.Flatten(), nn.Linear(256, 6)],
        [nn.Flatten(), nn.Linear(400, 6)],
        [nn.Flatten()],
    ],
    ids=["padded", "two convolutions", "grouped", "none", "no weights"],
)
def test_other_networks_are_left_to_the_general_path(layers):
    assert not EnsembleConvolution.fits(nn.Sequential(*layers))
