"""Any Gymnasium environment with discrete actions: here a corridor whose only reward is at its far end."""

import sys

import gymnasium
import numpy as np

import ebu

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000


class Corridor(gymnasium.Env):
    """Cells in a row: action 1 goes right, 0 left; the last cell pays 1."""

    def __init__(self, length=12):
        self.length = length
        self.observation_space = gymnasium.spaces.Discrete(length)
        self.action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cell = 0
        return self.cell, {}

    def step(self, action):
        self.cell = int(np.clip(self.cell + (1 if action == 1 else -1), 0, self.length - 1))
        over = self.cell == self.length - 1
        return self.cell, float(over), over, False, {}


gymnasium.register("Corridor-v0", Corridor, max_episode_steps=200)
agent = ebu.EBU("Corridor-v0", beta=1.0, gamma=0.95, seed=0).learn(steps)
result = ebu.evaluate(agent, episodes=5, epsilon=0.0)
print("steps to the end:", result.lengths)
