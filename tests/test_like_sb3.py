"""Agents where Stable-Baselines3 expects its own: predict on batches, evaluate_policy, environments, values of one's own."""

from __future__ import annotations

import sys

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import ebu
from ebu.storage.run_folder import RunFolder
from ebu.training.events import Trained
from tests.conftest import Corridor, Script, ebu_, one_line

SMALL = {"learning_starts": 20, "batch_size": 8, "hidden_sizes": (8,), "eval_every": 0, "log_every": 50, "seed": 0}


@pytest.fixture(scope="module")
def agent():
    return ebu.EBU("CartPole-v1", **SMALL).learn(150)


def pictures(count=1):
    """An environment whose observations are small pictures, for stacks of frames."""
    space = spaces.Box(0, 255, (6, 6, 1), np.uint8)
    frames = [space.sample() for _ in range(20)]
    return Script([1.0] * 19, frames, space=space, actions=3)


# ---------------------------------------------------------------------- batches


def test_a_batch_has_the_actions_of_its_observations(agent):
    observations = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    actions, state = agent.predict(observations)
    assert actions.dtype == np.int64 and actions.tolist() == [agent.predict(o)[0] for o in observations] and state is None
    assert isinstance(agent.predict(observations[0])[0], int)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Discrete(5),
        spaces.MultiDiscrete([3, 4]),
        spaces.Box(-1, 1, (2, 3), np.float32),
        spaces.Dict({"a": spaces.Discrete(3), "b": spaces.Box(-1, 1, (2,), np.float32)}),
        spaces.Tuple((spaces.Discrete(3), spaces.Box(-1, 1, (2,), np.float32))),
    ],
)
def test_batches_of_every_kind_of_observation(space):
    samples = [space.sample() for _ in range(4)]
    own = ebu.DQN(Script([0.0] * 3, samples, space=space), **SMALL)
    if isinstance(space, spaces.Dict):
        batch = {key: np.stack([sample[key] for sample in samples]) for key in space.spaces}
    elif isinstance(space, spaces.Tuple):
        batch = tuple(np.stack([sample[i] for sample in samples]) for i in range(2))
    else:
        batch = np.stack(samples)
    assert own.predict(batch)[0].tolist() == [own.predict(sample)[0] for sample in samples]


def test_each_environment_of_a_batch_has_its_own_frames():
    own = ebu.DQN(pictures(), stack=3, **SMALL)
    rng = np.random.default_rng(1)
    streams = rng.integers(0, 256, (2, 6, 6, 6, 1), dtype=np.uint8)  # two environments, six steps
    starts = np.array([[True, False, False, True, False, False], [True, False, False, False, False, False]])
    alone = []
    for stream, begins in zip(streams, starts):
        state, actions = None, []
        for frame, start in zip(stream, begins):
            action, state = own.predict(frame, state, start)
            actions.append(action)
        alone.append(actions)
    state, together = None, []
    for t in range(6):
        actions, state = own.predict(streams[:, t], state, starts[:, t])
        together.append(actions)
    assert np.array(together).T.tolist() == alone
    with pytest.raises(ebu.UserError, match="to 2 observations, the batch has 3"):
        own.predict(np.zeros((3, 6, 6, 1), np.uint8), state)


# ---------------------------------------------------------------------- Stable-Baselines3's own evaluation


@pytest.mark.parametrize("how", ["plain", "monitored", "vectorised"])
def test_their_evaluation_gives_the_mean_of_ours(how):
    """On an environment without chance, so that both see the same episodes."""
    evaluation = pytest.importorskip("stable_baselines3.common.evaluation")
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.vec_env import DummyVecEnv

    own = ebu.EBU(Corridor(), **SMALL).learn(150)
    make = {
        "plain": Corridor,
        "monitored": lambda: Monitor(Corridor()),
        "vectorised": lambda: DummyVecEnv([lambda: Monitor(Corridor())] * 3),
    }[how]
    theirs, spread = evaluation.evaluate_policy(own, make(), n_eval_episodes=6, warn=False)
    ours = ebu.evaluate(own, Corridor(), episodes=6, epsilon=0.0)
    assert (theirs, spread) == (ours.mean, ours.std)
    returns, lengths = evaluation.evaluate_policy(own, make(), 6, warn=False, return_episode_rewards=True)
    assert tuple(lengths) == ours.lengths and tuple(returns) == ours.returns


def test_their_evaluation_of_stacked_frames_gives_the_mean_of_ours():
    evaluation = pytest.importorskip("stable_baselines3.common.evaluation")
    from stable_baselines3.common.vec_env import DummyVecEnv

    env = pictures()
    own = ebu.DQN(env, stack=3, **SMALL)
    ours = ebu.evaluate(own, pictures(), episodes=2, epsilon=0.0)
    vectorised = DummyVecEnv([lambda: pictures()] * 2)
    assert evaluation.evaluate_policy(own, vectorised, 2, warn=False)[0] == ours.mean


# ---------------------------------------------------------------------- environments


def test_names_are_taken_wherever_environments_are(agent, tmp_path):
    assert ebu.evaluate(agent, "CartPole-v1", episodes=2).returns == ebu.evaluate(agent, episodes=2).returns
    agent.save(tmp_path / "agent.ebu")
    assert ebu.load(tmp_path / "agent.ebu", env="CartPole-v0").get_env().spec.id == "CartPole-v0"


def test_another_environment_can_be_learned_on(agent):
    own = ebu.EBU("CartPole-v1", **SMALL).learn(30)
    assert own.loop.actors.open != [None]
    other = gymnasium.make("CartPole-v1", max_episode_steps=7)
    own.set_env(other)
    assert own.get_env() is other and own.loop.actors.open == [None]
    own.learn(60)
    assert own.loop.memory.read(np.array([own.loop.memory.end - 1]), np.array([0]), np.array([7])).rewards.size <= 7
    assert ebu.evaluate(own, episodes=3).lengths <= (7, 7, 7)
    own.set_env("CartPole-v1")
    assert own.get_env().spec.max_episode_steps == 500
    assert own.config.environment.env_args == ()


@pytest.mark.parametrize("call", ["evaluate", "set_env", "load"])
def test_another_shape_is_named_beside_the_expected_one(agent, tmp_path, call):
    agent.save(tmp_path / "agent.ebu")
    with pytest.raises(ebu.UserError, match=r"vector observations \[4\] and 2 actions.*vector observations \[6\] and 3") as e:
        {
            "evaluate": lambda: ebu.evaluate(agent, "Acrobot-v1"),
            "set_env": lambda: agent.set_env("Acrobot-v1"),
            "load": lambda: ebu.load(tmp_path / "agent.ebu", env="Acrobot-v1"),
        }[call]()
    one_line(e)


@pytest.mark.parametrize("shape", [(6,), (3,), (2, 6), ()])
def test_an_observation_of_another_shape_is_refused(agent, shape):
    with pytest.raises(ebu.UserError, match=r"instead of float32 \[4\]") as error:
        agent.predict(np.zeros(shape, np.float32))
    one_line(error)


def test_a_module_in_the_current_folder_is_found(tmp_path, monkeypatch, capsys):
    (tmp_path / "own_world.py").write_text(
        "import gymnasium\nfrom tests.conftest import Corridor\n\n\nclass World(Corridor):\n    pass\n\n\n"
        "gymnasium.register('Own/World-v0', entry_point=World)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [path for path in sys.path if path not in ("", str(tmp_path))])
    flags = "--steps 40 --eval-every 0 --hidden-sizes 8 --quiet"
    assert ebu_(f"train --env own_world:Own/World-v0 {flags} --run {tmp_path / 'run'}") == 0
    assert ebu_(f"train --env own_world:Own/Wold-v0 {flags}") == 2
    assert ebu_(f"train --env no_such_world:Own/World-v0 {flags}") == 2
    said = capsys.readouterr().err
    assert "there is no environment 'own_world:Own/Wold-v0'; own_world registers Own/World-v0" in said
    assert "no module no_such_world, neither in the current folder" in said


# ---------------------------------------------------------------------- files and values of one's own


def test_a_class_loads_policies_of_its_own_method(agent, tmp_path):
    agent.save(tmp_path / "agent.ebu")
    assert type(ebu.EBU.load(tmp_path / "agent.ebu")) is ebu.EBU
    with pytest.raises(ebu.UserError, match="a policy of ebu, not of dqn"):
        ebu.DQN.load(tmp_path / "agent.ebu")


def test_recorded_values_are_in_the_rows_and_curves(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    own = ebu.DQN("CartPole-v1", **SMALL)

    def record(event):
        if not isinstance(event, Trained):
            own.logger.record("mine/step", np.float32(event.step))

    own.learn(100, callback=record, run=tmp_path / "run")
    rows = [row for row in RunFolder(tmp_path / "run").rows() if row["kind"] == "train"]
    assert all(50 * i < row["recorded"]["mine/step"] <= 50 * i + 50 for i, row in enumerate(rows))
    curves = EventAccumulator(str(tmp_path / "run")).Reload()
    assert [s.value for s in curves.Scalars("mine/step")] == [row["recorded"]["mine/step"] for row in rows]


def test_recorded_values_survive_an_interruption(tmp_path):
    settings = {**SMALL, "log_every": 100}

    def record(agent):
        return lambda event: agent.logger.record("mine", event.step) or event.step < 30

    own = ebu.DQN("CartPole-v1", **settings)
    own.learn(100, callback=record(own), run=tmp_path / "run")
    last = own.loop.step
    assert ebu.resume(tmp_path / "run", announce=lambda text: None).loop.step == 100
    (row,) = [row for row in RunFolder(tmp_path / "run").rows() if row["kind"] == "train"]
    assert row["recorded"] == {"mine": last}


@pytest.mark.parametrize(("key", "value"), [("x", "text"), ("x", float("nan")), ("x", np.zeros(2)), ("", 1.0)])
def test_only_numbers_with_names_are_recorded(agent, key, value):
    with pytest.raises(ebu.UserError, match=r"logger\.record") as error:
        agent.logger.record(key, value)
    one_line(error)
