"""A method from outside the package: examples/own_method.py, used by name as the package's own are."""

import shutil
import sys
from pathlib import Path

import pytest

import ebu
from ebu.experiments.sweeps.engine import run_trials
from ebu.experiments.sweeps.local_engine import LocalEngine
from ebu.experiments.sweeps.trials import trial
from ebu.memory.samplers import EpisodeSampler
from ebu.plugins import VARIABLE, load_plugins
from ebu.registry import methods
from ebu.types import Targets
from tests.conftest import ebu_, one_line
from tests.experiments.sweeps import TINY, straight
from tests.registries import registries_restored

OWN_METHOD = Path(__file__).parent.parent / "examples" / "own_method.py"
SMALL = {"learning_starts": 100, "batch_size": 16, "log_every": 50, "hidden_sizes": (16,), "eval_every": 150, "seed": 3}
FLAGS = (
    "--env CartPole-v1 --algo half --plugin own_method --steps 400 --learning-starts 100 --batch-size 16 --log-every 50 "
    "--hidden-sizes 16 --eval-every 150 --seed 3 --quiet True"
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The user's folder: it holds the plugin and is where commands are given. Nothing is registered yet."""
    shutil.copy(OWN_METHOD, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv(VARIABLE, "")
    with registries_restored("own_method"):
        yield tmp_path


def the_rule(config):
    raise AssertionError("never built")


def half():
    return ebu.Method("half", "Another", sampler=lambda config: EpisodeSampler(), rule=the_rule)


def last_line(capsys):
    return capsys.readouterr().err.strip().splitlines()[-1]


# ---------------------------------------------------------------------- from Python


def test_a_registered_method_is_an_agent_class_that_learns(folder):
    load_plugins(["own_method"])
    agent = ebu.Half("CartPole-v1", **SMALL)
    assert agent.algo == "half" and agent.config.target.beta == 1.0
    before = agent.loop.learner.online.parameters.clone()
    agent.learn(300)
    assert agent.loop.updates > 0
    assert not (agent.loop.learner.online.parameters == before).all()
    agent.save("half.ebu")
    assert type(ebu.load("half.ebu")) is ebu.Half


def test_a_name_is_registered_once(folder):
    load_plugins(["own_method"])
    registered = methods()["half"]
    with pytest.raises(ebu.UserError, match="there is already a method named 'half'; choose another name"):
        ebu.register(half())
    assert methods()["half"] is registered


def test_a_name_of_the_package_is_not_taken_over(folder):
    with pytest.raises(ebu.UserError, match="there is already a method named 'ebu'"):
        ebu.register(ebu.Method("ebu", "Mine", sampler=lambda config: EpisodeSampler(), rule=the_rule))
    assert ebu.EBU.method is methods()["ebu"]


@pytest.mark.parametrize(
    ("values", "got"),
    [
        (lambda rewards: rewards[None], "a Tensor"),
        (lambda rewards: None, "a NoneType"),
        (lambda rewards: Targets(rewards), r"values \[\d+\]"),
        (lambda rewards: Targets(rewards[:, None]), r"values \[\d+, 1\]"),
        (lambda rewards: Targets(rewards[None, 1:]), r"values \[1, \d+\]"),
    ],
)
def test_a_rule_that_returns_something_else_is_told_what_is_wanted(values, got, folder):
    rule = lambda config: lambda span: values(span.rewards)  # noqa: E731
    own = ebu.register(ebu.Method("wrong", "Wrong", sampler=lambda config: EpisodeSampler(), rule=rule))
    words = rf"the rule of wrong returned {got} instead of Targets\(values\) with values \[K, N\], here \[1, \d+\]"
    with pytest.raises(ebu.UserError, match=words) as error:
        own("CartPole-v1", **SMALL).learn(150)
    one_line(error)


# ---------------------------------------------------------------------- from the command line


def test_a_run_with_a_plugin_is_resumed_exactly(folder, capsys, monkeypatch):
    with registries_restored("own_method"):
        assert ebu_(f"train {FLAGS} --run straight") == 0
        agent = ebu.Half("CartPole-v1", **SMALL)
        agent.learn(400, callback=lambda event: event.step < 200, run="halved")
        assert agent.loop.step < 400
    assert "ebu eval straight --plugin own_method\n" in capsys.readouterr().out  # what may come next, as it can be typed
    monkeypatch.setenv(VARIABLE, "")  # as in a new process, which has not imported the plugin
    assert ebu_("resume halved --quiet True") == 2
    words = last_line(capsys)
    assert words.startswith("ebu: there is no algorithm 'half'; choose from ") and "--plugin" in words
    assert ebu_("resume halved --plugin own_method --quiet True") == 0
    for name in ("metrics.jsonl", "policy.ebu"):
        assert (folder / "halved" / name).read_bytes() == (folder / "straight" / name).read_bytes(), name
    assert ebu_("verify halved --plugin=own_method") == 0
    assert ebu_("eval halved --plugin own_method --episodes 1") == 0


def test_a_plugin_s_method_is_listed(folder, capsys):
    assert ebu_("list") == 0
    assert "Half EBU" not in capsys.readouterr().out
    assert ebu_("list --plugin own_method") == 0
    assert "Half EBU, half one-step" in capsys.readouterr().out


def test_an_algorithm_that_is_not_there_is_one_line(folder, capsys):
    assert ebu_("train --algo half") == 2
    assert last_line(capsys).startswith("ebu: there is no algorithm 'half'; choose from ebu, ")


@pytest.mark.parametrize(
    ("source", "line"),
    [
        (
            None,
            "ebu: the plugin 'broken' cannot be imported: ModuleNotFoundError: No module named 'broken'; "
            "the current folder is {folder}",
        ),
        ("import nowhere", "ebu: the plugin 'broken' cannot be imported: ModuleNotFoundError: No module named 'nowhere'"),
        ("1 / 0", "ebu: the plugin 'broken' cannot be imported: ZeroDivisionError: division by zero"),
        (
            "import ebu\nebu.register(ebu.Method('dqn', 'Mine', None, None))",
            "ebu: there is already a method named 'dqn'; choose another name",
        ),
    ],
    ids=["missing", "imports what is missing", "raises", "name taken"],
)
def test_a_plugin_that_cannot_be_used_is_one_line(folder, capsys, source, line):
    if source is not None:
        (folder / "broken.py").write_text(source)
    assert ebu_("list --plugin broken") == 2
    assert capsys.readouterr().err.strip() == line.format(folder=folder)


def test_a_plugin_flag_without_a_name_is_one_line(folder, capsys):
    assert ebu_("train --plugin") == 2
    assert last_line(capsys) == "ebu: --plugin takes the name of a module, for example --plugin mymethods"


# ---------------------------------------------------------------------- in a sweep


def test_a_plugin_s_method_is_a_trial_like_any_other(folder):
    load_plugins(["own_method"])
    one = trial("half", "CartPole-v1", 0, **{**TINY, "steps": 500, "eval_every": 250})
    assert one.expected_seconds() > 0
    (finished,) = run_trials([one], folder, LocalEngine(workers=1))  # in a process that imports the plugin itself
    assert {one.id: (finished / "metrics.jsonl").read_bytes()} == straight(one, folder / "here")
