"""One small convolution network: values and gradients of the general path, its gradient in parts or in one block."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from ebu.config import NetworkConfig
from ebu.networks.ensemble import Ensemble
from ebu.networks.modules import Scale, build_network
from ebu.networks.small_convolution import SmallConvolution
from tests.networks.test_ensemble_convolution import CPU, MINATAR, minatar, states, strided
from tests.tolerance import assert_differentiates_as, assert_within, value_bound


def pair(skeleton):
    """The small form and the general one with the same weights."""
    small, general = SmallConvolution(skeleton, 1, CPU), Ensemble(skeleton, 1, CPU)
    small.initialise(torch.Generator().manual_seed(0))
    general.parameters.copy_(small.parameters)
    return small, general


def a_slope(rows=9):
    return torch.randn(1, rows, 6, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("skeleton", [minatar, strided])
def test_values_and_gradients_equal_those_of_autograd(double, skeleton):
    small, general = pair(skeleton())
    assert_differentiates_as(small, general, states(9), a_slope())


@pytest.mark.parametrize("skeleton", [minatar, strided])
def test_the_gradient_follows_the_weights(double, skeleton):
    small, general = pair(skeleton())
    small.differentiate(states(9))[1](a_slope())
    for network in (small, general):
        network.parameters.mul_(1.5)
    assert_differentiates_as(small, general, states(9), a_slope())


def test_in_single_precision_values_are_those_of_the_general_path():
    """In the products of whichever library this processor takes."""
    small, general = pair(minatar())
    x = states(33)
    bound = value_bound(general, x)
    assert_within(small.values(x), general.values(x), bound)
    assert_within(small.differentiate(x)[0], general.values(x), bound)


def test_the_parts_of_the_gradient_are_the_gradient():
    small, _ = pair(minatar())
    *passed, _ = small.forward(states(9))
    small.backward(a_slope()[0].numpy(), passed)
    parts = torch.cat(small.gradient_parts())
    small.collect_gradient()
    assert parts.shape == small.gradient[0].shape and parts.abs().sum() > 0
    assert torch.equal(parts, small.gradient[0]) and torch.equal(torch.cat(small.gradient_parts()), parts)


def test_a_pullback_is_of_its_own_states_whatever_passed_meanwhile(double):
    small, _ = pair(minatar())
    _, pullback = small.differentiate(states(9))
    small.differentiate(1 - states(9))[1](a_slope())
    pullback(a_slope())
    found = small.gradient.clone()
    small.differentiate(states(9))[1](a_slope())
    assert torch.equal(found, small.gradient)


@pytest.mark.parametrize("skeleton", [minatar, strided])
def test_it_acts_on_one_state_and_on_several_as_the_general_path(double, skeleton):
    small, general = pair(skeleton())
    x = states(3)
    bound = value_bound(general, x)[0]
    assert_within(small.state_values(0)(x[0].numpy()), general.values(x)[0, 0], bound[0])
    assert_within(small.batch_values(0)(x.numpy()), general.values(x)[0], bound)


def test_it_is_for_one_convolution_with_small_layers_behind_a_wide_one():
    assert SmallConvolution.fits_rows(minatar(), 32)
    assert SmallConvolution.fits_rows(strided(), 32)
    assert not SmallConvolution.fits_rows(minatar(), 2048)  # rows: its small layers are no longer small
    layers = [nn.Conv2d(4, 5, 3), nn.ReLU(), nn.Flatten(), nn.Linear(320, 6)]
    assert not SmallConvolution.fits_rows(nn.Sequential(Scale(1.0), *layers), 32)  # nothing behind the wide layer
    for other in ({"dueling": True}, {"layer_norm": True}, {"network": "mlp"}):
        network = build_network(MINATAR, 6, 1, NetworkConfig(**({"network": "minatar"} | other)))
        assert not SmallConvolution.fits_rows(network, 32)
