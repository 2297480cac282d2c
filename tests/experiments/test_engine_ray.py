"""The Ray engine on a real cluster of two nodes on this machine: the same rows as the local engine's, whatever is lost."""

from __future__ import annotations

import json
import threading
import time
from contextlib import nullcontext

import pytest

from ebu.errors import RunFailure, UserError
from ebu.experiments import engine_ray
from ebu.experiments.engine import run_trials
from ebu.experiments.engine_local import LocalEngine
from ebu.experiments.engine_ray import RayEngine, read_files, write_files
from ebu.experiments.trials import trial
from tests.experiments.test_engine import TINY, mortal

ray = pytest.importorskip("ray", reason="needs Ray: pip install 'episodic-backward-update[ray]'")


def trials():
    """Long enough to lose a node in their midst."""
    cartpole = {**TINY, "steps": 3_000, "train_freq": 2, "eval_every": 1_000, "checkpoint_every": 250}
    return [trial(algo, "CartPole-v1", 0, **cartpole) for algo in ("ebu", "dqn", "n-step")]


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """Rows by the local engine."""
    folders = run_trials(trials(), tmp_path_factory.mktemp("local"), LocalEngine(workers=2))
    return {folder.name: (folder / "metrics.jsonl").read_bytes() for folder in folders}


@pytest.fixture(scope="module")
def cluster():
    from ray.cluster_utils import Cluster

    small = {"num_cpus": 1, "object_store_memory": 80 << 20, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args=small)
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture
def second_node(cluster):
    node = cluster.add_node(num_cpus=1, object_store_memory=80 << 20)
    yield node
    if node in cluster.list_all_nodes():
        cluster.remove_node(node)


def rows(folders):
    return {folder.name: (folder / "metrics.jsonl").read_bytes() for folder in folders}


def test_a_node_is_lost_and_no_trial_with_it(cluster, second_node, expected, tmp_path):
    """Killed while a trial on each node has checkpoints: all finish, with the rows of the local engine."""
    killed = []

    def kill():
        while len({path.parents[1] for path in tmp_path.glob("trials/*/checkpoints/generation-*[0-9]")}) < 2:
            time.sleep(0.01)
        killed.extend(path.parent.name for path in tmp_path.glob("trials/*/checkpoints"))
        cluster.remove_node(second_node, allow_graceful=False)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    folders = run_trials(trials(), tmp_path, RayEngine())
    killer.join(timeout=200)
    assert len(cluster.list_all_nodes()) == 1
    assert rows(folders) == expected
    sessions = {name: begun_at(tmp_path / "trials" / name) for name in killed}
    assert any(len(found) > 1 for found in sessions.values()), "the node was lost too late"
    for found in sessions.values():
        assert all(step > TINY["log_every"] for step in found[1:])  # taken up from a checkpoint
    assert not list(tmp_path.glob(".sweep-*"))


def begun_at(folder):
    """The first step of each session of a run."""
    steps = [0, *(json.loads(line)["step"] for line in (folder / "timing.jsonl").open())]
    seconds = [float("inf"), *(json.loads(line)["seconds"] for line in (folder / "timing.jsonl").open())]
    return [now for now, clock, before in zip(steps[1:], seconds[1:], seconds) if clock < before]


def test_nodes_that_do_not_see_the_folder_send_their_files_back(cluster, expected, tmp_path, monkeypatch):
    """A node knows the folder by a file in it; here it looks for one that is not there."""
    monkeypatch.setattr(engine_ray, "_token", lambda out: nullcontext(out / "not-there"))
    few = trials()[:1]
    folders = run_trials(few, tmp_path / "out", RayEngine())
    assert rows(folders) == {few[0].id: expected[few[0].id]}
    names = {path.name for path in folders[0].iterdir()}
    assert {"config.json", "versions.json", "metrics.jsonl", "timing.jsonl", "summary.json", "policy.ebu"} <= names
    assert "checkpoints" not in names


def test_workers_that_die_and_trials_that_fail(cluster, tmp_path, capsys):
    (tmp_path / "lives").mkdir()
    dying, bad = mortal(tmp_path / "lives", lives=1), trial("ebu", "NoSuchThing-v0", 0)
    with pytest.raises(RunFailure, match="1 of 2 trials failed"):
        run_trials([dying, bad], tmp_path, RayEngine())
    assert "there is no environment 'NoSuchThing-v0'" in capsys.readouterr().err
    assert len(list((tmp_path / "lives").iterdir())) == 1
    [straight] = run_trials([dying], tmp_path / "straight", LocalEngine())
    assert (tmp_path / "trials" / dying.id / "metrics.jsonl").read_bytes() == (straight / "metrics.jsonl").read_bytes()


def test_a_stopped_sweep_goes_on(cluster, expected, tmp_path):
    """What Ctrl-C sets in motion, without the signal: it would be pytest's."""
    from ebu.experiments.sweep import Sweep

    one = trials()[0]
    sweep = Sweep.of([one], tmp_path)

    def stop():
        while not list(tmp_path.glob("trials/*/checkpoints/generation-*[0-9]")):
            time.sleep(0.01)
        sweep.stops += 1

    threading.Thread(target=stop, daemon=True).start()
    RayEngine().run(sweep)
    assert [job.state for job in sweep.jobs] == ["stopped"]
    assert 0 < sweep.jobs[0].step < 3_000
    assert rows(run_trials([one], tmp_path, RayEngine())) == {one.id: expected[one.id]}
    first, second = begun_at(tmp_path / "trials" / one.id)
    assert second > first


def test_files_travel_whole(tmp_path):
    files = {"summary.json": b"{}", "checkpoints/generation-00000001/manifest.json": b"m", "metrics.jsonl": b"rows"}
    write_files(tmp_path / "a", files)
    (tmp_path / "a" / "lock").touch()
    (tmp_path / "a" / "torn.part").touch()
    assert read_files(tmp_path / "a") == files


@pytest.mark.slow
def test_a_cluster_started_here_gives_the_same_rows(expected, tmp_path):
    if ray.is_initialized():
        ray.shutdown()
    assert rows(run_trials(trials(), tmp_path, RayEngine(workers=2))) == expected
    assert not ray.is_initialized()


@pytest.mark.slow
def test_a_cluster_that_is_not_there_is_told_in_one_line(tmp_path):
    if ray.is_initialized():
        ray.shutdown()
    with pytest.raises(UserError, match="no Ray cluster answers"):
        run_trials(trials(), tmp_path, RayEngine(address="127.0.0.1:1"))
