"""K networks in one block equal K networks apart: values, gradients, copies; the fast path equals the general one."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from torch import nn

from ebu.config import NetworkConfig
from ebu.envs.spaces import ObservationSpec
from ebu.networks.ensemble import Ensemble
from ebu.networks.ensemble_mlp import EnsembleMLP
from ebu.networks.fastest import fastest_ensemble
from ebu.networks.modules import build_network
from tests.tolerance import assert_within, network_bounds, sum_bound, value_bound

CPU = torch.device("cpu")
SPECS = {
    "vector": (ObservationSpec("vector", (4,), "float32"), (6, 4)),
    "onehot": (ObservationSpec("onehot", (2,), "int64", (3, 5)), (6, 2)),
    "minatar": (ObservationSpec("image", (4, 10, 10), "uint8"), (6, 4, 10, 10)),
    "maze": (ObservationSpec("image", (2, 28, 28), "uint8", scale=1 / 255), (6, 2, 28, 28)),
}
FORMS = [("vector", EnsembleMLP), ("onehot", EnsembleMLP), *((name, Ensemble) for name in SPECS)]


def skeleton_of(name, actions=3):
    return build_network(SPECS[name][0], actions, 1, NetworkConfig())


def states_of(name, seed=0):
    rng = np.random.default_rng(seed)
    spec, shape = SPECS[name]
    if spec.kind == "vector":
        return torch.from_numpy(rng.normal(size=shape)).to(torch.get_default_dtype())
    high = 3 if spec.kind == "onehot" else 256
    return torch.from_numpy(rng.integers(high, size=shape).astype(spec.dtype))


def made(name, form, learners, seed=0):
    network = form(skeleton_of(name), learners, CPU)
    network.initialise(torch.Generator().manual_seed(seed))
    return network


def assert_equal_to_networks_apart(network, states, values, slope, **close):
    """Values, and the gradient after a pullback of ``slope``, are those of autograd through ordinary modules."""
    for learner, module in enumerate(lone_modules(network)):
        apart = module(states)
        torch.testing.assert_close(values[learner], apart.detach(), **close)
        (apart * slope[learner]).sum().backward()
        for view, parameter in zip(network.views(network.gradient), module.parameters()):
            torch.testing.assert_close(view[learner], parameter.grad, **close)


def lone_modules(network):
    """Ordinary modules with each learner's weights, sharing nothing with the block."""
    modules = []
    for learner in range(network.learners):
        module = copy.deepcopy(network.skeleton).to_empty(device="cpu")
        weights = {name: tensor.clone() for name, tensor in network.named_tensors(learner).items()}
        module.load_state_dict(weights)
        modules.append(module)
    return modules


@pytest.fixture(params=FORMS, ids=lambda form: f"{form[0]}-{form[1].__name__}")
def form(request):
    return request.param


@pytest.mark.parametrize("learners", [1, 3])
def test_values_equal_those_of_networks_apart(double, form, learners):
    network = made(*form, learners)
    states = states_of(form[0])
    with torch.no_grad():
        apart = torch.stack([module(states) for module in lone_modules(network)])
        together = network.values(states)
    assert together.shape == (learners, 6, 3)
    assert_within(together, apart, value_bound(network, states))


@pytest.mark.parametrize("learners", [1, 3])
def test_the_gradient_equals_autograd_of_networks_apart(double, form, learners):
    network = made(*form, learners)
    states = states_of(form[0])
    slope = torch.randn(learners, 6, 3, generator=torch.Generator().manual_seed(5))
    values, pullback = network.differentiate(states)
    assert not values.requires_grad
    pullback(slope)
    assert network.gradient.shape == network.parameters.shape
    _, bounds = network_bounds(network, states, slope)
    for learner, module in enumerate(lone_modules(network)):
        (module(states) * slope[learner]).sum().backward()
        for view, bound, parameter in zip(network.views(network.gradient), network.views(bounds), module.parameters()):
            assert_within(view[learner], parameter.grad, bound[learner])


def test_a_second_gradient_replaces_the_first(form):
    network = made(*form, 2)
    states = states_of(form[0])
    slope = torch.ones(2, 6, 3)
    network.differentiate(states)[1](slope)
    first = network.gradient.clone()
    network.differentiate(states_of(form[0], seed=1))[1](slope)
    assert not torch.equal(network.gradient, first)
    network.differentiate(states)[1](slope)
    assert torch.equal(network.gradient, first)


def test_no_learner_s_gradient_depends_on_another(form):
    network = made(*form, 3)
    states = states_of(form[0])
    slope = torch.zeros(3, 6, 3)
    slope[1] = 1.0
    network.differentiate(states)[1](slope)
    assert network.gradient[1].abs().sum() > 0
    assert (network.gradient[[0, 2]] == 0).all()


def test_the_values_follow_the_weights_when_the_block_changes(double, form):
    """An optimiser writes into the block; every view of it, made before or after, must see that."""
    network = made(*form, 2)
    states = states_of(form[0])
    single, several = network.state_values(1), network.batch_values(1)
    before = network.values(states).detach().clone()
    single(states[0].numpy())
    network.parameters.mul_(1.5)
    after = network.values(states).detach()
    bound = value_bound(network, states)
    assert ((before - after).abs() > bound).any()
    assert_within(single(states[0].numpy()), after[1, 0], bound[1, 0])
    assert_within(several(states.numpy()), after[1], bound[1])


def test_the_value_of_one_state_equals_its_row_of_a_batch(double, form):
    network = made(*form, 3)
    states = states_of(form[0])
    with torch.no_grad():
        batch = network.values(states)
    bound = value_bound(network, states)
    for learner in range(3):
        single = network.state_values(learner)
        for row in range(len(states)):
            value = single(states[row].numpy())
            assert value.shape == (3,)
            assert_within(value, batch[learner, row], bound[learner, row])
        assert_within(network.batch_values(learner)(states.numpy()), batch[learner], bound[learner])


def test_looking_up_a_value_leaves_the_state_unchanged(form):
    network = made(*form, 1)
    state = states_of(form[0])[0].numpy()
    kept = state.copy()
    network.state_values(0)(state)
    assert np.array_equal(state, kept)


def test_the_fast_form_is_chosen_where_it_fits_and_only_there():
    for name in SPECS:
        assert (type(fastest_ensemble(skeleton_of(name), 2, CPU)) is EnsembleMLP) == (name in ("vector", "onehot"))
    assert not EnsembleMLP.fits(nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2)))
    assert not EnsembleMLP.fits(nn.Sequential(nn.Linear(2, 3), nn.ReLU()))
    assert not EnsembleMLP.fits(nn.Linear(2, 3))


# ---------------------------------------------------------------------- initialisation


def test_weights_and_biases_start_within_one_over_the_root_of_their_fan_in(form):
    network = made(*form, 2)
    fan_in = {}
    for name, module in network.skeleton.named_modules():
        if isinstance(module, nn.Linear):
            fan_in[name] = module.in_features
        elif isinstance(module, nn.Conv2d):
            fan_in[name] = module.in_channels * module.kernel_size[0] * module.kernel_size[1]
    for learner in range(2):
        for name, values in network.named_tensors(learner).items():
            bound = 1 / math.sqrt(fan_in[name.rpartition(".")[0]])
            assert values.abs().max() <= bound
            if values.numel() > 500:  # enough numbers to fill the range
                assert values.abs().max() > 0.95 * bound
                assert abs(values.mean()) < 0.2 * bound
    assert not torch.equal(network.parameters[0], network.parameters[1])


def test_the_released_code_s_scheme_is_he_uniform_with_biases_of_a_tenth(form):
    network = form[1](skeleton_of(form[0]), 1, CPU)
    network.initialise(torch.Generator().manual_seed(0), "he")
    for name, values in network.named_tensors().items():
        if name.endswith("bias"):
            assert (values == 0.1).all()
        else:
            bound = math.sqrt(6 / values[0].numel())
            assert 0.5 * bound < values.abs().max() <= bound


def test_initialisation_depends_on_its_generator_alone(form):
    global_before = torch.get_rng_state()
    first = made(*form, 2, seed=1)
    assert torch.equal(global_before, torch.get_rng_state())
    torch.manual_seed(12345)
    try:
        again, other = made(*form, 2, seed=1), made(*form, 2, seed=2)
    finally:
        torch.set_rng_state(global_before)
    assert torch.equal(first.parameters, again.parameters)
    assert not torch.equal(first.parameters, other.parameters)


def test_the_first_learner_starts_alike_however_many_follow(form):
    assert torch.equal(made(*form, 3).parameters[0], made(*form, 1).parameters[0])


def test_both_forms_of_one_network_start_alike():
    assert torch.equal(made("vector", EnsembleMLP, 2).parameters, made("vector", Ensemble, 2).parameters)


# ---------------------------------------------------------------------- copies


def test_a_hard_copy_is_exact_and_shares_nothing(form):
    network, target = made(*form, 2, seed=0), made(*form, 2, seed=1)
    target.move_towards(network, 1.0)
    assert torch.equal(target.parameters, network.parameters)
    network.parameters.add_(1.0)
    assert not torch.equal(target.parameters, network.parameters)


def test_a_soft_copy_moves_by_its_share():
    network, target = made("vector", EnsembleMLP, 1, seed=0), made("vector", EnsembleMLP, 1, seed=1)
    before = target.parameters.clone()
    expected = 0.75 * before + 0.25 * network.parameters
    target.move_towards(network, 0.25)
    assert_within(target.parameters, expected, sum_bound(3, before.abs() + network.parameters.abs()))


def test_named_weights_travel_to_another_block(form):
    network, other = made(*form, 2, seed=0), made(*form, 2, seed=1)
    other.load_named_tensors(network.named_tensors(1))
    for learner in range(2):
        assert torch.equal(other.parameters[learner], network.parameters[1])


def test_weights_of_another_shape_or_name_are_refused(form):
    network = made(*form, 1)
    tensors = network.named_tensors()
    name = next(iter(tensors))
    for wrong in (
        {**tensors, name: torch.zeros(1, 1)},
        {**tensors, "extra": torch.zeros(1)},
        {key: value for key, value in tensors.items() if key != name},
    ):
        with pytest.raises(ValueError, match="do not match the network"):
            network.load_named_tensors(wrong)


def test_a_saved_block_is_restored(form):
    network, other = made(*form, 2, seed=0), made(*form, 2, seed=1)
    other.load_state_dict({key: value.clone() for key, value in network.state_dict().items()})
    assert torch.equal(network.parameters, other.parameters)
