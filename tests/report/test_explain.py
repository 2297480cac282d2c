"""The explainer's numbers are those of the rules, and of the paper where it prints them."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from ebu.envs.mnist_maze import MNISTMaze
from ebu.experiments import explain_data
from ebu.experiments.explain_data import BETAS, GAMMA, UPDATES, ExampleEpisode
from ebu.report.explain import build_explainer

EXAMPLES = {"chain": explain_data.chain, "maze": explain_data.maze}


@pytest.fixture(scope="module")
def scenes():
    return {scene["id"]: scene for scene in explain_data.scenes()}


def test_the_chain_gives_the_papers_numbers(scenes):
    ebu = scenes["chain"]["starts"]["nothing"]["ebu"]
    assert ebu["y"][BETAS.index(1.0)][0] == pytest.approx([GAMMA**4, GAMMA**3, GAMMA**2, GAMMA, 1], rel=1e-3)
    assert ebu["y"][BETAS.index(0.5)][0] == pytest.approx([0.0410, 0.0911, 0.2025, 0.45, 1], rel=1e-2)


@pytest.mark.parametrize("example", EXAMPLES)
@pytest.mark.parametrize("start", ["nothing", "guesses"])
class TestEveryScene:
    def test_without_diffusion_ebu_is_one_step(self, scenes, example, start):
        found = scenes[example]["starts"][start]
        assert found["ebu"]["y"][0] == found["one_step"]["y"]

    def test_each_target_follows_from_the_column_shown(self, scenes, example, start):
        """What the page tells in words, y = R + γ · the largest entry, must be what the rule gave."""
        scene = scenes[example]
        ebu = {name: scene["starts"][start]["ebu"][name] for name in ("table", "mixed", "y")}
        table, y = (np.array(ebu[name]) for name in ("table", "y"))  # [β, update, T, A], [β, update, T]
        mixed = np.array(ebu["mixed"], float)
        for k in range(len(scene["taken"]) - 1):
            taken = scene["taken"][k + 1]
            for b, beta in enumerate(BETAS):
                told = beta * y[b, :, k + 1] + (1 - beta) * table[b, :, k, taken]
                assert mixed[b, :, k] == pytest.approx(told, rel=2e-3, abs=2e-3)
            column = table[:, :, k].copy()
            column[..., taken] = mixed[:, :, k]
            assert y[:, :, k] == pytest.approx(scene["rewards"][k] + GAMMA * column.max(-1), rel=2e-3, abs=2e-3)

    def test_shares_of_the_reward_lie_between_none_and_all(self, scenes, example, start):
        found = scenes[example]["starts"][start]
        for method in ("ebu", "one_step", "n_step", "retrace"):
            share = np.array(found[method]["share"])
            assert share[..., -1] == pytest.approx(1.0)
            assert share.min() >= -1e-9 and share.max() <= 1 + 1e-9

    def test_one_pass_of_full_diffusion_reaches_furthest(self, scenes, example, start):
        found = scenes[example]["starts"][start]
        reach = {m: int((np.array(found[m]["share"][0]) >= 0.01).sum()) for m in ("one_step", "n_step", "retrace")}
        full = int((np.array(found["ebu"]["share"][-1][0]) >= 0.01).sum())
        assert full >= max(reach.values()) and reach["one_step"] == 1 and reach["n_step"] == 3


def test_from_nothing_one_pass_reaches_every_step_and_finds_the_shortest_way(scenes):
    for scene in scenes.values():
        ebu = scene["starts"]["nothing"]["ebu"]
        assert min(ebu["share"][-1][0]) >= 0.01
        assert ebu["found"][-1][0] == {"chain": 3, "maze": 12}[scene["id"]]


def test_the_mazes_episode_happened_in_the_maze():
    example: ExampleEpisode = explain_data.maze()
    env = MNISTMaze(size=6, maze_seed=explain_data.MAZE_SEED)
    _, info = env.reset(seed=0)
    cells = [tuple(cell) for cell in example.picture["cells"]]
    for state, action, reward in zip(example.episode.observations, example.episode.actions, example.episode.rewards):
        assert cells[state] == info["position"]
        _, came, terminated, _, info = env.step(int(action))
        assert came == reward
    assert terminated


def test_a_second_pass_learns_from_what_the_first_one_taught():
    """By hand, one-step on the chain: after t5 was learned, t4 and t2 share the entry of s2 →, t3 that of s3 ←."""
    tables, y, _, found = explain_data.replay(explain_data.chain(), np.zeros((4, 2)), explain_data.one_step)
    assert y[0].tolist() == [0, 0, 0, 0, 1]
    assert y[1].tolist() == [0, GAMMA, 0, GAMMA, 1]
    assert y[2] == pytest.approx([GAMMA**2, GAMMA, GAMMA**2, GAMMA, 1])
    assert tables.shape == (UPDATES, 5, 2) and found[:3] == [None, None, 3]


def test_the_page_is_complete_in_one_file(tmp_path, scenes):
    path = build_explainer(tmp_path / "deep" / "explain.html", list(scenes.values()))
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"""(src|href)=["'](?!data:|#)""", text)
    assert "default-src 'none'" in text
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])
    assert [scene["id"] for scene in data["scenes"]] == ["chain", "maze"]
    assert path.stat().st_size < 1_000_000
