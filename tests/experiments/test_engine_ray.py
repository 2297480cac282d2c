"""The Ray engine on a real cluster of two nodes on this machine: the same rows as the local engine's, whatever is lost."""

from __future__ import annotations

import os
import threading
from contextlib import nullcontext

import pytest

from ebu.errors import RunFailure, UserError
from ebu.experiments.sweeps import ray_engine as engine_ray
from ebu.experiments.sweeps.engine import run_trials
from ebu.experiments.sweeps.local_engine import LocalEngine
from ebu.experiments.sweeps.ray_engine import RayEngine, read_files, write_files
from ebu.experiments.sweeps.sweep import Sweep
from ebu.experiments.sweeps.trials import trial
from tests.experiments.sweeps import gated, mortal, rows, rows_of, steps_by_the_clock, straight, sweep, tiny_trials
from tests.waiting import wait_for

pytestmark = pytest.mark.xdist_group("sweeps")  # with those of the local engine, which are compared with
ray = pytest.importorskip("ray", reason="needs Ray: pip install 'episodic-backward-update[ray]'")


@pytest.fixture(scope="module")
def cluster():
    from ray.cluster_utils import Cluster

    small = {"num_cpus": 1, "object_store_memory": 80 << 20, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args=small)
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
def test_a_node_is_lost_and_no_trial_with_it(cluster, tmp_path):
    """It is killed while a trial on each of two nodes waits beyond its first checkpoint. All finish, with the rows of the
    local engine, and what was lost is taken up from its checkpoint.
    """
    gate, out = tmp_path / "gate", tmp_path / "out"
    gate.mkdir()
    trials = [gated(gate, seed) for seed in range(3)]
    node = cluster.add_node(num_cpus=1, object_store_memory=80 << 20)

    def kill():
        waiting = wait_for(lambda: found if len(found := list(gate.glob("waiting-*"))) == 2 else None, "both trials")
        cluster.remove_node(node, allow_graceful=False)
        wait_for(lambda: not all(is_alive(int(path.name.split("-")[1])) for path in waiting), "the lost worker's end")
        (gate / "open").touch()

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    folders = run_trials(trials, out, RayEngine())
    killer.join()
    assert len(cluster.list_all_nodes()) == 1
    recorded = [steps_by_the_clock(folder) for folder in folders]
    assert sum(steps.count(300) == 2 for steps in recorded) == 1  # lost after step 300 ...
    assert all(steps.count(100) == 1 for steps in recorded)  # ... and taken up at 200, not at the beginning
    assert rows(folders) == rows(run_trials(trials, tmp_path / "local", LocalEngine()))
    assert not list(out.glob(".sweep-*"))


def test_rows_are_those_of_the_local_engine(cluster, quiet, tmp_path):
    sweep(tmp_path, RayEngine())
    assert rows_of(tmp_path) == rows_of(quiet)
    for one in tiny_trials():
        here, there = ({path.name for path in (out / "trials" / one.id).iterdir()} for out in (tmp_path, quiet))
        assert here == there


def test_nodes_that_do_not_see_the_folder_send_their_files_back(cluster, quiet, tmp_path, monkeypatch):
    """A node knows the folder by a file in it; here it looks for one that is not there."""
    monkeypatch.setattr(engine_ray, "_token", lambda out: nullcontext(out / "not-there"))
    one = tiny_trials()[2]
    [folder] = run_trials([one], tmp_path, RayEngine())
    assert rows([folder]).items() <= rows_of(quiet).items()
    names = {path.name for path in folder.iterdir()}
    assert names == {path.name for path in (quiet / "trials" / one.id).iterdir()} - {"lock"}


@pytest.mark.parametrize("shared", [pytest.param(True, marks=pytest.mark.slow), False])
def test_a_stopped_sweep_continues(shared, cluster, tmp_path, monkeypatch):
    """What Ctrl-C sets in motion, without the signal: that would be pytest's."""
    gate, out = tmp_path / "gate", tmp_path / "out"
    gate.mkdir()
    out.mkdir()
    if not shared:
        monkeypatch.setattr(engine_ray, "_token", lambda out: nullcontext(out / "not-there"))
    one = gated(gate)
    stopped = Sweep.of([one], out)

    def stop():
        wait_for(lambda: list(gate.glob("waiting-*")), "the trial")
        stopped.stops += 1

    threading.Thread(target=stop, daemon=True).start()
    RayEngine().run(stopped)
    assert [job.state for job in stopped.jobs] == ["stopped"]
    (gate / "open").touch()
    folders = run_trials([one], out, RayEngine())
    assert steps_by_the_clock(folders[0]) == [100, 200, 300, 400, 500, 600, 600]  # the last one is the evaluation's
    assert rows(folders) == straight(one, tmp_path / "straight")


def test_workers_that_die_and_trials_that_fail(cluster, tmp_path, capsys):
    (tmp_path / "lives").mkdir()
    dying, bad = mortal(tmp_path / "lives", lives=1), trial("ebu", "NoSuchThing-v0", 0)
    with pytest.raises(RunFailure, match="1 of 2 trials failed"):
        run_trials([dying, bad], tmp_path, RayEngine())
    assert "there is no environment 'NoSuchThing-v0'" in capsys.readouterr().err
    assert len(list((tmp_path / "lives").iterdir())) == 1
    assert rows([tmp_path / "trials" / dying.id]) == straight(dying, tmp_path / "straight")


def test_files_travel_whole(tmp_path):
    files = {"summary.json": b"{}", "checkpoints/generation-00000001/manifest.json": b"m", "metrics.jsonl": b"rows"}
    write_files(tmp_path / "a", files)
    (tmp_path / "a" / "lock").touch()
    (tmp_path / "a" / "torn.part").touch()
    assert read_files(tmp_path / "a") == files


@pytest.mark.slow
def test_a_cluster_started_here_gives_the_same_rows(quiet, tmp_path):
    ray.shutdown()
    sweep(tmp_path, RayEngine(workers=2))
    assert rows_of(tmp_path) == rows_of(quiet)
    assert not ray.is_initialized()


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1"])
def test_a_cluster_that_is_not_there_is_reported_in_one_line(address, tmp_path):
    with pytest.raises(UserError, match=f"no Ray cluster answers at {address}; start one"):
        RayEngine(address=address)._connect(ray)
