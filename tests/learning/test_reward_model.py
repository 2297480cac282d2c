"""Rewards that are paid at the end of an episode are found at the steps that earn them."""

import copy
from dataclasses import astuple, replace

import numpy as np
import pytest
import torch
from hypothesis import given, strategies

import ebu
from ebu.agent import AGENTS
from ebu.config import Config, override
from ebu.envs.spaces import ObservationSpec
from ebu.errors import Interrupted, UserError
from ebu.learning import reward_model
from ebu.learning.blueprint import Blueprint
from ebu.learning.reward_model import (
    AVERAGING,
    GROWTH,
    ReturnStatistics,
    RewardModel,
    episode_of_step,
    paid_at_the_end,
    redistributed,
)
from ebu.learning.span_values import SpanValues
from ebu.memory.episodes import EpisodeMemory
from ebu.memory.samplers import whole_episodes
from ebu.training.loop_state import state_of
from ebu.training.lost_episodes import restore_without_lost
from ebu.types import Batch, Episode
from tests.tolerance import in_double

STATES, ACTIONS = 16, 4
NETWORK = {"hidden_sizes": (32,), "learning_starts": 10**6, "eval_every": 0}
HIDDEN = np.zeros((STATES, ACTIONS))  # what steps of the little world below earn
HIDDEN[3, 1], HIDDEN[7, 2], HIDDEN[12, 0] = 1.0, -2.0, 3.0


def loop_with(episodes, **settings):
    """A training loop on FrozenLake's spaces whose memory holds these episodes."""
    loop = ebu.PengQ("FrozenLake-v1", seed=0, redistribute_rewards=True, **NETWORK | settings).loop
    for episode in episodes:
        loop.memory.add(episode)
    return loop


def episode(states, actions, rewards):
    ones = np.ones(len(actions), np.float32)
    observations = np.asarray(states, np.int64).reshape(-1, 1)
    return Episode(observations, np.asarray(actions), np.asarray(rewards, np.float32), ones, True)


def random_episode(rng, scale=1.0, is_late=True):
    """Steps between random states; what they earn is paid where it is earned, or all of it at the end."""
    length = int(rng.integers(3, 12))
    states, actions = rng.integers(STATES, size=length + 1), rng.integers(ACTIONS, size=length)
    earned = scale * HIDDEN[states[:-1], actions]
    paid = np.append(np.zeros(length - 1), earned.sum()) if is_late else earned
    return episode(states, actions, paid)


def every_episode(loop):
    return whole_episodes(loop.memory, np.arange(loop.memory.first_episode, loop.memory.end_episode))


# ---------------------------------------------------------------------- pure parts

CONTINUES = np.array([True, True, False, False, True, False])  # episodes of 3, 1 and 2 steps


def test_steps_know_their_episode():
    episodes, count = episode_of_step(CONTINUES)
    assert episodes.tolist() == [0, 0, 0, 1, 2, 2] and count == 3


def test_an_episode_is_paid_at_its_end_if_nothing_is_paid_before():
    rewards = np.array([0, 0, 5, 5, 1, 0], np.float32)
    assert paid_at_the_end(rewards, CONTINUES).tolist() == [True, True, False]
    assert paid_at_the_end(np.zeros(6, np.float32), CONTINUES).all()


def test_new_rewards_are_a_mixture_by_the_explained_share_in_late_episodes_only():
    """The first episode is predicted as 1 and 2 and pays 4 at its end: 1 is lacking there. The second pays on the way."""
    rewards, predicted = np.array([0, 4, 1, 1], np.float32), np.array([1.0, 2.0, 9.0, 9.0])
    continues = np.array([True, False, True, False])
    assert redistributed(rewards, predicted, continues, 0.25).tolist() == [0.25, 3.75, 1, 1]
    assert redistributed(rewards, predicted, continues, 0.0).tolist() == rewards.tolist()
    assert redistributed(rewards, predicted, continues, 1.0).tolist() == [1, 3, 1, 1]


@given(
    strategies.lists(strategies.tuples(strategies.floats(-9, 9), strategies.booleans()), min_size=1), strategies.floats(0, 1)
)
def test_every_episode_keeps_its_return_however_wrong_the_predictions(steps, share):
    predicted = np.array([value for value, _ in steps])
    continues = np.array([*(goes_on for _, goes_on in steps[:-1]), False])
    rewards = np.where(continues, 0, 5).astype(np.float32)
    new = redistributed(rewards, predicted, continues, share)
    ends = np.flatnonzero(~continues) + 1
    for start, end in zip([0, *ends], ends):
        np.testing.assert_allclose(new[start:end].sum(), 5, atol=1e-3)


def test_statistics_by_hand():
    """Returns 0 and 2 (mean 1, variance 1) are predicted as 0 and 1; then 4 is predicted exactly."""
    two = ReturnStatistics().added(0.0, 0.0).added(2.0, 1.0)
    assert (two.mean, two.square, two.error, two.variance) == (1.0, 2.0, 0.5, 1.0)
    assert two.explained == 0.5 and two.unit == 1.0
    three = two.added(4.0, 4.0)  # each episode counts a third
    assert (three.mean, three.square, three.error) == pytest.approx((2.0, 20 / 3, 1 / 3))
    assert three.explained == pytest.approx(1 - (1 / 3) / (8 / 3))


def test_the_newest_episode_counts_one_fiftieth_once_there_are_many():
    statistics = replace(ReturnStatistics(), episodes=1_000, mean=1.0, square=1.0)
    assert statistics.added(2.0, 2.0).mean == pytest.approx(1.02)


@pytest.mark.parametrize(("error", "explained", "trust"), [(2.0, 0.0, 0.0), (0.6, 0.4, 0.0), (0.2, 0.8, 0.6), (0.0, 1.0, 1.0)])
def test_a_model_that_explains_less_than_half_is_not_trusted(error, explained, trust):
    statistics = ReturnStatistics(10, mean=1.0, square=2.0, error=error)
    assert (statistics.explained, statistics.trust) == pytest.approx((explained, trust))


def test_nothing_is_explained_where_all_returns_are_equal_and_their_unit_stays_open():
    same = ReturnStatistics().added(3.0, 3.0).added(3.0, 3.0)
    assert same.explained == 0.0 and same.unit == 0.0


def test_the_unit_follows_returns_that_have_grown_much_and_no_others():
    statistics = ReturnStatistics().added(0.0, 0.0).added(2.0, 0.0)
    grown = statistics.added(4.0, 0.0)
    assert grown.unit == 1.0
    much = grown.added(1_000.0, 0.0)
    assert much.unit == pytest.approx(np.sqrt(much.variance)) and much.unit > GROWTH


@given(strategies.lists(strategies.tuples(strategies.floats(-1e3, 1e3), strategies.floats(-1e3, 1e3)), min_size=1))
def test_the_explained_share_is_a_share(pairs):
    statistics = ReturnStatistics()
    for obtained, predicted in pairs:
        statistics = statistics.added(obtained, predicted)
        assert 0.0 <= statistics.explained <= 1.0


# ---------------------------------------------------------------------- the model


@pytest.mark.parametrize("scale", [1.0, 1_000.0])
def test_what_each_step_earns_is_found_from_returns_alone(scale):
    rng = np.random.default_rng(0)
    loop = loop_with([random_episode(rng, scale) for _ in range(400)])
    model, draws = loop.reward_model, np.random.default_rng(1)
    assert model is not None
    model.judge(loop.memory)
    assert model.statistics.explained == 0.0
    for _ in range(600):
        span = loop.sampler.sample(loop.memory, 256, draws)
        model.learn(model.redistribute(span))
    for _ in range(100):
        loop.memory.add(random_episode(rng, scale))
    model.judge(loop.memory)
    span = every_episode(loop)
    found = model.redistribute(span).span.rewards
    earned = scale * HIDDEN[span.frames[span.rows, 0], span.actions]
    assert model.statistics.explained > 0.7  # an eighth of the average is still of before
    before, after = (np.square(rewards - earned).mean() for rewards in (span.rewards, found))
    assert after < 0.2 * before


def test_one_step_of_learning_is_the_gradient_of_the_squared_error_of_returns_over_lengths():
    """Against automatic differentiation of the sum over episodes of (R − Σ r̂)² / T, divided by all steps."""
    with in_double():
        rng = np.random.default_rng(2)
        loop = loop_with([random_episode(rng) for _ in range(20)])
        model = loop.reward_model
        model.learner.initialise(torch.Generator().manual_seed(1), "torch")  # the last layer, too
        model.judge(loop.memory)
        span = every_episode(loop)
        lesson = model.redistribute(span)
        module = copy.deepcopy(model.learner.online.skeleton).to_empty(device="cpu")
        module.load_state_dict(model.learner.online.named_tensors())
        outputs = module(torch.from_numpy(span.states(span.rows)))[torch.arange(len(span)), torch.from_numpy(span.actions)]
        loss, start = torch.zeros(()), 0
        for end in np.flatnonzero(~span.continues) + 1:
            lacking = float(span.rewards[start:end].sum()) / model.statistics.unit - outputs[start:end].sum()
            loss, start = loss + lacking**2 / (end - start), end
        (loss / len(span)).backward()
        expected = torch.cat([parameter.grad.flatten() for parameter in module.parameters()])
        model.learn(lesson)
        # Targets are stored in single precision.
        torch.testing.assert_close(model.learner.online.gradient[0], expected, rtol=1e-4, atol=1e-6)


def test_episodes_paid_on_the_way_are_neither_changed_nor_learned_from():
    rng = np.random.default_rng(3)
    paid_on_the_way = [one for _ in range(30) if (one := random_episode(rng, is_late=False)).rewards[:-1].any()]
    loop = loop_with(paid_on_the_way)
    before = copy.deepcopy(loop.reward_model.state_dict())
    loop.reward_model.judge(loop.memory)
    span = every_episode(loop)
    lesson = loop.reward_model.redistribute(span)
    loop.reward_model.learn(lesson)
    assert lesson.span is span
    assert_same(loop.reward_model.state_dict(), before | {"judged": loop.memory.end_episode})


def test_redistributing_changes_nothing_until_it_is_learned_from():
    """So that targets which are abandoned in the middle can be computed again, to the same bits."""
    rng = np.random.default_rng(4)
    loop = loop_with([random_episode(rng) for _ in range(30)])
    model, span = loop.reward_model, every_episode(loop)
    model.judge(loop.memory)
    before = copy.deepcopy(model.state_dict())
    first = model.redistribute(span)
    assert_same(model.state_dict(), before)
    model.learn(first)
    with pytest.raises(AssertionError):
        assert_same(model.state_dict(), before)


def test_a_new_unit_changes_the_outputs_and_not_the_predictions():
    rng = np.random.default_rng(9)
    loop = loop_with([random_episode(rng) for _ in range(50)])
    model = loop.reward_model
    model.learner.initialise(torch.Generator().manual_seed(1), "torch")
    model.judge(loop.memory)
    unit, span = model.statistics.unit, every_episode(loop)

    def predictions():
        values = SpanValues(span, model.learner)
        return model.statistics.unit * values.online_taken, model.statistics.unit * values.target_taken

    before = predictions()
    for _ in range(50):
        loop.memory.add(random_episode(rng, scale=1_000.0))
    model.judge(loop.memory)
    assert model.statistics.unit > GROWTH * unit
    for old, new in zip(before, predictions()):
        torch.testing.assert_close(new, old, rtol=1e-4, atol=1e-5)


def test_predictions_are_those_of_averaged_weights():
    rng = np.random.default_rng(10)
    loop = loop_with([random_episode(rng) for _ in range(50)])
    model, span = loop.reward_model, every_episode(loop)
    model.judge(loop.memory)
    before = model.learner.target.parameters.clone()
    model.learn(model.redistribute(span))
    latest, averaged = model.learner.online.parameters, model.learner.target.parameters
    torch.testing.assert_close(averaged, before + AVERAGING * (latest - before))
    assert not torch.equal(latest, before)


def test_a_signal_stops_it():
    rng = np.random.default_rng(5)
    loop = loop_with([random_episode(rng) for _ in range(30)])
    model = loop.reward_model
    with pytest.raises(Interrupted):
        model.judge(loop.memory, lambda: True)
    assert model.judged == 0 and model.statistics == ReturnStatistics()
    model.judge(loop.memory)
    with pytest.raises(Interrupted):
        model.redistribute(every_episode(loop), lambda: True)


def test_every_episode_is_judged_once_before_the_model_learns_from_it():
    rng = np.random.default_rng(7)
    loop = loop_with([random_episode(rng) for _ in range(30)], buffer_size=250)  # the memory forgets some of them
    model = loop.reward_model
    for _ in range(2):
        judged = model.statistics.episodes
        new = loop.memory.end_episode - max(model.judged, loop.memory.first_episode)
        model.judge(loop.memory)
        assert model.statistics.episodes - judged == new > 0
        model.judge(loop.memory)
        assert model.statistics.episodes - judged == new
        loop.memory.add(random_episode(rng))


def test_predictions_that_new_episodes_refute_are_no_longer_used():
    """A policy that has found where the model is wrong gets the rewards that are paid."""
    rng = np.random.default_rng(8)
    loop = loop_with([random_episode(rng) for _ in range(200)])
    model = loop.reward_model
    model.statistics = ReturnStatistics(200, 0.0, 1.0, 0.1, 1.0)
    assert model.statistics.explained == 0.9
    model.learner.initialise(torch.Generator().manual_seed(1), "torch")  # a model that knows nothing
    model.judge(loop.memory)
    span = every_episode(loop)
    assert model.statistics.explained == 0.0
    np.testing.assert_array_equal(model.redistribute(span).span.rewards, span.rewards)


def test_long_spans_are_learned_from_in_parts_that_fit_the_memory(monkeypatch):
    rng = np.random.default_rng(6)
    loop = loop_with([random_episode(rng) for _ in range(200)])
    model, sizes = loop.reward_model, []
    update = model.learner.update
    monkeypatch.setattr(model.learner, "update", lambda batch: sizes.append(len(batch.steps)) or update(batch))
    model.judge(loop.memory)
    lesson = model.redistribute(every_episode(loop))
    model.learn(lesson)
    assert sum(sizes) == len(lesson.steps) > 512 and max(sizes) == 512


def test_many_new_episodes_are_judged_in_groups_that_fit_the_memory(monkeypatch):
    """Recorded episodes may be as many as the memory holds, whose frames are compressed there and not in a span."""
    rng = np.random.default_rng(11)
    loop = loop_with([random_episode(rng) for _ in range(50)])
    model = loop.reward_model
    model.learner.initialise(torch.Generator().manual_seed(1), "torch")
    model.judge(loop.memory)
    before, first_new = model.statistics, loop.memory.end_step
    for _ in range(150):
        loop.memory.add(random_episode(rng))
    model.judge(loop.memory)
    at_once = model.statistics

    sizes = []
    monkeypatch.setattr(reward_model, "GROUP_BYTES", 100 * 8)  # 100 steps
    monkeypatch.setattr(
        reward_model, "whole_episodes", lambda *given: sizes.append(len(span := whole_episodes(*given))) or span
    )
    model.statistics, model.judged = before, 50
    model.judge(loop.memory)
    assert sum(sizes) == loop.memory.end_step - first_new and max(sizes) < 100 + 12
    assert astuple(model.statistics) == pytest.approx(astuple(at_once), rel=1e-5)


def test_the_model_of_a_saved_agent_continues_exactly(tmp_path):
    settings = {"learning_starts": 50, "eval_every": 0, "hidden_sizes": (16,), "batch_size": 16}
    agent = ebu.PengQ("CartPole-v1", seed=0, env_args={"reward_delay": "episode"}, redistribute_rewards=True, **settings)
    agent.learn(200).save(tmp_path / "whole.ebu", memory=True)
    loaded = ebu.load(tmp_path / "whole.ebu")
    saved = copy.deepcopy(agent.loop.reward_model.state_dict())
    assert_same(loaded.loop.reward_model.state_dict(), saved)
    states = [one.learn(150).loop.reward_model.state_dict() for one in (agent, loaded)]
    assert_same(*states)
    assert states[0]["learner"]["optimiser"]["steps"] > saved["learner"]["optimiser"]["steps"] > 0


def test_where_damaged_episodes_are_dropped_none_of_the_others_is_judged_twice():
    """Of episodes 0 to 5, of which 4 and 5 are new, 1 and 4 are lost: the others are now 2 to 5, and 5 is new."""
    rng = np.random.default_rng(12)
    loop, restored = loop_with([random_episode(rng) for _ in range(4)]), loop_with([])
    loop.reward_model.judge(loop.memory)
    for _ in range(2):
        loop.memory.add(random_episode(rng))
    tree = {"loop": state_of(loop), "episode_starts": loop.memory.starts(), "memory_end_step": loop.memory.end_step}
    restore_without_lost(restored, tree, [(number, loop.memory.pack(number)) for number in (0, 2, 3, 5)])
    assert (restored.memory.first_episode, restored.reward_model.judged, restored.memory.end_episode) == (2, 5, 6)


@pytest.mark.parametrize("layer_norm", [False, True])
def test_large_images_are_learned_from_in_numbers_that_come_often_and_as_they_are(layer_norm, monkeypatch):
    """PyTorch's convolutions keep work space for every number of images that they meet."""
    with in_double():
        rng, memory = np.random.default_rng(13), EpisodeMemory(1_000, (1, 20, 20), np.uint8, gamma=0.9)
        for length in (9, 30, 7):
            frames = rng.integers(256, size=(length + 1, 1, 20, 20)).astype(np.uint8)
            paid, ones = np.eye(length, dtype=np.float32)[-1], np.ones(length, np.float32)
            memory.add(Episode(frames, rng.integers(ACTIONS, size=length), paid, ones, True))
        spec = ObservationSpec("image", (1, 20, 20), "uint8", scale=1 / 255)
        config = override(Config(), network="maze", layer_norm=layer_norm)
        model, plain = (
            RewardModel(Blueprint(config, spec, ACTIONS, 1, 1).build_reward_learner(torch.device("cpu"))) for _ in range(2)
        )
        model.learner.initialise(torch.Generator().manual_seed(1), "torch")
        plain.learner.load_state_dict(model.learner.state_dict())
        model.statistics = ReturnStatistics(5, 0.0, 1.0, 1.0, 1.0)
        span = whole_episodes(memory, np.arange(3))
        lesson, sizes, update = model.redistribute(span), [], model.learner.update
        monkeypatch.setattr(model.learner, "update", lambda batch: sizes.append(len(batch.steps)) or update(batch))
        model.learn(lesson)
        assert sizes == [64] and len(span) == 46
        values = SpanValues(span, plain.learner)
        targets = values.tensor(lesson.targets).unsqueeze(0)
        plain.learner.update(Batch(values.states(span.rows), values.actions, targets, span.steps))
        torch.testing.assert_close(model.learner.online.gradient, plain.learner.online.gradient, rtol=1e-6, atol=1e-9)


def assert_same(found, expected):
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            assert_same(found[name], value)
    elif isinstance(expected, torch.Tensor):
        assert torch.equal(found, expected)
    else:
        assert found == expected


# ---------------------------------------------------------------------- in training


@pytest.mark.parametrize("algo", ["dqn", "n-step", "per", "optimality-tightening"])
def test_methods_that_do_not_replay_whole_episodes_are_refused(algo):
    words = f"redistribute_rewards is for methods that replay whole episodes, such as ebu; {algo} does not"
    with pytest.raises(UserError, match=words):
        AGENTS[algo]("CartPole-v1", redistribute_rewards=True)


@pytest.mark.parametrize(
    "damage", [{"episodes": -1}, {"unit": float("nan")}, {"unit": -1.0}, {"error": float("inf")}, {"error": -1.0}]
)
def test_impossible_statistics_in_a_checkpoint_are_refused(damage):
    model = RewardModel(loop_with([]).reward_model.learner)
    state = model.state_dict()
    with pytest.raises(ValueError, match="impossible statistics"):
        model.load_state_dict(state | {"statistics": state["statistics"] | damage})


def test_without_late_rewards_a_run_is_the_same_with_the_setting_as_without():
    """CartPole pays at every step."""
    weights = []
    for setting in (False, True):
        settings = {"learning_starts": 50, "eval_every": 0, "hidden_sizes": (16,), "redistribute_rewards": setting}
        agent = ebu.PengQ("CartPole-v1", seed=0, **settings).learn(300)
        weights.append(agent.loop.learner.online.named_tensors())
    assert_same(*weights)


def test_rows_say_how_much_of_the_returns_is_explained():
    settings = {"learning_starts": 50, "eval_every": 0, "hidden_sizes": (16,)}
    agents = [ebu.PengQ("FrozenLake-v1", seed=0, redistribute_rewards=wanted, **settings) for wanted in (False, True)]
    rows = [agent.learn(300).loop.metrics() for agent in agents]
    assert rows[1].keys() - rows[0].keys() == {"explained_returns"}
    assert rows[1]["explained_returns"] == round(agents[1].loop.reward_model.statistics.explained, 6)
