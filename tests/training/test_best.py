"""The best policy of a run: chosen by its evaluations, kept beside the last one, the same after a resume."""

from __future__ import annotations

import json

import gymnasium
import pytest

import ebu
from ebu.storage.run_folder import RunFolder, evaluations
from ebu.training.events import Evaluated
from tests.conftest import Corridor, ebu_, one_line

SETTINGS = {"learning_starts": 60, "batch_size": 16, "log_every": 50, "hidden_sizes": (8,), "eval_every": 60, "seed": 3}
SETTINGS |= {"eval_episodes": 2, "reward_clip": 1.0, "checkpoint_every": 40}


LOTTERY = "Tests/Lottery-v0"


class Lottery(Corridor):
    """Pays what the seed of the episode says, whatever is done: scores that no processor changes."""

    def reset(self, *, seed=None, options=None):
        self.prize = float((seed or 0) % 1000)
        return super().reset(seed=seed)

    def step(self, action):
        observation, _, terminated, truncated, info = super().step(action)
        return observation, self.prize if terminated or truncated else 0.0, terminated, truncated, info


gymnasium.register(LOTTERY, entry_point=Lottery)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run whose best evaluation is not its last, and the policies after each of its evaluations."""
    folder = tmp_path_factory.mktemp("best") / "run"
    agent = ebu.EBU(LOTTERY, **SETTINGS)
    kept = {}

    def keep(event):
        if isinstance(event, Evaluated):
            kept[event.step] = event.evaluation.mean, {k: v.clone() for k, v in weights(agent).items()}

    agent.learn(420, callback=keep, run=folder)
    assert max(kept.values(), key=lambda pair: pair[0])[0] > kept[420][0], "choose settings whose best is not the last"
    return folder, kept


def weights(agent):
    return agent.loop.learner.online.named_tensors(0)


def test_the_policy_of_the_best_evaluation_is_kept(run):
    folder, kept = run
    step, (score, tensors) = max(kept.items(), key=lambda item: item[1][0])
    best = ebu.load(folder, best=True)
    assert all((best._restored.tensors[name] == tensor).all() for name, tensor in tensors.items()), step
    assert json.loads((folder / "summary.json").read_text())["best_mean_reward"] == score
    assert (folder / "best.ebu").read_bytes() != (folder / "policy.ebu").read_bytes()


def test_a_folder_is_loaded_like_its_last_policy(run):
    folder, kept = run
    agent = ebu.load(folder)
    assert all((agent._restored.tensors[name] == tensor).all() for name, tensor in kept[420][1].items())


@pytest.mark.parametrize("stop", [70, 200, 330])
def test_a_resumed_run_has_the_same_best_policy(run, tmp_path, stop):
    straight, _ = run
    agent = ebu.EBU(LOTTERY, **SETTINGS)
    agent.learn(420, callback=lambda event: event.step < stop, run=tmp_path / "run")
    (tmp_path / "run" / "best.ebu").write_bytes(b"of a later step than the checkpoint's")
    ebu.resume(tmp_path / "run", announce=lambda text: None)
    assert (tmp_path / "run" / "best.ebu").read_bytes() == (straight / "best.ebu").read_bytes()


def test_it_is_sealed_with_the_finished_run(run, capsys):
    folder, _ = run
    assert "best.ebu" in (folder / "files.json").read_text()
    assert ebu_("verify", folder) == 0
    whole = (folder / "best.ebu").read_bytes()
    (folder / "best.ebu").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert ebu_("verify", folder) == 1
    assert "best.ebu" in capsys.readouterr().out
    (folder / "best.ebu").write_bytes(whole)


def test_the_command_line_scores_the_best(run, capsys):
    folder, _ = run
    assert ebu_(f"eval {folder} --best --episodes 3") == 0
    assert ebu_(f"eval {folder} --episodes 3") == 0
    best, last = capsys.readouterr().out.split("ebu on Tests/Lottery-v0")[1:]
    assert best != last


def test_a_run_without_evaluations_says_so(tmp_path):
    class NoCopy(gymnasium.Wrapper):
        """Gymnasium cannot make it again, so there is nothing to evaluate on."""

    ebu.EBU(NoCopy(Corridor()), **SETTINGS).learn(80, run=tmp_path / "run")
    assert evaluations(RunFolder(tmp_path / "run").rows()) == []
    with pytest.raises(ebu.UserError, match=r"no best policy yet \(no best\.ebu\): it has had no evaluation") as error:
        ebu.load(tmp_path / "run", best=True)
    one_line(error)
    assert ebu_("play", tmp_path / "run", "--best") == 2


def test_the_best_of_a_file_is_refused(run):
    with pytest.raises(ebu.UserError, match="takes a run folder"):
        ebu.load(run[0] / "policy.ebu", best=True)
