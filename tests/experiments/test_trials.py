"""A trial is its configuration: the same settings have the same id, other settings another."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ebu.envs.families import families
from ebu.errors import UserError
from ebu.experiments.sweeps.trials import Trial, trial
from ebu.presets import configure
from ebu.registry import methods
from tests.waiting import PATIENCE


def test_the_configuration_is_that_of_the_command_line_on_one_thread():
    made = trial("ebu", "maze", 3, preset="paper", beta=1.0, steps=500, env_args=("wall_density=0.5",))
    wanted = configure("ebu", "maze", preset="paper", beta=1.0, steps=500, env_args=("wall_density=0.5",), seed=3, threads=1)
    assert made.config() == wanted
    assert made.config().run.threads == 1


def test_settings_may_be_given_in_any_order_and_lists_are_as_good_as_tuples():
    one = trial("ebu", "CartPole-v1", 0, steps=100, hidden_sizes=[8, 8])
    other = trial("ebu", "CartPole-v1", 0, hidden_sizes=(8, 8), steps=100)
    assert one == other
    assert hash(one) == hash(other)


def test_the_id_names_method_environment_and_seed():
    assert trial("ebu", "ALE/Breakout-v5", 0, preset="paper").id.startswith("ebu-Breakout-0-")
    assert trial("adaptive-ebu", "MinAtar/Breakout-v1", 2).id.startswith("adaptive-ebu-MinAtar-Breakout-2-")
    assert trial("dqn", "maze", 1).id.startswith("dqn-maze-1-")
    assert "/" not in trial("dqn", "some.module:Some/Env-v0", 1).id


def test_every_setting_changes_the_id_and_the_label_does_not():
    base = trial("ebu", "CartPole-v1", 0)
    others = [
        trial("dqn", "CartPole-v1", 0),
        trial("ebu", "Acrobot-v1", 0),
        trial("ebu", "CartPole-v1", 1),
        trial("ebu", "CartPole-v1", 0, beta=0.25),
        trial("ebu", "CartPole-v1", 0, steps=7),
    ]
    assert len({one.id for one in [base, *others]}) == 6
    assert trial("ebu", "CartPole-v1", 0, label="EBU").id == base.id


def test_a_setting_that_says_what_the_preset_says_is_the_same_trial():
    assert trial("ebu", "maze", 0, preset="paper", gamma=0.9).id == trial("ebu", "maze", 0, preset="paper").id


def test_the_id_is_the_same_in_every_process():
    program = "from ebu.experiments.sweeps.trials import trial; print(trial('ebu', 'maze', 0, betas=(0.0, 1.0)).id)"
    found = {subprocess.check_output([sys.executable, "-c", program], text=True, timeout=PATIENCE).strip() for _ in range(2)}
    assert found == {trial("ebu", "maze", 0, betas=(0.0, 1.0)).id}


def test_a_setting_that_does_not_exist_is_refused_in_one_line():
    with pytest.raises(UserError, match="betta"):
        _ = trial("ebu", "maze", 0, betta=1.0).id


ENVIRONMENTS = {
    "maze": "maze",
    "minatar": "MinAtar/Breakout-v1",
    "atari": "ALE/Breakout-v5",
    "minigrid": "MiniGrid-Empty-5x5-v0",
    "other": "CartPole-v1",
}


@pytest.mark.parametrize(("kind", "preset"), [(kind, preset) for kind in families() for preset in kind.presets])
@pytest.mark.parametrize("algo", methods())
def test_every_method_on_every_preset_has_an_expected_duration(kind, preset, algo):
    assert preset in kind.costs
    short, long = (Trial(algo, ENVIRONMENTS[kind.name], 0, (("preset", preset), ("steps", steps))) for steps in (10**5, 10**6))
    assert 0 < short.expected_seconds() < long.expected_seconds()


def test_eleven_learners_take_longer_than_one():
    one, eleven = (trial(algo, "ALE/Breakout-v5", 0, preset="paper") for algo in ("ebu", "adaptive-ebu"))
    assert eleven.expected_seconds() > 2 * one.expected_seconds()
