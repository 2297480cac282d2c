"""Fixed random priors: the sum of two networks, of which one is learned; in files, copies and resets both are there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import ebu
from ebu.config import LearnerConfig, NetworkConfig
from ebu.learning.learner import LocalLearner
from ebu.learning.optimisers import OPTIMISERS
from ebu.networks.ensemble_prior import EnsemblePrior
from ebu.networks.fastest import fastest_ensemble
from ebu.networks.modules import WithPrior, build_network
from tests.cartpole import loaded_as_saved, states
from tests.learning.test_learner import VECTOR, make_batch
from tests.networks.test_ensemble import CPU, SPECS, lone_modules, states_of
from tests.tolerance import RUN

SCALE = 2.5


def made(name, learners, seed=0, **settings):
    skeleton = build_network(SPECS[name][0], 3, 1, NetworkConfig(prior_scale=SCALE, **settings))
    network = fastest_ensemble(skeleton, learners, CPU)
    network.initialise(torch.Generator().manual_seed(seed))
    return network


def test_without_a_scale_there_is_no_prior():
    assert not isinstance(build_network(VECTOR, 3, 1, NetworkConfig()), WithPrior)


@pytest.mark.parametrize("settings", [{}, {"layer_norm": True}, {"dueling": True}], ids=str)
@pytest.mark.parametrize(("name", "learners"), [("vector", 1), ("vector", 3), ("onehot", 3), ("minatar", 3)])
def test_values_and_the_gradient_of_what_is_learned_are_those_of_modules_apart(double, name, learners, settings):
    network, x = made(name, learners, **settings), states_of(name)
    assert isinstance(network, EnsemblePrior)
    values, pullback = network.differentiate(x)
    slope = torch.randn(values.shape, generator=torch.Generator().manual_seed(5))
    pullback(slope)
    with torch.no_grad():
        torch.testing.assert_close(network.values(x), values)
    for learner, module in enumerate(lone_modules(network)):
        apart = module.network(x) + SCALE * module.prior(x)
        torch.testing.assert_close(module(x), apart)
        torch.testing.assert_close(values[learner], apart.detach())
        (apart * slope[learner]).sum().backward()
        expected = torch.cat([parameter.grad.flatten() for parameter in module.network.parameters()])
        found = [view[learner] for view in network._learned.views(network.gradient)]
        torch.testing.assert_close(torch.cat([view.flatten() for view in found]), expected)
        array = x.numpy()
        np.testing.assert_allclose(network.state_values(learner)(array[0]), apart.detach()[0], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(network.batch_values(learner)(array), apart.detach(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("optimizer", OPTIMISERS)
@pytest.mark.parametrize("learners", [1, 2])
def test_learning_is_that_of_a_plain_network_towards_targets_less_the_prior(double, optimizer, learners):
    config = LearnerConfig(optimizer=optimizer, loss="mse", max_grad_norm=1.0, tau=0.1)
    skeleton = build_network(VECTOR, 3, 1, NetworkConfig(prior_scale=SCALE))
    with_prior, plain = (LocalLearner(network, learners, config, CPU) for network in (skeleton, skeleton.network))
    with_prior.initialise(torch.Generator().manual_seed(0), "torch")
    for mine, other in ((with_prior.online, plain.online), (with_prior.target, plain.target)):
        other.parameters.copy_(mine.trained)
    prior = with_prior.online.parameters[:, plain.online.parameters.shape[1] :].clone()
    assert prior.abs().sum() > 0
    for seed in range(4):
        batch = make_batch(learners=learners, seed=seed)
        fixed = with_prior.online._fixed(batch.states).gather(-1, batch.actions.expand(learners, -1).unsqueeze(-1))
        with_prior.update(batch)
        plain.update(replace(batch, targets=batch.targets - fixed[..., 0]))
        for learner in (with_prior, plain):
            learner.update_target()
    for mine, other in ((with_prior.online, plain.online), (with_prior.target, plain.target)):
        torch.testing.assert_close(mine.trained, other.parameters, **RUN)
        assert torch.equal(mine.parameters[:, other.parameters.shape[1] :], prior)


def test_learners_have_priors_of_their_own_and_a_reset_leaves_them():
    skeleton = build_network(VECTOR, 3, 1, NetworkConfig(prior_scale=SCALE))
    learner = LocalLearner(skeleton, 2, LearnerConfig(), CPU)
    learner.initialise(torch.Generator().manual_seed(0), "torch")
    before = learner.online.parameters.clone()
    learner.reset_outputs(torch.Generator().manual_seed(1), "torch")
    changed = {name for (name, place, *_) in learner.online.layout if (learner.online.parameters != before)[:, place].any()}
    assert changed == {"network.4.weight", "network.4.bias"}
    first, second = before[:, learner.online.trained.shape[1] :]
    assert not torch.equal(first, second)


# ---------------------------------------------------------------------- agents

QUICK = {"seed": 0, "learning_starts": 60, "eval_every": 0, "hidden_sizes": (8,), "batch_size": 8, "train_freq": 2}


@pytest.fixture(scope="module")
def agent():
    return ebu.EnsembleQ("CartPole-v1", trace_lambdas=(0.5, 0.9), prior_scale=SCALE, **QUICK).learn(150)


def test_a_policy_file_and_the_plain_module_hold_the_priors(agent, tmp_path):
    loaded_as_saved(agent, tmp_path / "a.ebu")
    module = agent.module()
    np.testing.assert_allclose(module(torch.from_numpy(np.stack(states()))), agent.q_values(states()), atol=1e-5)


@pytest.mark.slow
def test_an_onnx_file_holds_the_priors(agent, tmp_path):
    pytest.importorskip("onnxruntime")
    agent.export(tmp_path / "mean.onnx")  # which compares it with the module


def test_a_whole_agent_learns_on_exactly(agent, tmp_path):
    agent.save(tmp_path / "whole.ebu", memory=True)
    loaded, again = (ebu.load(tmp_path / "whole.ebu").learn(40) for _ in range(2))
    assert torch.equal(loaded.loop.learner.online.parameters, again.loop.learner.online.parameters)
    straight = ebu.EnsembleQ("CartPole-v1", trace_lambdas=(0.5, 0.9), prior_scale=SCALE, **QUICK).learn(150).learn(40)
    assert torch.equal(loaded.loop.learner.online.parameters, straight.loop.learner.online.parameters)


def test_one_learner_takes_a_prior_as_well():
    assert ebu.DQN("CartPole-v1", prior_scale=1.0, **QUICK).learn(100).loop.updates > 0
