"""Environments of a user's own, as objects and by id: what is asked for is what happens, or one line says why not."""

from __future__ import annotations

import warnings

import gymnasium
import numpy as np
import pytest

import ebu
from ebu.callbacks import EpisodeEnded, Evaluated, KeepBest
from tests.conftest import Corridor, one_line

SMALL = {"learning_starts": 20, "batch_size": 8, "hidden_sizes": (8,), "log_every": 50, "seed": 0, "eval_every": 0}


@pytest.fixture
def registered():
    """Registers a class under an id for the time of a test."""
    added = []

    def add(name, entry_point, **settings):
        gymnasium.register(name, entry_point, **settings)
        added.append(name)
        return name

    yield add
    for name in added:
        gymnasium.registry.pop(name)


class Breakout(Corridor):
    """Named like a game; it is none."""


class maze(Corridor):
    """Named like the paper's maze."""


# ---------------------------------------------------------------------- evaluating


def test_an_episode_is_not_continued_in_an_environment_that_an_evaluation_has_moved():
    env, ends = Corridor(length=50, limit=100), []
    agent = ebu.EBU(env, **SMALL | {"learning_starts": 10**6}).learn(130, callback=ends.append)
    ebu.evaluate(agent, env, episodes=1)
    agent.learn(200, callback=ends.append)
    assert [end.length for end in ends if isinstance(end, EpisodeEnded)] == [100, 100, 100]
    assert agent.loop.memory.steps == 300  # the 30 steps before the evaluation are left out


def test_evaluating_on_another_object_leaves_the_open_episode_alone():
    ends = []
    agent = ebu.EBU(Corridor(length=50, limit=100), **SMALL | {"learning_starts": 10**6}).learn(130, callback=ends.append)
    ebu.evaluate(agent, Corridor(length=50, limit=100), episodes=1)
    agent.learn(70, callback=ends.append)
    assert [end.step for end in ends if isinstance(end, EpisodeEnded)] == [100, 200]


def test_evaluating_on_the_example_of_several_environments_leaves_their_open_episodes_alone():
    agent = ebu.EBU([Corridor, Corridor], **SMALL | {"learning_starts": 10**6}).learn(10)
    before = [agent.loop.actors.length(actor) for actor in range(2)]
    ebu.evaluate(agent, agent.get_env(), episodes=1)
    assert [agent.loop.actors.length(actor) for actor in range(2)] == before != [0, 0]


def test_a_registered_class_that_does_not_take_a_render_mode_is_evaluated(registered):
    env = gymnasium.make(registered("Own/Corridor-v0", Corridor, kwargs={"limit": 9}))
    events = []
    agent = ebu.EBU(env, **SMALL | {"eval_every": 40}).learn(100, callback=events.append)
    assert [event.step for event in events if isinstance(event, Evaluated)] == [40, 80]
    assert max(ebu.evaluate(agent, episodes=2).lengths) <= 9


def test_what_cannot_be_evaluated_says_so_once():
    agent = ebu.EBU(Corridor(), **SMALL | {"eval_every": 40})
    with pytest.warns(UserWarning, match=r"no evaluations during training; give its id, or a list with a function") as told:
        agent.learn(50)
    assert {warning.filename for warning in told} == {__file__}  # the user's line, not one of the package
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        agent.learn(50)
        ebu.EBU([Corridor], **SMALL | {"eval_every": 40}).learn(50)
        ebu.EBU(Corridor(), **SMALL).learn(50)  # nobody asks for evaluations


def test_a_callback_that_waits_for_evaluations_is_refused_where_there_are_none(tmp_path):
    agent, keep = ebu.EBU(Corridor(), **SMALL | {"eval_every": 40}), KeepBest(tmp_path / "best.ebu")
    for run in (None, tmp_path / "run"):
        with pytest.raises(ebu.UserError, match=r"KeepBest: .* cannot be made a second time") as error:
            agent.learn(100, callback=keep, run=run)
        one_line(error)
    assert not (tmp_path / "run").exists()  # the name is free for the second try


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"episodes": 2.5}, "episodes must be a whole number of at least 1, got 2.5"),
        ({"episodes": "3"}, "episodes must be a whole number"),
        ({"episodes": float("inf")}, "episodes must be a whole number"),
        ({"epsilon": None}, "epsilon must be a number between 0 and 1, got None"),
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
    ],
)
def test_an_evaluation_that_cannot_be_is_refused_in_one_line(arguments, words):
    agent = ebu.EBU([Corridor], **SMALL)
    with pytest.raises(ebu.UserError, match=words) as error:
        ebu.evaluate(agent, **arguments)
    one_line(error)


def test_only_agents_are_evaluated():
    with pytest.raises(ebu.UserError, match=r"agent must be an agent of this package, got str; ebu.load\(path\) loads one"):
        ebu.evaluate("agent.ebu")


def test_episodes_may_be_counted_by_any_whole_number():
    agent = ebu.EBU([Corridor], **SMALL)
    assert len(ebu.evaluate(agent, episodes=2.0).returns) == len(ebu.evaluate(agent, episodes=np.int64(2)).returns) == 2


# ---------------------------------------------------------------------- acting


def test_actions_are_not_always_the_same_without_deterministic():
    agent = ebu.EBU("CartPole-v1", **SMALL)
    assert agent.config.evaluation.eval_epsilon == 0 and agent.config.exploration.exploration_final_eps == 0.1
    observation = np.zeros(4, np.float32)
    assert len({agent.predict(observation)[0] for _ in range(100)}) == 1
    assert len({agent.predict(observation, deterministic=False)[0] for _ in range(100)}) == 2


# ---------------------------------------------------------------------- the same environment again


def test_an_object_without_an_id_is_not_mistaken_for_an_id_of_that_name(registered, tmp_path):
    registered("Corridor-v0", Corridor, kwargs={"limit": 3})
    agent = ebu.EBU(Corridor(limit=15), **SMALL).learn(100, run=tmp_path / "run")
    agent.save(tmp_path / "agent.ebu")
    for again in (
        lambda: ebu.load(tmp_path / "agent.ebu"),
        lambda: ebu.load(tmp_path / "run"),
        lambda: ebu.resume(tmp_path / "run", steps=200),
    ):
        with pytest.raises(
            ebu.UserError, match=r"trained on conftest.Corridor as an object \(Corridor\) .* pass env="
        ) as error:
            again()
        one_line(error)
    resumed = ebu.resume(tmp_path / "run", steps=200, env=Corridor(limit=15), announce=lambda text: None)
    assert resumed.loop.step == 200
    assert ebu.load(tmp_path / "agent.ebu", env=Corridor(limit=7)).learn(20).loop.step == 20


def test_naming_the_environment_of_a_run_again_keeps_its_arguments(registered, tmp_path):
    name = registered("Own/Corridor-v1", Corridor, max_episode_steps=1_000)
    ebu.EBU(name, env_args={"length": 9, "limit": 6}, **SMALL).learn(100, run=tmp_path / "run")
    agent = ebu.resume(tmp_path / "run", env=name, steps=150, announce=lambda text: None)
    assert agent.env.unwrapped.limit == 6
    assert ebu.load(tmp_path / "run", env=name).env.unwrapped.limit == 6
    assert ebu.load(tmp_path / "run", env=gymnasium.make(name)).env.unwrapped.limit == 20


@pytest.mark.parametrize("changed", [{"env_args": {"reward_delay": "episode"}}, {"env_wrappers": ("ClipReward",)}])
def test_what_changes_an_environment_made_by_its_id_is_refused_with_an_object(changed):
    for env in (Corridor(), [Corridor]):
        with pytest.raises(
            ebu.UserError, match=r"change the object itself, for instance ebu.envs.DelayedReward\(env\)"
        ) as error:
            ebu.EBU(env, **changed, **SMALL)
        one_line(error)


# ---------------------------------------------------------------------- names that others have


@pytest.mark.parametrize("own", [Breakout, maze])
def test_a_class_named_like_a_known_environment_gets_no_settings_of_that(own):
    agent = ebu.EBU(own())
    assert (agent.config.memory.stack, agent.config.environment.reward_clip) == (1, 0.0)
    assert agent.config.environment.env == f"test_own_environments.{own.__name__}"


def test_an_id_that_the_user_registered_is_that_environment_even_if_a_game_has_the_name(registered):
    agent = ebu.EBU(registered("Breakout-v7", Breakout))
    assert isinstance(agent.env.unwrapped, Breakout) and agent.config.environment.reward_clip == 0.0


def test_an_id_that_begins_like_minigrid_s_need_not_be_one(registered):
    assert isinstance(ebu.EBU(registered("MiniGridCorridor-v0", Corridor)).env.unwrapped, Corridor)


# ---------------------------------------------------------------------- functions that make environments


def test_functions_that_return_one_and_the_same_object_are_refused():
    env = Corridor()
    with pytest.raises(ebu.UserError, match="return the same environment object; each must make one of its own") as error:
        ebu.EBU([lambda: env] * 2, **SMALL).learn(10)
    one_line(error)


def test_an_interval_between_rows_holds_for_the_call_it_was_given_to():
    agent = ebu.EBU([Corridor], **SMALL).learn(100, log_interval=1)
    rows = []
    agent.learn(100, callback=lambda event: rows.append(event) if type(event).__name__ == "Trained" else None)
    assert [row.step for row in rows] == [150, 200] and agent.config.run.log_interval == 0
