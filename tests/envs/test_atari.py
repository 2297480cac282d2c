"""The environment on the real emulator: all 49 games, and each choice of the protocol."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from ebu.envs.atari import PAPER_EVALUATION, PAPER_TRAINING, RELEASED_EVALUATION, RELEASED_TRAINING, Atari, make_atari
from ebu.envs.atari_games import GAMES, resolve_game
from ebu.envs.screen import resizer
from ebu.errors import UserError

ale_py = pytest.importorskip("ale_py")


def actions(env: Atari, count: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(env.action_space.n, size=count).tolist()  # type: ignore[attr-defined]


def play(env: Atari, taken: list[int], seed: int = 100) -> list[tuple[Any, ...]]:
    """Everything an agent sees, episode after episode, each reset with its own seed."""
    seen: list[tuple[Any, ...]] = []
    for action in taken:
        observation, reward, terminated, truncated, info = env.step(action)
        seen.append((observation.tobytes(), reward, terminated, truncated, *info.values()))
        if terminated or truncated:
            seed += 1
            observation, info = env.reset(seed=seed)
            seen.append((observation.tobytes(), *info.values()))
    return seen


def play_until_life_lost(env: Atari) -> tuple[np.ndarray, dict[str, Any], dict[str, Any]]:
    """The last observation of the episode and the info before and after its last step."""
    _, before = env.reset(seed=0)
    for action in actions(env, 2_000):
        observation, _, terminated, _, info = env.step(action)
        if terminated:
            return observation, before, info
        before = info
    raise AssertionError("no life was lost")


class NaiveAtari:
    """The same pipeline written out frame by frame on RGB: no palette, no lookups, no early stop."""

    def __init__(self, game: str) -> None:
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        self.ale = ale_py.ALEInterface()
        self.ale.setFloat("repeat_action_probability", 0.0)
        self.ale.loadROM(ale_py.roms.get_rom_path(resolve_game(game)))
        self.ale.reset_game()
        self.frames = [self.ale.getScreenRGB(), self.ale.getScreenRGB()]
        self.resize = resizer("bilinear", self.frames[0].shape[:2], 84)

    def step(self, action: int, frames: int) -> tuple[np.ndarray, float]:
        reward = 0.0
        for _ in range(frames):
            reward += self.ale.act(self.ale.getMinimalActionSet()[action])
            self.frames = [self.frames[1], self.ale.getScreenRGB()]
        brightest = np.maximum(*self.frames).astype(np.float64)
        gray = np.floor(brightest @ [0.299, 0.587, 0.114] + 0.5 + 1e-9).astype(np.uint8)
        return self.resize(gray)[None], reward


@pytest.mark.parametrize("game", [game.ale_id for game in GAMES])
def test_every_game_plays_as_the_naive_pipeline_and_again_the_same_from_its_seed(game: str) -> None:
    env, naive = make_atari(game, training=False), NaiveAtari(game)
    first, info = env.reset(seed=3)
    assert env.observation_space.contains(first)
    naive.step(0, info["frames"])  # the no-ops
    taken = actions(env, 25)
    for action in taken[:15]:
        observation, reward, terminated, truncated, _ = env.step(action)
        expected, expected_reward = naive.step(action, 4)
        assert np.array_equal(observation, expected)
        assert (reward, terminated, truncated) == (expected_reward, False, False)

    # The environment is a used one now, yet the same seed and actions give the same frames.
    runs = []
    for _ in range(2):
        assert np.array_equal(env.reset(seed=3)[0], first)
        runs.append(play(env, taken))
    assert runs[0] == runs[1]


def test_european_cartridges_with_another_palette_work_too() -> None:
    env, naive = Atari("pacman", noop_min=0, noop_max=0), NaiveAtari("pacman")
    env.reset(seed=0)
    for action in actions(env, 20):
        assert np.array_equal(env.step(action)[0], naive.step(action, 4)[0])


def test_a_lost_life_ends_a_training_episode_and_the_game_continues() -> None:
    env = make_atari("breakout", training=True)
    last, before, info = play_until_life_lost(env)
    assert info["lives"] == before["lives"] - 1 == 4 and not info["game_over"]
    first, after = env.reset(seed=8)
    assert np.array_equal(first, last)
    assert (after["frames"], after["lives"]) == (info["frames"], 4)
    assert env.step(0)[4]["frames"] == info["frames"] + 4


def test_the_seed_of_an_episode_inside_a_game_changes_nothing_without_chance() -> None:
    runs = []
    for seed in (1, 2):
        env = make_atari("breakout", training=True)
        play_until_life_lost(env)
        env.reset(seed=seed)
        runs.append([env.step(action)[0].tobytes() for action in actions(env, 20)])
    assert runs[0] == runs[1]


def test_game_over_ends_the_episode_and_the_next_one_begins_a_new_game() -> None:
    env = make_atari("breakout", training=True)
    env.reset(seed=0)
    over = []
    for action in actions(env, 3_000):
        _, _, terminated, _, info = env.step(action)
        if terminated:
            over.append(info["game_over"])
            _, fresh = env.reset(seed=1)
            if info["game_over"]:
                assert info["lives"] == 0
                assert fresh["lives"] == 5 and fresh["score"] == 0 and 1 <= fresh["frames"] <= 30
                break
    assert over == [False] * 4 + [True]


def test_a_new_game_can_be_asked_for_after_a_lost_life() -> None:
    env = make_atari("breakout", training=True)
    play_until_life_lost(env)
    _, info = env.reset(seed=0, options={"new_game": True})
    assert info["lives"] == 5 and info["frames"] <= 30


def test_evaluation_plays_whole_games_and_counts_the_whole_score() -> None:
    env = make_atari("breakout", training=False)
    env.reset(seed=0)
    total, lives = 0.0, set()
    for action in actions(env, 4_000):
        _, reward, terminated, _, info = env.step(action)
        total += reward
        lives.add(info["lives"])
        assert info["score"] == total
        if terminated:
            break
    assert terminated and info["game_over"] and lives == {0, 1, 2, 3, 4, 5}


def test_the_skip_stops_at_a_lost_life_only_where_it_should() -> None:
    def frames_of_last_step(**overrides: Any) -> int:
        _, before, info = play_until_life_lost(Atari("seaquest", **overrides))
        return int(info["frames"] - before["frames"])

    found = {frames_of_last_step(noop_min=noops, noop_max=noops) for noops in (1, 2, 3)}
    assert max(found) <= 4 and min(found) < 4
    assert frames_of_last_step(skip_stops_early=False, noop_min=1, noop_max=1) == 4


@pytest.mark.parametrize("game", ["pong", "boxing"])
def test_games_without_lives_just_work(game: str) -> None:
    env = make_atari(game, training=True)
    _, info = env.reset(seed=0)
    assert info["lives"] == 0
    assert not any(env.step(action)[2] for action in actions(env, 50))


def test_rewards_are_raw() -> None:
    env = make_atari("ms_pacman", training=False)
    env.reset(seed=0)
    assert 10.0 in {env.step(action)[1] for action in actions(env, 150)}


def test_the_cap_truncates_and_the_next_episode_begins_a_new_game() -> None:
    env = make_atari("pong", training=True, max_episode_steps=5)
    env.reset(seed=0)
    flags = [env.step(0)[2:4] for _ in range(5)]
    assert flags == [(False, False)] * 4 + [(False, True)]
    assert env.reset(seed=0)[1]["frames"] <= 30


def test_a_game_starts_with_one_to_thirty_noops_drawn_from_the_seed() -> None:
    env = make_atari("pong", training=True)
    drawn = [env.reset(seed=seed)[1]["frames"] for seed in range(60)]
    assert min(drawn) >= 1 and max(drawn) <= 30 and len(set(drawn)) > 15
    assert [env.reset(seed=seed)[1]["frames"] for seed in range(5)] == drawn[:5]


def test_no_trace_of_the_last_game_is_left_in_the_next() -> None:
    env = make_atari("assault", training=False)  # the emulator's own reset gives another start each time
    taken = actions(env, 60)
    fresh = make_atari("assault", training=False)
    fresh.reset(seed=0)
    expected = play(fresh, taken)
    for length in (3, 40, 90):
        env.reset(seed=length)
        play(env, actions(env, length, seed=length))
        env.reset(seed=0)
        assert play(env, taken) == expected


def test_sticky_actions_are_drawn_from_the_seed() -> None:
    env = make_atari("breakout", training=False, sticky=0.5, noop_min=4, noop_max=4)
    runs = []
    for seed in (0, 0, 1):
        env.reset(seed=seed)
        runs.append(play(env, actions(env, 40)))
    assert runs[0] == runs[1] != runs[2]


def test_the_action_set_is_minimal_unless_asked_otherwise() -> None:
    env = Atari("breakout")
    assert env.action_meanings == ("NOOP", "FIRE", "RIGHT", "LEFT")
    assert Atari("breakout", full_action_space=True).action_space.n == 18  # type: ignore[attr-defined]


def test_the_released_settings_are_the_authors_choices() -> None:
    assert PAPER_TRAINING.max_episode_steps == 27_000 and PAPER_EVALUATION.max_episode_steps == 4_500
    assert not PAPER_EVALUATION.life_loss_ends_episode and not RELEASED_EVALUATION.life_loss_ends_episode
    assert (RELEASED_TRAINING.noop_min, RELEASED_TRAINING.noop_max) == (2, 2)
    assert (RELEASED_EVALUATION.noop_min, RELEASED_EVALUATION.noop_max) == (2, 32)
    env = make_atari("breakout", training=True, protocol="released")
    assert env.reset(seed=0)[1]["frames"] == 2
    _, before, info = play_until_life_lost(env)
    assert info["frames"] == before["frames"] + 4
    assert env.reset(seed=1)[1]["frames"] == info["frames"] + 2


def test_rendering_gives_the_newest_screen_in_colour() -> None:
    env = make_atari("enduro", training=True, render_mode="rgb_array")
    env.reset(seed=0)
    env.step(1)
    picture = env.render()
    assert picture is not None and picture.shape == (210, 160, 3)
    assert np.array_equal(picture, env._ale.getScreenRGB())
    assert make_atari("enduro", training=True).render() is None


def test_the_emulator_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    Atari("pong").reset(seed=0)
    assert capfd.readouterr() == ("", "")


def test_observations_handed_out_are_never_changed_afterwards() -> None:
    env = make_atari("breakout", training=True)
    first, _ = env.reset(seed=0)
    copy = first.copy()
    for action in actions(env, 5):
        env.step(action)[0][:] = 7
    assert np.array_equal(first, copy)


@pytest.mark.parametrize(
    ("game", "overrides", "words"),
    [
        ("combat", {}, "no single-player game combat"),
        ("ALE/Brekout-v5", {}, "did you mean breakout"),
        ("pong", {"frameskip": 4}, "no setting frameskip; it has frame_skip"),
        ("pong", {"frame_skip": 0}, "frame_skip must be at least 1"),
        ("pong", {"noop_min": 5, "noop_max": 3}, "noop_min"),
        ("pong", {"sticky": 1.0}, "sticky must be in"),
        ("pong", {"screen_resize": "nearest"}, "screen_resize must be bilinear, area or antialias"),
        ("pong", {"render_mode": "human"}, "not as 'human'"),
        ("pong", {"protocol": "nature"}, "choose from paper, released"),
    ],
)
def test_mistakes_are_answered_in_one_line(game: str, overrides: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        make_atari(game, training=True, **overrides)


def test_a_missing_emulator_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ale_py", None)
    with pytest.raises(UserError, match=r"pip install 'episodic-backward-update\[atari\]'"):
        make_atari("breakout", training=True)
