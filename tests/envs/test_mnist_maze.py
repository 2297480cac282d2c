"""The maze as an environment: moves, rewards, ends, randomness, exact resume."""

from __future__ import annotations

import json
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

from ebu.envs.digits import load_digits
from ebu.envs.maze_layout import MOVES
from ebu.envs.mnist_maze import MNISTMaze
from ebu.envs.registration import MAZE_ID, register
from ebu.errors import UserError

UP, DOWN, LEFT, RIGHT = range(4)
CORRIDOR = [".#.", "..#", "#.."]  # down, right, down, right


def play(env: MNISTMaze, actions: list[int]) -> list[Any]:
    """Everything an episode shows, restarted when it ends, in comparable form."""
    shown = []
    for action in actions:
        observation, *rest = env.step(action)
        shown.append((observation.tobytes(), *rest))
        if rest[1] or rest[2]:
            observation, info = env.reset()
            shown.append((observation.tobytes(), info))
    return shown


def random_actions(count: int) -> list[int]:
    return np.random.default_rng(5).integers(4, size=count).tolist()


def shows(image: np.ndarray, digit: int) -> bool:
    digits = load_digits()
    return bool((digits.images[digits.labels == digit] == image).all(axis=(1, 2)).any())


def test_a_walk_through_a_known_maze() -> None:
    env = MNISTMaze(layout=CORRIDOR)
    observation, info = env.reset(seed=0)
    assert info == {"position": (0, 0), "shortest_path": 4, "steps": 0, "bumped": False}
    assert shows(observation[0], 0) and shows(observation[1], 0)
    walk = [
        (RIGHT, -1.0, (0, 0), True),  # wall
        (UP, -1.0, (0, 0), True),  # border
        (DOWN, 0.0, (1, 0), False),
        (RIGHT, 0.0, (1, 1), False),
        (LEFT, 0.0, (1, 0), False),
        (RIGHT, 0.0, (1, 1), False),
        (DOWN, 0.0, (2, 1), False),
        (RIGHT, 1000.0, (2, 2), False),
    ]
    for count, (action, expected_reward, position, bumped) in enumerate(walk, start=1):
        observation, reward, terminated, truncated, info = env.step(action)
        assert (reward, terminated, truncated) == (expected_reward, position == (2, 2), False)
        assert info == {"position": position, "shortest_path": 4, "steps": count, "bumped": bumped}
        assert observation.shape == (2, 28, 28) and observation.dtype == np.uint8
        assert shows(observation[0], position[0]) and shows(observation[1], position[1])


def test_rewards_can_be_set_and_the_border_can_be_free() -> None:
    env = MNISTMaze(layout=CORRIDOR, goal_reward=1, bump_reward=-0.5, border_is_wall=False)
    env.reset(seed=0)
    rewards, infos = zip(*(env.step(action)[1::3] for action in (UP, RIGHT, DOWN, RIGHT, DOWN, RIGHT)))
    assert rewards == (0.0, -0.5, 0.0, 0.0, 0.0, 1.0)
    assert [info["bumped"] for info in infos] == [True, True, False, False, False, False]


def test_an_episode_is_truncated_once_it_has_lasted_cap_steps() -> None:
    env = MNISTMaze(layout=CORRIDOR, cap=3)
    env.reset(seed=0)
    ends = [env.step(UP)[2:4] for _ in range(3)]
    assert ends == [(False, False), (False, False), (False, True)]


def test_reaching_the_goal_at_the_cap_terminates_and_does_not_truncate() -> None:
    env = MNISTMaze(layout=CORRIDOR, cap=4)
    env.reset(seed=0)
    ends = [env.step(action)[2:4] for action in (DOWN, RIGHT, DOWN, RIGHT)]
    assert ends[-1] == (True, False)


def test_stepping_before_reset_or_after_the_end_is_refused() -> None:
    env = MNISTMaze(layout=CORRIDOR, cap=1)
    with pytest.raises(ResetNeeded):
        env.step(UP)
    env.reset(seed=0)
    env.step(UP)
    with pytest.raises(ResetNeeded):
        env.step(UP)


@pytest.mark.parametrize("action", [-1, 4])
def test_an_unknown_action_is_refused(action: int) -> None:
    env = MNISTMaze(layout=CORRIDOR)
    env.reset(seed=0)
    with pytest.raises(UserError, match=f"action {action}"):
        env.step(action)


@pytest.mark.parametrize("action", range(4))
def test_a_slip_goes_to_each_side_with_its_probability(action: int) -> None:
    env = MNISTMaze(layout=["...", "...", "..."], slip=0.1, redraw_digits=False)
    env.reset(seed=action)
    landed = dict.fromkeys(((1 + down, 1 + right) for down, right in MOVES), 0)
    for _ in range(4000):
        env.restore(env.snapshot() | {"position": [1, 1], "path": [[1, 1]], "steps": 0})
        landed[env.step(action)[4]["position"]] += 1
    sideways = (LEFT, RIGHT) if action in (UP, DOWN) else (UP, DOWN)
    for move, (down, right) in enumerate(MOVES):
        expected = 0.8 if move == action else 0.1 if move in sideways else 0.0
        assert landed[1 + down, 1 + right] / 4000 == pytest.approx(expected, abs=0.025)


def test_a_slip_of_one_half_never_makes_the_chosen_move() -> None:
    env = MNISTMaze(layout=["...", "...", "..."], slip=0.5)
    env.reset(seed=0)
    assert {env.step(UP)[4]["position"][0] for _ in range(100)} == {0}
    assert {env.step(DOWN)[4]["position"][0] for _ in range(100)} == {0}


@pytest.mark.parametrize("slip", [0.0, 0.1])
@pytest.mark.parametrize("redraw_digits", [True, False])
def test_the_same_seed_and_actions_show_the_same_bytes(slip: float, redraw_digits: bool) -> None:
    actions = random_actions(300)
    first, again, other = (MNISTMaze(slip=slip, redraw_digits=redraw_digits, cap=90) for _ in range(3))
    starts = [env.reset(seed=seed)[0].tobytes() for env, seed in ((first, 7), (again, 7), (other, 8))]
    shown = [play(env, actions) for env in (first, again, other)]
    assert starts[0] == starts[1] and shown[0] == shown[1]
    if slip or redraw_digits:
        assert shown[0] != shown[2]
    else:
        assert shown[0] == shown[2]


def test_the_layout_depends_on_the_maze_seed_alone() -> None:
    env = MNISTMaze(maze_seed=4)
    before = env.maze.lines()
    env.reset(seed=1)
    env.reset(seed=2)
    assert env.maze.lines() == before == MNISTMaze(maze_seed=4, slip=0.1, redraw_digits=False).maze.lines()
    assert MNISTMaze(maze_seed=5).maze.lines() != before


def test_the_default_maze_never_changes() -> None:
    """Results name mazes by their seed, so the layout of a seed is part of the interface."""
    assert MNISTMaze(size=5).maze.lines() == [".###.", ".....", ".#.#.", "#..#.", "##..."]


def test_fixed_digits_belong_to_maze_and_axis_and_redrawn_ones_vary() -> None:
    fixed, redrawn = MNISTMaze(redraw_digits=False), MNISTMaze()
    images = {fixed.reset(seed=seed)[0].tobytes() for seed in range(5)}
    assert len(images) == 1
    observation = fixed.reset()[0]
    assert not np.array_equal(observation[0], observation[1])  # the zero of the rows is not the zero of the columns
    assert not np.array_equal(observation, MNISTMaze(redraw_digits=False, maze_seed=1).reset()[0])
    assert len({redrawn.reset(seed=seed)[0].tobytes() for seed in range(5)}) == 5


def test_observations_can_be_kept() -> None:
    env = MNISTMaze()
    kept, _ = env.reset(seed=0)
    before = kept.copy()
    after = env.step(UP)[0]
    assert not np.shares_memory(kept, after) and kept.flags.owndata
    after[:] = 0
    np.testing.assert_array_equal(kept, before)


@pytest.mark.parametrize("slip", [0.0, 0.1])
@pytest.mark.parametrize("redraw_digits", [True, False])
def test_a_restored_maze_continues_identically(slip: float, redraw_digits: bool) -> None:
    env, resumed = (MNISTMaze(slip=slip, redraw_digits=redraw_digits, cap=60) for _ in range(2))
    env.reset(seed=3)
    play(env, random_actions(100))
    observation, *_ = env.step(DOWN)
    snapshot = json.loads(json.dumps(env.snapshot()))
    np.testing.assert_array_equal(resumed.restore(snapshot), observation)
    assert resumed.snapshot() == env.snapshot() == snapshot
    assert resumed.render_text() == env.render_text()
    assert play(resumed, random_actions(200)) == play(env, random_actions(200))


def test_a_snapshot_of_a_finished_episode_still_needs_a_reset() -> None:
    env, resumed = MNISTMaze(cap=1), MNISTMaze(cap=1)
    env.reset(seed=3)
    env.step(UP)
    resumed.restore(env.snapshot())
    with pytest.raises(ResetNeeded):
        resumed.step(UP)
    np.testing.assert_array_equal(resumed.reset()[0], env.reset()[0])


def test_a_snapshot_of_another_maze_or_digit_set_is_refused() -> None:
    env = MNISTMaze(maze_seed=0)
    env.reset(seed=0)
    with pytest.raises(UserError, match="another maze"):
        MNISTMaze(maze_seed=1).restore(env.snapshot())
    with pytest.raises(UserError, match="same digits folder"):
        env.restore(env.snapshot() | {"digits": [0, 50_000]})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"slip": -0.1}, "slip=-0.1"),
        ({"slip": 0.6}, "slip=0.6: .* between 0 and 0.5"),
        ({"cap": 0}, "cap=0"),
        ({"maze_seed": -1}, "maze_seed=-1"),
        ({"goal_reward": float("inf")}, "goal_reward=inf"),
        ({"render_mode": "human"}, "render_mode='human': choose one of"),
        ({"size": 12}, "size=12"),
        ({"wall_density": 2}, "wall_density=2"),
        ({"digits": "no/such/folder"}, "no/such/folder does not exist"),
    ],
)
def test_impossible_settings_are_refused_in_one_line(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words) as refusal:
        MNISTMaze(**settings)
    assert "\n" not in str(refusal.value)


def test_gymnasium_makes_the_registered_maze_without_a_time_limit_of_its_own() -> None:
    register()
    register()
    env = gym.make(MAZE_ID, size=4, maze_seed=2, slip=0.1)
    assert isinstance(env.unwrapped, MNISTMaze) and env.unwrapped.maze.size == 4
    assert env.spec is not None and env.spec.max_episode_steps is None
    assert env.observation_space == gym.spaces.Box(0, 255, (2, 28, 28), np.uint8)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("settings", [{}, {"slip": 0.1, "size": 6}, {"redraw_digits": False, "border_is_wall": False}])
def test_gymnasiums_checker_has_nothing_to_say(settings: dict[str, Any]) -> None:
    register()
    check_env(gym.make(MAZE_ID, **settings).unwrapped)
