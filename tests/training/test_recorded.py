"""Recorded episodes: each form gives what the agent would have stored; what is wrong is refused whole, in one line."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch

import ebu
from ebu.agent import AGENTS
from ebu.types import Episode
from tests.conftest import Corridor
from tests.test_trust import stored

SMALL = {"learning_starts": 40, "batch_size": 8, "hidden_sizes": (8,), "eval_every": 0, "log_every": 20, "buffer_size": 500}


def played(episodes=2, length=5, limit=20, seed=0):
    """Transitions of episodes that walk right with a few errors, and the observations after them."""
    env, rng, steps = Corridor(length, limit), np.random.default_rng(seed), []
    for _ in range(episodes):
        observation, over = env.reset()[0], False
        while not over:
            action = int(rng.random() < 0.8)
            beyond, reward, terminated, truncated, _ = env.step(action)
            steps.append((observation, action, reward, terminated, truncated, beyond))
            observation, over = beyond, terminated or truncated
    return steps


def agent_on(algo="ebu", **settings):
    return AGENTS[algo](Corridor(), **SMALL | settings)


def as_episode(steps):
    observations = np.stack([*(step[0] for step in steps), steps[-1][5]])
    actions, rewards = np.array([step[1] for step in steps]), np.array([step[2] for step in steps], np.float32)
    return Episode(observations, actions, rewards, np.ones(len(steps), np.float32), steps[-1][3])


def split(steps):
    ends = [i + 1 for i, step in enumerate(steps) if step[3] or step[4]]
    return [steps[a:b] for a, b in zip([0, *ends], ends)]


STEPS = played(3)


@pytest.mark.parametrize(
    "form",
    [
        pytest.param(STEPS, id="one list of transitions"),
        pytest.param(split(STEPS), id="a list for each episode"),
        pytest.param([as_episode(part) for part in split(STEPS)], id="episodes"),
        pytest.param([tuple(step[:5]) for step in STEPS], id="without the next observation"),
        pytest.param((step for step in STEPS), id="a generator"),
    ],
)
def test_every_form_is_stored_step_by_step(form):
    agent = agent_on().remember(form)
    memory = agent.loop.memory
    assert (memory.episodes, memory.steps) == (3, len(STEPS))
    found = list(stored(memory))
    for (before, action, after), step in zip(found, STEPS, strict=True):
        assert (before, action) == (tuple(step[0]), step[1])
        assert after == tuple(step[5]) or step[3]


def test_rewards_are_clipped_as_the_setting_says_and_the_end_is_kept():
    steps = [(np.zeros(2, np.float32), 1, 7.0, False, True, np.ones(2, np.float32))]
    memory = agent_on(reward_clip=1.0).remember(steps).loop.memory
    span = memory.read(np.array([0]), np.array([0]), np.array([1]))
    assert span.rewards.tolist() == [1.0]
    assert span.discounts.tolist() == [np.float32(0.99)]  # cut off: bootstrapped


@pytest.mark.filterwarnings("ignore:.* is set to None:UserWarning")  # Minari would like an author
def test_a_minari_data_set_is_read_by_its_name_and_as_an_object(tmp_path, monkeypatch):
    minari = pytest.importorskip("minari")
    from minari.data_collector.episode_buffer import EpisodeBuffer

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    env, expected, buffers = gymnasium.make("FrozenLake-v1", is_slippery=False), [], []
    for number, actions in enumerate(([1, 1, 2, 1, 2, 2], [2, 2])):  # to the goal, and cut off
        seen, steps = [env.reset(seed=0)[0]], [env.step(action) for action in actions]
        seen += [step[0] for step in steps]
        rewards, ends, cuts = [step[1] for step in steps], [step[2] for step in steps], [False] * (len(actions) - 1)
        assert (rewards[-1], ends[-1]) == ((1, True) if number == 0 else (0, False))
        expected += [((before,), action, (after,)) for before, action, after in zip(seen, actions, seen[1:])]
        buffers.append(EpisodeBuffer(number, 0, None, seen, actions, rewards, ends, [*cuts, number == 1]))
    data = minari.create_dataset_from_buffers("frozen/demo-v0", buffers, env=env, algorithm_name="by hand")
    for given in (data, "minari:frozen/demo-v0", "frozen/demo-v0", list(data.iterate_episodes())):
        agent = ebu.EBU("FrozenLake-v1", **SMALL).remember(given)
        assert list(stored(agent.loop.memory)) == expected
        assert agent.loop.memory.read(np.array([0]), np.array([5]), np.array([1])).discounts.tolist() == [0.0]
    with pytest.raises(ebu.UserError, match="is not one of"):
        agent_on().remember(data)
    with pytest.raises(ebu.UserError, match="'no/such-v0' cannot be read"):
        agent_on().remember("minari:no/such-v0")


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "minari", None)
    with pytest.raises(ebu.UserError, match=r"pip install 'episodic-backward-update\[minari\]'"):
        agent_on().remember("minari:frozen/demo-v0")


ZERO, NAN = np.zeros(2, np.float32), np.array([0.0, np.nan], np.float32)


@pytest.mark.parametrize(
    ("episodes", "words"),
    [
        ([], "the list is empty"),
        (3, "remember takes Episodes"),
        ([3], "remember takes Episodes"),
        ([(ZERO, 1, 0.0)], "transition 0 is not a tuple"),
        ([(np.zeros(3), 1, 0.0, True, False)], "observation 0 of a recorded episode is not one of Corridor"),
        ([(NAN, 1, 0.0, True, False)], "with nan at index"),
        ([(ZERO, 2, 0.0, True, False)], "a recorded action is 2; actions are whole numbers from 0 to 1"),
        ([(ZERO, 0.5, 0.0, True, False)], r"a recorded action is 0\.5"),
        ([(ZERO, 1, float("nan"), True, False)], "a recorded reward is nan"),
        ([(ZERO, 1, 0.0, "no", False)], "terminated of transition 0 is 'no'"),
        ([(ZERO, 1, 0.0, False, True)], "give the observation after it as sixth entry"),
        ([(ZERO, 1, 0.0, False, False)], "give the observation after it as sixth entry"),
        ([(ZERO, 1, 0.0, False, False, ZERO + 1), (ZERO, 1, 0.0, True, False)], "transition 1 does not begin where"),
        (Episode(np.zeros((3, 2), np.float32), np.zeros(1, int), np.zeros(1), np.ones(1), True), "3 observations but"),
        (Episode(np.full((2, 2), np.nan, np.float32), np.zeros(1, int), np.zeros(1), np.ones(1), True), "nan"),
        (Episode(np.zeros((2, 2), np.float32), np.zeros(1, int), np.zeros(1), np.zeros(1), True), "probabilities"),
        (played(300), "the memory keeps 500; increase buffer_size"),
    ],
)
def test_what_is_no_episode_of_the_environment_is_refused_in_one_line(episodes, words):
    agent = agent_on()
    good = [as_episode(split(STEPS)[0])]
    with pytest.raises(ebu.UserError, match=words) as error:
        agent.remember([*good, episodes] if not isinstance(episodes, list) else episodes)
    assert "\n" not in str(error.value)
    assert agent._loop is None or not agent.loop.memory.episodes  # all or nothing


# ---------------------------------------------------------------------- learning from them


@pytest.mark.parametrize("algo", AGENTS)
def test_every_method_learns_offline_without_a_step(algo):
    agent = agent_on(algo, betas=(0.0, 1.0)).remember(STEPS)
    before, target = (agent.loop.learner.state_dict()[n]["parameters"].clone() for n in ("online", "target"))
    rows = []
    agent.learn(0, gradient_steps=130, callback=rows.append)
    assert (agent.loop.step, agent.loop.updates, len(rows)) == (0, 130, 6)
    assert not torch.equal(agent.loop.learner.online.parameters, before)
    assert not torch.equal(agent.loop.learner.target.parameters, target)  # 500 steps are 125 updates of every fourth step
    agent.learn(60)
    assert agent.loop.step == 60


def test_learning_offline_finds_the_way_that_was_shown():
    right = split(played(20, seed=1))
    agent = agent_on(learning_rate=1e-2, target_update_interval=40).remember(right).learn(0, gradient_steps=400)
    values = agent.q_values([np.array([cell, cell % 2], np.float32) for cell in range(4)])
    assert (values.argmax(1) == 1).all()


def test_learning_offline_needs_something_to_learn_from():
    with pytest.raises(ebu.UserError, match=r"the memory is empty: call agent\.remember"):
        agent_on().learn(0, gradient_steps=5)
    with pytest.raises(ebu.UserError, match="gradient_steps must be a whole number"):
        agent_on().learn(0, gradient_steps=-1)


@pytest.mark.parametrize("algo", ["ebu", "per", "adaptive-ebu"])
def test_a_run_that_begins_with_demonstrations_is_resumed_exactly(tmp_path, algo):
    steps = [(np.arange(4, dtype=np.float32) + t, t % 2, 1.0, t == 9, False) for t in range(10)]

    def trained(folder, stop):
        agent = AGENTS[algo]("CartPole-v1", seed=3, **SMALL | {"betas": (0.0, 1.0), "checkpoint_every": 10**6})
        agent.remember(steps).learn(160, run=folder, gradient_steps=25, callback=lambda event: event.step < stop)
        return ebu.resume(folder, announce=lambda text: None)

    straight, halved = trained(tmp_path / "straight", 10**9), trained(tmp_path / "halved", 1)
    assert halved.loop.memory.episodes == straight.loop.memory.episodes
    assert next(stored(halved.loop.memory)) == (tuple(steps[0][0]), 0, tuple(steps[1][0]))
    assert straight.loop.updates == halved.loop.updates > 30
    assert torch.equal(straight.loop.learner.online.parameters, halved.loop.learner.online.parameters)


def test_the_first_checkpoint_of_such_a_run_is_its_beginning(tmp_path, monkeypatch):
    """Killed before any step, it does not begin again without what it was shown."""
    agent = ebu.EBU("CartPole-v1", seed=3, **SMALL)
    agent.remember([(np.zeros(4, np.float32), 0, 1.0, True, False)])
    monkeypatch.setattr(agent.loop, "advance", lambda: (_ for _ in ()).throw(MemoryError))
    with pytest.raises(MemoryError):
        agent.learn(60, run=tmp_path / "run")
    resumed = ebu.resume(tmp_path / "run", announce=lambda text: None)
    assert next(stored(resumed.loop.memory))[0] == (0.0,) * 4
