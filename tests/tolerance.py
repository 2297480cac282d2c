"""How far two ways of computing one thing may differ: by rounding, and by no more. No constant that passed once.

A sum of n products, in whatever order and with whatever instructions, is off by at most γₙ Σ|aᵢ bᵢ| with γₙ = n·u, where u is
half of ``eps`` (Higham, Accuracy and Stability, §3.1). Two such sums differ by at most twice that. A network is such sums one
after another: its roundings add up along a path, and the same network with absolute weights for absolute inputs gives
Σ|aᵢ bᵢ| over all paths. In float32 that bound is too wide for deep networks to tell a mistake from rounding, and a ReLU near 0
may open on one machine only: there, tests compute in float64 (the fixture ``double``), where neither is so.
"""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch import nn

import ebu.envs.spaces as observation_spaces
from ebu.envs.spaces import Observations, ObservationSpec
from ebu.networks.ensemble import Ensemble

# A whole run has no such bound that would be short. In float64 each gradient of size 1 is known to 1e-16; Adam divides by a
# root no smaller than its ε = 1e-8, so a step of η ≤ 1e-2 is known to 1e-10, and a hundred of them to 1e-8. A difference
# that is no rounding is of the size of a step.
RUN = {"rtol": 1e-8, "atol": 1e-8}


def sum_bound(terms, size, dtype=torch.float32):
    """Between two sums of as many terms whose absolute values add up to ``size``."""
    return terms * torch.finfo(dtype).eps * size


def network_bounds(network, states, slope):
    """Between two ways to compute the values [K, B, A] of a chain of layers, and between two ways to its gradient [K, P]."""
    positive = _positive(network)
    values, pullback = positive.differentiate(states.abs())
    pullback(slope.abs())
    forward, backward = _roundings(network.skeleton, states)
    return sum_bound(forward, values, values.dtype), sum_bound(forward + backward, positive.gradient, values.dtype)


def value_bound(network, states):
    """Between two ways to compute the values [K, B, A]."""
    positive = _positive(network)
    with torch.no_grad():
        values = positive.values(states.abs())
    return sum_bound(_roundings(network.skeleton, states)[0], values, values.dtype)


def _positive(network):
    """The same network with absolute weights."""
    positive = Ensemble(network.skeleton, network.learners, network.device)
    positive.parameters.copy_(network.parameters.abs())
    return positive


def _roundings(skeleton, states):
    """Of the longest path forward to a value, and of the longest one back to a weight."""
    forward = backward = summed = len(states)
    places = states[0, 0].numel() if states.ndim == 4 else 1  # no layer has more of them than the image has pixels
    for layer in skeleton.modules():
        if isinstance(layer, nn.Linear):
            forward += layer.in_features + 2  # the bias, the scale of bytes
            backward += layer.out_features + 1
        elif isinstance(layer, nn.Conv2d):
            patch = layer.kernel_size[0] * layer.kernel_size[1]
            forward += layer.in_channels * patch + 2
            backward += layer.out_channels * patch + 1
    return forward, backward + summed * places


def assert_within(found, expected, bound):
    """Element by element."""
    found, expected = (torch.as_tensor(np.asarray(x.detach() if torch.is_tensor(x) else x)) for x in (found, expected))
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    excess = (found - expected).abs() - torch.as_tensor(bound)
    assert (excess <= 0).all(), f"{int((excess > 0).sum())} of {excess.numel()} differ by more than rounding, {excess.max()}"


def assert_differentiates_as(fast, general, states, slope, slack=0.0):
    """Two networks with the same weights have the same values and, pulled back from this slope, the same gradient."""
    value_bounds, gradient_bounds = (bound.abs() + slack for bound in network_bounds(general, states, slope))
    for network in (fast, general):
        values, pullback = network.differentiate(states)
        pullback(slope)
        assert_within(values, network.values(states), value_bounds)
    assert_within(fast.values(states), general.values(states), value_bounds)
    assert_within(fast.gradient, general.gradient, gradient_bounds)


def in_double():
    """Networks and what they read in float64."""
    return _in(torch.float64, _vector_in_double)


def in_single():
    """Back to float32, where a fixture of the whole module computes in float64."""
    return _in(torch.float32, _vector_in_single)


@contextmanager
def _in(dtype, vector):
    before = torch.get_default_dtype()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(observation_spaces, "_vector", vector)
        torch.set_default_dtype(dtype)
        try:
            yield
        finally:
            torch.set_default_dtype(before)


_vector_in_single = observation_spaces._vector


def _vector_in_double(shape, dtype, low=None, high=None):
    size = int(np.prod(shape))
    return Observations(ObservationSpec("vector", (size,), "float64"), lambda x: np.array(x, np.float64).reshape(-1))
