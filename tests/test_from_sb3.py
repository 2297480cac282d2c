"""Every row of docs/from-stable-baselines3.md runs: the left side on the real Stable-Baselines3, the right side here."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import ebu
from ebu.agent.sb3_names import ELSEWHERE
from ebu.callbacks import Checkpoint, KeepBest, StopOnReward
from ebu.config import field_names

sb3 = pytest.importorskip("stable_baselines3")
from stable_baselines3.common import callbacks as sb3_callbacks  # noqa: E402
from stable_baselines3.common.env_util import make_vec_env  # noqa: E402
from stable_baselines3.common.evaluation import evaluate_policy  # noqa: E402

PAGE = Path(__file__).parent.parent / "docs" / "from-stable-baselines3.md"
SMALL = {"learning_starts": 10, "batch_size": 8, "eval_every": 20, "eval_episodes": 1, "hidden_sizes": (8,)}


def rows(title):
    """The code on both sides of each row of a table; None for a dash."""
    section = PAGE.read_text(encoding="utf-8").partition(f"## {title}\n")[2].partition("\n## ")[0]
    lines = [line.split(" | ")[:2] for line in section.splitlines() if line.startswith("| `")]
    return [tuple(code[1] if (code := re.search(r"`(.*)`", side)) else None for side in line) for line in lines]


def small(code):
    """The same call with fewer steps."""
    return code.replace("10_000", "40").replace("5_000", "20")


@pytest.mark.filterwarnings("ignore:Evaluation environment is not wrapped")
def test_every_call_runs_on_its_side(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert len(rows("Calls")) >= 20
    env = gymnasium.make("CartPole-v1")
    observation, _ = env.reset(seed=0)
    names = {"env": env, "observation": observation, "observations": np.stack([observation] * 3), "ebu": ebu}
    names |= {name: getattr(sb3_callbacks, name) for name in dir(sb3_callbacks) if name[0].isupper()}
    names |= {"DQN": sb3.DQN, "evaluate_policy": evaluate_policy, "make_vec_env": make_vec_env}
    names |= {cls.__name__: cls for cls in (Checkpoint, KeepBest, StopOnReward)}
    for theirs, ours in rows("Calls"):
        for code in (theirs, ours):
            assert code is not None
            exec(small(code), names)
            if code.startswith("agent = ebu.DQN("):  # as small as the calls
                names["agent"] = ebu.DQN("CartPole-v1", seed=0, **SMALL)
            if code.startswith('model = DQN("MlpPolicy"'):
                names["model"] = sb3.DQN("MlpPolicy", "CartPole-v1", seed=0, buffer_size=200)
    assert names["agent"].num_timesteps > 0 and names["model"].num_timesteps > 0
    assert (tmp_path / "best.ebu").is_file() and list((tmp_path / "saved").glob("agent-*.ebu"))


def keywords(code):
    return eval(f"dict({code})", {})


def test_every_keyword_is_taken_on_its_side(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for theirs, ours in rows("Keywords"):
        sb3.DQN("MlpPolicy", "CartPole-v1", **{"buffer_size": 100, **keywords(theirs)})
        if ours is not None:
            assert isinstance(ebu.NStepDQN("CartPole-v1", **keywords(ours)), ebu.Agent), ours


def test_every_keyword_of_theirs_has_its_row():
    asked = set(inspect.signature(sb3.DQN.__init__).parameters) - {"self", "policy", "env", "_init_setup_model"}
    assert {next(iter(keywords(theirs))) for theirs, _ in rows("Keywords")} == asked


def test_a_keyword_without_a_counterpart_is_refused_with_a_way_out():
    for theirs, ours in rows("Keywords"):
        if ours is None:
            with pytest.raises(ebu.UserError, match=next(iter(keywords(theirs)))) as error:
                ebu.DQN("CartPole-v1", **keywords(theirs))
            assert "docs/from-stable-baselines3.md" in str(error.value)


def test_no_setting_of_ours_is_refused_as_theirs():
    assert not set(ELSEWHERE) & set(field_names())
