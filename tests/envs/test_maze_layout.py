"""Layouts, and shortest paths against a search that could not be simpler."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from ebu.envs.maze_layout import MOVES, UNREACHABLE, Maze, distances_to_goal, generate_maze, parse_maze, random_walls
from ebu.errors import UserError

wall_grids = st.integers(2, 8).flatmap(lambda size: arrays(np.bool_, (size, size)))


def relaxed_distances(walls: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Oracle: every free cell is one further than its nearest neighbour, until nothing changes."""
    size = len(walls)
    distances = np.full(walls.shape, np.inf)
    distances[-1, -1] = 0
    for _ in range(size * size):
        for row, column in np.ndindex(size, size):
            for down, right in MOVES:
                r, c = row + down, column + right
                if 0 <= r < size and 0 <= c < size and not walls[row, column]:
                    distances[row, column] = min(distances[row, column], 1 + distances[r, c])
    return distances


@given(wall_grids)
def test_distances_equal_those_of_repeated_relaxation(walls: NDArray[np.bool_]) -> None:
    walls[-1, -1] = False
    distances = distances_to_goal(walls)
    oracle = relaxed_distances(walls)
    np.testing.assert_array_equal(np.where(distances == UNREACHABLE, np.inf, distances), oracle)


def test_shortest_path_of_a_maze_worked_out_by_hand() -> None:
    maze = parse_maze([".#...", ".#.#.", ".#.#.", ".#.#.", "...#."])
    assert maze.shortest_path == 16
    assert maze.distances[0].tolist() == [16, UNREACHABLE, 6, 5, 4]
    assert parse_maze(["..", ".."]).shortest_path == 2


def test_reachable_cells_leave_out_walls_and_closed_pockets() -> None:
    maze = parse_maze(["..#.", ".##.", "...#", ".#.."])
    assert maze.reachable() == [(0, 0), (0, 1), (1, 0), (2, 0), (2, 1), (2, 2), (3, 0), (3, 2), (3, 3)]


@given(st.integers(2, 10), st.floats(0, 0.5), st.integers(0, 2**32))
def test_generated_mazes_are_solvable_and_free_at_start_and_goal(size: int, density: float, seed: int) -> None:
    maze = generate_maze(size, density, np.random.default_rng(seed))
    assert maze.size == size
    assert maze.free(maze.start) and maze.free(maze.goal)
    assert 2 * (size - 1) <= maze.shortest_path < size * size


def test_the_same_seed_gives_the_same_maze_and_another_seed_another() -> None:
    first, again, other = (generate_maze(10, 0.3, np.random.default_rng(seed)).lines() for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize(("density", "solvable"), [(0.2, 0.841), (0.3, 0.518), (0.4, 0.165), (0.5, 0.021)])
def test_walls_are_as_dense_as_asked_and_solvable_as_often_as_known(density: float, solvable: float) -> None:
    """The known fractions: 40,000 draws each, connected components by another library."""
    rng = np.random.default_rng(0)
    mazes = [Maze.from_walls(random_walls(rng, 10, density)) for _ in range(1500)]
    inner = np.stack([maze.walls for maze in mazes]).reshape(-1, 100)[:, 1:-1]  # all cells but start and goal
    assert inner.mean() == pytest.approx(density, abs=0.01)
    assert np.mean([maze.shortest_path != UNREACHABLE for maze in mazes]) == pytest.approx(solvable, abs=0.045)


@given(st.integers(0, 1000))
def test_a_maze_reads_back_from_its_own_text(seed: int) -> None:
    maze = generate_maze(6, 0.4, np.random.default_rng(seed))
    np.testing.assert_array_equal(parse_maze(maze.lines()).walls, maze.walls)


@pytest.mark.parametrize(
    ("size", "density", "words"),
    [
        (1, 0.3, "size=1: a maze has 2 to 10 rows"),
        (11, 0.3, "size=11"),
        (10, -0.1, "wall_density=-0.1"),
        (10, 1.0, r"wall_density=1.0: .* \[0, 1\)"),
        (10, float("nan"), "wall_density=nan"),
        (10, 0.95, "no solvable 10×10 maze among 20000 draws at wall_density=0.95: lower wall_density"),
    ],
)
def test_impossible_settings_are_refused_in_one_line(size: int, density: float, words: str) -> None:
    with pytest.raises(UserError, match=words) as refusal:
        generate_maze(size, density, np.random.default_rng(0))
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        (["...", "..."], "rows of length"),
        (["..", "..."], "rows of length"),
        ([], "rows of length"),
        ([".x", ".."], "contains .'x'."),
        (["#.", ".."], "free both corners"),
        ([".#", "#."], "no path"),
    ],
)
def test_unusable_layouts_are_refused(layout: list[str], words: str) -> None:
    with pytest.raises(UserError, match=words):
        parse_maze(layout)
