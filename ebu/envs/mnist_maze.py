"""The paper's MNIST maze: find the goal when all one sees are the cell's coordinates, two handwritten digits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from ebu.envs.digits import CLASSES, SIDE, load_digits
from ebu.envs.maze_layout import MOVES, Maze, Position, generate_maze, parse_maze
from ebu.envs.maze_render import Values, View, draw_picture, draw_text
from ebu.errors import UserError

Observation = NDArray[np.uint8]  # [2, 28, 28]: the digit of the row, the digit of the column
Action = int | np.integer[Any]
Move = tuple[int, float, bool, bool]  # cell after the move, reward, bumped, goal reached

PERPENDICULAR = ((2, 3), (2, 3), (0, 1), (0, 1))  # by action number, see MOVES
LAYOUT_STREAM, DIGIT_STREAM = 0, 1  # two independent generators out of one maze seed


class MNISTMaze(gym.Env[Observation, Action]):
    """From the top left corner to the bottom right one, among walls.

    Actions: 0 up, 1 down, 2 left, 3 right. A move into a wall leaves the agent where it is and costs ``bump_reward``;
    reaching the goal pays ``goal_reward`` and terminates; after ``cap`` steps the episode is truncated.
    ``info``: ``position`` (row, column), ``shortest_path`` from start to goal, ``steps`` so far, ``bumped``.

    The maze belongs to ``maze_seed``; ``reset(seed=…)`` governs only what is random within it: slips and digits.

    Args:
        size: rows and columns, 2 to 10.
        wall_density: probability that a cell is a wall; unsolvable layouts are drawn again.
        slip: probability of each of the two perpendicular moves instead of the chosen one (the paper's stochastic
            maze: 0.1, so that the chosen move happens with probability 0.8).
        redraw_digits: new images at every observation; otherwise one per coordinate and axis, from ``maze_seed``.
        border_is_wall: a move off the board costs ``bump_reward`` too; otherwise it costs nothing.
        digits: folder with MNIST's training set as IDX files; None uses the digits inside the package.
        layout: rows of ``#`` (wall) and ``.`` (free) to use in place of ``size`` and ``wall_density``.
    """

    metadata = {"render_modes": ["rgb_array", "ansi"], "render_fps": 8}  # noqa: RUF012 (Gymnasium's own declaration)

    def __init__(
        self,
        size: int = 10,
        wall_density: float = 0.3,
        slip: float = 0.0,
        maze_seed: int = 0,
        redraw_digits: bool = True,
        cap: int = 1000,
        goal_reward: float = 1000.0,
        bump_reward: float = -1.0,
        border_is_wall: bool = True,
        digits: str | Path | None = None,
        layout: Sequence[str] | None = None,
        render_mode: str | None = None,
    ) -> None:
        if not 0 <= slip <= 0.5:
            raise UserError(f"slip={slip}: the probability of each perpendicular move lies between 0 and 0.5")
        if cap < 1:
            raise UserError(f"cap={cap}: an episode lasts at least 1 step")
        if maze_seed < 0:
            raise UserError(f"maze_seed={maze_seed}: a seed is 0 or larger")
        if not (math.isfinite(goal_reward) and math.isfinite(bump_reward)):
            raise UserError(f"goal_reward={goal_reward} and bump_reward={bump_reward} must be finite numbers")
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise UserError(f"render_mode={render_mode!r}: choose one of {self.metadata['render_modes']} or None")
        if layout is None:
            self.maze = generate_maze(size, wall_density, np.random.default_rng([maze_seed, LAYOUT_STREAM]))
        else:
            self.maze = parse_maze(layout)
        self.slip, self.cap, self.redraw_digits, self.render_mode = slip, cap, redraw_digits, render_mode
        self.values: Values | None = None  # set it, and ``render`` shows what the agent would do in every cell

        self.observation_space = gym.spaces.Box(0, 255, (2, SIDE, SIDE), np.uint8)
        self.action_space = gym.spaces.Discrete(len(MOVES))
        self._moves = move_table(self.maze, float(goal_reward), float(bump_reward), border_is_wall)
        self._digits = load_digits(digits)
        rng = np.random.default_rng([maze_seed, DIGIT_STREAM])
        self._fixed = [[self._digits.draw(rng, digit) for digit in range(CLASSES)] for _axis in range(2)]

        self._cell, self._steps, self._bumped, self._over = 0, 0, False, True
        self._path = [0]
        self._shown = (self._fixed[0][0], self._fixed[1][0])  # rows of ``_digits.images`` in the current observation

    # -- Gymnasium -----------------------------------------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        self._cell, self._steps, self._bumped, self._over = 0, 0, False, False
        self._path = [0]
        return self._observe(), self._info()

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        if self._over:
            raise ResetNeeded("the episode is over or has not begun: call reset() before step()")
        if not 0 <= action < len(MOVES):
            raise UserError(f"action {action}: use 0 (up), 1 (down), 2 (left) or 3 (right)")
        if self.slip:
            chance = self.np_random.random()
            if chance < 2 * self.slip:
                action = PERPENDICULAR[action][chance < self.slip]
        self._cell, reward, self._bumped, terminated = self._moves[self._cell][action]
        self._steps += 1
        if not self._bumped:
            self._path.append(self._cell)
        truncated = self._steps >= self.cap and not terminated
        self._over = terminated or truncated
        return self._observe(), reward, terminated, truncated, self._info()

    def render(self) -> Any:
        """The picture (RGB array) or the text of the current state, by ``render_mode``; None without one."""
        if self.render_mode == "rgb_array":
            return self.render_picture(self.values)
        if self.render_mode == "ansi":
            return self.render_text(self.values)
        gym.logger.warn("render() without a render_mode: make the maze with render_mode='rgb_array' or 'ansi'.")
        return None

    # -- pictures and values -------------------------------------------------------------------------------------------

    def all_positions(self) -> list[Position]:
        """Every cell the agent can reach, row by row, including the goal."""
        return self.maze.reachable()

    def state_observation(self, position: Position, rng: np.random.Generator | None = None) -> Observation:
        """What the agent may see at ``position``: with the maze's fixed digits, or with digits drawn from ``rng``.

        The environment's own random stream is left alone, so calling this changes nothing.
        """
        if not self.maze.free(position):
            raise UserError(f"position {position} is not a free cell of this {self.maze.size}×{self.maze.size} maze")
        if rng is None:
            row, column = (self._fixed[axis][coordinate] for axis, coordinate in enumerate(position))
        else:
            row, column = (self._digits.draw(rng, coordinate) for coordinate in position)
        return self._images(row, column)

    def render_picture(self, values: Values | None = None) -> NDArray[np.uint8]:
        """RGB array; with ``values`` (cell → Q-values of the four actions) also arrows of the best action."""
        return draw_picture(self._view(values))

    def render_text(self, values: Values | None = None) -> str:
        return draw_text(self._view(values))

    # -- exact resume --------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Everything that changes during an episode, ready for JSON; ``restore`` continues from it bit for bit."""
        return {
            "layout": self.maze.lines(),
            "position": list(self._position(self._cell)),
            "path": [list(self._position(cell)) for cell in self._path],
            "steps": self._steps,
            "bumped": self._bumped,
            "over": self._over,
            "digits": list(self._shown),
            "random": self.np_random.bit_generator.state,
        }

    def restore(self, snapshot: dict[str, Any]) -> Observation:
        """Back to ``snapshot``, taken from an environment made with the same arguments; returns its observation."""
        if snapshot["layout"] != self.maze.lines():
            raise UserError("the snapshot is of another maze: make the environment with the same arguments first")
        if max(snapshot["digits"]) >= len(self._digits.images):
            raise UserError("the snapshot was taken with more digits: make the environment with the same digits folder")
        row, column = map(int, snapshot["position"])
        if not self.maze.free((row, column)):
            raise UserError(f"invalid snapshot: {(row, column)} is not a free cell of this maze")
        self.np_random.bit_generator.state = snapshot["random"]
        size = self.maze.size
        self._path = [int(row) * size + int(column) for row, column in snapshot["path"]]
        self._cell = row * size + column
        self._steps, self._bumped, self._over = snapshot["steps"], snapshot["bumped"], snapshot["over"]
        row, column = self._shown = (snapshot["digits"][0], snapshot["digits"][1])
        return self._images(row, column)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _observe(self) -> Observation:
        row, column = divmod(self._cell, self.maze.size)
        if self.redraw_digits:
            rng = self.np_random
            self._shown = (self._digits.draw(rng, row), self._digits.draw(rng, column))
        else:
            self._shown = (self._fixed[0][row], self._fixed[1][column])
        return self._images(*self._shown)

    def _images(self, row_image: int, column_image: int) -> Observation:
        observation = np.empty((2, SIDE, SIDE), np.uint8)  # new each time: the caller may keep it
        observation[0] = self._digits.images[row_image]
        observation[1] = self._digits.images[column_image]
        return observation

    def _info(self) -> dict[str, Any]:
        return {
            "position": self._position(self._cell),
            "shortest_path": self.maze.shortest_path,
            "steps": self._steps,
            "bumped": self._bumped,
        }

    def _position(self, cell: int) -> Position:
        return divmod(cell, self.maze.size)

    def _view(self, values: Values | None) -> View:
        position, images = self._position(self._cell), self._digits.images
        labels = [[images[row] for row in axis[: self.maze.size]] for axis in self._fixed]
        for axis in range(2):
            labels[axis][position[axis]] = images[self._shown[axis]]
        path = [self._position(cell) for cell in self._path]
        return View(self.maze, position, path, self._steps, labels[0], labels[1], values)


def move_table(maze: Maze, goal_reward: float, bump_reward: float, border_is_wall: bool) -> list[list[Move]]:
    """``table[cell][action]``, cells numbered row by row: all that a step can do, worked out beforehand."""

    def move(cell: Position, after: Position) -> Move:
        if not maze.free(after):
            costs = border_is_wall or maze.inside(after)
            return number(cell), bump_reward if costs else 0.0, True, False
        return number(after), goal_reward if after == maze.goal else 0.0, False, after == maze.goal

    def number(cell: Position) -> int:
        return cell[0] * maze.size + cell[1]

    cells = np.ndindex(maze.size, maze.size)
    return [[move((row, column), (row + down, column + right)) for down, right in MOVES] for row, column in cells]
