"""Patches times kernels equal a convolution; the gradient written out equals autograd's, in double precision too."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from ebu.config import NetworkConfig
from ebu.envs.spaces import ObservationSpec
from ebu.networks import ensemble_convolution
from ebu.networks.ensemble import Ensemble
from ebu.networks.ensemble_convolution import EnsembleConvolution
from ebu.networks.modules import Scale, build_network
from tests.tolerance import assert_differentiates_as, assert_within, value_bound

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
    assert_differentiates_as(fast, general, x, slope)


@pytest.mark.parametrize("skeleton", [minatar, strided])
@pytest.mark.parametrize("learners", [1, 3])
def test_in_double_precision_the_gradient_is_autograd_s(skeleton, learners):
    fast = EnsembleConvolution(skeleton(), learners, CPU)
    fast.initialise(torch.Generator().manual_seed(0))
    fast.parameters = fast.parameters.double()
    x = states(9)
    slope = torch.randn(learners, 9, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    values, pullback = fast.differentiate(x)
    pullback(slope)
    scale, convolution = fast.skeleton[0].scale, fast.skeleton[1]
    for learner in range(learners):
        weights = [w[learner].clone().requires_grad_() for w in fast.views(fast.parameters)]
        maps = torch.conv2d(x.double() * scale, weights[0], weights[1], convolution.stride).relu()
        here = maps.flatten(1)
        for layer in range(2, len(weights), 2):
            here = (here.relu() if layer > 2 else here) @ weights[layer].t() + weights[layer + 1]
        torch.testing.assert_close(values[learner], here.detach(), rtol=1e-12, atol=1e-12)
        gradients = torch.autograd.grad(here, weights, slope[learner])
        for view, gradient in zip(fast.views(fast.gradient), gradients):
            torch.testing.assert_close(view[learner], gradient, rtol=1e-11, atol=1e-11)


def test_the_same_input_gives_the_same_bits():
    results = []
    for _ in range(2):
        network, _ = pair(minatar(), 1)
        values, pullback = network.differentiate(states(32))
        pullback(torch.ones_like(values))
        results.append((values, network.gradient.clone()))
    assert torch.equal(results[0][0], results[1][0]) and torch.equal(results[0][1], results[1][1])


def test_images_of_several_sizes_may_come_in_turn():
    """The kernel's places are looked up by the shape of the image, not remembered from the first."""
    fast, general = pair(minatar(), 1)
    wide = torch.from_numpy(np.random.default_rng(0).integers(2, size=(3, 4, 18, 6)).astype(np.uint8))  # as many places
    for x in (states(3), wide, states(3)):
        torch.testing.assert_close(fast.values(x), general.values(x).detach())


@pytest.mark.parametrize("skeleton", [minatar, strided])
@pytest.mark.parametrize("numpy_up_to", [10**9, 0])
def test_values_of_one_state_follow_the_weights_as_they_change(double, skeleton, numpy_up_to, monkeypatch):
    monkeypatch.setattr(ensemble_convolution, "NUMPY_UP_TO_ELEMENTS", numpy_up_to)
    fast, general = pair(skeleton(), 3)
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
    assert not EnsembleConvolution.fits(nn.Sequential(Scale(1.0), *layers))


def test_kernels_that_lie_otherwise_in_the_block_are_left_to_the_general_path():
    assert EnsembleConvolution.fits(minatar())
    assert not EnsembleConvolution.fits(minatar().to(memory_format=torch.channels_last))
