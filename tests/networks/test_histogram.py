"""Values as histograms: bins by hand, there and back, slopes against autograd, K networks, learning, files."""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import NormalDist

import numpy as np
import pytest
import torch

import ebu
from ebu.config import LearnerConfig, NetworkConfig
from ebu.learning.histogram_learner import HistogramLearner
from ebu.learning.losses import cross_entropy
from ebu.networks.ensemble_histogram import EnsembleHistogram
from ebu.networks.fastest import fastest_ensemble
from ebu.networks.histogram import BINS, LIMIT, histogram_of, slope_of_logits, symexp, symlog, value_of
from ebu.networks.modules import build_network
from tests.cartpole import loaded_as_saved, states
from tests.learning.test_learner import VECTOR, make_batch
from tests.networks.own import normalised
from tests.networks.test_ensemble import CPU, SPECS, assert_equal_to_networks_apart, lone_modules, states_of

HISTOGRAM = NetworkConfig(value_head="histogram")
WIDTH = 2 * LIMIT / BINS


def random_logits(*shape):
    return torch.randn(*shape, BINS, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


# ---------------------------------------------------------------------- bins


def test_symlog_by_hand_and_back():
    x = torch.tensor([0.0, math.e - 1, 1 - math.e, 1_000.0], dtype=torch.float64)
    np.testing.assert_allclose(symlog(x), [0.0, 1.0, -1.0, math.log(1_001)], rtol=1e-15)
    np.testing.assert_allclose(symexp(symlog(x)), x, rtol=1e-12)


@pytest.mark.parametrize("value", [0.0, 0.3, -7.5, 1_000.0])
def test_a_histogram_is_that_of_a_normal_distribution_in_symlog_space(value):
    normal = NormalDist(math.copysign(math.log1p(abs(value)), value), 0.75 * WIDTH)
    edges = [-LIMIT + i * WIDTH for i in range(BINS + 1)]
    expected = [normal.cdf(right) - normal.cdf(left) for left, right in pairwise(edges)]
    found = histogram_of(torch.tensor([value], dtype=torch.float64))[0]
    np.testing.assert_allclose(found, np.array(expected) / sum(expected), atol=1e-12)  # what lies beyond the limit is left out


def test_the_value_of_a_histogram_by_hand():
    shares = torch.zeros(BINS, dtype=torch.float64)
    shares[25], shares[28] = 0.75, 0.25  # centres at 0 and at three bins
    assert value_of(shares.log()).item() == pytest.approx(math.expm1(0.75 * WIDTH))


def test_values_come_back_and_those_beyond_stay_at_the_limit():
    values = torch.tensor([0.0, 0.01, -0.5, 3.0, -40.0, 200.0], dtype=torch.float64)
    # A normal distribution of 0.75 bins in bins: its mean is off by less than 2 exp(−2 π² 0.75²) / (2 π) bins.
    off = WIDTH * math.exp(-2 * math.pi**2 * 0.75**2) / math.pi
    back = symlog(value_of(histogram_of(values).log()))
    np.testing.assert_allclose(back, symlog(values), atol=off + 1e-12)
    far = value_of(histogram_of(torch.tensor([1e6, 1e9, -1e6])).log())
    assert far[0] == far[1] == -far[2] and 1_000 < far[0] < math.expm1(LIMIT)


# ---------------------------------------------------------------------- slopes


def test_cross_entropy_and_its_slope_equal_pytorch_s():
    logits, targets = random_logits(2, 5).requires_grad_(), torch.linspace(-3, 9, 10, dtype=torch.float64).view(2, 5)
    histograms = histogram_of(targets)
    loss, slope = cross_entropy(logits, histograms)
    expected = (
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), histograms.flatten(0, 1), reduction="none").view(2, 5) / 5
    )
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(slope.detach(), torch.autograd.grad(expected.sum(), logits)[0])


def test_the_slope_of_a_value_by_its_logits_equals_autograd_s():
    logits, slope = random_logits(2, 5).requires_grad_(), torch.linspace(-1, 1, 10, dtype=torch.float64).view(2, 5)
    expected = torch.autograd.grad(value_of(logits), logits, slope)[0]
    torch.testing.assert_close(slope_of_logits(logits.detach(), slope), expected)


# ---------------------------------------------------------------------- networks


@pytest.mark.parametrize("name", ["vector", "onehot", "minatar"])
@pytest.mark.parametrize(("learners", "layer_norm"), [(1, False), (3, False), (3, True)])
def test_values_and_gradients_are_those_of_modules_apart(double, name, learners, layer_norm):
    skeleton = build_network(SPECS[name][0], 3, 1, NetworkConfig(value_head="histogram", layer_norm=layer_norm))
    network, states = fastest_ensemble(skeleton, learners, CPU), states_of(name)
    network.initialise(torch.Generator().manual_seed(0))
    assert isinstance(network, EnsembleHistogram)
    values, pullback = network.differentiate(states)
    assert values.shape == (learners, 6, 3)
    slope = torch.randn(values.shape, generator=torch.Generator().manual_seed(5))
    pullback(slope)
    assert_equal_to_networks_apart(network, states, values, slope, rtol=1e-6, atol=1e-9)
    with torch.no_grad():
        torch.testing.assert_close(network.values(states), values)
    for learner, expected in enumerate(values):
        np.testing.assert_allclose(network.state_values(learner)(states[0].numpy()), expected[0], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(network.batch_values(learner)(states.numpy()), expected, rtol=1e-5, atol=1e-6)


# ---------------------------------------------------------------------- learning


def learner_of(learners=1, correction=None, **settings):
    learner = HistogramLearner(build_network(VECTOR, 3, 1, HISTOGRAM), learners, LearnerConfig(**settings), CPU, correction)
    learner.initialise(torch.Generator().manual_seed(0), "torch")
    return learner


@pytest.mark.parametrize("weighted", [False, True])
def test_a_step_is_that_of_plain_pytorch(double, weighted):
    weights = torch.linspace(0.1, 1.0, 16) if weighted else None
    learner, batch = learner_of(2, learning_rate=0.01), make_batch(learners=2, weights=weights)
    modules = lone_modules(learner.online)
    update = learner.update(batch)
    assert update.loss.shape == update.values.shape == update.errors.shape == (2, 16)
    for k, module in enumerate(modules):
        optimiser = torch.optim.Adam(module.parameters(), lr=0.01, eps=LearnerConfig().optimizer_eps)
        logits = module.network(batch.states).view(16, 3, BINS)[torch.arange(16), batch.actions]
        loss = torch.nn.functional.cross_entropy(logits, histogram_of(batch.targets[k]), reduction="none") / 16
        loss = loss if weights is None else loss * weights
        torch.testing.assert_close(update.loss[k], loss.detach())
        loss.sum().backward()
        optimiser.step()
        torch.testing.assert_close(update.values[k], value_of(logits).detach())
        torch.testing.assert_close(update.errors[k], batch.targets[k] - value_of(logits).detach())
        for name, tensor in learner.online.named_tensors(k).items():
            torch.testing.assert_close(tensor, module.get_parameter(name).detach(), rtol=1e-5, atol=1e-7)


def test_steps_bring_the_values_to_their_targets():
    learner, batch = learner_of(learning_rate=0.01), make_batch()
    before = learner.update(batch).errors.abs().mean()
    for _ in range(200):
        update = learner.update(batch)
    assert update.errors.abs().mean() < 0.1 * before


def test_a_correction_decides_what_is_learned():
    seen = []
    learner = learner_of(correction=lambda targets, values, columns: seen.append(values) or targets + 1)
    batch = make_batch()
    update = learner.update(batch)
    torch.testing.assert_close(update.errors, batch.targets + 1 - seen[0])


# ---------------------------------------------------------------------- agents

QUICK = {"seed": 0, "learning_starts": 60, "eval_every": 0, "hidden_sizes": (8,), "batch_size": 8, "train_freq": 2}


@pytest.mark.parametrize("algo", ["EBU", "OptimalityTightening", "PrioritizedDQN"])
def test_methods_learn_with_histograms_and_continue_exactly(algo, tmp_path):
    agent = getattr(ebu, algo)("CartPole-v1", value_head="histogram", **QUICK).learn(120)
    agent.save(tmp_path / "whole.ebu", memory=True)
    loaded = ebu.load(tmp_path / "whole.ebu")
    agent.learn(40), loaded.learn(40)
    assert agent.loop.updates > 20
    assert torch.equal(agent.loop.learner.online.parameters, loaded.loop.learner.online.parameters)


@pytest.fixture(scope="module")
def agent():
    return ebu.EnsembleQ("CartPole-v1", trace_lambdas=(0.5, 0.9), value_head="histogram", **QUICK).learn(100)


def test_a_policy_file_and_the_plain_module_give_the_same_values(agent, tmp_path):
    loaded_as_saved(agent, tmp_path / "a.ebu")
    values = agent.module()(torch.from_numpy(np.stack(states())))
    np.testing.assert_allclose(values, agent.q_values(states()), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_an_onnx_file_gives_the_same_values(agent, tmp_path):
    pytest.importorskip("onnxruntime")
    agent.export(tmp_path / "mean.onnx")  # which compares it with the module


def test_a_network_of_one_s_own_is_asked_for_all_bins():
    agent = ebu.DQN("CartPole-v1", network=normalised, value_head="histogram", **QUICK).learn(100)
    assert agent.loop.learner.online.named_tensors()["network.module.3.weight"].shape == (2 * BINS, 16)


@pytest.mark.parametrize("other", [{"dueling": True}, {"prior_scale": 1.0}], ids=str)
def test_what_it_does_not_combine_with_is_refused(other):
    with pytest.raises(ebu.UserError, match=f"value_head='histogram' does not combine with {next(iter(other))}"):
        ebu.DQN("CartPole-v1", value_head="histogram", **other)
