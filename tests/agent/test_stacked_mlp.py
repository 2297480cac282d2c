import numpy as np
import pytest
import torch
from torch import nn

from ebu.agent.networks import build_network
from ebu.agent.stacked import StackedNetwork
from ebu.agent.stacked_convolution import StackedConvolution
from ebu.agent.stacked_mlp import StackedMLP
from ebu.agent.stacking import stacked
from ebu.config import NetworkConfig
from ebu.envs.spaces import ObservationSpec

CPU = torch.device("cpu")
VECTOR = ObservationSpec("vector", (5,), "float32")
ONEHOT = ObservationSpec("onehot", (2,), "int64", (3, 4))
IMAGE = ObservationSpec("image", (2, 6, 6), "uint8", scale=1 / 255)


def states(spec, count):
    rng = np.random.default_rng(0)
    if spec.kind == "vector":
        return torch.from_numpy(rng.normal(size=(count, 5)).astype(np.float32))
    if spec.kind == "onehot":
        return torch.from_numpy(np.stack([rng.integers(3, size=count), rng.integers(4, size=count)], 1))
    return torch.from_numpy(rng.integers(256, size=(count, 2, 6, 6)).astype(np.uint8))


def pair(spec, learners):
    """The fast path and the general one with the same weights."""
    skeleton = build_network(spec, 3, 1, NetworkConfig(network="mlp", hidden_sizes=(16, 8)))
    fast, general = StackedMLP(skeleton, learners, CPU), StackedNetwork(skeleton, learners, CPU)
    fast.initialise(torch.Generator().manual_seed(0))
    general.parameters.copy_(fast.parameters)
    return fast, general


@pytest.mark.parametrize("spec", [VECTOR, ONEHOT, IMAGE], ids=lambda s: s.kind)
@pytest.mark.parametrize("learners", [1, 3])
def test_values_and_gradients_equal_those_of_autograd(spec, learners):
    fast, general = pair(spec, learners)
    x = states(spec, 7)
    slope = torch.randn(learners, 7, 3, generator=torch.Generator().manual_seed(1))
    for network in (fast, general):
        values, pullback = network.differentiate(x)
        pullback(slope)
        torch.testing.assert_close(values, network.values(x).detach())
    torch.testing.assert_close(fast.values(x), general.values(x).detach())
    torch.testing.assert_close(fast.gradient, general.gradient)


@pytest.mark.parametrize("spec", [VECTOR, ONEHOT, IMAGE], ids=lambda s: s.kind)
def test_values_of_one_state_follow_the_weights_as_they_change(spec):
    fast, general = pair(spec, 2)
    x = states(spec, 1)
    quick, plain = fast.state_values(1), general.state_values(1)
    np.testing.assert_allclose(quick(x[0].numpy()), plain(x[0].numpy()), rtol=1e-5, atol=1e-6)
    for network in (fast, general):
        network.parameters.mul_(1.5)
    np.testing.assert_allclose(quick(x[0].numpy()), plain(x[0].numpy()), rtol=1e-5, atol=1e-6)


def test_only_chains_of_linear_layers_take_the_fast_path():
    plain = build_network(VECTOR, 3, 1, NetworkConfig(hidden_sizes=(8,)))
    dueling = build_network(VECTOR, 3, 1, NetworkConfig(hidden_sizes=(8, 8), dueling=True))
    convolutional = build_network(IMAGE, 3, 1, NetworkConfig(network="minatar"))
    assert isinstance(stacked(plain, 1, CPU), StackedMLP)
    assert not isinstance(stacked(dueling, 1, CPU), StackedMLP)
    assert type(stacked(convolutional, 1, CPU)) is StackedConvolution
    assert type(stacked(convolutional, 2, CPU)) is StackedConvolution
    assert not StackedMLP.fits(convolutional)
    assert not StackedMLP.fits(nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2)))
