"""What an environment may return: everything else ends the run with one line and a checkpoint, in training and evaluation."""

from __future__ import annotations

import math
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import ebu
from ebu.cli import main
from ebu.envs.spaces import InvalidValue, describe
from ebu.errors import EnvironmentFailure
from ebu.storage.checkpoints import CheckpointStore
from ebu.training.environment import Environment, game_score, relative_length
from tests.conftest import Corridor

FLAGS = "--learning-starts 20 --batch-size 8 --hidden-sizes 8 --eval-episodes 1 --quiet True --tensorboard False"

# name → what a good answer of the environment is turned into, and words of the line that tells of it


def instead(**parts):
    names = ("observation", "reward", "terminated", "truncated", "info")
    return lambda good: tuple(parts.get(name, value) for name, value in zip(names, good))


def leave():
    sys.exit(0)


MISBEHAVIOUR = {
    "wrong shape": (instead(observation=np.zeros(3, np.float32)), "array of float32 [3] instead of float32 [2]"),
    "a scalar": (instead(observation=1.0), "instead of float32 [2]"),
    "text": (instead(observation="cell 3"), "the observation 'cell 3' instead of numbers"),
    "a dictionary": (instead(observation={"cell": 3}), "instead of numbers"),
    "no observation": (instead(observation=None), "the observation None instead of numbers"),
    "a ragged list": (instead(observation=[[1.0], [1.0, 2.0]]), "instead of"),
    "an array of objects": (instead(observation=np.array([None, 1], object)), "instead of numbers"),
    "complex numbers": (instead(observation=np.array([1j, 0])), "instead of numbers"),
    "NaN": (instead(observation=np.array([0, np.nan], np.float32)), "the observation with nan at index [1]"),
    "infinity": (instead(observation=np.array([np.inf, 0], np.float32)), "the observation with inf at index [0]"),
    "no reward": (instead(reward=None), "the reward None instead of a number"),
    "a list as reward": (instead(reward=[1.0]), "the reward [1.0] instead of a number"),
    "an array as reward": (instead(reward=np.ones(1)), "instead of a number"),
    "a complex reward": (instead(reward=1j), "the reward 1j instead of a number"),
    "text as reward": (instead(reward="1.0"), "the reward '1.0' instead of a number"),
    "a NaN reward": (instead(reward=math.nan), "the reward nan"),
    "an infinite reward": (instead(reward=np.float64(math.inf)), "the reward inf"),
    "terminated as text": (instead(terminated="False"), "'False' as terminated or truncated instead of true or false"),
    "truncated as a number": (instead(truncated=2), "2 as terminated or truncated"),
    "terminated as None": (instead(terminated=None), "None as terminated or truncated"),
    "no info": (instead(info=None), "the info None instead of a dictionary"),
    "four values": (lambda good: good[:4], "instead of (observation, reward, terminated, truncated, info)"),
    "nothing": (lambda good: None, "from step None instead of"),
    "an exception": (lambda good: 1 // 0, "raised ZeroDivisionError"),
    "an exit": (lambda good: leave(), "raised SystemExit"),
}


class Misbehaving(Corridor):
    """A corridor that returns something else at a step counted over all episodes."""

    what: str = ""
    at: float = 30
    steps_so_far = 0
    armed = False  # from the next step of this one on

    def step(self, action):
        good = super().step(action)
        cls = type(self)
        cls.steps_so_far += 1
        return MISBEHAVIOUR[self.what][0](good) if cls.what and (self.armed or cls.steps_so_far >= cls.at) else good


@pytest.fixture
def misbehaving(monkeypatch):
    """Registers the environment; returns a function that says what it will do, and from which step on."""
    gymnasium.register("Misbehaving-v0", lambda **_: Misbehaving(length=50, limit=25))

    def choose(what, at=30):
        monkeypatch.setattr(Misbehaving, "what", what)
        monkeypatch.setattr(Misbehaving, "at", at)
        monkeypatch.setattr(Misbehaving, "steps_so_far", 0)

    yield choose
    del gymnasium.registry["Misbehaving-v0"]


def one_line(capsys):
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("ebu: ")]
    assert len(lines) == 1
    return lines[0]


@pytest.mark.parametrize("what", MISBEHAVIOUR)
def test_in_training_a_line_names_it_and_what_was_learned_is_saved(tmp_path, misbehaving, capsys, what):
    misbehaving(what, at=60)
    line = f"train --env Misbehaving-v0 --steps 200 --eval-every 0 {FLAGS} --run"
    assert main([*line.split(), str(tmp_path / "r")]) == 1
    told = one_line(capsys)
    assert MISBEHAVIOUR[what][1] in told
    assert "Misbehaving-v0" in told and "after action" in told and "at step " in told
    step = int(told.split("at step ")[1].split(",")[0])
    loaded = CheckpointStore(tmp_path / "r" / "checkpoints").load(pytest.fail)
    assert loaded.step == step - 1 and loaded.tree["loop"]["open"] == [None]
    misbehaving("")
    assert main(["resume", str(tmp_path / "r"), "--quiet", "True", "--tensorboard", "False"]) == 0


@pytest.mark.parametrize("what", MISBEHAVIOUR)
def test_in_an_evaluation_as_in_training(tmp_path, misbehaving, what):
    misbehaving(what, at=math.inf)
    agent = ebu.EBU("Misbehaving-v0", learning_starts=20, batch_size=8, hidden_sizes=(8,), eval_every=30, eval_episodes=1)
    spare = agent.loop.evaluation_environment.env.unwrapped

    def arm(event):  # an episode ends at step 25, the evaluation is at step 30
        spare.armed = True

    with pytest.raises(EnvironmentFailure) as failure:
        agent.learn(100, callback=arm, run=tmp_path / "r")
    told = str(failure.value)
    assert MISBEHAVIOUR[what][1] in told and "in an evaluation" in told and "\n" not in told
    loaded = CheckpointStore(tmp_path / "r" / "checkpoints").load(pytest.fail)
    assert loaded.step == 30 and loaded.tree["loop"]["due"] == ["evaluate"]


def test_numbers_of_other_types_are_taken_as_they_are_meant():
    class Kinds(Corridor):
        def step(self, action):
            observation, *_ = super().step(action)
            return observation.astype(np.float64).tolist(), np.float32(0.5), np.bool_(False), np.array(True), {}

    environment = Environment(Kinds())
    environment.reset(0, "now")
    result = environment.step(1, "now")
    assert result.frame.dtype == np.float32 and result.reward == 0.5
    assert (result.terminated, result.truncated) == (False, True)


@pytest.mark.parametrize(
    ("space", "bad"),
    [
        (spaces.Discrete(5), 5),
        (spaces.Discrete(5), -1),
        (spaces.Discrete(5), 2.0),
        (spaces.Discrete(5), True),
        (spaces.Discrete(5, start=3), 2),
        (spaces.MultiDiscrete([3, 4]), [3, 0]),
        (spaces.MultiDiscrete([3, 4]), [0, -1]),
        (spaces.MultiDiscrete([3, 4]), [0.5, 1.0]),
        (spaces.MultiDiscrete([3, 4]), [0]),
        (spaces.MultiBinary(3), [0, 1, 2]),
        (spaces.Box(0, 255, (8, 8, 1), np.uint8), np.full((8, 8, 1), 300.7)),
        (spaces.Box(0, 255, (8, 8, 1), np.uint8), np.full((8, 8, 1), -1)),
        (spaces.Box(0, 255, (8, 8, 1), np.uint8), np.zeros((1, 8, 8), np.uint8)),
        (spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Box(0, 1, (2,))}), {"a": 1}),
        (spaces.Dict({"a": spaces.Discrete(2)}), {"a": 7}),
        (spaces.Tuple((spaces.Discrete(2),)), "x"),
    ],
    ids=str,
)
def test_what_a_space_does_not_promise_is_refused(space, bad):
    with pytest.raises(InvalidValue):
        describe(space).encode(bad)


@pytest.mark.parametrize("value", [0, -3, math.nan, math.inf, "5", None, [4], True])
def test_words_in_info_that_mean_nothing_to_us_are_passed_over(value):
    assert relative_length(10, {"shortest_path": value}) is None
    assert game_score({"game_over": True, "score": "high"}) is None
    assert relative_length(10, {"shortest_path": np.int64(5)}) == 2.0


def test_the_checks_cost_next_to_nothing():
    """Counted in Python function calls, which do not depend on the machine: none beyond encoding for a plain step."""
    environment = Environment(gymnasium.make("CartPole-v1"))
    environment.reset(0, "now")
    calls = []

    def count(frame, event, argument):
        if event == "call" and "environment.py" in frame.f_code.co_filename and "ebu" in frame.f_code.co_filename:
            calls.append(frame.f_code.co_name)

    sys.setprofile(count)
    try:
        environment.step(1, "now")
    finally:
        sys.setprofile(None)
    assert calls.count("_number") == calls.count("_truth") == calls.count("_refuse") == 0


def test_predict_refuses_what_the_agent_was_not_trained_on():
    agent = ebu.EBU("CartPole-v1", hidden_sizes=(8,))
    for bad in ([math.nan] * 4, [0.0] * 3, "text", None):
        with pytest.raises(ebu.UserError, match="the observation does not match what the agent was trained on: "):
            agent.predict(bad)
    with pytest.raises(ebu.UserError):
        agent.q_values([[0.0] * 5])
