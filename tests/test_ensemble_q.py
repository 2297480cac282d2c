"""Ensemble Q(λ): targets and horizon by hand, what is left without its parts, and its policy as the mean of K networks."""

import dataclasses

import numpy as np
import pytest
import torch

import ebu
from ebu.algorithms.ensemble_q import horizon
from ebu.config import TargetConfig
from ebu.learning.span_values import SpanValues
from ebu.targets.retrace import gated, peng
from ebu.training.events import Synchronised
from tests.cartpole import loaded_as_saved, states
from tests.tolerance import sum_bound

QUICK = {"seed": 0, "learning_starts": 60, "eval_every": 0, "hidden_sizes": (8,), "batch_size": 8, "train_freq": 2}
ROUNDING = sum_bound(4 + 8 + 3, 20.0)  # inputs, hidden units, learners; values this early are far below 20


@pytest.fixture(scope="module")
def agent():
    """One that has learned a little, with networks that differ."""
    return ebu.EnsembleQ("CartPole-v1", trace_lambdas=(0.2, 0.5, 0.9), horizon_updates=20, **QUICK).learn(200)


def span_values(agent, updates=0):
    loop = agent.loop
    span = loop.sampler.sample(loop.memory, 30, np.random.default_rng(0))
    return SpanValues(span, loop.learner, updates=updates)


# ---------------------------------------------------------------------- the horizon


def test_the_horizon_settles_in_straight_lines():
    target = TargetConfig(gamma=0.99, trace_lambdas=(0.5, 0.8), initial_lambda=0.9, initial_horizon=1 / 3, horizon_updates=100)
    settled = ([0.5, 0.8], 0.99)
    expected = {0: ([0.9, 0.9], 0.97), 50: ([0.7, 0.85], 0.98), 100: settled, 900: settled}
    for updates, (lambdas, gamma) in expected.items():
        found, found_gamma = horizon(target, updates)
        assert found == pytest.approx(lambdas) and found_gamma == pytest.approx(gamma)


@pytest.mark.parametrize(("gamma", "first"), [(1.0, 1.0), (0.9, 0.7), (0.5, 0.0), (0.0, 0.0)])
def test_the_first_discount_is_that_of_a_third_of_the_horizon(gamma, first):
    assert horizon(TargetConfig(gamma=gamma, initial_horizon=1 / 3), 0)[1] == pytest.approx(first)


def test_without_updates_to_settle_in_the_last_values_hold_from_the_start():
    assert horizon(TargetConfig(horizon_updates=0), 0) == ([0.5, 0.6, 0.7, 0.8], 0.99)


# ---------------------------------------------------------------------- targets


def targets_of(agent, values, **target):
    config = dataclasses.replace(agent.config, target=dataclasses.replace(agent.config.target, double_q=False, **target))
    return agent.method.rule(config)(values).values


def test_all_learners_bootstrap_from_their_mean_each_with_its_own_lambda(agent):
    values = span_values(agent, updates=20)
    y = targets_of(agent, values)
    assert y.shape == (3, len(values.rewards))
    together = values.target_next.mean(0)
    for k, trace in enumerate((0.2, 0.5, 0.9)):
        alone = peng(values.rewards, values.discounts, together, trace, values.continues)
        torch.testing.assert_close(y[k], alone)
    own = targets_of(agent, values, bootstrap="own")
    torch.testing.assert_close(own[2], peng(values.rewards, values.discounts, values.target_next[2], 0.9, values.continues))
    assert not torch.allclose(own, y)


def test_early_targets_have_the_early_discount_and_a_termination_stays_one(agent):
    values = span_values(agent, updates=10)
    y = targets_of(agent, values)
    gamma = horizon(agent.config.target, 10)[1]
    assert 0.97 < gamma < 0.99
    shorter = torch.where(values.discounts > 0, torch.tensor(gamma), 0.0)
    expected = peng(values.rewards, shorter, values.target_next.mean(0), (0.5 + 0.95) / 2, values.continues)
    torch.testing.assert_close(y[1], expected)


def test_the_gate_is_in_units_of_the_one_step_error(agent):
    values = span_values(agent, updates=20)
    taken, following = (table.mean(0) for table in values.target_taken_and_next)
    error = (values.rewards + values.discounts * following.amax(-1) - taken).abs().mean()
    known = (values.rewards, values.discounts, values.actions, following)
    expected = gated(*known, 0.9, (2.0 / error).item(), values.continues)
    torch.testing.assert_close(targets_of(agent, values, gate=2.0)[2], expected)
    assert targets_of(agent, values, gate=2.0, bootstrap="own").shape == (3, len(values.rewards))


@pytest.mark.parametrize("updates", [0, 20])
def test_targets_are_at_least_the_return_where_learners_agree(agent, updates):
    values = span_values(agent, updates)
    gamma = horizon(agent.config.target, updates)[1]
    plain, bounded = (targets_of(agent, values, return_bound=bound) for bound in (0.0, 0.3))
    taken, following = values.target_taken_and_next
    discounts = torch.where(values.discounts > 0, torch.tensor(gamma), 0.0)
    error = (values.rewards + discounts * following.mean(0).amax(-1) - taken.mean(0)).abs().mean().item()
    for t, y in enumerate(bounded.T.tolist()):
        agrees = np.std(taken[:, t].numpy()) <= 0.3 * error
        obtained = return_from(values, t, gamma)
        expected = plain[:, t].tolist() if obtained is None or not agrees else [max(v, obtained) for v in plain[:, t].tolist()]
        assert y == pytest.approx(expected, rel=1e-5)
    assert (bounded > plain).any()


def return_from(values, t, gamma):
    """The discounted rewards from step t on; None in an episode that was cut off."""
    total, weight = 0.0, 1.0
    while True:
        total, weight = total + weight * float(values.rewards[t]), weight * gamma
        if not values.continues[t]:
            return total if values.discounts[t] == 0 else None
        t += 1


def test_with_everything_switched_off_it_is_pengs_to_the_last_bit():
    plain = ebu.PengQ("CartPole-v1", trace_lambda=0.7, **QUICK).learn(300)
    alone = ebu.EnsembleQ("CartPole-v1", trace_lambdas=(0.7,), horizon_updates=0, **QUICK).learn(300)
    assert torch.equal(plain.loop.learner.online.parameters, alone.loop.learner.online.parameters)
    other = ebu.EnsembleQ("CartPole-v1", trace_lambdas=(0.7,), horizon_updates=100, **QUICK).learn(300)
    assert not torch.equal(plain.loop.learner.online.parameters, other.loop.learner.online.parameters)


# ---------------------------------------------------------------------- acting


def test_learners_take_turns_and_nobody_is_copied():
    events = []
    agent = ebu.EnsembleQ("CartPole-v1", trace_lambdas=(0.5, 0.7), sync_interval=20, **QUICK)
    agent.learn(200, callback=events.append)
    assert not [event for event in events if isinstance(event, Synchronised)]
    first, second = agent.loop.learner.online.parameters
    assert not torch.equal(first, second)
    played = agent.loop.rotation.state_dict()["episodes"]
    assert sum(played) == agent.loop.episodes and abs(played[0] - played[1]) <= 1


def test_the_policy_is_greedy_in_the_mean_of_the_learners(agent):
    state = np.array([0.01, 0.02, -0.03, 0.04], np.float32)
    each = agent.loop.learner.online.values(torch.from_numpy(state)[None])[:, 0]
    np.testing.assert_allclose(agent.q_values([state])[0], each.mean(0).numpy(), rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("acting", ["turns", "mean"])
def test_whose_values_are_asked_for_in_training(acting, monkeypatch):
    agent = ebu.EnsembleQ("CartPole-v1", trace_lambdas=(0.5, 0.7), acting=acting, exploration_initial_eps=0.0, **QUICK)
    loop, asked = agent.loop, set()
    for name, policy in {"one": loop.policies[0], "other": loop.policies[1], "all": loop.policies.mean}.items():
        values = policy.values
        monkeypatch.setattr(policy, "values", lambda state, name=name, values=values: asked.add(name) or values(state))
    agent.learn(60)
    assert asked == ({"one", "other"} if acting == "turns" else {"all"})


def test_it_plays_several_environments_at_once():
    agent = ebu.EnsembleQ("CartPole-v1", trace_lambdas=(0.5, 0.7), n_envs=3, **QUICK).learn(150)
    assert agent.loop.updates > 20 and sorted(set(agent.loop.rotation.playing)) == [0, 1]


# ---------------------------------------------------------------------- policy files


def test_a_saved_policy_holds_all_learners_and_learns_on_from_them(agent, tmp_path):
    loaded = loaded_as_saved(agent, tmp_path / "a.ebu")
    again = tmp_path / "b.ebu"
    loaded.save(again)
    assert again.read_bytes() == (tmp_path / "a.ebu").read_bytes()
    assert torch.equal(loaded.loop.learner.online.parameters, agent.loop.learner.online.parameters)
    assert torch.equal(loaded.loop.learner.target.parameters, agent.loop.learner.online.parameters)


def test_a_whole_agent_learns_on_exactly(tmp_path):
    make = {"trace_lambdas": (0.5, 0.7), "horizon_updates": 60, **QUICK}
    agent = ebu.EnsembleQ("CartPole-v1", **make).learn(120)
    agent.save(tmp_path / "whole.ebu", memory=True)
    loaded = ebu.load(tmp_path / "whole.ebu")
    agent.learn(60), loaded.learn(60)
    assert torch.equal(agent.loop.learner.online.parameters, loaded.loop.learner.online.parameters)


def test_a_policy_with_another_number_of_learners_than_its_settings_say_is_refused(agent, tmp_path):
    from ebu.networks.policy_file import save_policy
    from ebu.training.best import policy_of

    saved = policy_of(agent.loop, agent.config)
    fewer = {name: tensor[:2] for name, tensor in saved.tensors.items()}
    save_policy(tmp_path / "fewer.ebu", dataclasses.replace(saved, tensors=fewer))
    with pytest.raises(ebu.UserError, match="holds 2 networks, but its settings say 3"):
        ebu.load(tmp_path / "fewer.ebu")


def test_the_plain_module_is_the_mean_of_all(agent, tmp_path):
    observations = states()
    module = agent.module()
    values = module(torch.from_numpy(np.stack(observations)))
    np.testing.assert_allclose(values, agent.q_values(observations), rtol=0, atol=ROUNDING)
    pytest.importorskip("onnxruntime")
    agent.export(tmp_path / "mean.onnx")  # which compares it with the module


def test_a_run_folder_keeps_policy_and_best_and_can_be_rescued(tmp_path):
    settings = QUICK | {"eval_every": 60, "eval_episodes": 1}
    ebu.EnsembleQ("CartPole-v1", trace_lambdas=(0.5, 0.7), **settings).learn(130, run=tmp_path / "run", progress_bar=False)
    last, best = ebu.load(tmp_path / "run"), ebu.load(tmp_path / "run", best=True)
    assert last._restored.learners == best._restored.learners == 2
    ebu.rescue(tmp_path / "run", tmp_path / "rescued.ebu")
    np.testing.assert_array_equal(ebu.load(tmp_path / "rescued.ebu").q_values(states()), last.q_values(states()))
