"""Every example runs as it stands, with fewer steps."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests.registries import registries_restored
from tests.waiting import PATIENCE

EXAMPLES = Path(__file__).parent.parent / "examples"
STEPS_AND_OUTPUT = {
    "cartpole": (600, "the same after loading"),
    "compare_methods": (100, "NStepDQN"),
    "demonstrations": (300, "DQN with 0 demonstrations"),
    "own_environment": (400, "steps to the end"),
    "own_method": (600, "mean return"),
    "run_and_resume": (800, "finished at step 800"),
}
LOGGERS = {"wandb_logger", "mlflow_logger"}  # each with a library that is large


@pytest.mark.parametrize("name", STEPS_AND_OUTPUT)
def test_the_example_runs(name, tmp_path, monkeypatch, capsys):
    steps, expected = STEPS_AND_OUTPUT[name]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [f"{name}.py", str(steps)])
    with registries_restored():
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert expected in capsys.readouterr().out


def test_every_example_is_run_and_described():
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    assert names == set(STEPS_AND_OUTPUT) | LOGGERS
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert [name for name in names if f"({name}.py)" not in readme] == []


def test_the_page_shows_the_method_as_it_is():
    """docs/own-method.md prints examples/own_method.py in full."""
    page = (EXAMPLES.parent / "docs" / "own-method.md").read_text(encoding="utf-8")
    assert (EXAMPLES / "own_method.py").read_text(encoding="utf-8") in page


@pytest.mark.slow
def test_weights_and_biases_hears_of_rows_and_evaluations(tmp_path):
    """In its offline mode; the run's own file is read back."""
    pytest.importorskip("wandb", reason="pip install 'episodic-backward-update[loggers]'")
    run_alone("wandb_logger", tmp_path, WANDB_MODE="offline", WANDB_SILENT="true", WANDB_DIR=str(tmp_path))
    from wandb.proto.wandb_internal_pb2 import Record

    (path,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    rows, settings = [], set()
    for data in log_records(path.read_bytes()):
        record = Record()
        record.ParseFromString(data)
        if record.HasField("history"):
            rows.append({item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item})
        for update in (*record.config.update, *record.run.config.update):
            settings.add(update.key or "/".join(update.nested_key))
    assert [row["step"] for row in rows if "eval/mean_reward" in row] == [100, 200, 300, 400]
    assert len([row for row in rows if any(name.startswith("train/") for name in row)]) == 10
    assert {"learning_rate", "beta", "env"} <= settings


def log_records(content):
    """The records of a file in LevelDB's log format, after 7 bytes of its own: pieces in blocks of 32 KiB."""
    position, record = 7, b""
    while position + 7 <= len(content):
        if 32_768 - position % 32_768 < 7:  # no header fits: the rest of the block is padding
            position += 32_768 - position % 32_768
            continue
        length, kind = int.from_bytes(content[position + 4 : position + 6], "little"), content[position + 6]
        record += content[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):  # whole, or the last piece
            yield record
            record = b""


@pytest.mark.slow
def test_mlflow_hears_of_rows_evaluations_and_the_policy(tmp_path):
    """In a local database."""
    mlflow = pytest.importorskip("mlflow", reason="pip install 'episodic-backward-update[loggers]'")
    shown = run_alone("mlflow_logger", tmp_path, MLFLOW_TRACKING_URI=f"sqlite:///{tmp_path / 'mlflow.db'}")
    client = mlflow.MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    run = client.get_run(shown.split()[-1])
    assert run.data.params["env"] == "CartPole-v1"
    history = client.get_metric_history(run.info.run_id, "eval/mean_reward")
    assert [point.step for point in history] == [100, 200, 300, 400]
    assert "train/epsilon" in run.data.metrics
    assert [file.path for file in client.list_artifacts(run.info.run_id)] == ["cartpole.ebu"]


def run_alone(name, folder, **environment):
    """In a process of its own: these libraries start threads and services."""
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), "400"]
    result = subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, timeout=PATIENCE
    )
    assert result.returncode == 0, result.stderr
    return result.stdout
