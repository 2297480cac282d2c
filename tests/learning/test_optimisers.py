"""Each optimiser against an independent statement of its rule, number by number."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ebu.config import LearnerConfig
from ebu.learning import optimisers
from ebu.learning.optimisers import OPTIMISERS, Adam, DeepMindRMSProp, RMSProp
from tests.tolerance import RUN

STEPS = 25


def gradients(shape=(2, 11), seed=0, steps=STEPS):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape) * rng.choice([1e-3, 1.0, 50.0]) for _ in range(steps)]


def start(shape=(2, 11)):
    return np.random.default_rng(99).normal(size=shape)


def optimise(name, config, series, dtype=torch.float64, beginning=None):
    """All parameters after each step."""
    parameters = torch.from_numpy(start(series[0].shape) if beginning is None else beginning).to(dtype)
    gradient = torch.zeros_like(parameters)
    optimiser = OPTIMISERS[name](parameters, gradient, config)
    history = []
    for values in series:
        gradient.copy_(torch.from_numpy(values))
        optimiser.step()
        history.append(parameters.clone().numpy())
    return np.stack(history)


@pytest.mark.parametrize("fused_from", [1, 10**9])
def test_adam_equals_pytorch_s(fused_from, monkeypatch):
    monkeypatch.setattr(optimisers, "FUSED_FROM_ELEMENTS", fused_from)
    config = LearnerConfig(learning_rate=3e-3, optimizer_eps=1e-6)
    reference = torch.nn.Parameter(torch.from_numpy(start()))
    adam = torch.optim.Adam([reference], lr=3e-3, betas=(0.9, 0.999), eps=1e-6)
    expected = []
    for values in gradients():
        reference.grad = torch.from_numpy(values)
        adam.step()
        expected.append(reference.detach().clone().numpy())
    np.testing.assert_allclose(optimise("adam", config, gradients()), expected, **RUN)


def test_deepmind_s_rmsprop_is_centred_with_epsilon_inside_the_root():
    config = LearnerConfig(learning_rate=2.5e-4, optimizer_decay=0.95, optimizer_eps=0.01)
    p, g, n, expected = start(), 0.0, 0.0, []
    for d in gradients():
        g = 0.95 * g + 0.05 * d
        n = 0.95 * n + 0.05 * d * d
        p = p - 2.5e-4 * d / np.sqrt(n - g * g + 0.01)
        expected.append(p)
    np.testing.assert_allclose(optimise("deepmind-rmsprop", config, gradients()), expected, **RUN)


def test_deepmind_s_first_step_by_hand():
    """d = 2: g = .1, n = .2, step = η · 2 / √(.2 − .01 + .01)."""
    config = LearnerConfig(learning_rate=0.1, optimizer_decay=0.95, optimizer_eps=0.01)
    moved = optimise("deepmind-rmsprop", config, [np.full((1, 1), 2.0)])[0] - start((1, 1))
    assert moved.item() == pytest.approx(-0.1 * 2 / np.sqrt(0.2))


def test_rmsprop_is_tensorflow_1_s_with_its_mean_square_from_one():
    config = LearnerConfig(learning_rate=1e-3, optimizer_decay=0.9, optimizer_eps=1e-10)
    p, ms, expected = start(), np.ones((2, 11)), []
    for d in gradients():
        ms = 0.9 * ms + 0.1 * d * d
        p = p - 1e-3 * d / np.sqrt(ms + 1e-10)
        expected.append(p)
    np.testing.assert_allclose(optimise("rmsprop", config, gradients()), expected, **RUN)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_blocks_change_nothing(name, monkeypatch):
    config = LearnerConfig(optimizer_eps=0.01)
    whole = optimise(name, config, gradients((3, 1000)))
    monkeypatch.setattr(optimisers, "CACHE_BLOCK_ELEMENTS", 7)
    in_blocks = optimise(name, config, gradients((3, 1000)))
    np.testing.assert_allclose(in_blocks, whole, **RUN)


@pytest.mark.parametrize("fused_from", [1, 10**9])
@pytest.mark.parametrize("name", OPTIMISERS)
def test_a_learner_gets_the_same_bits_alone_as_among_others(name, fused_from, monkeypatch):
    """37 is no multiple of what a processor takes at once: the fused form must not run from one learner into the next."""
    monkeypatch.setattr(optimisers, "FUSED_FROM_ELEMENTS", fused_from)
    config, series = LearnerConfig(optimizer_eps=0.01), gradients((3, 37))
    together = optimise(name, config, series, torch.float32)
    alone = optimise(name, config, [values[1:2] for values in series], torch.float32, start((3, 37))[1:2])
    assert np.array_equal(alone[:, 0], together[:, 1])


@pytest.mark.parametrize("name", OPTIMISERS)
def test_no_learner_sees_another(name):
    config = LearnerConfig(optimizer_eps=0.01)
    series = gradients()
    disturbed = [np.stack([d[0], d[1] * 1000]) for d in series]
    together, apart = optimise(name, config, series), optimise(name, config, disturbed)
    assert np.array_equal(together[:, 0], apart[:, 0])
    assert not np.array_equal(together[:, 1], apart[:, 1])


@pytest.mark.parametrize("fused_from", [1, 10**9])
@pytest.mark.parametrize("name", OPTIMISERS)
def test_a_restored_optimiser_continues_as_if_never_stopped(name, fused_from, monkeypatch):
    monkeypatch.setattr(optimisers, "FUSED_FROM_ELEMENTS", fused_from)
    config, series = LearnerConfig(optimizer_eps=0.01), gradients()
    straight = optimise(name, config, series)[-1]
    parameters = torch.from_numpy(start())
    gradient = torch.zeros_like(parameters)
    first = OPTIMISERS[name](parameters, gradient, config)
    for values in series[:10]:
        gradient.copy_(torch.from_numpy(values))
        first.step()
    saved = {key: value.clone() if torch.is_tensor(value) else value for key, value in first.state_dict().items()}
    second = OPTIMISERS[name](parameters, gradient, config)
    second.load_state_dict(saved)
    for values in series[10:]:
        gradient.copy_(torch.from_numpy(values))
        second.step()
    assert np.array_equal(parameters.numpy(), straight)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_without_a_gradient_nothing_moves(name):
    history = optimise(name, LearnerConfig(), [np.zeros((2, 11))] * 3)
    assert np.array_equal(history[-1], start())


@pytest.mark.parametrize("name", OPTIMISERS)
@pytest.mark.parametrize("size", [10.0, 100.0, 1000.0])
def test_a_constant_gradient_in_single_precision_stays_finite(name, size):
    """n − g² tends to 0; rounded, it may fall below, and the root of a negative number is NaN in every weight."""
    series = [size * (1 + 1e-3 * np.arange(64.0)).reshape(1, 64)] * 1500
    history = optimise(name, LearnerConfig(), series, torch.float32)
    assert np.isfinite(history[-1]).all()


@pytest.mark.parametrize("fused_from", [1, 10**9])
@pytest.mark.parametrize("name", OPTIMISERS)
def test_averages_of_weights_without_gradient_become_zero_and_never_denormal(name, fused_from, monkeypatch):
    monkeypatch.setattr(optimisers, "FUSED_FROM_ELEMENTS", fused_from)
    config = LearnerConfig(optimizer_eps=0.01)
    parameters, gradient = torch.zeros(1, 8), torch.zeros(1, 8)
    gradient[:, :4] = 1.0
    optimiser = OPTIMISERS[name](parameters, gradient, config)
    for _ in range(20):
        optimiser.step()
    gradient.zero_()
    for step in range(1_500):  # until 0.95ⁿ is smaller than TINY
        optimiser.step()
        if step % 10:
            continue
        for average in optimiser.state_dict().values():
            if torch.is_tensor(average):
                assert bool(((average == 0) | (average.abs() > torch.finfo(torch.float32).tiny)).all())
    assert not optimiser.state_dict().get("mean", torch.zeros(1)).any()


@pytest.mark.parametrize("fused_from", [1, 10**9])
@pytest.mark.parametrize("name", OPTIMISERS)
def test_a_step_can_be_seen_in_the_version_of_the_weights(name, fused_from, monkeypatch):
    monkeypatch.setattr(optimisers, "FUSED_FROM_ELEMENTS", fused_from)
    parameters = torch.zeros(1, 8)
    view = parameters[0, :3]
    before = view._version
    OPTIMISERS[name](parameters, torch.ones(1, 8), LearnerConfig()).step()
    assert view._version > before and parameters._version > before


def test_the_names_lead_to_the_rules():
    expected = {"adam": Adam, "rmsprop": RMSProp, "deepmind-rmsprop": DeepMindRMSProp}
    assert expected == OPTIMISERS
