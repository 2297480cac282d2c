"""Learners divided among processes are the learners of one process. Two ranks on the CPU; this process is rank 0."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest
import torch

import ebu
from ebu.commands.resume import verify
from ebu.distributed.learner import Ranks, blueprint_from_json, blueprint_to_json, require_work_for_all
from ebu.distributed.processes import ProcessGroup, gpu_of_rank, join, shares_of
from ebu.envs.spaces import ObservationSpec
from ebu.learning.blueprint import Blueprint
from ebu.presets import configure
from ebu.storage.run_folder import RunFolder
from ebu.training.listeners import row
from ebu.training.trainer import Trainer
from tests.tolerance import RUN, in_double, in_single
from tests.waiting import PATIENCE, wait_for

pytestmark = pytest.mark.xdist_group("ranks")  # one second rank for all tests
WORKER = """
import sys
import torch
from ebu.distributed.learner import work
from ebu.distributed.processes import ProcessGroup
torch.set_default_dtype(torch.float64)
with ProcessGroup(1, 2, 1, 2) as group:
    sys.exit(work(group))
"""
SMALL = {
    "learning_starts": 60,
    "train_freq": 2,
    "batch_size": 16,
    "eval_every": 150,
    "eval_episodes": 2,
    "log_every": 50,
    "target_update_interval": 40,
    "sync_interval": 100,
    "seed": 5,
}
WORLDS = {
    "multilayer perceptron": ("CartPole-v1", {"betas": (0.0, 0.3, 0.6, 1.0), "hidden_sizes": (32,)}, 330),
    "one-hot input, double Q, Polyak": (
        "FrozenLake-v1",
        {"betas": (0.0, 0.5, 1.0), "hidden_sizes": (16,), "double_q": True, "tau": 0.1, "optimizer": "deepmind-rmsprop"},
        300,
    ),
    "convolution, a rank with one learner": ("MinAtar/Breakout-v1", {"betas": (0.0, 0.5, 1.0)}, 230),
}


def surroundings(rank, **more):
    """What torchrun tells a process, with an address of this test's own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1", "WORLD_SIZE": "2"}
    return {**common, "LOCAL_WORLD_SIZE": "2", "RANK": str(rank), "LOCAL_RANK": str(rank), **more}


@pytest.fixture(scope="module")
def group():
    """Rank 0 of two, for all tests of this file. Shares of learners are other shapes, hence other sums: in float64."""
    told = surroundings(1)
    worker = subprocess.Popen([sys.executable, "-c", WORKER], env={**os.environ, **told})
    with pytest.MonkeyPatch.context() as patch:
        for name in ("MASTER_ADDR", "MASTER_PORT"):
            patch.setenv(name, told[name])
        with in_double(), ProcessGroup(0, 2, 0, 2) as group:
            yield group
        assert worker.wait(timeout=PATIENCE) == 0, "the worker was not told to stop"


def make(world, group=None, **settings):
    env, own, steps = WORLDS[world]
    config = configure("adaptive-ebu", env, **{**SMALL, **own, **settings})
    return ebu.Agent.from_config(config, ranks=None if group is None else Ranks(group)), steps


def trained(world, group=None, steps=None):
    agent, usual = make(world, group)
    events = []
    agent.learn(steps or usual, callback=events.append)
    rows = [row(event) for event in events]
    return agent, [one for one in rows if one is not None]


def copies(tree):
    return {k: copies(v) if isinstance(v, dict) else v.clone() if torch.is_tensor(v) else v for k, v in tree.items()}


def assert_same_rows(rows, expected):
    """Equal in all that is counted or chosen; other numbers but for rounding: a checkpoint keeps them in float32."""
    known_to = 10 * float(np.finfo(np.float32).eps)
    assert len(rows) == len(expected)
    for one, other in zip(rows, expected):
        numbers = {key for key, value in other.items() if isinstance(value, float)}
        assert {k: v for k, v in one.items() if k not in numbers} == {k: v for k, v in other.items() if k not in numbers}
        assert {k: one[k] for k in numbers} == pytest.approx({k: other[k] for k in numbers}, rel=known_to, abs=known_to)


# ---------------------------------------------------------------------- the same learners


@pytest.mark.parametrize("world", WORLDS)
def test_two_ranks_train_as_one_process_does(group, world):
    alone, expected = trained(world)
    assert sum(one["kind"] == "sync" for one in expected) >= 2
    together, rows = trained(world, group)
    assert_same_rows(rows, expected)
    ours, theirs = together.loop.learner.state_dict(), alone.loop.learner.state_dict()
    torch.testing.assert_close(ours, theirs, **RUN)


def test_learners_begin_with_the_weights_of_one_process(group):
    for world in WORLDS:
        ours, theirs = (make(world, t)[0].loop.learner.state_dict() for t in (group, None))
        for network in ("online", "target"):
            assert torch.equal(ours[network]["parameters"], theirs[network]["parameters"])


@pytest.mark.parametrize("best", [0, 3])
def test_the_best_learner_reaches_every_rank_and_each_keeps_its_accumulators(group, best):
    learner = trained("multilayer perceptron", group, steps=120)[0].loop.learner
    before = copies(learner.state_dict())
    learner.copy_to_all(best)
    after = learner.state_dict()
    for network in ("online", "target"):
        weights = before[network]["parameters"]
        assert torch.equal(after[network]["parameters"], weights[best].expand_as(weights))
    assert torch.equal(after["optimiser"]["square"], before["optimiser"]["square"])


def test_values_of_a_learner_elsewhere_follow_its_weights(group):
    """Before and after an update, after a copy of weights, and for two learners in turn."""
    loop = trained("multilayer perceptron", group, steps=120)[0].loop
    alone = make("multilayer perceptron")[0].loop.learner
    state = np.array([0.1, -0.2, 0.05, 0.3])
    for _ in range(3):
        alone.load_state_dict(loop.learner.state_dict())
        for k in (3, 0, 2, 1, 3):
            np.testing.assert_allclose(loop.policies[k].values(state), alone.online.state_values(k)(state), **RUN)
            together = loop.learner.online.batch_values(k)(np.stack([state, state]))
            np.testing.assert_allclose(together, alone.online.batch_values(k)(np.stack([state, state])), **RUN)
            tensors = loop.learner.online.named_tensors(k)
            for name, tensor in alone.online.named_tensors(k).items():
                assert torch.equal(tensors[name], tensor)
        loop._learn()


def test_weights_of_a_policy_file_are_given_to_all_learners(group, tmp_path):
    make("multilayer perceptron", seed=6)[0].save(tmp_path / "p")
    saved = ebu.load(tmp_path / "p")._restored.tensors
    learner = make("multilayer perceptron", group)[0].loop.learner
    learner.online.load_named_tensors(saved)
    for k in range(4):
        for name, tensor in learner.online.named_tensors(k).items():
            assert torch.equal(tensor, saved[name])


def test_an_ensemble_trains_on_two_ranks_as_in_one_process_and_each_learner_takes_its_own_weights(group, tmp_path):
    small = {
        **SMALL,
        "trace_lambdas": (0.5, 0.6, 0.9),
        "horizon_updates": 50,
        "gate": 0.5,
        "eval_every": 0,
        "reset_every": 40,
        "prior_scale": 1.0,
    }
    config = configure("ensemble-q", "CartPole-v1", **small)
    alone, together = (ebu.Agent.from_config(config, ranks=ranks) for ranks in (None, Ranks(group)))
    for agent in (alone, together):
        agent.learn(200)
    torch.testing.assert_close(together.loop.learner.state_dict(), alone.loop.learner.state_dict(), **RUN)
    together.save(tmp_path / "p")
    saved = ebu.load(tmp_path / "p")._restored
    assert saved.learners == 3
    fresh = ebu.Agent.from_config(config, ranks=Ranks(group))
    fresh.restore(saved)
    for k in range(3):
        for name, tensor in fresh.loop.learner.online.named_tensors(k).items():
            assert torch.equal(tensor, saved.tensors[name][k])


# ---------------------------------------------------------------------- resuming


def run_session(folder, agent, stop_at=None):
    session = Trainer(agent.loop, agent.config.steps, folder=folder)
    session.resume()
    session.run([lambda event: stop_at is None or event.step < stop_at], tensorboard=False)
    return agent.loop.learner.state_dict()


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2)])
def test_a_run_is_resumed_with_another_number_of_ranks(group, tmp_path, before, after):
    def agent(ranks):
        return make("multilayer perceptron", group if ranks == 2 else None, steps=260)[0]

    config = agent(1).config
    straight, halved = (RunFolder.create(tmp_path / name, config) for name in ("straight", "halved"))
    expected = run_session(straight, agent(1))
    run_session(halved, agent(before), stop_at=130)
    torch.testing.assert_close(run_session(halved, agent(after)), expected, **RUN)
    assert_same_rows(halved.rows(), straight.rows())


# ---------------------------------------------------------------------- refusals


@pytest.mark.parametrize("algo", ["ebu", "dqn"])
def test_a_method_with_one_learner_is_refused(group, algo):
    with pytest.raises(ebu.UserError, match=f"{algo} has one learner, nothing to divide among 2 ranks"):
        ebu.Agent.from_config(configure(algo, "CartPole-v1"), ranks=Ranks(group))


def test_one_beta_is_one_learner(group):
    with pytest.raises(ebu.UserError, match="one learner"):
        ebu.Agent.from_config(configure("adaptive-ebu", "CartPole-v1", betas=(0.5,)), ranks=Ranks(group))


def test_more_ranks_than_learners_are_refused():
    require_work_for_all("adaptive-ebu", 3, 3)
    with pytest.raises(ebu.UserError, match="3 learners for 4 ranks; start fewer ranks"):
        require_work_for_all("adaptive-ebu", 3, 4)


def test_each_rank_takes_the_gpu_of_its_number():
    cuda = torch.device("cuda")
    assert [gpu_of_rank(cuda, rank, 2, gpus=2) for rank in range(2)] == [torch.device("cuda:0"), torch.device("cuda:1")]
    with pytest.raises(ebu.UserError, match=r"2 ranks on a machine with 1 GPU\(s\)"):
        gpu_of_rank(cuda, 0, 2, gpus=1)
    with pytest.raises(ebu.UserError, match="cuda:1 puts all ranks on one GPU"):
        gpu_of_rank(torch.device("cuda:1"), 0, 2, gpus=2)


def test_a_device_other_than_a_gpu_is_everybodys(group):
    assert group.own_device(torch.device("cpu")) == torch.device("cpu")


def test_shares_are_contiguous_and_even_and_rank_0_has_none_more():
    for learners in range(1, 13):
        for ranks in range(1, learners + 1):
            shares = shares_of(learners, ranks)
            assert [k for share in shares for k in share] == list(range(learners))
            sizes = [len(share) for share in shares]
            assert max(sizes) - min(sizes) <= 1 and sizes[0] == min(sizes)


def test_a_blueprint_is_the_same_after_its_journey():
    spec = ObservationSpec("image", (4, 10, 10), "bool", scale=1.0)
    plan = Blueprint(configure("adaptive-ebu", "MinAtar/Breakout-v1", betas=(0.0, 1.0)), spec, 6, 1, 2)
    assert blueprint_from_json(blueprint_to_json(plan)) == plan


def test_a_share_is_built_on_its_device():
    """No GPU here: the device that holds no numbers shows whether one is left on the CPU."""
    spec = ObservationSpec("vector", (4,), "float32")
    learner = Blueprint(configure("adaptive-ebu", "CartPole-v1"), spec, 2, 1, 11).build(5, torch.device("meta"))
    tensors = [learner.online.parameters, learner.target.parameters, learner.state_dict()["optimiser"]["mean"]]
    assert {(tensor.device.type, len(tensor)) for tensor in tensors} == {("meta", 5)}


def test_without_torchrun_or_with_one_rank_there_is_no_process_group(monkeypatch):
    assert join() is None
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert join() is None


# ---------------------------------------------------------------------- processes that end

ENDLESS = "train --algo adaptive-ebu --env CartPole-v1 --steps 100000000 --betas 0 0.5 1 --learning-starts 20 --eval-every 0 "
ENDLESS += "--log-every 10 --checkpoint-every 40 --quiet True --tensorboard False --run"


@contextmanager
def processes(command, environments):
    """One process for each environment; none outlives the test."""
    started = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **e}) for e in environments]
    try:
        yield started
    finally:
        for process in started:
            process.terminate()  # which torchrun passes on to its ranks
        for process in started:
            process.wait(timeout=PATIENCE)


def two_ranks(arguments):
    """As torchrun would start them, with their process ids known."""
    told = surroundings(0, TORCHELASTIC_RUN_ID="x")
    ranks = [{**told, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(2)]
    return processes([sys.executable, "-m", "ebu", *arguments], ranks)


@pytest.mark.slow
def test_a_signal_to_torchrun_leaves_a_checkpoint_that_one_process_resumes(tmp_path):
    run = tmp_path / "r"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "--", "ebu"]
    with processes([*command, *ENDLESS.split(), str(run)], [{"OMP_NUM_THREADS": "1"}]) as (launcher,):
        wait_for(lambda: any(run.glob("checkpoints/generation-*")), "a checkpoint")
        launcher.send_signal(signal.SIGTERM)
        _, words = launcher.communicate(timeout=PATIENCE)
    assert words.count(f"continue with: ebu resume {run}") == 1, words
    assert words.count("3 learners on 2 ranks") == 1
    with in_single():
        agent = ebu.Agent.from_config(RunFolder.open(run).config())
        session = Trainer(agent.loop, agent.config.steps, folder=RunFolder.open(run))
        session.resume()
        stopped = agent.loop.step
        assert stopped >= 40
        session.run([lambda event: False], tensorboard=False)
        assert agent.loop.step > stopped


@pytest.mark.parametrize("victim", [1, pytest.param(0, marks=pytest.mark.slow)])
def test_a_rank_that_dies_ends_the_run_with_one_line_and_the_checkpoint_stays(tmp_path, victim):
    run = tmp_path / "r"
    with two_ranks([*ENDLESS.split(), str(run)]) as ranks:
        wait_for(lambda: any(run.glob("checkpoints/generation-*")), "a checkpoint")
        ranks[victim].kill()
        words = [rank.communicate(timeout=PATIENCE)[1] for rank in ranks]
    assert ranks[1 - victim].returncode == 1
    assert words[1] == ""
    if victim == 1:
        last = words[0].strip().splitlines()[-1]
        assert last == (
            "ebu: another rank of this run exited or timed out; continue from the last checkpoint with `ebu resume`"
        )
    assert verify([str(run)]) == 0


@pytest.mark.slow
def test_a_refusal_under_torchrun_lets_the_other_ranks_go(tmp_path):
    with two_ranks(["train", "--algo", "dqn", "--env", "CartPole-v1", "--run", str(tmp_path / "r")]) as ranks:
        words = [rank.communicate(timeout=PATIENCE)[1] for rank in ranks]
        assert [rank.returncode for rank in ranks] == [2, 0]
    assert words == ["ebu: dqn has one learner, nothing to divide among 2 ranks; start it without torchrun\n", ""]
    assert not (tmp_path / "r").exists()
