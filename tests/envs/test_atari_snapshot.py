"""An environment saved in mid-game and restored into a new instance goes on exactly as the old one would have."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from ebu.envs.atari import REPLAYED_FRAMES, Atari, make_atari
from ebu.errors import UserError
from tests.envs.test_atari import actions, play, play_until_life_lost

pytest.importorskip("ale_py")


def assert_goes_on_identically(env: Atari, restored: Atari, observation: np.ndarray, steps: int) -> None:
    snapshot = env.snapshot()
    assert np.array_equal(restored.restore(snapshot), observation)
    taken = actions(env, steps, seed=5)
    assert play(restored, taken) == play(env, taken)


# Seaquest flickers, Q*bert and Amidar boot strangely, Pong has no lives.
@pytest.mark.parametrize("game", ["breakout", "pong", "seaquest", "qbert", "amidar"])
def test_a_new_instance_continues_with_identical_frames_and_rewards(game: str) -> None:
    env = make_atari(game, training=True)
    observation, _ = env.reset(seed=0)
    for action in actions(env, 77):
        observation, _, terminated, _, _ = env.step(action)
        if terminated:
            observation, _ = env.reset(seed=1)
    assert_goes_on_identically(env, make_atari(game, training=True), observation, 300)


@pytest.mark.parametrize("game", ["qbert", "amidar", "name_this_game"])
def test_the_first_frames_of_a_game_can_be_saved_too(game: str) -> None:
    env, used = (Atari(game, frame_skip=1, noop_min=0, noop_max=0) for _ in range(2))
    used.reset(seed=9)
    for steps in (0, 1, 2, REPLAYED_FRAMES - 1, REPLAYED_FRAMES, REPLAYED_FRAMES + 1):
        play(used, actions(used, 100, seed=9))  # so that it is restored from the middle of another game
        observation, _ = env.reset(seed=0)
        for action in actions(env, steps):
            observation = env.step(action)[0]
        assert_goes_on_identically(env, used, observation, 30)


@pytest.mark.parametrize("parity", [0, 1])
def test_the_older_of_the_two_merged_screens_is_part_of_the_snapshot(parity: int) -> None:
    # With a skip of one frame every observation needs the frame before it, which the emulator does not save.
    env = make_atari("seaquest", training=False, frame_skip=1)
    observation, _ = env.reset(seed=0)
    for action in actions(env, 200 + parity):
        observation = env.step(action)[0]
    assert_goes_on_identically(env, make_atari("seaquest", training=False, frame_skip=1), observation, 20)


def test_an_episode_that_ended_with_a_life_is_still_to_be_continued_after_restoring() -> None:
    env = make_atari("breakout", training=True)
    last, _, info = play_until_life_lost(env)
    restored = make_atari("breakout", training=True)
    restored.restore(env.snapshot())
    for one in (env, restored):
        first, after = one.reset(seed=4)
        assert np.array_equal(first, last) and after["frames"] == info["frames"]
    assert_goes_on_identically(env, restored, last, 30)


def test_chance_continues_where_it_was() -> None:
    env = make_atari("breakout", training=False, sticky=0.5)
    observation, _ = env.reset(seed=0)
    for action in actions(env, 30):
        observation = env.step(action)[0]
    assert_goes_on_identically(env, make_atari("breakout", training=False, sticky=0.5), observation, 50)


def test_a_snapshot_is_arrays_bytes_and_json_and_later_steps_do_not_change_it() -> None:
    env = make_atari("pong", training=True)
    env.reset(seed=0)
    snapshot = env.snapshot()

    def plain(value: Any) -> Any:
        return value.tobytes().hex() if isinstance(value, np.ndarray) else value.hex()

    before = json.dumps(snapshot, default=plain)
    play(env, actions(env, 5))
    assert json.dumps(snapshot, default=plain) == before


def test_the_picture_is_right_straight_after_restoring() -> None:
    env = make_atari("seaquest", training=True, render_mode="rgb_array")
    env.reset(seed=0)
    play(env, actions(env, 100))
    restored = make_atari("seaquest", training=True, render_mode="rgb_array")
    restored.restore(env.snapshot())
    pictures = env.render(), restored.render()
    assert pictures[0] is not None and np.array_equal(*pictures)


def test_a_snapshot_of_another_game_or_protocol_is_refused() -> None:
    env = make_atari("pong", training=True)
    with pytest.raises(UserError, match="before the first reset"):
        env.snapshot()
    env.reset(seed=0)
    for other in (make_atari("breakout", training=True), make_atari("pong", training=False)):
        with pytest.raises(UserError, match="the snapshot is of pong"):
            other.restore(env.snapshot())
