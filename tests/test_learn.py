"""``learn`` as a user of Stable-Baselines3 calls it: the same arguments in the same places, with the same meaning."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import ebu
from ebu.training.events import EpisodeEnded, Trained
from tests.conftest import Corridor, ebu_, one_line

SMALL = {"learning_starts": 20, "batch_size": 8, "hidden_sizes": (8,), "eval_every": 0, "log_every": 50, "seed": 0}


def test_arguments_stand_where_stable_baselines3_has_them():
    sb3 = pytest.importorskip("stable_baselines3")
    theirs = list(inspect.signature(sb3.DQN.learn).parameters)
    ours = list(inspect.signature(ebu.DQN.learn).parameters)
    assert ours[: len(theirs)] == theirs


def test_steps_are_counted_as_in_stable_baselines3():
    agent = ebu.DQN(Corridor(), **SMALL)
    assert agent.num_timesteps == 0
    assert agent.learn(30).num_timesteps == 30
    assert agent.learn(20).num_timesteps == 20
    assert agent.learn(25, reset_num_timesteps=False).num_timesteps == 45
    assert agent.loop.step == 75


@pytest.mark.parametrize("steps", [1e2, np.int64(100), np.float64(100)])
def test_steps_may_be_written_as_numbers_of_any_kind(steps):
    assert ebu.DQN(Corridor(), **SMALL).learn(steps).loop.step == 100


@pytest.mark.parametrize("steps", [-1, 2.5, float("nan"), float("inf"), True, "100"])
def test_what_is_no_number_of_steps_is_refused(steps):
    with pytest.raises(ebu.UserError, match="total_timesteps") as error:
        ebu.DQN(Corridor(), **SMALL).learn(steps)
    one_line(error)


@pytest.mark.parametrize("interval", [1, 4])
def test_rows_come_after_so_many_episodes(interval):
    events = []
    ebu.DQN(Corridor(), **SMALL).learn(300, events.append, interval)
    ends = [event.step for event in events if isinstance(event, EpisodeEnded)]
    assert [event.step for event in events if isinstance(event, Trained)] == ends[interval - 1 :: interval]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"learning_starts": 1_000}, "no update was made: learning_starts is 1,000, and the steps so far are 60"),
        ({"learning_starts": 60}, "learning_starts is 60"),
        ({"limit": 100}, "no episode has ended in 60 steps"),
        ({"train_freq": 61}, "train_freq is 61"),
    ],
    ids=str,
)
def test_a_training_without_an_update_says_why(settings, words):
    limit = settings.get("limit", 20)
    agent = ebu.DQN(Corridor(length=200, limit=limit), **SMALL | {k: v for k, v in settings.items() if k != "limit"})
    with pytest.warns(UserWarning, match=words) as said:
        agent.learn(60)
    assert agent.loop.updates == 0 and len(said) == 1


def test_an_agent_that_has_made_updates_says_nothing_of_a_training_without():
    agent = ebu.DQN(Corridor(), **SMALL | {"learning_starts": 40, "train_freq": 4})
    with pytest.warns(UserWarning, match="no update was made"):
        agent.learn(40)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert agent.learn(20).loop.updates
        agent.learn(1)  # none is due


def test_many_short_calls_before_the_first_update_draw_one_line():
    agent = ebu.DQN(Corridor(), **SMALL | {"learning_starts": 100})
    with pytest.warns(UserWarning, match="no update was made") as said:
        for _ in range(12):
            agent.learn(10, reset_num_timesteps=False)
    assert agent.loop.updates and len(said) == 1


def test_the_summary_of_a_run_without_an_update_says_why(tmp_path, capsys):
    line = "train CartPole-v1 --steps 60 --hidden-sizes 8 --eval-episodes 1 --tensorboard False"
    assert ebu_(line, "--run", tmp_path / "nothing") == 0
    assert (
        "warning      no update was made: learning_starts is 1,000, and the steps so far are 60\n" in capsys.readouterr().out
    )
    assert ebu_(line, "--learning-starts", "20", "--batch-size", "8", "--run", tmp_path / "something") == 0
    assert "no update" not in capsys.readouterr().out


def test_rows_come_after_so_many_steps_by_default():
    events = []
    ebu.DQN(Corridor(), **SMALL).learn(120, events.append)
    assert [event.step for event in events if isinstance(event, Trained)] == [50, 100]


def test_an_interval_that_cannot_be_is_refused():
    with pytest.raises(ebu.UserError, match="log_interval"):
        ebu.DQN(Corridor(), **SMALL).learn(100, log_interval=-1)
    agent = ebu.DQN(Corridor(), **SMALL).learn(100)
    updates = agent.loop.updates
    for steps in (0, 100):
        with pytest.raises(ebu.UserError, match="log_interval"):
            agent.learn(steps, log_interval=-1, gradient_steps=5)
    assert agent.loop.updates == updates  # refused before anything is learned


def test_curves_are_numbered_as_in_stable_baselines3(tmp_path):
    agent = ebu.DQN(Corridor(), tensorboard_log=tmp_path / "curves", **SMALL)
    agent.learn(100, tb_log_name="mine")
    agent.learn(100, tb_log_name="mine")
    agent.learn(100, tb_log_name="mine", reset_num_timesteps=False)
    assert sorted(path.name for path in (tmp_path / "curves").iterdir()) == ["mine_1", "mine_2"]
    assert [len(list((tmp_path / "curves" / name).iterdir())) for name in ("mine_1", "mine_2")] == [1, 2]
    curves = EventAccumulator(str(tmp_path / "curves" / "mine_1")).Reload()
    assert [scalar.step for scalar in curves.Scalars("rollout/ep_rew_mean")] == [50, 100]


def test_something_else_than_a_function_is_no_callback():
    callbacks = pytest.importorskip("stable_baselines3.common.callbacks")
    with pytest.raises(ebu.UserError, match="function of one event") as error:
        ebu.DQN(Corridor(), **SMALL).learn(100, callback=callbacks.StopTrainingOnMaxEpisodes(3))
    assert "StopTrainingOnMaxEpisodes" in one_line(error)


def test_a_function_of_other_arguments_is_refused_before_training():
    def theirs(locals_, globals_):
        return True

    for callback, shown in ((theirs, r"theirs\(locals_, globals_\)"), (lambda: True, r"<lambda>\(\)")):
        with pytest.raises(ebu.UserError, match=f"function of one event.*{shown}") as error:
            ebu.DQN(Corridor(), **SMALL).learn(100, callback=callback)
        one_line(error)


def test_a_function_that_tells_nothing_of_its_arguments_is_a_callback():
    assert ebu.DQN(Corridor(), **SMALL).learn(30, callback=[[].append, type]).num_timesteps == 30


@pytest.mark.parametrize(
    ("arguments", "settings", "words"),
    [
        (("MlpPolicy", "CartPole-v1"), {}, "leave out 'MlpPolicy'"),
        (("CartPole-v1",), {"policy_kwargs": {"net_arch": [64]}}, "hidden_sizes"),
        (("CartPole-v1",), {"verbose": 1}, "progress_bar"),
        (("CartPole-v1",), {"lr": 1e-3}, "learning_rate"),
        (("CartPole-v1",), {"learning_rate": lambda left: 1e-3 * left}, "learning_rate_schedule"),
        (("CartPole-v1",), {"train_freq": (4, "step")}, "number of steps, such as 4"),
        (("CartPole-v1",), {"gradient_steps": -1}, "as many as train_freq"),
    ],
)
def test_words_of_stable_baselines3_are_refused_with_ours(arguments, settings, words):
    with pytest.raises(ebu.UserError, match=words) as error:
        ebu.DQN(*arguments, **settings)
    one_line(error)
