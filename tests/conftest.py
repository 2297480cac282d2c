"""What many tests share: calm threads, repeatable property tests, and small environments whose every step is known."""

from __future__ import annotations

import os

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import settings

from ebu.cli import main
from tests.tolerance import in_double

# The machines that run this are small and shared: no deadline per example, and the same examples every time.
settings.register_profile("ebu", deadline=None, derandomize=True, database=None)
settings.load_profile("ebu")


@pytest.fixture(scope="session", autouse=True)
def few_threads():
    """Threads that wait for each other on a busy machine cost more than they bring. ``make test-matrix`` asks for more."""
    before = torch.get_num_threads()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    yield
    torch.set_num_threads(before)


@pytest.fixture
def double():
    """Two ways of computing one thing are compared in float64; see ``tolerance.py``."""
    with in_double():
        yield


class Corridor(gymnasium.Env):
    """Cells 0 … length − 1 in a row. Action 1 goes right, 0 left; the last cell pays 1 and terminates.

    The observation is the cell as a float vector; ``limit`` truncates. Each episode's seed is kept in ``seeds``.
    """

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, length=5, limit=20):
        self.length, self.limit = length, limit
        self.observation_space = spaces.Box(0.0, float(length), (2,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.seeds = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seeds.append(seed)
        self.cell = self.steps = 0
        return self._observe(), {}

    def step(self, action):
        self.steps += 1
        self.cell = max(self.cell + (1 if action == 1 else -1), 0)
        terminated = self.cell == self.length - 1
        truncated = not terminated and self.steps >= self.limit
        return self._observe(), float(terminated), terminated, truncated, {"shortest_path": self.length - 1}

    def _observe(self):
        return np.array([self.cell, self.steps % 2], np.float32)


class Script(gymnasium.Env):
    """Plays given rewards and observations whatever the action; the last step of each script ends the episode.

    ``observations`` has one entry more than ``rewards``. Actions taken are kept in ``taken``.
    """

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, rewards, observations=None, terminated=True, space=None, actions=2):
        self.rewards = list(rewards)
        self.frames = [np.full(1, t, np.float32) for t in range(len(rewards) + 1)] if observations is None else observations
        self.terminated = terminated
        self.observation_space = space or spaces.Box(-np.inf, np.inf, (1,), np.float32)
        self.action_space = spaces.Discrete(actions)
        self.taken = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self.frames[0], {}

    def step(self, action):
        self.taken.append(int(action))
        reward = self.rewards[self.time]
        self.time += 1
        over = self.time == len(self.rewards)
        return self.frames[self.time], reward, over and self.terminated, over and not self.terminated, {}


def one_line(error):
    """What a user reads of an error that ``pytest.raises`` caught."""
    assert "\n" not in str(error.value)
    return str(error.value)


def ebu_(line, *more):
    """The exit code of a command line, given as one would type it; what has spaces in it comes after."""
    return main([*line.split(), *map(str, more)])


def random_pictures(rng, count, shape=(84, 84), channels=1):
    """Frames like those of a game: mostly still, a little of it moving, so that compression has something to do."""
    frames = np.zeros((count, channels, *shape), np.uint8)
    for t in range(count):
        row, column = rng.integers(shape[0]), rng.integers(shape[1])
        frames[t, rng.integers(channels), row, column] = rng.integers(1, 256)
        frames[t, :, 0, 0] = t % 251 + 1
    return frames
