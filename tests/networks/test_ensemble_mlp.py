import numpy as np
import pytest
import torch
from torch import nn

from ebu.config import NetworkConfig
from ebu.envs.spaces import ObservationSpec
from ebu.networks.ensemble import Ensemble
from ebu.networks.ensemble_convolution import EnsembleConvolution
from ebu.networks.ensemble_mlp import EnsembleMLP
from ebu.networks.fastest import fastest_ensemble
from ebu.networks.modules import build_network
from tests.tolerance import assert_differentiates_as, assert_within, value_bound

CPU = torch.device("cpu")
VECTOR = ObservationSpec("vector", (5,), "float64")
ONEHOT = ObservationSpec("onehot", (2,), "int64", (3, 4))
IMAGE = ObservationSpec("image", (2, 6, 6), "uint8", scale=1 / 255)


def states(spec, count):
    rng = np.random.default_rng(0)
    if spec.kind == "vector":
        return torch.from_numpy(rng.normal(size=(count, 5)))
    if spec.kind == "onehot":
        return torch.from_numpy(np.stack([rng.integers(3, size=count), rng.integers(4, size=count)], 1))
    return torch.from_numpy(rng.integers(256, size=(count, 2, 6, 6)).astype(np.uint8))


def pair(spec, learners):
    """The fast path and the general one with the same weights."""
    skeleton = build_network(spec, 3, 1, NetworkConfig(network="mlp", hidden_sizes=(16, 8)))
    fast, general = EnsembleMLP(skeleton, learners, CPU), Ensemble(skeleton, learners, CPU)
    fast.initialise(torch.Generator().manual_seed(0))
    general.parameters.copy_(fast.parameters)
    return fast, general


@pytest.mark.parametrize("spec", [VECTOR, ONEHOT, IMAGE], ids=lambda s: s.kind)
@pytest.mark.parametrize("learners", [1, 3])
def test_values_and_gradients_equal_those_of_autograd(double, spec, learners):
    fast, general = pair(spec, learners)
    x = states(spec, 7)
    slope = torch.randn(learners, 7, 3, generator=torch.Generator().manual_seed(1))
    assert_differentiates_as(fast, general, x, slope)


@pytest.mark.parametrize("spec", [VECTOR, ONEHOT, IMAGE], ids=lambda s: s.kind)
def test_values_of_one_state_follow_the_weights_as_they_change(double, spec):
    fast, general = pair(spec, 2)
    x = states(spec, 1)
    quick, plain = fast.state_values(1), general.state_values(1)
    for _ in range(2):
        assert_within(quick(x[0].numpy()), plain(x[0].numpy()), value_bound(general, x)[1, 0])
        for network in (fast, general):
            network.parameters.mul_(1.5)


def test_only_chains_of_linear_layers_take_the_fast_path():
    plain = build_network(VECTOR, 3, 1, NetworkConfig(hidden_sizes=(8,)))
    dueling = build_network(VECTOR, 3, 1, NetworkConfig(hidden_sizes=(8, 8), dueling=True))
    convolutional = build_network(IMAGE, 3, 1, NetworkConfig(network="minatar"))
    assert isinstance(fastest_ensemble(plain, 1, CPU), EnsembleMLP)
    assert not isinstance(fastest_ensemble(dueling, 1, CPU), EnsembleMLP)
    assert type(fastest_ensemble(convolutional, 1, CPU)) is EnsembleConvolution
    assert type(fastest_ensemble(convolutional, 2, CPU)) is EnsembleConvolution
    assert not EnsembleMLP.fits(convolutional)
    assert not EnsembleMLP.fits(nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2)))
