"""Several environments at once: whole episodes of each, one memory, updates by the step, and the same bytes every time."""

from __future__ import annotations

import os
import re
import signal

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import ebu
from ebu.commands.resume import prove
from ebu.errors import EnvironmentFailure, UserError
from ebu.learning.rotation import Rotation
from ebu.presets import configure
from ebu.seeding import Streams, draw_seed
from ebu.storage.run_folder import RunFolder
from ebu.training.due import due_after
from ebu.training.events import EpisodeEnded, Evaluated, Trained
from ebu.training.loop_state import from_earlier_version
from ebu.training.trainer import Trainer
from tests.conftest import Corridor, Script

SMALL = {"learning_starts": 40, "batch_size": 8, "log_every": 40, "eval_every": 0, "hidden_sizes": (16,), "train_freq": 4}
BOTH = pytest.mark.parametrize("vectorization", ["sync", "async"])


class Count(Script):
    """Episodes of ``length`` steps whose observations say which environment, which seed and which step it is."""

    def __init__(self, number, length):
        super().__init__([1.0] * length, space=spaces.Box(-np.inf, np.inf, (3,), np.float32))
        self.number = number

    def reset(self, *, seed=None, options=None):
        self.seed = seed
        self.frames = [np.array([self.number, seed % 1000, t], np.float32) for t in range(len(self.rewards) + 1)]
        return super().reset(seed=seed)


def counting(lengths, **settings):
    factories = [lambda n=n, length=length: Count(n, length) for n, length in enumerate(lengths)]
    return ebu.EBU(factories, **SMALL | settings)


def stored(loop):
    """All episodes of the memory, as their observations and outcome."""
    memory = loop.memory
    spans = [
        memory.read(np.array([e]), np.array([0]), memory.lengths(np.array([e])))
        for e in range(memory.first_episode, memory.end_episode)
    ]
    return [(span.frames, span.discounts[-1]) for span in spans]


# ---------------------------------------------------------------------- episodes


@BOTH
def test_episodes_of_different_lengths_are_stored_whole_each_with_its_own_seed(vectorization):
    events = []
    agent = counting([2, 3, 5], vectorization=vectorization, learning_starts=1000).learn(30, callback=events.append)
    ended = [event for event in events if isinstance(event, EpisodeEnded)]
    assert len(agent.loop.actors) == 3 and agent.loop.step == 30
    # After k steps of each, environment i ends an episode at step 3 (k − 1) + i + 1.
    expected = sorted((3 * (k - 1) + i + 1, n) for i, n in enumerate([2, 3, 5]) for k in range(n, 11, n))
    assert [(event.step, event.length) for event in ended] == expected
    assert [event.episode for event in ended] == list(range(1, len(ended) + 1))
    episodes = stored(agent.loop)
    assert len(episodes) == len(ended)
    for (frames, discount), (_, length) in zip(episodes, expected):
        assert discount == 0.0 and len(frames) == length + 1
        assert frames[:, 2].tolist() == list(range(length + 1))  # from the first observation to the very last
        assert len(set(map(tuple, frames[:, :2].tolist()))) == 1  # of one environment and one seed
    seeds = {tuple(frames[0, :2].tolist()) for frames, _ in episodes}
    assert len(seeds) == len(episodes)


def test_seeds_are_drawn_in_the_order_in_which_episodes_begin():
    agent = counting([2, 3], learning_starts=1000, seed=7).learn(8)
    rng = Streams(7).episodes
    drawn = [draw_seed(rng) % 1000 for _ in range(4)]  # both begin; then environment 0 after 2 steps, 1 after 3
    found = {int(frames[0, 0]): [] for frames, _ in stored(agent.loop)}
    for frames, _ in stored(agent.loop):
        found[int(frames[0, 0])].append(int(frames[0, 1]))
    assert found == {0: [drawn[0], drawn[2]], 1: [drawn[1]]}
    assert agent.loop.actors.open[1].seed % 1000 == drawn[3]


def test_an_episode_without_end_is_cut_and_the_other_environments_play_on():
    events = []
    agent = counting([50, 3], max_episode_steps=4, learning_starts=1000).learn(24, callback=events.append)
    ended = [(event.step, event.length, event.was_cut) for event in events if isinstance(event, EpisodeEnded)]
    assert ended == [(6, 3, False), (7, 4, True), (12, 3, False), (15, 4, True), (18, 3, False), (23, 4, True), (24, 3, False)]
    assert [discount for _, discount in stored(agent.loop)] == [pytest.approx(0.99) if cut else 0.0 for *_, cut in ended]


def test_frames_are_kept_one_by_one_so_that_a_long_episode_does_not_hold_those_of_the_others():
    agent = counting([9, 3]).learn(8)
    assert all(frame.base is None for frame in agent.loop.actors.open[0].observations)


def test_lengths_over_the_shortest_path_and_clipped_rewards_are_as_with_one_environment():
    events = []
    factories = [lambda n=n: Corridor(length=n) for n in (3, 4)]
    agent = ebu.EBU(factories, **SMALL | {"reward_clip": 0.5}).learn(60, callback=events.append)
    ended = [event for event in events if isinstance(event, EpisodeEnded)]
    assert ended and all(event.relative_length == event.length / (2 if event.step % 2 else 3) for event in ended)
    assert {float(event.score) for event in ended} <= {0.0, 1.0}
    assert all(reward <= 0.5 for episode in agent.loop.actors.open if episode for reward in episode.rewards)
    rewards = agent.loop.memory.read_single(np.arange(agent.loop.memory.first_step, agent.loop.memory.end_step)).rewards
    assert rewards.max() == 0.5


def test_probabilities_of_actions_are_recorded_for_methods_that_need_them():
    agent = ebu.Retrace("CartPole-v1", n_envs=3, exploration_initial_eps=0.4, exploration_final_eps=0.4, **SMALL).learn(90)
    steps = agent.loop.memory.read_single(np.arange(agent.loop.memory.first_step, agent.loop.memory.end_step))
    assert np.unique(steps.behaviour).tolist() == np.array([0.2, 0.8], np.float32).tolist()


# ---------------------------------------------------------------------- counting


def test_updates_rows_and_evaluations_count_the_steps_of_all_environments():
    events = []
    settings = SMALL | {"target_update_interval": 12, "log_every": 20, "eval_every": 30, "eval_episodes": 1}
    agent = ebu.DQN([lambda: Corridor(length=3, limit=4)] * 8, **settings)
    copies = []
    agent.loop.phases["update_target"] = lambda: copies.append(agent.loop.step)
    agent.learn(96, callback=events.append)
    assert agent.loop.updates == (96 - 40) // 4  # as with one environment: two after every step of eight
    assert copies == [16, 24, 40, 48, 64, 72, 88, 96]
    assert [event.step for event in events if isinstance(event, Trained)] == [24, 40, 64, 80]
    assert [event.step for event in events if isinstance(event, Evaluated)] == [32, 64, 96]


def test_a_target_that_moves_at_every_step_moves_between_the_updates_as_with_one_environment():
    loop = ebu.DQN("CartPole-v1", n_envs=4, **SMALL | {"train_freq": 2, "target_update_interval": 1}).learn(60).loop
    loop.step += 4
    assert due_after(loop, loop.step - 4, loop.episodes) == ["update_target", "learn", "update_target"] * 2


def test_the_last_steps_are_taken_in_every_environment():
    assert ebu.DQN("CartPole-v1", n_envs=8, **SMALL).learn(20).loop.step == 24


def test_all_learners_of_adaptive_ebu_play_equally_many_episodes():
    rotation = Rotation(3, 10, actors=2)
    turns = list(rotation.playing)
    for actor in (0, 0, 0, 1, 0, 1, 1, 1, 0, 0):  # whoever ends first
        rotation.episode_ended(1.0, actor)
        turns.append(rotation.playing[actor])
    assert turns == [n % 3 for n in range(12)]
    other = Rotation(3, 10, actors=2)
    other.load_state_dict(rotation.state_dict())
    assert other.state_dict() == rotation.state_dict()
    with pytest.raises(ValueError, match="do not match"):
        Rotation(3, 10).load_state_dict(rotation.state_dict())


# ---------------------------------------------------------------------- the same bytes


def rows(env, vectorization, algo="ebu", steps=160, **settings):
    agent = ebu.agent.AGENTS[algo](env, n_envs=3, vectorization=vectorization, **SMALL | settings)
    events = []
    agent.learn(steps, callback=events.append)
    return [repr(event) for event in events], agent.loop.learner.online.parameters.numpy().tobytes()


@pytest.mark.parametrize("env", ["CartPole-v1", "maze", "MinAtar/Breakout-v1"])
def test_the_same_seed_gives_the_same_bytes_in_one_process_and_in_several(env):
    first = rows(env, "sync", max_episode_steps=15)
    assert first == rows(env, "sync", max_episode_steps=15) == rows(env, "async", max_episode_steps=15)
    assert first != rows(env, "sync", max_episode_steps=15, seed=1)


CASES = {
    "replayed": ("ebu", "CartPole-v1", {"eval_every": 90, "eval_episodes": 1}),
    "from snapshots": ("ebu", "maze", {"max_episode_steps": 25}),
    "several learners, own processes": (
        "adaptive-ebu",
        "CartPole-v1",
        {"betas": (0.0, 0.5, 1.0), "sync_interval": 60, "vectorization": "async"},
    ),
    "snapshots, own processes": ("ebu", "maze", {"max_episode_steps": 25, "vectorization": "async"}),
    "priorities": ("per", "CartPole-v1", {"buffer_size": 100}),
    "atari": ("ebu", "breakout", {"train_freq": 16, "batch_size": 4, "eval_episodes": 1, "max_episode_steps": 30}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_run_stopped_halfway_and_resumed_equals_one_that_never_stopped(case):
    algo, env, settings = CASES[case]
    assert prove(configure(algo, env, n_envs=3, **SMALL | settings), 150) == []


def test_a_checkpoint_of_one_environment_from_an_earlier_version_is_read():
    now = {
        "step": 5,
        "plan_start": 2,
        "recorded": [],
        "reward_model": None,
        "open": [None],
        "rotation": {"playing": [1], "next": 2, "sums": [0.0] * 3},
    }
    then = {"step": 5, "open": {"seed": 1}, "rotation": {"current": 2, "sums": [0.0] * 3}}
    assert from_earlier_version(now) == now
    assert from_earlier_version(then) == {
        "step": 5,
        "plan_start": 0,
        "recorded": [],
        "reward_model": None,
        "open": [{"seed": 1}],
        "rotation": {"playing": [2], "next": 0, "sums": [0.0] * 3},
    }


# ---------------------------------------------------------------------- failures


class Fails(Count):
    """Breaks at the fourth step of an episode, in the way that is asked for."""

    def __init__(self, number, how):
        super().__init__(number, 6)
        self.how = how

    def step(self, action):
        observation, reward, *rest = super().step(action)
        if self.time == 4 and self.number == 1:
            if self.how == "raise":
                raise OSError("the simulator\nfell over")
            if self.how == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            reward = float("nan")
        return observation, reward, *rest


def failing(how, **settings):
    return ebu.DQN([lambda n=n: Fails(n, how) for n in range(3)], **SMALL | settings)


@BOTH
@pytest.mark.parametrize(("how", "words"), [("raise", "raised OSError"), ("nan", "returned the reward nan")])
def test_a_failure_is_one_line_that_names_the_environment_and_the_agent_can_learn_on(vectorization, how, words):
    agent = failing(how, vectorization=vectorization)
    with pytest.raises(EnvironmentFailure, match=f"{words} in environment 2 of 3 at step 4 of its episode, after action"):
        agent.learn(60)
    assert agent.loop.step == 9 and agent.loop.actors.open == [None] * 3
    with pytest.raises(EnvironmentFailure, match="in environment 2 of 3"):
        agent.learn(60)
    assert agent.loop.step == 18


def test_a_process_that_dies_ends_the_run_with_a_checkpoint_and_one_line(tmp_path):
    agent = failing("die", vectorization="async")
    folder = RunFolder.create(tmp_path / "r", agent.config)
    with pytest.raises(EnvironmentFailure) as error:
        Trainer(agent.loop, 60, 0, folder).run([], tensorboard=False)
    assert re.fullmatch(
        r"the process of environment 2 \(exit code -9\) of 3 of test_many_environments.Fails has ended at step 10",
        str(error.value),
    )
    again = failing("nothing", vectorization="async")
    trainer = Trainer(again.loop, 60, 0, folder)
    trainer.resume()
    assert again.loop.step == 9 and again.loop.actors.open == [None] * 3
    again.loop.actors.environments.close()


def test_an_interrupt_in_the_middle_of_a_step_leaves_no_answers_for_the_next(monkeypatch):
    agent = counting([4, 5], vectorization="async").learn(8)
    vector = agent.loop.actors.environments._vector
    monkeypatch.setattr(vector, "step_wait", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        agent.learn(8)
    assert not any(process.is_alive() for process in vector.processes)
    agent.learn(20)
    assert all(frames[:, 2].tolist() == list(range(len(frames))) for frames, _ in stored(agent.loop))


def test_processes_are_out_of_reach_of_the_terminal():
    """Ctrl-C goes to the process group in the foreground; the environments are still needed for the checkpoint."""
    agent = counting([4, 5], vectorization="async")
    processes = agent.loop.actors.environments._vector.processes
    assert all(os.getpgid(process.pid) == process.pid != os.getpgid(0) for process in processes)


# ---------------------------------------------------------------------- what a user may give


def test_an_environment_object_cannot_be_played_several_times():
    with pytest.raises(UserError, match="cannot be played 2 times at once; give its id, or a list of functions"):
        ebu.EBU(Corridor(), n_envs=2)


@pytest.mark.parametrize(
    ("env", "settings", "words"),
    [
        ([Corridor, Corridor], {"n_envs": 3}, "n_envs=3 needs a list of 3 functions that each create one, got 2 items"),
        ([], {}, "a list for env must contain functions"),
        ([Corridor()], {}, "a list for env must contain functions"),
        ([Corridor, lambda: Script([1.0])], {}, "differ in their observations or actions"),
        (lambda: gymnasium.make("CartPole-v1"), {}, r"got a function; give what it returns, or \[<lambda>\]"),
        (10, {}, r"got builtins.int \(docs/own-environment.md\)"),
        (gymnasium.make_vec("CartPole-v1", num_envs=2), {}, "got gymnasium.*VectorEnv; n_envs=2 plays two copies"),
        ("CartPole-v1", {"n_envs": 0}, "n_envs must be a whole number between 1 and 1024, got 0"),
        ("CartPole-v1", {"n_envs": 2, "vectorization": "threads"}, "vectorization must be one of sync, async"),
    ],
)
def test_what_cannot_be_played_at_once_is_refused_in_one_line(env, settings, words):
    with pytest.raises(UserError, match=words):
        ebu.EBU(env, **SMALL | settings).learn(1)


def test_environments_from_functions_are_evaluated_on_one_more():
    agent = ebu.EBU([Corridor, Corridor], **SMALL).learn(40)
    assert agent.config.environment.n_envs == 2
    assert len(ebu.evaluate(agent, episodes=2).returns) == 2


def test_a_policy_of_several_environments_is_loaded_with_one_or_as_many_as_are_given(tmp_path):
    agent = ebu.EBU([Corridor, Corridor, Corridor], **SMALL).learn(45)
    agent.save(tmp_path / "p.ebu")
    for env, count in ((Corridor(), 1), ([Corridor, Corridor], 2)):
        again = ebu.load(tmp_path / "p.ebu", env=env)
        assert again.config.environment.n_envs == count
        assert np.array_equal(again.q_values([np.zeros(2, np.float32)]), agent.q_values([np.zeros(2, np.float32)]))
        again.learn(4)


def test_the_policy_of_a_damaged_run_on_several_environments_is_rescued(tmp_path):
    ebu.AdaptiveEBU([Corridor, Corridor], betas=(0.0, 1.0), **SMALL).learn(60, run=tmp_path / "r")
    assert ebu.rescue(tmp_path / "r", tmp_path / "p.ebu", env=[Corridor, Corridor], announce=lambda text: None) == 60


def test_learning_goes_on_in_other_environments():
    agent = ebu.EBU("CartPole-v1", n_envs=2, **SMALL).learn(20)
    with pytest.raises(UserError, match="cannot be played 2 times"):
        agent.set_env(gymnasium.make("CartPole-v1"))
    agent.set_env([lambda: gymnasium.make("CartPole-v1", max_episode_steps=3)] * 2)
    assert agent.loop.actors.open == [None, None]
    events = []
    agent.learn(12, callback=events.append)
    assert {event.length for event in events if isinstance(event, EpisodeEnded)} == {3}
