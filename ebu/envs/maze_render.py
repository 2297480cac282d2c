"""A maze as a picture and as text: walls, the path so far, and the arrows of learned values when there are any.

Colours are Okabe and Ito's, distinguishable with all common kinds of colour blindness; what matters also differs in shape (a
move off the shortest path is a hollow arrow).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from ebu.envs.maze_layout import MOVES, UNREACHABLE, Maze, Position

Values = Mapping[Position, Sequence[float]]  # Q-values of the four actions, by cell
Colour = tuple[int, int, int]

WIDTH, HEIGHT = 544, 592  # multiples of 16, which video encoders require
BOARD_PIXELS = 480
LABEL_PIXELS = 44  # margin that shows the coordinates as the digits the agent sees
SMOOTH = 2  # everything is drawn this much larger and scaled down, PIL's shapes having jagged edges

PAPER, INK, FAINT_INK, FAINT_TEXT = (255, 255, 255), (38, 44, 52), (172, 178, 186), (105, 112, 122)
WALL, FLOOR, POCKET, GRID = (58, 66, 77), (243, 245, 247), (221, 225, 230), (255, 255, 255)
AGENT, PATH, START, GOAL = (213, 94, 0), (230, 159, 0), (0, 114, 178), (0, 158, 115)
SHADES = np.array([(234, 242, 250), (138, 184, 224), (24, 90, 156)], dtype=float)  # lowest to highest value

ARROWS, PATH_ARROWS = "↑↓←→", "⇑⇓⇐⇒"


@dataclass(frozen=True)
class View:
    """What there is to see."""

    maze: Maze
    position: Position
    path: Sequence[Position]  # from the start to ``position``
    steps: int
    row_images: Sequence[NDArray[np.uint8]]  # [size] the digit that stands for each row
    column_images: Sequence[NDArray[np.uint8]]
    values: Values | None = None

    def policy(self) -> dict[Position, tuple[int, float]]:
        """Best action and its value, wherever finite values are given and the goal is still ahead."""
        cells = ((cell, np.asarray(q, dtype=float)) for cell, q in (self.values or {}).items())
        return {
            cell: (int(q.argmax()), float(q.max()))
            for cell, q in cells
            if self.maze.inside(cell) and self.maze.distances[cell] > 0 and np.isfinite(q).all()
        }

    def shortens(self, cell: Position, action: int) -> bool:
        """Whether ``action`` leads one step nearer to the goal."""
        after = (cell[0] + MOVES[action][0], cell[1] + MOVES[action][1])
        return self.maze.free(after) and self.maze.distances[after] < self.maze.distances[cell]

    def caption(self) -> str:
        return f"step {self.steps} · shortest path {self.maze.shortest_path}"


def draw_text(view: View) -> str:
    """Two characters a cell. S start, G goal, ● agent, • path; arrows of the best action, doubled on the path."""
    policy, visited = view.policy(), set(view.path)

    def symbol(cell: Position) -> str:
        if view.maze.walls[cell]:
            return "██"
        if cell == view.position:
            return " ●"
        if cell == view.maze.goal:
            return " G"
        if cell in policy:
            return " " + (PATH_ARROWS if cell in visited else ARROWS)[policy[cell][0]]
        if cell == view.maze.start:
            return " S"
        return " •" if cell in visited else " ·"

    size = view.maze.size
    rule = "─" * (2 * size + 1)
    rows = [f"{row} │{''.join(symbol((row, column)) for column in range(size))} │" for row in range(size)]
    numbers = "".join(f" {column}" for column in range(size))
    return "\n".join([f"   {numbers}", f"  ┌{rule}┐", *rows, f"  └{rule}┘", f"  {view.caption()}"])


def draw_picture(view: View) -> NDArray[np.uint8]:
    """RGB [HEIGHT, WIDTH, 3], whatever the size of the maze."""
    return _Canvas(view).finished()


class _Canvas:
    """One picture in the making; coordinates are large pixels (SMOOTH per final pixel)."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.cell = SMOOTH * BOARD_PIXELS // view.maze.size
        self.left = self.top = SMOOTH * LABEL_PIXELS
        self.board = self.cell * view.maze.size
        self.image = Image.new("RGB", (SMOOTH * WIDTH, SMOOTH * HEIGHT), PAPER)
        self.draw = ImageDraw.Draw(self.image)
        self.font = ImageFont.load_default(SMOOTH * 14)

    def finished(self) -> NDArray[np.uint8]:
        policy = self.view.policy()
        best = [value for _, value in policy.values()]
        low, high = min(best, default=0.0), max(best, default=0.0)
        shades = {cell: _shade(value, low, high) for cell, (_, value) in policy.items()}
        self.floor(shades)
        self.coordinates()
        self.marks()
        self.path()
        for cell, (action, _) in policy.items():
            if cell != self.view.position:
                self.arrow(cell, action, shades[cell])
        self.agent()
        self.caption()
        if policy:
            self.scale(low, high)
        return np.asarray(self.image.resize((WIDTH, HEIGHT), Image.Resampling.BOX))

    def square(self, cell: Position) -> tuple[int, int, int, int]:
        x, y = self.left + cell[1] * self.cell, self.top + cell[0] * self.cell
        return x, y, x + self.cell - 1, y + self.cell - 1

    def centre(self, cell: Position) -> tuple[float, float]:
        x, y, *_ = self.square(cell)
        return x + self.cell / 2, y + self.cell / 2

    def disc(self, cell: Position, radius: float) -> tuple[float, float, float, float]:
        x, y = self.centre(cell)
        return x - radius, y - radius, x + radius, y + radius

    def floor(self, shades: Mapping[Position, Colour]) -> None:
        maze = self.view.maze
        for cell in np.ndindex(maze.size, maze.size):
            if maze.walls[cell]:
                self.draw.rectangle(self.square(cell), WALL)
            else:
                plain = POCKET if maze.distances[cell] == UNREACHABLE else FLOOR
                self.draw.rectangle(self.square(cell), shades.get(cell, plain), GRID, SMOOTH // 2)
        edge, far = SMOOTH * 3, self.board - 1
        frame = (self.left - edge, self.top - edge, self.left + far + edge, self.top + far + edge)
        self.draw.rectangle(frame, outline=WALL, width=edge)

    def coordinates(self) -> None:
        """Row digits on the left, column digits on top; the two of the current observation stand out."""
        side = min(SMOOTH * 30, self.cell)
        for index in range(self.view.maze.size):
            x, y = self.centre((index, index))
            margin = self.left // 2 - SMOOTH
            self.digit(self.view.row_images[index], margin, y, side, index == self.view.position[0])
            self.digit(self.view.column_images[index], x, margin, side, index == self.view.position[1])

    def digit(self, image: NDArray[np.uint8], x: float, y: float, side: int, current: bool) -> None:
        mask = Image.fromarray(image).resize((side, side), Image.Resampling.BICUBIC)
        self.image.paste(AGENT if current else FAINT_INK, (round(x - side / 2), round(y - side / 2)), mask)

    def marks(self) -> None:
        """A ring around the start, a star on the goal's own colour."""
        ring = self.disc(self.view.maze.start, 0.36 * self.cell)
        self.draw.ellipse(ring, outline=START, width=round(0.07 * self.cell))
        self.draw.rectangle(self.square(self.view.maze.goal), GOAL)
        x, y = self.centre(self.view.maze.goal)
        angles = np.arange(10) * np.pi / 5 - np.pi / 2
        radii = np.where(np.arange(10) % 2 == 0, 0.34, 0.14) * self.cell
        self.draw.polygon([(x + r * np.cos(a), y + r * np.sin(a)) for r, a in zip(radii, angles)], PAPER)

    def path(self) -> None:
        half = round(0.09 * self.cell)
        if len(self.view.path) > 1:
            self.draw.line([self.centre(cell) for cell in self.view.path], PATH, 2 * half)
        for cell in self.view.path[1:]:  # rounds the corners
            self.draw.ellipse(self.disc(cell, half - 0.5), PATH)

    def arrow(self, cell: Position, action: int, shade: Colour) -> None:
        """Filled where the move leads nearer to the goal, hollow where it leaves the shortest path."""
        x, y = self.centre(cell)
        down, right = MOVES[action]
        shape = [(-0.26, -0.055), (0.03, -0.055), (0.03, -0.17), (0.27, 0), (0.03, 0.17), (0.03, 0.055), (-0.26, 0.055)]
        turned = [(x + self.cell * (u * right - v * down), y + self.cell * (u * down + v * right)) for u, v in shape]
        colour = INK if shade[0] > 110 else PAPER
        self.draw.polygon(turned, colour if self.view.shortens(cell, action) else shade)
        self.draw.line([*turned, turned[0], turned[1]], colour, round(0.035 * self.cell), joint="curve")

    def agent(self) -> None:
        self.draw.ellipse(self.disc(self.view.position, 0.26 * self.cell), PAPER)
        self.draw.ellipse(self.disc(self.view.position, 0.20 * self.cell), AGENT)

    def caption(self) -> None:
        self.text(self.left, 0, self.view.caption(), INK, "lm")

    def scale(self, low: float, high: float) -> None:
        """Which shade is which value, and what a hollow arrow means."""
        right = self.left + self.board
        self.text(right, 1, "hollow arrows leave the shortest path", FAINT_TEXT, "rm")
        x = right - self.text(right, 0, f"{high:.4g}", INK, "rm") - SMOOTH * 6
        width, height = SMOOTH * 90, SMOOTH * 10
        ramp = np.array([_shade(place, 0, width) for place in range(width)], np.uint8)  # [width, 3]
        bar = Image.fromarray(np.broadcast_to(ramp, (height, width, 3)).copy())
        self.image.paste(bar, (x - width, self.line(0) - height // 2))
        self.text(x - width - SMOOTH * 6, 0, f"best value {low:.4g}", INK, "rm")

    def line(self, number: int) -> int:
        return self.top + self.board + SMOOTH * (25 + 20 * number)

    def text(self, x: int, line: int, words: str, colour: Colour, anchor: str) -> int:
        """Writes below the board and returns the width of the words."""
        self.draw.text((x, self.line(line)), words, colour, self.font, anchor)
        return round(self.draw.textlength(words, self.font))


def _shade(value: float, low: float, high: float) -> Colour:
    place = (value - low) / (high - low) if high > low else 0.5
    stops = np.linspace(0, 1, len(SHADES))
    red, green, blue = (round(float(np.interp(place, stops, channel))) for channel in SHADES.T)
    return red, green, blue
