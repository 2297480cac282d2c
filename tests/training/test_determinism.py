"""One seed, one run: the same bytes, whatever else happens in the process, on the machine or between evaluations."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import numpy as np
import pytest
import torch

import ebu
from ebu.agent import AGENTS
from ebu.networks.policy_file import load_policy
from ebu.seeding import STREAMS, Streams
from ebu.storage.run_folder import RunFolder
from ebu.training.listeners import Recorder
from tests.waiting import PATIENCE

SMALL = {
    "learning_starts": 60,
    "train_freq": 4,
    "batch_size": 16,
    "eval_every": 125,
    "eval_episodes": 2,
    "log_every": 50,
    "hidden_sizes": (32,),
    "target_update_interval": 50,
    "betas": (0.0, 0.5, 1.0),
    "sync_interval": 100,
}
WORLDS = {
    "CartPole-v1": {},
    "FrozenLake-v1": {},
    "MinAtar/Breakout-v1": {"steps": 250},
    "maze": {"env_args": ("size=4", "cap=40", "redraw_digits=true"), "network": "mlp", "eval_epsilon": 0.3},
}


def train(folder, env="CartPole-v1", algo="ebu", steps=250, seed=0, **settings):
    """The rows of metrics.jsonl and the weights, as bytes."""
    agent = AGENTS[algo](env, seed=seed, **SMALL | WORLDS.get(env, {}) | settings)
    run = RunFolder.create(folder, agent.config)
    with Recorder(run, tensorboard=False) as recorder:
        agent.learn(steps, callback=recorder)
    assert agent.loop.updates > 20
    return run.metrics.read_bytes(), agent.loop.learner.online.parameters.numpy().tobytes()


@pytest.mark.parametrize("env", WORLDS)
def test_two_runs_with_one_seed_are_byte_identical(tmp_path, env):
    rows, weights = train(tmp_path / "first", env)
    assert rows.count(b"\n") >= 7
    assert (rows, weights) == train(tmp_path / "second", env)


@pytest.mark.parametrize("algo", AGENTS)
def test_every_method_repeats_itself(tmp_path, algo):
    assert train(tmp_path / "first", algo=algo) == train(tmp_path / "second", algo=algo)


@pytest.mark.parametrize("env", ["CartPole-v1", "maze"])
def test_two_seeds_differ(tmp_path, env):
    first, second = train(tmp_path / "0", env, seed=0), train(tmp_path / "1", env, seed=1)
    assert first[0] != second[0] and first[1] != second[1]


def test_what_listens_changes_nothing(tmp_path):
    alone = ebu.EBU("CartPole-v1", seed=0, **SMALL).learn(250)
    heard = []
    watched = ebu.EBU("CartPole-v1", seed=0, **SMALL)
    folder = RunFolder.create(tmp_path, watched.config)
    with Recorder(folder, tensorboard=True) as recorder:
        watched.learn(250, callback=[recorder, heard.append], progress_bar=True)
    assert len(heard) > 5
    assert torch.equal(alone.loop.learner.online.parameters, watched.loop.learner.online.parameters)


@pytest.mark.parametrize("env", ["CartPole-v1", "maze"])
def test_evaluation_does_not_disturb_training(env):
    parameters = []
    for eval_every in (0, 7, 100):
        settings = SMALL | WORLDS[env] | {"eval_every": eval_every, "eval_epsilon": 0.5}
        agent = ebu.EBU(env, seed=0, **settings).learn(200)
        parameters.append(agent.loop.learner.online.parameters)
    assert torch.equal(parameters[0], parameters[1]) and torch.equal(parameters[0], parameters[2])


def test_looking_at_an_agent_does_not_change_what_it_learns_next():
    """predict, evaluate, save and q_values between two calls of learn leave no trace, random actions included."""
    first, second = (ebu.EBU("CartPole-v1", seed=0, **SMALL).learn(150) for _ in range(2))
    observation = np.array([0.01, -0.2, 0.03, 0.4], np.float32)
    for _ in range(20):
        second.predict(observation)
        second.predict(observation, deterministic=False)
    ebu.evaluate(second, episodes=2, epsilon=0.5)
    second.q_values([observation])
    for agent in (first, second):
        agent.learn(100)
    assert torch.equal(first.loop.learner.online.parameters, second.loop.learner.online.parameters)


@pytest.mark.parametrize("env", WORLDS)
def test_the_global_generators_are_neither_used_nor_changed(tmp_path, env):
    outcomes = []
    for attempt in range(2):
        random.seed(attempt)
        np.random.seed(attempt)  # noqa: NPY002
        torch.manual_seed(attempt)
        before = random.getstate(), np.random.get_state()[1].tobytes(), torch.get_rng_state().numpy().tobytes()  # noqa: NPY002
        outcomes.append(train(tmp_path / str(attempt), env))
        after = random.getstate(), np.random.get_state()[1].tobytes(), torch.get_rng_state().numpy().tobytes()  # noqa: NPY002
        assert before == after
    assert outcomes[0] == outcomes[1]


def test_the_streams_of_a_seed_are_independent_and_can_be_restored():
    first, again, other = Streams(5), Streams(5), Streams(6)
    draws = {name: getattr(first, name).random(4).tolist() for name in STREAMS}
    assert len({tuple(values) for values in draws.values()}) == len(STREAMS)
    again.exploration.random(1000)  # using one leaves the others where they were
    assert all(getattr(again, name).random(4).tolist() == draws[name] for name in STREAMS if name != "exploration")
    assert all(getattr(other, name).random(4).tolist() != draws[name] for name in STREAMS)
    saved = first.state_dict()
    following = {name: getattr(first, name).random(4).tolist() for name in STREAMS}
    other.load_state_dict(saved)
    assert {name: getattr(other, name).random(4).tolist() for name in STREAMS} == following


def test_the_thread_count_is_put_back():
    before = torch.get_num_threads()
    agent = ebu.EBU("CartPole-v1", threads=2, **SMALL)
    agent.learn(10, callback=lambda event: None)
    assert torch.get_num_threads() == before
    with pytest.raises(ZeroDivisionError):
        agent.learn(200, callback=lambda event: 1 / 0)
    assert torch.get_num_threads() == before


def test_runs_in_new_processes_with_other_hash_seeds_are_the_same(tmp_path):
    """Two processes at once, whose sets and dictionaries of strings are ordered differently."""
    flags = "train --env CartPole-v1 --steps 200 --learning-starts 50 --eval-every 100 --eval-episodes 2 --log-every 50 "
    flags += "--hidden-sizes 32"
    processes = []
    for name in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": name, "OMP_NUM_THREADS": "1"}
        command = [
            sys.executable,
            "-m",
            "ebu.cli",
            *flags.split(),
            "--seed",
            "3",
            "--run",
            name,
            "--tensorboard",
            "False",
        ]
        processes.append(
            subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        )
    for process in processes:
        _, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, errors.decode()
    first, second = tmp_path / "1", tmp_path / "2"
    assert (first / "metrics.jsonl").read_bytes() == (second / "metrics.jsonl").read_bytes()
    assert (first / "config.json").read_bytes() == (second / "config.json").read_bytes()
    assert (first / "summary.json").read_bytes() == (second / "summary.json").read_bytes()
    weights, others = (load_policy(folder / "policy.ebu").tensors for folder in (first, second))
    assert all(torch.equal(weights[name], others[name]) for name in weights | others)
    assert (first / "policy.ebu").read_bytes() == (second / "policy.ebu").read_bytes()
