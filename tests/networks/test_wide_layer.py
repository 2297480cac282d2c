"""A wide layer: its passes are the products they should be, by either library."""

from __future__ import annotations

import pytest
import torch

from ebu.networks.products import has_onednn
from ebu.networks.wide_layer import OneDNNLayer, WideLayer, wide_layer
from tests.tolerance import assert_within, sum_bound

ROWS, INPUTS, OUTPUTS = 9, 70, 12
HAS_ONEDNN = has_onednn()
LAYERS = [WideLayer, pytest.param(OneDNNLayer, marks=pytest.mark.skipif(not HAS_ONEDNN, reason="no oneDNN here"))]


def numbers(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def made(form):
    weights, gradients = (numbers(OUTPUTS, INPUTS), numbers(OUTPUTS)), (torch.zeros(OUTPUTS, INPUTS), torch.zeros(OUTPUTS))
    return form(weights, gradients), weights, gradients


@pytest.mark.parametrize("form", LAYERS)
def test_the_output_is_rectified(form):
    layer, (weight, bias), _ = made(form)
    x = numbers(ROWS, INPUTS)
    expected = (x.double() @ weight.double().t() + bias.double()).clamp_min(0.0)
    bound = sum_bound(INPUTS + 1, x.abs() @ weight.abs().t() + bias.abs())
    assert_within(layer.forward(x), expected.float(), bound)


@pytest.mark.parametrize("form", LAYERS)
def test_the_gradients_are_written_and_the_slope_goes_back(form):
    layer, (weight, _), (weight_gradient, bias_gradient) = made(form)
    x, slope = numbers(ROWS, INPUTS), numbers(ROWS, OUTPUTS)
    back = layer.backward(slope.numpy(), x)
    assert_within(back, (slope.double() @ weight.double()).float(), sum_bound(OUTPUTS + 1, slope.abs() @ weight.abs()))
    assert_within(bias_gradient, slope.double().sum(0).float(), sum_bound(ROWS + 1, slope.abs().sum(0)))
    expected, bound = (slope.double().t() @ x.double()).float(), sum_bound(ROWS + 1, slope.abs().t() @ x.abs())
    assert_within(layer.weight_gradient, expected, bound)
    layer.collect()
    assert_within(weight_gradient, expected, bound)
    assert layer.weight_gradient is weight_gradient


@pytest.mark.skipif(not HAS_ONEDNN, reason="no oneDNN here")
@pytest.mark.parametrize(("capability", "form"), [("AVX512", OneDNNLayer), ("AVX2", WideLayer), ("DEFAULT", WideLayer)])
def test_onednn_is_taken_with_avx_512(capability, form, monkeypatch):
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    assert type(made(wide_layer)[0]) is form


def test_double_precision_is_not_for_onednn(double, monkeypatch):
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    assert type(made(wide_layer)[0]) is WideLayer
