"""Layer normalisation: between each hidden layer and its ReLU; the written-out gradient equals autograd's."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from ebu.config import NetworkConfig
from ebu.envs.spaces import ObservationSpec
from ebu.networks.ensemble import Ensemble
from ebu.networks.ensemble_norm import EnsembleNormConvolution, EnsembleNormMLP
from ebu.networks.fastest import fastest_ensemble
from ebu.networks.modules import build_network
from tests.networks.test_ensemble import CPU, SPECS, assert_equal_to_networks_apart, states_of

NORMALISED = NetworkConfig(layer_norm=True, hidden_sizes=(8, 6))
FORMS = {"vector": EnsembleNormMLP, "onehot": EnsembleNormMLP, "minatar": EnsembleNormConvolution, "maze": Ensemble}

# In float64 a value of size 1 is known to 1e-16 times the few thousand operations behind it; normalisation divides by the
# deviation of a layer's outputs, which for random weights is no smaller than 0.01. A mistake is of the size of the value.
CLOSE = {"rtol": 1e-9, "atol": 1e-10}


def made(name, learners, seed=0):
    """With gains and offsets that are not those of the start."""
    network = fastest_ensemble(build_network(SPECS[name][0], 3, 1, NORMALISED), learners, CPU)
    assert type(network) is FORMS[name]
    network.initialise(torch.Generator().manual_seed(seed))
    network.parameters.add_(0.1 * torch.randn(network.parameters.shape, generator=torch.Generator().manual_seed(1)))
    return network


@pytest.mark.parametrize("learners", [1, 3])
@pytest.mark.parametrize("name", FORMS)
def test_values_and_gradient_equal_autograd_of_networks_apart(double, name, learners):
    network, states = made(name, learners), states_of(name)
    slope = torch.randn(learners, 6, 3, generator=torch.Generator().manual_seed(5))
    values, pullback = network.differentiate(states)
    pullback(slope)
    with torch.no_grad():
        assert torch.equal(values, network.values(states))
    assert_equal_to_networks_apart(network, states, values, slope, **CLOSE)


@pytest.mark.parametrize("learners", [1, 2])
@pytest.mark.parametrize("name", FORMS)
def test_values_for_acting_equal_those_of_a_batch_and_follow_the_weights(double, name, learners):
    network, states = made(name, learners), states_of(name)
    last = learners - 1
    single, several = network.state_values(last), network.batch_values(last)
    kept = states[0].numpy().copy()
    for _ in range(2):
        with torch.no_grad():
            batch = network.values(states)
        torch.testing.assert_close(torch.from_numpy(single(states[0].numpy())), batch[last, 0], **CLOSE)
        torch.testing.assert_close(torch.from_numpy(several(states.numpy())), batch[last], **CLOSE)
        network.parameters.mul_(1.5)
    assert np.array_equal(states[0].numpy(), kept)


def test_normalisations_start_as_the_identity_and_leave_the_other_weights_as_they_are_without():
    spec = SPECS["minatar"][0]
    with_norm = fastest_ensemble(build_network(spec, 3, 1, NetworkConfig(layer_norm=True)), 2, CPU)
    without = fastest_ensemble(build_network(spec, 3, 1, NetworkConfig()), 2, CPU)
    for network in (with_norm, without):
        network.initialise(torch.Generator().manual_seed(0))
    for learner in range(2):
        named = with_norm.named_tensors(learner)
        norms = {name for name, m in with_norm.skeleton.named_modules() if isinstance(m, nn.LayerNorm)}
        others = [tensor for name, tensor in named.items() if name.rpartition(".")[0] not in norms]
        assert len(norms) == 2 and all((named[f"{n}.weight"] == 1).all() and (named[f"{n}.bias"] == 0).all() for n in norms)
        assert all(torch.equal(a, b) for a, b in zip(others, without.named_tensors(learner).values(), strict=True))


@pytest.mark.parametrize("name", ["vector", "minatar", "maze"])
@pytest.mark.parametrize("dueling", [False, True])
def test_every_hidden_layer_is_normalised_and_the_last_is_not(name, dueling):
    network = build_network(SPECS[name][0], 3, 1, NetworkConfig(layer_norm=True, dueling=dueling))
    kinds = [type(m) for m in network.modules() if not list(m.children()) and list(m.parameters())]
    for here, beyond in zip(kinds, [*kinds[1:], nn.Linear]):
        if here is nn.Conv2d:
            assert beyond is nn.LayerNorm
    outputs = 2 if dueling else 1
    assert kinds[-1] is nn.Linear and kinds.count(nn.LayerNorm) == len(kinds) - kinds.count(nn.LayerNorm) - outputs


def test_the_width_behind_convolutions_is_a_setting():
    spec = ObservationSpec("image", (4, 10, 10), "uint8")
    hidden, _ = (m for m in build_network(spec, 3, 1, NetworkConfig(features_dim=24)).modules() if isinstance(m, nn.Linear))
    assert hidden.out_features == 24
