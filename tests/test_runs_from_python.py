"""Run folders from Python: what ``ebu train`` and ``ebu resume`` do, through ``learn(run=…)`` and ``ebu.resume``."""

import json

import pytest

import ebu
from tests.conftest import Corridor, ebu_

SETTINGS = {"learning_starts": 100, "batch_size": 16, "log_every": 50, "hidden_sizes": (16,), "eval_every": 150, "seed": 5}
FLAGS = (
    "--env CartPole-v1 --steps 400 --learning-starts 100 --batch-size 16 --log-every 50 --hidden-sizes 16 --eval-every 150 "
    "--seed 5 --quiet True"
)
SAME = ("config.json", "metrics.jsonl", "policy.ebu")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run of ``ebu train``."""
    folder = tmp_path_factory.mktemp("train") / "run"
    assert ebu_(f"train {FLAGS} --run", folder) == 0
    return folder


def stop_at(step):
    return lambda event: event.step < step


def test_learning_in_a_run_folder_is_what_ebu_train_does(trained, tmp_path):
    agent = ebu.EBU("CartPole-v1", **SETTINGS).learn(400, run=tmp_path / "run")
    assert agent.loop.step == 400
    for name in SAME:
        assert (tmp_path / "run" / name).read_bytes() == (trained / name).read_bytes(), name
    written = {path.name for path in (tmp_path / "run").iterdir()}
    assert written >= {"summary.json", "curve.png", "timing.jsonl", "versions.json"}


def test_a_run_stopped_by_a_callback_is_resumed_exactly(trained, tmp_path):
    run = tmp_path / "run"
    stopped = ebu.EBU("CartPole-v1", **SETTINGS).learn(400, callback=stop_at(200), run=run)
    assert stopped.loop.step < 400 and not (run / "summary.json").exists()
    seen = []
    agent = ebu.resume(run, callback=lambda event: seen.append(event.step))
    assert agent.loop.step == 400 and min(seen) >= stopped.loop.step
    for name in SAME:
        assert (run / name).read_bytes() == (trained / name).read_bytes(), name
    assert json.loads((run / "summary.json").read_text())["steps"] == 400


def test_resume_stops_again_when_a_callback_says_so(trained, tmp_path):
    run = tmp_path / "run"
    ebu.EBU("CartPole-v1", **SETTINGS).learn(400, callback=stop_at(120), run=run)
    assert ebu.resume(str(run), callback=[stop_at(250)]).loop.step < 400
    ebu.resume(run)
    assert (run / "metrics.jsonl").read_bytes() == (trained / "metrics.jsonl").read_bytes()


def test_an_environment_object_without_an_id_is_resumed_with_one(tmp_path):
    settings = {**SETTINGS, "eval_every": 0}
    ebu.EBU(Corridor(), **settings).learn(300, run=tmp_path / "straight")
    ebu.EBU(Corridor(), **settings).learn(300, callback=stop_at(150), run=tmp_path / "halved")
    agent = ebu.resume(tmp_path / "halved", env=Corridor())
    assert agent.loop.step == 300
    straight, halved = (tmp_path / name / "metrics.jsonl" for name in ("straight", "halved"))
    assert halved.read_bytes() == straight.read_bytes()


def test_a_folder_that_holds_a_run_is_not_written_over(trained):
    before = (trained / "metrics.jsonl").read_bytes()
    with pytest.raises(ebu.UserError, match="already holds a run"):
        ebu.EBU("CartPole-v1", **SETTINGS).learn(400, run=trained)
    assert (trained / "metrics.jsonl").read_bytes() == before


def test_resuming_what_is_no_run_is_one_line(tmp_path):
    with pytest.raises(ebu.UserError) as caught:
        ebu.resume(tmp_path)
    assert str(tmp_path) in str(caught.value) and "\n" not in str(caught.value)
