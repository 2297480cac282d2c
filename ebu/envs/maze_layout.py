"""Where the walls of a maze are and how far every cell is from the goal. Pure functions of their arguments."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ebu.errors import UserError

Position = tuple[int, int]  # (row, column), row 0 at the top

MOVES: tuple[Position, ...] = ((-1, 0), (1, 0), (0, -1), (0, 1))  # by action number: up, down, left, right
UNREACHABLE = -1
MAX_TRIES = 20_000  # at density 0.5 one draw in 40 is solvable; where this many fail, waiting longer does not help


@dataclass(frozen=True, eq=False)
class Maze:
    """Walls and the distance to the goal from every cell; start is the top left corner, goal the bottom right one."""

    walls: NDArray[np.bool_]  # [size, size], True where a wall stands
    distances: NDArray[np.int64]  # [size, size], moves to the goal, UNREACHABLE where there is no path (and at walls)

    @classmethod
    def from_walls(cls, walls: NDArray[np.bool_]) -> Maze:
        return cls(walls, distances_to_goal(walls))

    @cached_property
    def size(self) -> int:
        return len(self.walls)

    @property
    def start(self) -> Position:
        return 0, 0

    @property
    def goal(self) -> Position:
        return self.size - 1, self.size - 1

    @cached_property
    def shortest_path(self) -> int:
        """Moves from start to goal, UNREACHABLE in an unsolvable maze."""
        return int(self.distances[self.start])

    def reachable(self) -> list[Position]:
        """Cells the agent can reach, row by row: those with a path to the goal, since every move can be undone."""
        return [(int(row), int(column)) for row, column in np.argwhere(self.distances != UNREACHABLE)]

    def inside(self, position: Position) -> bool:
        return all(0 <= coordinate < self.size for coordinate in position)

    def free(self, position: Position) -> bool:
        return self.inside(position) and not self.walls[position]

    def lines(self) -> list[str]:
        """The layout as text, ``#`` wall and ``.`` free; ``parse_maze`` reads it back."""
        return ["".join("#" if wall else "." for wall in row) for row in self.walls]


def distances_to_goal(walls: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Breadth-first search outward from the goal, the bottom right corner."""
    size = len(walls)
    wall = walls.tolist()  # reading single elements, lists are far faster than arrays
    distances = [[UNREACHABLE] * size for _ in range(size)]
    distances[-1][-1] = 0
    frontier = deque([(size - 1, size - 1)])
    while frontier:
        row, column = frontier.popleft()
        for down, right in MOVES:
            r, c = row + down, column + right
            if 0 <= r < size and 0 <= c < size and not wall[r][c] and distances[r][c] == UNREACHABLE:
                distances[r][c] = distances[row][column] + 1
                frontier.append((r, c))
    return np.array(distances, dtype=np.int64)


def random_walls(rng: np.random.Generator, size: int, wall_density: float) -> NDArray[np.bool_]:
    """Every cell is a wall with probability ``wall_density``, except start and goal; not necessarily solvable."""
    walls = rng.random((size, size)) < wall_density
    walls[0, 0] = walls[-1, -1] = False
    return walls


def generate_maze(size: int, wall_density: float, rng: np.random.Generator) -> Maze:
    """The first solvable maze that ``rng`` draws."""
    if not 2 <= size <= 10:
        raise UserError(f"size={size}: a maze has 2 to 10 rows, because each coordinate is shown as a single digit")
    if not 0 <= wall_density < 1:
        raise UserError(f"wall_density={wall_density}: the probability of a wall lies in [0, 1), such as 0.3")
    for _ in range(MAX_TRIES):
        maze = Maze.from_walls(random_walls(rng, size, wall_density))
        if maze.shortest_path != UNREACHABLE:
            return maze
    raise UserError(
        f"no solvable {size}×{size} maze among {MAX_TRIES} draws at wall_density={wall_density}: "
        "lower wall_density (0.5 and below always works) or size"
    )


def parse_maze(lines: Sequence[str]) -> Maze:
    """A maze from text, one string per row: ``#`` is a wall, ``.`` is free."""
    size = len(lines)
    if not 2 <= size <= 10 or any(len(line) != size for line in lines):
        raise UserError(f"layout has rows of length {[*map(len, lines)]}: give a square of 2×2 to 10×10 cells")
    if unknown := sorted(set("".join(lines)) - set("#.")):
        raise UserError(f"layout contains {unknown}: use '#' for a wall and '.' for a free cell")
    walls = np.array([[cell == "#" for cell in line] for line in lines])
    if walls[0, 0] or walls[-1, -1]:
        raise UserError("layout has a wall on the start (top left) or on the goal (bottom right): free both corners")
    maze = Maze.from_walls(walls)
    if maze.shortest_path == UNREACHABLE:
        raise UserError("layout has no path from the top left corner to the bottom right corner: open one")
    return maze
