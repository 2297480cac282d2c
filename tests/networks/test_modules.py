"""Every network: its shape, its size, what it makes of stored observations, and which observation it is chosen for."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from ebu.config import NetworkConfig
from ebu.envs.spaces import ObservationSpec
from ebu.errors import UserError
from ebu.networks.fastest import fastest_ensemble
from ebu.networks.modules import OneHot, Scale, build_network, choose

CPU = torch.device("cpu")
VECTOR = ObservationSpec("vector", (4,), "float32")
ONEHOT = ObservationSpec("onehot", (2,), "int64", (3, 5))
MAZE = ObservationSpec("image", (2, 28, 28), "uint8", scale=1 / 255)
ATARI = ObservationSpec("image", (1, 84, 84), "uint8", scale=1 / 255)
MINATAR = ObservationSpec("image", (4, 10, 10), "uint8")


def parameters(network):
    return sum(p.numel() for p in network.parameters())


def layers(network, kind):
    return [m for m in network.modules() if isinstance(m, kind)]


@pytest.mark.parametrize(
    ("spec", "actions", "stack", "expected"),
    [
        pytest.param(MAZE, 4, 1, 1_647_236, id="the paper's maze net"),
        pytest.param(ATARI, 4, 4, 1_686_180, id="Nature DQN, 4 actions"),
        pytest.param(ATARI, 18, 4, 1_693_362, id="Nature DQN, 18 actions"),
        pytest.param(MINATAR, 6, 1, (4 * 9 + 1) * 16 + (1024 + 1) * 128 + (128 + 1) * 6, id="MinAtar"),
        pytest.param(VECTOR, 2, 1, (4 + 1) * 64 + (64 + 1) * 64 + (64 + 1) * 2, id="mlp"),
        pytest.param(ONEHOT, 2, 1, (8 + 1) * 64 + (64 + 1) * 64 + (64 + 1) * 2, id="mlp on categories"),
    ],
)
def test_the_number_of_parameters(spec, actions, stack, expected):
    network = build_network(spec, actions, stack, NetworkConfig())
    assert parameters(network) == expected
    assert fastest_ensemble(network, 1, CPU).parameters.shape == (1, expected)


@pytest.mark.parametrize(("spec", "stack"), [(MAZE, 1), (ATARI, 4)])
def test_the_paper_s_nets_bring_3136_features_to_512_units(spec, stack):
    hidden, _ = layers(build_network(spec, 4, stack, NetworkConfig()), nn.Linear)
    assert (hidden.in_features, hidden.out_features) == (3136, 512)


def test_the_maze_net_is_the_one_of_appendix_d():
    first, second = layers(build_network(MAZE, 4, 1, NetworkConfig()), nn.Conv2d)
    assert (first.out_channels, first.kernel_size, first.stride, first.padding) == (64, (4, 4), (3, 3), (0, 0))
    assert (second.out_channels, second.kernel_size, second.stride, second.padding) == (64, (3, 3), (1, 1), (0, 0))


def test_the_nature_net_is_the_one_of_mnih_2015():
    convolutions = layers(build_network(ATARI, 18, 4, NetworkConfig()), nn.Conv2d)
    described = [(c.in_channels, c.out_channels, c.kernel_size[0], c.stride[0], c.padding[0]) for c in convolutions]
    assert described == [(4, 32, 8, 4, 0), (32, 64, 4, 2, 0), (64, 64, 3, 1, 0)]


@pytest.mark.parametrize(
    ("spec", "stack", "states"),
    [
        (VECTOR, 1, torch.randn(5, 4, generator=torch.Generator().manual_seed(0))),
        (ONEHOT, 1, torch.tensor([[0, 0], [2, 4], [1, 3], [2, 0], [0, 4]])),
        (MAZE, 1, torch.randint(256, (5, 2, 28, 28), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))),
        (ATARI, 4, torch.randint(256, (5, 4, 84, 84), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))),
        (MINATAR, 1, torch.randint(2, (5, 4, 10, 10), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))),
    ],
)
@pytest.mark.parametrize("learners", [1, 3])
def test_stored_states_give_one_finite_value_per_action(spec, stack, states, learners):
    network = fastest_ensemble(build_network(spec, 7, stack, NetworkConfig()), learners, CPU)
    network.initialise(torch.Generator().manual_seed(1))
    with torch.no_grad():
        values = network.values(states)
    assert values.shape == (learners, 5, 7) and values.dtype == torch.float32
    assert torch.isfinite(values).all()
    assert len(values[0].unique(dim=0)) == 5  # different states, different values


def test_the_output_layer_has_no_relu():
    """Early targets of the maze are negative; an output that cannot be would never learn them."""
    for spec, stack in ((VECTOR, 1), (MAZE, 1), (ATARI, 4), (MINATAR, 1)):
        assert isinstance(list(build_network(spec, 4, stack, NetworkConfig()))[-1], nn.Linear)


def test_bytes_become_numbers_between_0_and_1():
    assert Scale(1 / 255)(torch.tensor([0, 51, 255], dtype=torch.uint8)).tolist() == pytest.approx([0.0, 0.2, 1.0])
    assert Scale(1.0)(torch.tensor([0, 1], dtype=torch.uint8)).dtype == torch.float32


def test_categories_become_concatenated_unit_vectors():
    got = OneHot((3, 2))(torch.tensor([[0, 1], [2, 0]]))
    assert got.tolist() == [[1, 0, 0, 0, 1], [0, 0, 1, 1, 0]]


@pytest.mark.parametrize(
    ("shape", "name"),
    [
        ((3, 210, 160), "nature"),
        ((1, 84, 84), "nature"),
        ((3, 64, 64), "nature"),
        ((2, 28, 28), "maze"),
        ((1, 20, 63), "maze"),
        ((4, 10, 10), "minatar"),
        ((3, 7, 7), "minatar"),
        ((1, 19, 200), "minatar"),
    ],
)
def test_images_choose_by_their_shorter_side_and_the_choice_fits(shape, name):
    spec = ObservationSpec("image", shape, "uint8")
    assert choose(spec) == name
    network = fastest_ensemble(build_network(spec, 3, 1, NetworkConfig()), 1, CPU)
    with torch.no_grad():
        assert network.values(torch.zeros(2, *shape, dtype=torch.uint8)).shape == (1, 2, 3)


def test_vectors_and_categories_choose_the_mlp():
    assert choose(VECTOR) == choose(ONEHOT) == "mlp"


@pytest.mark.parametrize("sizes", [(16,), (32, 16, 8)])
def test_the_mlp_has_the_hidden_layers_asked_for(sizes):
    network = build_network(VECTOR, 2, 1, NetworkConfig(hidden_sizes=sizes))
    assert [layer.out_features for layer in layers(network, nn.Linear)] == [*sizes, 2]


@pytest.mark.parametrize(("spec", "stack"), [(VECTOR, 1), (MINATAR, 1), (ATARI, 4)])
def test_a_dueling_head_splits_the_value_from_the_advantages(double, spec, stack):
    """Q − V has mean 0 over the actions: adding to every advantage changes nothing."""
    network = fastest_ensemble(build_network(spec, 4, stack, NetworkConfig(dueling=True)), 1, CPU)
    network.initialise(torch.Generator().manual_seed(0))
    states = (
        torch.randn(3, *spec.shape, generator=torch.Generator().manual_seed(1))
        if spec.kind == "vector"
        else torch.zeros(3, stack * spec.shape[0], *spec.shape[1:])
    )
    with torch.no_grad():
        before = network.values(states)
        name = next(n for n in reversed(network.named_tensors()) if "advantage" in n and n.endswith("bias"))
        network.named_tensors()[name].add_(5.0)
        torch.testing.assert_close(network.values(states), before)
        name = next(n for n in reversed(network.named_tensors()) if "value" in n and n.endswith("bias"))
        network.named_tensors()[name].add_(5.0)
        torch.testing.assert_close(network.values(states), before + 5.0)


def test_the_mlp_reads_stacked_images_when_asked_to():
    network = fastest_ensemble(build_network(MINATAR, 6, 2, NetworkConfig(network="mlp")), 1, CPU)
    assert network.values(torch.zeros(3, 8, 10, 10, dtype=torch.uint8)).shape == (1, 3, 6)


@pytest.mark.parametrize("name", ["maze", "nature", "minatar"])
def test_a_network_for_images_refuses_a_vector_in_one_line(name):
    with pytest.raises(UserError, match=f"network '{name}' reads images, but the observation is a vector") as error:
        build_network(VECTOR, 2, 1, NetworkConfig(network=name))
    assert "\n" not in str(error.value)


def test_images_too_small_for_a_network_are_refused_with_their_size():
    with pytest.raises(UserError, match="images of 10×10 are too small for network 'nature'; try minatar"):
        build_network(MINATAR, 2, 1, NetworkConfig(network="nature"))


def test_building_draws_nothing_from_the_global_generators():
    torch_before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    build_network(ATARI, 18, 4, NetworkConfig())
    assert torch.equal(torch_before, torch.get_rng_state())
    assert np.array_equal(numpy_before, np.random.get_state()[1])  # noqa: NPY002
