"""One gradient step: losses by hand, the step against plain PyTorch, learners that do not see each other."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from ebu.config import LearnerConfig, NetworkConfig
from ebu.envs.spaces import ObservationSpec
from ebu.learning.learner import LocalLearner, shorten
from ebu.learning.losses import LOSSES, huber_mean, huber_sum, mse
from ebu.networks.modules import build_network, output_layers
from ebu.types import Batch
from tests.tolerance import RUN

CPU = torch.device("cpu")
VECTOR = ObservationSpec("vector", (4,), "float32")
IMAGE = ObservationSpec("image", (2, 28, 28), "uint8", scale=1 / 255)
SPECS = {"mlp": VECTOR, "maze": IMAGE}


def make_learner(spec=VECTOR, learners=1, seed=0, device=CPU, correction=None, **settings):
    skeleton = build_network(spec, 3, 1, NetworkConfig())
    config = LearnerConfig(**settings)
    learner = LocalLearner(skeleton, learners, config, device, correction)
    learner.initialise(torch.Generator().manual_seed(seed), "torch")
    return learner


def make_batch(spec=VECTOR, learners=1, size=16, seed=0, weights=None):
    rng = np.random.default_rng(seed)
    if spec.kind == "vector":
        states = torch.from_numpy(rng.normal(size=(size, *spec.shape))).to(torch.get_default_dtype())
    else:
        states = torch.from_numpy(rng.integers(256, size=(size, *spec.shape)).astype(np.uint8))
    return Batch(
        states=states,
        actions=torch.from_numpy(rng.integers(3, size=size)),
        targets=torch.from_numpy(rng.normal(size=(learners, size)) * 3).to(torch.get_default_dtype()),
        steps=np.arange(size),
        weights=weights,
    )


# ---------------------------------------------------------------------- losses

ERRORS = torch.tensor([[0.0, 0.5, -0.5, 1.0, -3.0, 2.0]])


def test_huber_by_hand():
    loss, slope = huber_sum(ERRORS)
    torch.testing.assert_close(loss, torch.tensor([[0.0, 0.125, 0.125, 0.5, 2.5, 1.5]]))
    torch.testing.assert_close(slope, torch.tensor([[0.0, -0.5, 0.5, -1.0, 1.0, -1.0]]))


def test_mean_squared_error_by_hand():
    loss, slope = mse(ERRORS)
    torch.testing.assert_close(loss.sum(), torch.tensor(14.5 / 6))
    torch.testing.assert_close(slope, -2 * ERRORS / 6)


def test_huber_mean_is_the_sum_over_the_batch_size():
    for ours, total in zip(huber_mean(ERRORS), huber_sum(ERRORS)):
        torch.testing.assert_close(ours, total / 6)


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("huber-sum", nn.HuberLoss(reduction="sum")),
        ("huber-mean", nn.HuberLoss(reduction="mean")),
        ("mse", nn.MSELoss()),
    ],
)
def test_losses_and_slopes_equal_pytorch_s(name, reference):
    rng = np.random.default_rng(0)
    values = torch.from_numpy(rng.normal(size=(1, 64))).requires_grad_()
    targets = torch.from_numpy(rng.normal(size=(1, 64)) * 3)
    expected = reference(values, targets)
    expected.backward()
    loss, slope = LOSSES[name]((targets - values).detach())
    torch.testing.assert_close(loss.sum(), expected.detach())
    torch.testing.assert_close(slope, values.grad)


@pytest.mark.parametrize("name", LOSSES)
def test_a_learner_s_loss_does_not_depend_on_how_many_there_are(name):
    one = LOSSES[name](ERRORS)
    three = LOSSES[name](ERRORS.expand(3, -1))
    for alone, together in zip(one, three):
        torch.testing.assert_close(together[1], alone[0])


# ---------------------------------------------------------------------- the step


@pytest.mark.parametrize("net", SPECS)
@pytest.mark.parametrize("learners", [1, 3])
def test_steps_equal_those_of_plain_pytorch(double, net, learners):
    spec, loss = SPECS[net], nn.HuberLoss(reduction="mean")
    learner = make_learner(spec, learners, optimizer="adam", learning_rate=1e-3)
    modules = []
    for k in range(learners):
        module = copy.deepcopy(learner.online.skeleton).to_empty(device="cpu")
        module.load_state_dict({name: tensor.clone() for name, tensor in learner.online.named_tensors(k).items()})
        modules.append((module, torch.optim.Adam(module.parameters(), lr=1e-3, eps=1e-8)))
    for turn in range(3):
        batch = make_batch(spec, learners, size=8, seed=turn)
        update = learner.update(batch)
        for k, (module, adam) in enumerate(modules):
            values = module(batch.states).gather(1, batch.actions[:, None])[:, 0]
            torch.testing.assert_close(update.values[k], values.detach(), **RUN)
            adam.zero_grad()
            expected = loss(values, batch.targets[k])
            expected.backward()
            adam.step()
            torch.testing.assert_close(update.loss[k].sum(), expected.detach(), **RUN)
            for weights, after in zip(learner.online.named_tensors(k).values(), module.parameters()):
                torch.testing.assert_close(weights, after.detach(), **RUN)


def test_an_update_reports_values_from_before_the_step_and_errors_towards_the_target():
    learner, batch = make_learner(), make_batch()
    before = learner.online.values(batch.states).detach()[0].gather(1, batch.actions[:, None])[:, 0]
    update = learner.update(batch)
    assert torch.equal(update.values[0], before)
    assert torch.equal(update.errors, batch.targets - update.values)
    assert not update.loss.requires_grad


def test_steps_bring_the_values_to_their_targets():
    learner, batch = make_learner(learning_rate=1e-2, loss="mse"), make_batch()
    first = learner.update(batch).loss.sum().item()
    for _ in range(500):
        last = learner.update(batch).loss.sum().item()
    assert last < first / 100


def test_only_the_taken_action_is_corrected():
    """The output layer's weights of the other actions have no gradient."""
    learner, batch = make_learner(optimizer="rmsprop", optimizer_eps=0.01), make_batch()
    batch = Batch(batch.states, torch.ones_like(batch.actions), batch.targets, batch.steps)
    before = {name: tensor.clone() for name, tensor in learner.online.named_tensors().items()}
    learner.update(batch)
    last = [name for name in before if name.endswith("weight")][-1]
    changed = (learner.online.named_tensors()[last] != before[last]).any(dim=1)
    assert changed.tolist() == [False, True, False]


def test_weights_scale_what_each_transition_pulls(double):
    """A weight of 0 is as good as absence; a weight of 2 counts double."""
    batch = make_batch(size=8)
    kept = Batch(batch.states[:4], batch.actions[:4], batch.targets[:, :4], batch.steps[:4])
    silenced = make_batch(size=8, weights=torch.tensor([1.0] * 4 + [0.0] * 4))
    doubled = Batch(batch.states[:4], batch.actions[:4], batch.targets[:, :4], batch.steps[:4], weights=torch.full((4,), 2.0))
    gradients = []
    for given in (kept, silenced, doubled):
        learner = make_learner(loss="huber-sum")
        learner.update(given)
        gradients.append(learner.online.gradient.clone())
    torch.testing.assert_close(gradients[1], gradients[0])
    torch.testing.assert_close(gradients[2], 2 * gradients[0])


@pytest.mark.parametrize("net", SPECS)
def test_no_learner_sees_another_s_targets(net):
    spec = SPECS[net]
    first, second = make_learner(spec, 2), make_learner(spec, 2)
    batch = make_batch(spec, 2)
    other = batch.targets.clone()
    other[1] += 10.0
    first.update(batch)
    second.update(Batch(batch.states, batch.actions, other, batch.steps))
    assert torch.equal(first.online.parameters[0], second.online.parameters[0])
    assert not torch.equal(first.online.parameters[1], second.online.parameters[1])


def test_one_learner_can_be_copied_to_all():
    learner = make_learner(learners=3)
    learner.update(make_batch(learners=3))
    online, target = learner.online.parameters[1].clone(), learner.target.parameters[1].clone()
    learner.copy_to_all(1)
    for k in range(3):
        assert torch.equal(learner.online.parameters[k], online)
        assert torch.equal(learner.target.parameters[k], target)
    assert not torch.equal(online, target)


# ---------------------------------------------------------------------- the target network


def test_the_target_network_starts_as_a_copy_and_waits_for_its_update():
    learner = make_learner(learners=2)
    assert torch.equal(learner.target.parameters, learner.online.parameters)
    learner.update(make_batch(learners=2))
    assert not torch.equal(learner.target.parameters, learner.online.parameters)
    learner.update_target()
    assert torch.equal(learner.target.parameters, learner.online.parameters)


def test_a_soft_target_moves_by_tau():
    learner = make_learner(tau=0.1)
    start = learner.target.parameters.clone()
    learner.update(make_batch())
    learner.update_target()
    torch.testing.assert_close(learner.target.parameters, 0.9 * start + 0.1 * learner.online.parameters)


def test_a_new_learning_rate_is_used_from_the_next_step():
    learner = make_learner()
    learner.set_learning_rate(0.0)
    before = learner.online.parameters.clone()
    learner.update(make_batch())
    assert torch.equal(before, learner.online.parameters)


@pytest.mark.parametrize("optimizer", ["adam", "rmsprop", "deepmind-rmsprop"])
def test_a_restored_learner_continues_as_if_never_stopped(optimizer):
    learner, other = (make_learner(seed=seed, optimizer=optimizer, optimizer_eps=0.01) for seed in (0, 1))
    for turn in range(3):
        learner.update(make_batch(seed=turn))
    other.load_state_dict(copy.deepcopy(learner.state_dict()))
    assert torch.equal(learner.target.parameters, other.target.parameters)
    for turn in range(3, 6):
        learner.update(make_batch(seed=turn))
        other.update(make_batch(seed=turn))
    assert torch.equal(learner.online.parameters, other.online.parameters)


@pytest.mark.parametrize("net", SPECS)
@pytest.mark.parametrize("learners", [1, 2])
def test_every_tensor_of_a_learner_lives_on_the_device_given(net, learners):
    """On the meta device an operation that mixes in a CPU tensor is an error."""
    meta = torch.device("meta")
    spec = SPECS[net]
    learner = make_learner(spec, learners, device=meta)
    batch = make_batch(spec, learners)
    update = learner.update(Batch(batch.states.to(meta), batch.actions.to(meta), batch.targets.to(meta), batch.steps))
    learner.update_target()
    tensors = [update.loss, update.values, update.errors, learner.online.gradient]
    for part in learner.state_dict().values():
        tensors += [value for value in part.values() if torch.is_tensor(value)]
    assert len(tensors) >= 8
    assert {tensor.device.type for tensor in tensors} == {"meta"}


def test_a_correction_sees_targets_values_and_columns_and_decides_what_is_learned():
    """Optimality Tightening needs the values at the moment of the update; the learner knows no more of it than this."""
    seen = []

    def correct(targets, values, columns):
        seen.append((targets, values, columns["shift"]))
        return targets + columns["shift"]

    batch = replace(make_batch(), columns={"shift": torch.full((1, 16), 2.0)})
    update = make_learner(correction=correct).update(batch)
    targets, values, shift = seen[0]
    assert torch.equal(targets, batch.targets) and torch.equal(values, update.values)
    assert torch.equal(update.errors, batch.targets + shift - values)


def test_the_gradient_of_each_learner_is_shortened_by_itself_as_pytorch_does_it(double):
    batch = make_batch(learners=2)
    batch = replace(batch, targets=batch.targets * torch.tensor([[100.0], [1e-4]]))
    free, short = make_learner(learners=2, loss="mse"), make_learner(learners=2, loss="mse", max_grad_norm=0.5)
    for learner in (free, short):
        learner.update(batch)
    whole = free.online.gradient.clone()
    parameter = nn.Parameter(torch.zeros_like(whole[0]))
    parameter.grad = whole[0].clone()
    nn.utils.clip_grad_norm_([parameter], 0.5)
    assert whole[0].norm() > 0.5
    torch.testing.assert_close(short.online.gradient[0], parameter.grad, rtol=2e-6, atol=0.0)  # PyTorch divides by norm + 1e-6
    if whole[1].norm() <= 0.5:
        assert torch.equal(short.online.gradient[1], whole[1])
    torch.testing.assert_close(short.online.gradient[1].norm(), whole[1].norm().clamp_max(0.5), **RUN)


def test_a_gradient_of_zero_stays_zero():
    gradient = torch.zeros(2, 3)
    shorten(gradient, 1.0)
    assert torch.equal(gradient, torch.zeros(2, 3))


# ---------------------------------------------------------------------- resets


@pytest.mark.parametrize(
    ("config", "last"),
    [
        (NetworkConfig(), ["4"]),
        (NetworkConfig(layer_norm=True), ["6"]),
        (NetworkConfig(dueling=True), ["2.value.2", "2.advantage.2"]),
    ],
)
def test_the_last_layer_is_the_one_that_gives_the_values(config, last):
    assert output_layers(build_network(VECTOR, 3, 1, config)) == last


def test_a_reset_renews_the_last_layer_of_every_learner_in_both_networks_and_nothing_else():
    learner = make_learner(learners=2)
    for _ in range(5):
        learner.update(make_batch(learners=2))
    before = [learner.online.named_tensors(k) for k in (0, 1)]
    before = [{name: tensor.clone() for name, tensor in one.items()} for one in before]
    averages = copy.deepcopy(learner.state_dict()["optimiser"])
    learner.reset_outputs(torch.Generator().manual_seed(7), "torch")
    drawn = make_learner(learners=2, seed=7).online
    for k in (0, 1):
        for name, tensor in learner.online.named_tensors(k).items():
            assert torch.equal(tensor, drawn.named_tensors(k)[name] if name.startswith("4.") else before[k][name])
        for name in ("4.weight", "4.bias"):
            assert torch.equal(learner.target.named_tensors(k)[name], learner.online.named_tensors(k)[name])
    torch.testing.assert_close(learner.state_dict()["optimiser"], averages, rtol=0, atol=0)
