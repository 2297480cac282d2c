"""The end of a finished run: its curve, the maze with what was learned of it, and last the summary."""

from __future__ import annotations

from io import BytesIO
from typing import Any, Protocol

import gymnasium
import numpy as np

from ebu.envs.mnist_maze import MNISTMaze
from ebu.learning.policy import Policy
from ebu.storage.files import write_atomically
from ebu.storage.run_folder import RunFolder
from ebu.training.environment import Environment, Interface
from ebu.training.evaluate import rollout
from ebu.training.loop import TrainingLoop
from ebu.training.summary import draw_curve, summarise
from ebu.types import Array


class TrainedAgent(Protocol):
    """What the pictures need of an agent."""

    interface: Interface
    env: gymnasium.Env[Any, Any]

    @property
    def loop(self) -> TrainingLoop: ...

    @property
    def policy(self) -> Policy: ...

    def make_env(self) -> gymnasium.Env[Any, Any]: ...

    def q_values(self, observations: list[Any]) -> Array: ...


def conclude(folder: RunFolder, agent: TrainedAgent) -> None:
    """Pictures and the summary of a finished run; the summary comes last, since it says that everything is on the disk."""
    draw_curve(folder, folder.curve)
    maze = greedy_maze(agent)
    if maze is not None:
        from PIL import Image

        drawn = BytesIO()
        Image.fromarray(maze.render_picture(maze.values)).save(drawn, format="PNG")
        write_atomically(folder.maze, drawn.getvalue())
    folder.write_summary(summarise(folder, agent.loop.step))


def greedy_maze(agent: TrainedAgent, seed: int = 0) -> MNISTMaze | None:
    """The agent's maze after one greedy episode, with the learned values of every cell where it sees one frame at a time.

    None where the agent was trained in another environment.
    """
    if not isinstance(agent.env.unwrapped, MNISTMaze):
        return None
    maze = agent.make_env().unwrapped
    assert isinstance(maze, MNISTMaze)
    if agent.interface.stack == 1:
        rng = np.random.default_rng(seed) if maze.redraw_digits else None
        cells = maze.all_positions()
        maze.values = dict(zip(cells, agent.q_values([maze.state_observation(cell, rng) for cell in cells])))
    stack, rng = agent.interface.stack, np.random.default_rng(seed)
    for _ in rollout(agent.policy, Environment(maze), seed=seed, epsilon=0.0, rng=rng, stack=stack):
        pass
    return maze
