"""``ebu share``: the folder others load, and the card as the Hugging Face library reads it."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from PIL import Image

import ebu
from ebu.config import from_json
from ebu.presets import configure
from tests.conftest import ebu_

SMALL = (
    "--steps 120 --learning-starts 30 --eval-every 60 --eval-episodes 1 --hidden-sizes 8 --batch-size 8 --tensorboard False"
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "run"
    assert ebu_(f"train CartPole-v1 --beta 0.25 {SMALL} --run", folder) == 0
    return folder


@pytest.fixture(scope="module")
def shared(run):
    out = run.parent / "shared"
    assert ebu_(f"share {run} --episodes 3 --out", out) == 0
    return out


def test_the_folder_holds_what_others_need(shared):
    names = {path.name for path in shared.iterdir()}
    assert names == {
        *("policy.safetensors", "config.json", "preset.toml", "results.json", "curve.png", "replay.mp4", "README.md"),
    }
    with Image.open(shared / "curve.png") as picture:
        assert picture.size[0] > 500
    results = json.loads((shared / "results.json").read_text())
    expected = ebu.evaluate(ebu.load(shared), episodes=3, epsilon=0.0, seed=0)
    assert (results["mean_reward"], results["n_eval_episodes"]) == (expected.mean, 3)
    assert results["std_reward"] == pytest.approx(np.std(expected.returns))


def test_a_moved_copy_acts_as_the_run_does(run, shared, tmp_path):
    shutil.copytree(shared, tmp_path / "elsewhere")
    observations = list(np.random.default_rng(0).normal(size=(10, 4)).astype(np.float32))
    np.testing.assert_array_equal(
        ebu.load(tmp_path / "elsewhere").q_values(observations), ebu.load(run).q_values(observations)
    )
    assert ebu_(f"eval {tmp_path / 'elsewhere'} --episodes 1") == 0


def test_its_preset_gives_the_settings_again(run, shared):
    config = from_json((run / "config.json").read_text())
    assert configure("ebu", "CartPole-v1", str(shared / "preset.toml")) == config
    assert str(run.parent) not in "".join(
        path.read_text() for path in shared.iterdir() if path.suffix in (".md", ".json", ".toml")
    )


def test_the_hub_s_library_reads_the_card(shared):
    hub = pytest.importorskip("huggingface_hub")
    card = hub.ModelCard.load(shared / "README.md")
    assert card.data.library_name == "ebu" and {"reinforcement-learning", "CartPole-v1"} <= set(card.data.tags)
    (result,) = card.data.eval_results
    score = json.loads((shared / "results.json").read_text())["mean_reward"]
    assert (result.task_type, result.dataset_name, result.metric_type) == (
        "reinforcement-learning",
        "CartPole-v1",
        "mean_reward",
    )
    assert result.metric_value == pytest.approx(score, abs=1e-4)
    for words in ("Episodic Backward Update on CartPole-v1", "curve.png", "replay.mp4", "ebu.load("):
        assert words in card.text
    from safetensors import safe_open

    with safe_open(shared / "policy.safetensors", "pt") as file:
        assert len(list(file.keys())) > 0


def test_a_policy_file_is_shared_without_a_curve(run, tmp_path):
    assert ebu_(f"share {run / 'policy.ebu'} --no-film --episodes 1 --out", tmp_path / "out") == 0
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"policy.safetensors", "config.json", "preset.toml", "results.json", "README.md"}
    assert "curve.png" not in (tmp_path / "out" / "README.md").read_text()


def test_the_best_policy_is_shared_when_asked_for(run, tmp_path):
    assert ebu_(f"share {run} --best --no-film --episodes 1 --out", tmp_path / "out") == 0
    assert (tmp_path / "out" / "policy.safetensors").read_bytes() == (run / "best.ebu").read_bytes()


def test_nothing_is_overwritten_and_nothing_is_made_of_nothing(run, shared, tmp_path, capsys):
    before = {path.name: path.read_bytes() for path in shared.iterdir()}
    assert ebu_(f"share {run} --out", shared) == 2
    assert "already holds something; choose another --out folder" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in shared.iterdir()} == before
    assert ebu_(f"share {tmp_path / 'nowhere'} --out", tmp_path / "out") == 2
    assert ebu_(f"share {run} --episodes 0 --out", tmp_path / "out") == 2
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["resume", "resume --steps 500", "verify", "verify --prove", "rescue --out rescued.ebu"])
def test_a_shared_folder_is_not_taken_for_a_run(command, shared, capsys):
    before = {path.name: path.read_bytes() for path in shared.iterdir()}
    assert ebu_(f"{command} {shared}") == 2
    told = capsys.readouterr().err
    assert "is a folder of `ebu share`" in told and f"`ebu train --preset {shared / 'preset.toml'}` trains it anew" in told
    with pytest.raises(ebu.UserError, match="which holds a policy and no run"):
        ebu.resume(shared)
    assert {path.name: path.read_bytes() for path in shared.iterdir()} == before


def test_a_shared_folder_has_one_policy_and_takes_no_run(shared, capsys):
    assert ebu_(f"eval {shared} --best") == 2
    assert "holds one policy; leave out best" in capsys.readouterr().err
    assert ebu_(f"train CartPole-v1 --steps 10 --run {shared}") == 2
    assert "already holds a shared policy; choose another folder" in capsys.readouterr().err


def test_a_link_in_a_shared_folder_is_not_followed(shared, tmp_path):
    (tmp_path / "config.json").write_bytes((shared / "config.json").read_bytes())
    (tmp_path / "policy.safetensors").symlink_to(shared / "policy.safetensors")
    with pytest.raises(ebu.UserError):
        ebu.load(tmp_path)
