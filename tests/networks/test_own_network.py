"""A network of the user's own: any layers, K learners, files, exact resume; and what is refused, in one line."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from torch import nn

import ebu
from ebu.cli import main
from ebu.config import NetworkConfig
from ebu.networks import factories
from ebu.networks.fastest import fastest_ensemble
from ebu.networks.modules import build_network
from tests.networks import own
from tests.networks.test_ensemble import CPU, SPECS, states_of

SMALL = {"learning_starts": 40, "batch_size": 8, "eval_every": 0, "log_every": 50, "target_update_interval": 30}
NETWORKS = {"vector": own.Attention, "maze": own.Pictures}


@pytest.fixture
def forget(monkeypatch):
    """As a process that has seen no network yet."""
    monkeypatch.setattr(factories, "_KNOWN", {})


def ensemble(name, learners, seed=0):
    config = NetworkConfig(network=factories.name_of(NETWORKS[name]))
    network = fastest_ensemble(build_network(SPECS[name][0], 3, 1, config), learners, CPU)
    network.initialise(torch.Generator().manual_seed(seed))
    return network


@pytest.mark.parametrize("name", NETWORKS)
def test_values_and_gradients_are_those_of_modules_apart(name):
    network, states = ensemble(name, 3), states_of(name)
    slope = torch.randn(3, 6, 3, generator=torch.Generator().manual_seed(5))
    values, pullback = network.differentiate(states)
    network.gradient.fill_(7.0)
    pullback(slope)
    for learner in range(3):
        module = network.skeleton.made(seed=9)
        module.load_state_dict({k.removeprefix("module."): v for k, v in network.named_tensors(learner).items()}, strict=False)
        apart = module(states)
        assert torch.equal(values[learner], apart.detach())  # the same operations in the same order
        (apart * slope[learner]).sum().backward()
        for view, (key, parameter) in zip(network.views(network.gradient), module.named_parameters()):
            expected = torch.zeros_like(parameter) if key == "unused" else parameter.grad
            assert torch.equal(view[learner], expected)
        single = torch.from_numpy(network.state_values(learner)(states[0].numpy()))
        torch.testing.assert_close(single, apart[0].detach())  # a batch of one may be summed in another order


def test_every_learner_has_starting_weights_of_its_own_from_the_run_s_generator_alone():
    before = torch.get_rng_state()
    first, again, other = ensemble("vector", 2), ensemble("vector", 2), ensemble("vector", 2, seed=1)
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(first.parameters, again.parameters)
    assert not torch.equal(first.parameters[0], first.parameters[1])
    assert not torch.equal(first.parameters, other.parameters)
    assert torch.equal(first.named_tensors(1)["module.norm.weight"], torch.ones(8))  # as the module itself begins


def test_a_factory_is_told_the_state_with_all_its_frames():
    seen = []

    def pictures(spec, actions):
        seen.append((spec.shape, actions))
        return own.Pictures(spec, actions)

    build_network(SPECS["maze"][0], 3, 4, NetworkConfig(network=factories.name_of(pictures)))
    assert set(seen) == {((8, 28, 28), 3)}


@pytest.mark.parametrize("algo", [ebu.EBU, ebu.AdaptiveEBU])
def test_a_run_is_resumed_exactly(tmp_path, algo):
    def trained(folder, stop):
        settings = SMALL | {"network": own.Attention, "betas": (0.0, 0.5, 1.0), "sync_interval": 60}
        algo("CartPole-v1", seed=3, **settings).learn(160, run=folder, callback=lambda event: event.step < stop)
        return ebu.resume(folder, announce=lambda text: None)

    straight, halved = trained(tmp_path / "straight", 10**9), trained(tmp_path / "halved", 80)
    assert straight.loop.updates == halved.loop.updates > 10
    assert torch.equal(straight.loop.learner.online.parameters, halved.loop.learner.online.parameters)


def test_a_policy_file_names_the_network_and_is_loaded_where_that_is_known(tmp_path, forget):
    path, state = tmp_path / "p.ebu", np.array([0.1, -0.2, 0.3, 0.0], np.float32)
    agent = ebu.EBU("CartPole-v1", network=own.normalised, **SMALL).learn(100)
    agent.save(path)
    assert np.array_equal(ebu.load(path).q_values([state]), agent.q_values([state]))
    factories._KNOWN.clear()
    with pytest.raises(ebu.UserError, match=r"names the network tests\.networks\.own:normalised.*trust_env=True"):
        ebu.load(path)
    assert np.array_equal(ebu.load(path, trust_env=True).q_values([state]), agent.q_values([state]))
    factories._KNOWN.clear()
    assert np.array_equal(ebu.load(path, network=own.normalised).q_values([state]), agent.q_values([state]))
    with pytest.raises(ebu.UserError, match="do not match the network"):
        ebu.load(path, network=own.Attention)
    ebu.EBU("CartPole-v1", **SMALL).save(tmp_path / "mlp.ebu")
    with pytest.raises(ebu.UserError, match="was made with the network 'auto'"):
        ebu.load(tmp_path / "mlp.ebu", network=own.normalised)


def test_a_file_cannot_have_a_function_called_that_the_user_did_not_name(tmp_path, forget, monkeypatch):
    """Not even one of a module that is imported already."""
    called = []
    monkeypatch.setattr(sys.modules[__name__], "trap", lambda spec, actions: called.append(spec), raising=False)
    agent = ebu.EBU("CartPole-v1", network=own.normalised, **SMALL)
    assert agent.loop.step == 0
    monkeypatch.setattr(agent, "config", ebu.config.override(agent.config, network=f"{__name__}:trap"))
    agent.save(tmp_path / "p.ebu")
    with pytest.raises(ebu.UserError, match="would be imported and run"):
        ebu.load(tmp_path / "p.ebu")
    assert called == []


def test_the_command_line_takes_a_name_and_resumes_with_trust(tmp_path, forget, capsys):
    run = str(tmp_path / "run")
    settings = ["--steps", "60", "--learning-starts", "20", "--eval-every", "0", "--no-tensorboard", "--quiet"]
    assert main(["train", "--env", "CartPole-v1", "--network", "tests.networks.own:normalised", "--run", run, *settings]) == 0
    factories._KNOWN.clear()
    assert main(["resume", run]) == 2
    assert "--trust-env" in capsys.readouterr().err
    assert main(["resume", run, "--trust-env"]) == 0
    assert main(["train", "--env", "CartPole-v1", "--network", "no.such:thing", *settings]) == 2
    assert "cannot be imported: ModuleNotFoundError" in capsys.readouterr().err


def random_buffer(spec, actions):
    module = own.normalised(spec, actions)
    module.register_buffer("noise", torch.randn(2))
    return module


def frozen(spec, actions):
    module = own.normalised(spec, actions)
    module[0].weight.requires_grad_(False)
    return module


def layers(*middle, outputs=0):
    return lambda spec, actions: nn.Sequential(nn.Linear(4, 4), *middle, nn.Linear(4, actions + outputs))


@pytest.mark.parametrize(
    ("network", "words"),
    [
        (lambda spec, actions: 3, "returned int instead of an nn.Module"),
        (lambda spec: None, "cannot be created: TypeError"),
        (layers(outputs=1), r"returns float32 \[2, 3\] for states float32 \[2, 4\] instead of values \[2, 2\]"),
        (layers(nn.Linear(5, 4)), r"fails on states float32 \[2, 4\]: RuntimeError"),
        (layers(nn.BatchNorm1d(4)), "changes its buffer 1.* when it is called, as BatchNorm does; use LayerNorm"),
        (layers(nn.BatchNorm1d(4, track_running_stats=False)), "(in another batch|fails on states)"),
        (layers(nn.Dropout(0.5)), "draws random numbers, as Dropout does"),
        (lambda spec, actions: layers()(spec, actions).double(), r"parameter 0\.weight of torch\.float64"),
        (lambda spec, actions: nn.Identity(), "has no parameters"),
        (random_buffer, "has a buffer noise that differs"),
        (frozen, r"has a parameter 0\.weight that does not require a gradient"),
        (nn.Linear(4, 2), "got Linear"),
        (3, "got int"),
        ("no_such_network", "network must be one of auto, mlp"),
        ("tests.networks.own:missing", "cannot be imported: AttributeError"),
        ("tests.networks.own:not_a_function", "is not a function"),
        ("tests.networks.own:", "network must be one of|cannot be imported"),
    ],
)
def test_what_cannot_be_learned_with_is_refused_in_one_line(network, words):
    with pytest.raises(ebu.UserError, match=words) as error:
        ebu.EBU("CartPole-v1", network=network, **SMALL)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("setting", [{"reset_every": 100}, {"redistribute_rewards": True}])
def test_settings_that_change_the_last_linear_layer_are_refused_for_a_network_without_one(setting):
    with pytest.raises(ebu.UserError, match="redistribute_rewards change the last linear layer, and this network has none"):
        ebu.EBU("CartPole-v1", network=own.without_linear_layers, **setting)
