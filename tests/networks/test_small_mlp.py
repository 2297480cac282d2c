"""One small perceptron in NumPy: values and gradients of the general path, the same bits however many threads there are."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
from torch import nn

from ebu.config import NetworkConfig
from ebu.envs.observation import SPARSE_ABOVE_CATEGORIES, ObservationSpec
from ebu.networks.ensemble import Ensemble
from ebu.networks.modules import build_network
from ebu.networks.small_mlp import PRODUCT_UP_TO, VECTOR_PRODUCT_UP_TO, SmallMLP
from tests.networks.test_ensemble_mlp import CPU, IMAGE, ONEHOT, VECTOR, states
from tests.tolerance import assert_differentiates_as, assert_within, value_bound


def perceptron(spec=VECTOR, hidden=(16, 8), **settings):
    return build_network(spec, 3, 1, NetworkConfig(network="mlp", hidden_sizes=hidden, **settings))


def pair(spec, hidden=(16, 8)):
    """The small form and the general one with the same weights."""
    small, general = SmallMLP(perceptron(spec, hidden), 1, CPU), Ensemble(perceptron(spec, hidden), 1, CPU)
    small.initialise(torch.Generator().manual_seed(0))
    general.parameters.copy_(small.parameters)
    return small, general


@pytest.mark.parametrize("spec", [VECTOR, ONEHOT, IMAGE], ids=lambda s: s.kind)
@pytest.mark.parametrize("hidden", [(16, 8), (8,), (9, 7, 5)], ids=len)
def test_values_and_gradients_equal_those_of_autograd(double, spec, hidden):
    small, general = pair(spec, hidden)
    slope = torch.randn(1, 7, 3, generator=torch.Generator().manual_seed(1))
    assert_differentiates_as(small, general, states(spec, 7), slope)


def test_the_gradient_is_written_where_the_optimiser_reads_it_and_follows_the_weights(double):
    small, general = pair(VECTOR)
    slope = torch.randn(1, 7, 3, generator=torch.Generator().manual_seed(1))
    small.differentiate(states(VECTOR, 7))[1](slope)
    for network in (small, general):
        network.parameters.mul_(1.5)
    assert_differentiates_as(small, general, states(VECTOR, 7), slope)


def test_many_states_have_the_same_values(double):
    """More than are computed in one thread."""
    small, general = pair(VECTOR, (64, 64))
    many = states(VECTOR, PRODUCT_UP_TO // 64**2 + 1)
    assert_within(small.values(many), general.values(many), value_bound(general, many))


def test_only_small_chains_of_dense_linear_layers_fit():
    rows = PRODUCT_UP_TO // (64 * 64)
    assert SmallMLP.fits_rows(perceptron(hidden=(64, 64)), rows)
    assert not SmallMLP.fits_rows(perceptron(hidden=(64, 64)), rows + 1)
    assert SmallMLP.fits_rows(perceptron(hidden=(512,)), VECTOR_PRODUCT_UP_TO // 512)
    assert not SmallMLP.fits_rows(perceptron(hidden=(512,)), VECTOR_PRODUCT_UP_TO // 512 + 1)
    assert not SmallMLP.fits_rows(perceptron(dueling=True), 1)
    assert not SmallMLP.fits_rows(perceptron(layer_norm=True), 1)
    assert not SmallMLP.fits_rows(perceptron(ObservationSpec("onehot", (1,), "int64", (SPARSE_ABOVE_CATEGORIES + 1,))), 1)
    assert not SmallMLP.fits_rows(build_network(IMAGE, 3, 1, NetworkConfig(network="minatar")), 1)
    assert not SmallMLP.fits_rows(nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2)), 1)


PRODUCTS = """
import sys, numpy as np
rng = np.random.default_rng(0)
up_to, vector_up_to = map(int, sys.argv[1:])
for rows, inputs, outputs in ((64, 64, 64), (1, 512, 512), (16, 128, 128), (4096, 8, 8)):
    assert rows * inputs * outputs == up_to
    x, w, slope = (rng.standard_normal(s, np.float32) for s in ((rows, inputs), (outputs, inputs), (rows, outputs)))
    for product in (x.dot(w.T), slope.dot(w), slope.T.dot(x)):
        sys.stdout.buffer.write(product.tobytes())
for rows in (16, 32, 64, 128):
    slope = rng.standard_normal((rows, vector_up_to // rows), np.float32)
    sys.stdout.buffer.write(np.ones(rows, np.float32).dot(slope).tobytes())
"""


def test_products_up_to_the_limits_have_the_same_bits_with_any_number_of_threads():
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    results = []
    for threads in ("1", "4"):
        environment = os.environ | dict.fromkeys(names, threads)
        command = [sys.executable, "-c", PRODUCTS, str(PRODUCT_UP_TO), str(VECTOR_PRODUCT_UP_TO)]
        results.append(subprocess.run(command, env=environment, check=True, capture_output=True).stdout)
    assert len(results[0]) > 0 and results[0] == results[1]
