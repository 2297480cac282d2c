"""The public surface as a user meets it: learn, predict, evaluate, save, load, on real environments."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

import ebu
from ebu.agent import AGENTS, choose_device
from ebu.config import override
from ebu.networks.policy_file import SavedPolicy, save_policy
from ebu.training.events import EpisodeEnded, Trained
from tests.conftest import Corridor, Script, one_line
from tests.tolerance import RUN

SMALL = {
    "learning_starts": 50,
    "train_freq": 4,
    "batch_size": 16,
    "eval_every": 0,
    "hidden_sizes": (32,),
    "log_every": 100,
    "betas": (0.0, 1.0),
}


@pytest.fixture(scope="module")
def trained():
    return ebu.EBU("CartPole-v1", beta=0.5, seed=0, **SMALL).learn(300)


def observations(count=50):
    return np.random.default_rng(0).normal(size=(count, 4)).astype(np.float32) * 0.1


# ---------------------------------------------------------------------- learning on real environments


@pytest.mark.parametrize("agent_class", [ebu.EBU, ebu.DQN], ids=lambda cls: cls.__name__)
@pytest.mark.parametrize(
    ("env", "settings"),
    [
        ("CartPole-v1", {}),
        ("FrozenLake-v1", {}),
        ("Taxi-v4", {"learning_starts": 210}),
        ("Blackjack-v1", {}),
        ("MinAtar/Breakout-v1", {}),
        ("MiniGrid-Empty-5x5-v0", {"env_args": ("max_steps=30",)}),
        ("maze", {"env_args": ("size=4", "cap=30"), "network": "maze", "train_freq": 20}),
    ],
)
def test_real_environments_are_learned_on(agent_class, env, settings):
    agent = agent_class(env, seed=0, **SMALL | settings)
    before = agent.loop.learner.online.parameters.clone()
    assert agent.learn(300) is agent
    assert agent.loop.step == 300 and agent.loop.updates >= 10 and agent.loop.memory.episodes >= 1
    assert not torch.equal(before, agent.loop.learner.online.parameters)
    assert torch.isfinite(agent.loop.learner.online.parameters).all()
    observation, _ = agent.env.reset(seed=0)
    action, state = agent.predict(observation)
    assert agent.env.action_space.contains(action) and isinstance(action, int) and state is None
    result = ebu.evaluate(agent, episodes=1, epsilon=0.2)
    assert len(result.returns) == 1 and result.lengths[0] >= 1


@pytest.mark.parametrize("algo", AGENTS)
def test_every_method_learns_on_cartpole(algo):
    agent = AGENTS[algo]("CartPole-v1", seed=0, **SMALL).learn(200)
    assert agent.loop.updates >= 30
    assert torch.isfinite(agent.loop.learner.online.parameters).all()
    assert ebu.evaluate(agent, episodes=2).mean >= 8


def test_an_environment_object_is_taken_as_it_is():
    env = gymnasium.make("CartPole-v1")
    agent = ebu.EBU(env, seed=0, **SMALL).learn(200)
    assert agent.env is env
    assert agent.config.environment.env == "CartPole-v1"
    assert ebu.evaluate(agent, episodes=2).mean >= 8


def test_an_object_is_learned_on_like_its_id():
    by_id = ebu.EBU("CartPole-v1", seed=0, **SMALL).learn(200)
    by_object = ebu.EBU(gymnasium.make("CartPole-v1"), seed=0, **SMALL).learn(200)
    assert torch.equal(by_id.loop.learner.online.parameters, by_object.loop.learner.online.parameters)


def test_an_object_without_an_id_is_learned_on_but_not_made_again():
    agent = ebu.EBU(Corridor(length=4), seed=0, **SMALL | {"eval_every": 50}).learn(200)
    assert agent.loop.updates > 20
    with pytest.raises(ebu.UserError, match="pass env=") as error:
        ebu.evaluate(agent, episodes=1)
    one_line(error)
    assert len(ebu.evaluate(agent, Corridor(length=4), episodes=3).returns) == 3


def test_an_object_in_a_wrapper_of_one_s_own_is_learned_on():
    """Gymnasium cannot make such an environment again; training needs no second one."""

    class Halved(gymnasium.RewardWrapper):
        def reward(self, reward):
            return reward / 2

    agent = ebu.EBU(Halved(gymnasium.make("CartPole-v1")), seed=0, **SMALL).learn(150)
    assert agent.loop.updates > 10
    assert agent.loop.memory.read(np.array([0]), np.array([0]), np.array([1])).rewards.tolist() == [0.5]


def test_learning_again_continues_with_memory_and_counters():
    agent = ebu.EBU("CartPole-v1", seed=0, **SMALL)
    agent.learn(100)
    steps, updates, episodes = agent.loop.memory.steps, agent.loop.updates, agent.loop.episodes
    loop = agent.loop
    agent.learn(100)
    assert agent.loop is loop and loop.step == 200
    assert loop.memory.steps > steps and loop.updates > updates and loop.episodes > episodes


def test_schedules_are_planned_over_the_steps_now_asked_for():
    agent = ebu.EBU("CartPole-v1", seed=0, **{**SMALL, "learning_rate_schedule": "linear", "exploration_fraction": 1.0})
    for _ in range(2):
        agent.learn(100)
        assert agent.loop.learner._optimiser.learning_rate < 0.1 * agent.config.learner.learning_rate  # nearly at its end
        assert (agent.loop.plan_start, agent.loop.planned_steps) == (agent.loop.step - 100, 100)
        final = agent.config.exploration.exploration_final_eps
        assert agent.loop.epsilon(50) == pytest.approx((1.0 + final) / 2)
    agent.learn(100, reset_num_timesteps=False)
    assert (agent.loop.plan_start, agent.loop.planned_steps) == (100, 200)


def test_a_delay_before_learning_is_over_once():
    agent = ebu.EBU("CartPole-v1", seed=0, **{**SMALL, "exploration_schedule": "delayed-linear", "learning_starts": 60})
    agent.learn(100)
    assert agent.loop.epsilon.start == 60
    agent.learn(100)
    assert agent.loop.epsilon.start == 0


@pytest.mark.slow
def test_many_short_calls_learn_as_one_long_call_does():
    """With the first call's plan for ever, all but the first would have acted greedily with a step size of nearly 0."""
    scores = {}
    for calls in (1, 10):
        agent = ebu.EBU("CartPole-v1", seed=0, eval_every=0)
        for _ in range(calls):
            agent.learn(10_000 // calls)
        scores[calls] = ebu.evaluate(agent, episodes=20, epsilon=0.0).mean
    assert scores[10] > 100, scores


def test_learning_for_no_steps_does_nothing_and_for_fewer_is_refused():
    agent = ebu.EBU("CartPole-v1", seed=0, **SMALL).learn(0)
    assert agent.loop.step == 0
    with pytest.raises(ebu.UserError, match="-5") as error:
        agent.learn(-5)
    one_line(error)
    agent.learn(100)
    assert agent.loop.epsilon(0) == 1.0 and agent.loop.epsilon.duration == 20


# ---------------------------------------------------------------------- callbacks


def test_a_callback_that_returns_false_stops_the_training():
    seen = []

    def stop(event):
        seen.append(event)
        return len(seen) < 3

    agent = ebu.EBU("CartPole-v1", seed=0, **SMALL).learn(5000, callback=stop)
    assert len(seen) == 3 and agent.loop.step == seen[-1].step < 200


@pytest.mark.parametrize("answer", [None, True, 0, "", 1])
def test_any_other_answer_continues(answer):
    agent = ebu.EBU("CartPole-v1", seed=0, **SMALL).learn(120, callback=lambda event: answer)
    assert agent.loop.step == 120


def test_every_callback_hears_every_event_in_order():
    first, second = [], []
    ebu.EBU("CartPole-v1", seed=0, **SMALL).learn(200, callback=[first.append, second.append])
    assert first == second
    assert [event.step for event in first] == sorted(event.step for event in first)
    assert sum(isinstance(event, Trained) for event in first) == 2
    assert sum(isinstance(event, EpisodeEnded) for event in first) > 3


def test_an_error_in_a_callback_is_the_caller_s_own():
    def broken(event):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        ebu.EBU("CartPole-v1", seed=0, **SMALL).learn(200, callback=broken)


def test_the_progress_bar_shows_and_goes(capfd, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    ebu.EBU("CartPole-v1", seed=0, **SMALL).learn(200, progress_bar=True)
    shown = capfd.readouterr()
    for words in ("ebu ", "200/200", "score", "steps/s", "left"):
        assert words in shown.err
    assert shown.out == ""


# ---------------------------------------------------------------------- acting


def test_predictions_are_the_greedy_actions_of_the_values(trained):
    values = trained.q_values(list(observations()))
    assert values.shape == (50, 2)
    assert [trained.predict(o)[0] for o in observations()] == values.argmax(1).tolist()


def test_predictions_that_are_not_deterministic_explore():
    agent = ebu.EBU("CartPole-v1", seed=0, eval_epsilon=1.0, **SMALL)
    observation = observations(1)[0]
    taken = [agent.predict(observation, deterministic=False)[0] for _ in range(200)]
    assert 60 < sum(taken) < 140
    assert len({agent.predict(observation)[0] for _ in range(20)}) == 1


def test_the_frames_so_far_travel_with_the_prediction():
    frames = np.random.default_rng(1).integers(256, size=(6, 8, 8, 1)).astype(np.uint8)
    env = Script([0.0] * 5, frames, space=spaces.Box(0, 255, (8, 8, 1), np.uint8))
    agent = ebu.EBU(env, seed=0, stack=3, **SMALL)
    pictures = frames.transpose(0, 3, 1, 2)
    blank = np.zeros_like(pictures[0])
    state = None
    for t in range(6):
        action, state = agent.predict(frames[t], state=state)
        stacked = np.concatenate([pictures[i] if i >= 0 else blank for i in range(t - 2, t + 1)])
        assert action == agent.policy.values(stacked).argmax()
    alone, _ = agent.predict(frames[5])
    again, _ = agent.predict(frames[5], state=state, episode_start=True)
    assert alone == again == agent.policy.values(np.concatenate([blank, blank, pictures[5]])).argmax()


# ---------------------------------------------------------------------- evaluating


def test_an_evaluation_has_its_scores(trained):
    result = ebu.evaluate(trained, episodes=5, epsilon=0.05)
    assert len(result.returns) == len(result.lengths) == 5
    assert result.mean == np.mean(result.returns) and result.std == np.std(result.returns)
    assert result.median == np.median(result.returns)
    assert [float(length) for length in result.lengths] == list(result.returns)  # CartPole pays 1 a step


def test_evaluations_repeat_themselves_by_seed(trained):
    first, again, other = (ebu.evaluate(trained, episodes=4, epsilon=0.3, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first.returns != other.returns


def test_evaluation_on_another_environment_must_fit(trained):
    assert len(ebu.evaluate(trained, gymnasium.make("CartPole-v1"), episodes=1).returns) == 1
    with pytest.raises(ebu.UserError, match="the agent was made for") as error:
        ebu.evaluate(trained, gymnasium.make("Acrobot-v1"), episodes=1)
    one_line(error)


@pytest.mark.parametrize("settings", [{"episodes": 0}, {"episodes": -1}, {"epsilon": 1.5}, {"epsilon": -0.1}])
def test_an_evaluation_of_nothing_is_refused(trained, settings):
    with pytest.raises(ebu.UserError) as error:
        ebu.evaluate(trained, **{"episodes": 1} | settings)
    one_line(error)


# ---------------------------------------------------------------------- files


@pytest.mark.parametrize(
    ("env", "settings"),
    [
        ("CartPole-v1", {}),
        ("FrozenLake-v1", {}),
        ("MinAtar/Breakout-v1", {"stack": 2}),
        ("maze", {"env_args": ("size=4", "cap=30", "maze_seed=2"), "network": "maze"}),
    ],
)
def test_a_loaded_policy_acts_and_scores_like_the_saved_one(tmp_path, env, settings):
    agent = ebu.EBU(env, seed=0, **SMALL | settings).learn(120)
    agent.save(tmp_path / "agent.ebu")
    loaded = ebu.load(str(tmp_path / "agent.ebu"))
    assert type(loaded) is ebu.EBU and loaded.config.environment == agent.config.environment
    first, second = (ebu.evaluate(a, episodes=2, epsilon=0.1, seed=5) for a in (agent, loaded))
    assert first == second
    env_copy = agent.make_env()
    observation, _ = env_copy.reset(seed=1)
    assert agent.predict(observation)[0] == loaded.predict(observation)[0]


def test_every_action_of_a_loaded_policy_is_the_same(trained, tmp_path):
    trained.save(tmp_path / "agent.ebu")
    loaded = ebu.load(tmp_path / "agent.ebu")
    assert np.array_equal(trained.q_values(list(observations())), loaded.q_values(list(observations())))


def test_a_loaded_policy_can_be_saved_again_and_learned_on(trained, tmp_path):
    trained.save(tmp_path / "first.ebu")
    loaded = ebu.load(tmp_path / "first.ebu")
    loaded.save(tmp_path / "second.ebu")
    second = ebu.load(tmp_path / "second.ebu")
    start = trained.loop.learner.online.named_tensors()
    second.learn(20)  # before the first update
    for name, tensor in second.loop.learner.online.named_tensors().items():
        assert torch.equal(tensor, start[name])
    assert torch.equal(second.loop.learner.target.parameters, second.loop.learner.online.parameters)
    second.learn(100)
    assert second.loop.updates > 10
    assert not torch.equal(second.loop.learner.online.parameters, trained.loop.learner.online.parameters)


def test_a_policy_trained_on_a_gpu_can_be_loaded_without_one(trained, tmp_path):
    tensors = trained.loop.learner.online.named_tensors()
    config = override(trained.config, device="cuda")
    save_policy(tmp_path / "gpu.ebu", SavedPolicy(config, trained.interface.spec, 2, 1, tensors))
    loaded = ebu.load(tmp_path / "gpu.ebu", device="cpu")
    assert loaded.predict(observations(1)[0]) == trained.predict(observations(1)[0])


def test_the_best_of_several_learners_is_saved(double, tmp_path):
    agent = ebu.AdaptiveEBU("CartPole-v1", seed=0, **SMALL).learn(200)
    agent.save(tmp_path / "agent.ebu")
    loaded = ebu.load(tmp_path / "agent.ebu")
    assert type(loaded) is ebu.AdaptiveEBU
    np.testing.assert_allclose(loaded.q_values(list(observations())), agent.q_values(list(observations())), **RUN)


def test_a_policy_for_an_object_without_an_id_is_loaded_with_one(tmp_path):
    agent = ebu.EBU(Corridor(length=4), seed=0, **SMALL).learn(100)
    agent.save(tmp_path / "agent.ebu")
    with pytest.raises(ebu.UserError, match="Corridor") as error:
        ebu.load(tmp_path / "agent.ebu")
    one_line(error)
    loaded = ebu.load(tmp_path / "agent.ebu", env=Corridor(length=4))
    for cell in range(4):
        observation = np.array([cell, 0], np.float32)
        assert loaded.predict(observation) == agent.predict(observation)


def test_a_policy_for_an_object_is_loaded_with_the_object_s_own_settings(tmp_path):
    """Not with those of its id: a lake that is not slippery must not become one."""
    agent = ebu.EBU(gymnasium.make("FrozenLake-v1", is_slippery=False, map_name="8x8"), seed=0, **SMALL).learn(50)
    agent.save(tmp_path / "agent.ebu")
    loaded = ebu.load(tmp_path / "agent.ebu")
    assert loaded.env.observation_space.n == 64
    assert loaded.env.spec.kwargs["is_slippery"] is False


def test_a_policy_for_other_observations_is_refused(trained, tmp_path):
    trained.save(tmp_path / "agent.ebu")
    with pytest.raises(ebu.UserError, match="trained on other observations or actions") as error:
        ebu.load(tmp_path / "agent.ebu", env=gymnasium.make("Acrobot-v1"))
    one_line(error)


def test_no_file_no_agent():
    with pytest.raises(ebu.UserError, match=r"there is no file /nowhere/agent\.ebu"):
        ebu.load("/nowhere/agent.ebu")


@pytest.mark.parametrize("path", ["missing/agent.ebu", "."])
def test_a_place_that_cannot_be_written_is_one_line(trained, tmp_path, path):
    with pytest.raises(ebu.RunFailure, match="cannot write") as error:
        trained.save(tmp_path / path)
    assert str(tmp_path) in one_line(error)


# ---------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("env", "settings", "words"),
    [
        ("Pendulum-v1", {}, "continuous action space"),
        ("CartPol-v1", {}, "did you mean CartPole-v1"),
        ("CartPole-v1", {"betaa": 1}, "did you mean beta"),
        ("CartPole-v1", {"beta": 2}, "beta must be between 0 and 1, got 2"),
        ("CartPole-v1", {"preset": "fast"}, "there is no preset 'fast'"),
        ("CartPole-v1", {"device": "banana"}, "there is no device 'banana'"),
        ("CartPole-v1", {"env_args": ("slippery",)}, "takes key=value"),
        ("CartPole-v1", {"env_args": ("slippery=1",)}, "slippery"),
        ("CartPole-v1", {"network": "nature"}, "reads images, but the observation is a vector"),
    ],
)
def test_what_cannot_be_is_refused_before_any_work(env, settings, words):
    with pytest.raises(ebu.UserError) as error:
        ebu.EBU(env, **settings)
    assert words in one_line(error)


def test_a_device_that_is_not_there_is_refused():
    assert choose_device("cpu") == torch.device("cpu")
    assert choose_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    absent = ["mps"] if not torch.backends.mps.is_available() else []
    absent += [] if torch.cuda.is_available() else ["cuda", "cuda:3"]
    for name in (*absent, "banana", "", "cpu:x"):
        with pytest.raises(ebu.UserError) as error:
            choose_device(name)
        one_line(error)


def test_the_package_offers_what_it_names():
    for name in ebu.__all__:
        assert getattr(ebu, name) is not None
        assert name in dir(ebu)
    assert {"EBU", "DQN", "load", "evaluate", "targets", "UserError"} <= set(ebu.__all__)
    assert ebu.targets.backward is not None
    with pytest.raises(AttributeError, match="no attribute 'SARSA'"):
        _ = ebu.SARSA
