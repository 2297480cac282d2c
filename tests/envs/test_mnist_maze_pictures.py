"""What the maze shows to people, and the observations behind a picture of values."""

from __future__ import annotations

import numpy as np
import pytest

from ebu.envs.maze_render import AGENT, BOARD_PIXELS, GOAL, HEIGHT, LABEL_PIXELS, PATH, WALL, WIDTH
from ebu.envs.mnist_maze import MNISTMaze
from ebu.errors import UserError

DOWN, RIGHT = 1, 3
LAYOUT = ["..#.", ".##.", "...#", ".#.."]
VALUES = {(0, 0): [0, 9, 0, 0], (1, 0): [0, 1, 0, 0], (2, 0): [0, 0, 0, 5], (2, 1): [1, 0, 0, 0], (2, 2): [0, 7, 0, 0]}


def walked() -> MNISTMaze:
    env = MNISTMaze(layout=LAYOUT)
    env.reset(seed=0)
    for action in (DOWN, DOWN, RIGHT):
        env.step(action)
    return env


def pixel(picture: np.ndarray, row: float, column: float) -> tuple[int, ...]:
    """The colour at a place given in cells of the 4 × 4 board."""
    cell = BOARD_PIXELS / 4
    return tuple(picture[int(LABEL_PIXELS + row * cell), int(LABEL_PIXELS + column * cell)].tolist())


def test_text_shows_walls_path_agent_and_goal() -> None:
    assert walked().render_text().splitlines() == [
        "    0 1 2 3",
        "  ┌─────────┐",
        "0 │ S ·██ · │",
        "1 │ •████ · │",
        "2 │ • ● ·██ │",
        "3 │ ·██ · G │",
        "  └─────────┘",
        "  step 3 · shortest path 6",
    ]


def test_text_with_values_shows_the_best_actions_doubled_on_the_path() -> None:
    rows = walked().render_text(VALUES).splitlines()[2:6]
    assert rows == ["0 │ ⇓ ·██ · │", "1 │ ⇓████ · │", "2 │ ⇒ ● ↓██ │", "3 │ ·██ · G │"]


def test_picture_shows_walls_path_agent_and_goal_in_their_colours() -> None:
    picture = walked().render_picture()
    assert picture.shape == (HEIGHT, WIDTH, 3) and picture.dtype == np.uint8
    assert pixel(picture, 0.5, 2.5) == WALL
    assert pixel(picture, 1.5, 0.5) == PATH
    assert pixel(picture, 2.5, 1.5) == AGENT
    assert pixel(picture, 3.5, 3.5) == (255, 255, 255)  # the star
    assert pixel(picture, 3.05, 3.05) == GOAL


def test_picture_with_values_is_darker_where_the_best_value_is_higher() -> None:
    picture = walked().render_picture(VALUES)
    corners = {cell: sum(pixel(picture, cell[0] + 0.1, cell[1] + 0.1)) for cell in VALUES}
    best = {cell: max(q) for cell, q in VALUES.items() if cell != (2, 1)}
    assert sorted(best, key=lambda cell: best[cell]) == sorted(best, key=lambda cell: -corners[cell])


def test_a_move_off_the_shortest_way_is_a_hollow_arrow() -> None:
    env = walked()
    good, bad = (env.render_picture({(2, 2): q}) for q in ([0, 1, 0, 0], [1, 0, 0, 0]))
    ink_good, ink_bad = pixel(good, 2.5, 2.5), pixel(bad, 2.5, 2.5)
    assert sum(ink_good) < 200 < sum(ink_bad)


@pytest.mark.parametrize("size", range(2, 11))
def test_pictures_of_every_size_have_the_same_shape(size: int) -> None:
    env = MNISTMaze(size=size, wall_density=0.1)
    assert env.render_picture({cell: [1.0, 1.0, 1.0, 1.0] for cell in env.all_positions()}).shape == (HEIGHT, WIDTH, 3)


def test_values_that_are_not_numbers_are_left_out() -> None:
    env = walked()
    assert env.render_text({(0, 0): [float("nan")] * 4}) == env.render_text()
    np.testing.assert_array_equal(env.render_picture({(0, 0): [float("nan")] * 4}), env.render_picture())


def test_render_follows_its_mode_and_the_values_it_was_given() -> None:
    picture, text = (MNISTMaze(layout=LAYOUT, render_mode=mode) for mode in ("rgb_array", "ansi"))
    for env in (picture, text):
        env.reset(seed=0)
    np.testing.assert_array_equal(picture.render(), picture.render_picture())
    assert text.render() == text.render_text()
    text.values = VALUES
    assert text.render() == text.render_text(VALUES) != text.render_text()


def test_observations_of_all_positions_show_their_coordinates_and_leave_the_episode_alone() -> None:
    env = MNISTMaze(layout=LAYOUT, redraw_digits=False)
    env.reset(seed=0)
    before = env.snapshot()
    positions = env.all_positions()
    batch = np.stack([env.state_observation(position) for position in positions])
    assert len(positions) == 9 and batch.shape == (9, 2, 28, 28)
    assert env.snapshot() == before
    observation, _, _, _, info = env.step(DOWN)
    np.testing.assert_array_equal(observation, batch[positions.index(info["position"])])


def test_observations_of_a_position_vary_with_a_generator_and_repeat_with_its_seed() -> None:
    env = MNISTMaze(layout=LAYOUT)
    seen = [env.state_observation((2, 1), np.random.default_rng(seed)).tobytes() for seed in (0, 0, 1)]
    assert seen[0] == seen[1] != seen[2]


@pytest.mark.parametrize("position", [(0, 2), (4, 0), (-1, 0)])
def test_a_position_without_an_observation_is_refused(position: tuple[int, int]) -> None:
    with pytest.raises(UserError, match="not a free cell"):
        MNISTMaze(layout=LAYOUT).state_observation(position)
