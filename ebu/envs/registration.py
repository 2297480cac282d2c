"""Makes ``gymnasium.make("ebu/MNISTMaze-v0")`` work."""

from __future__ import annotations

import gymnasium as gym

MAZE_ID = "ebu/MNISTMaze-v0"


def register() -> None:
    """Registers the environments of this package; calling it again changes nothing.

    The class is named by a string and so imported only when made. No ``max_episode_steps``: the maze truncates itself.
    """
    if MAZE_ID not in gym.registry:
        gym.register(MAZE_ID, entry_point="ebu.envs.mnist_maze:MNISTMaze")
