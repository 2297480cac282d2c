"""Five demonstrations against none, in a maze with 50 % walls whose one reward stands at the goal.

python demonstrations.py [STEPS] [SEED]
"""

import sys

import numpy as np

import ebu
from ebu.envs.maze_layout import MOVES

ERRORS = 0.1  # share of a demonstration's moves that are made at random


def demonstrations(env, count, rng):
    """Transitions as Gymnasium gives them, from the start to the goal, most moves along the shortest way."""
    maze = env.unwrapped.maze
    for _ in range(count):
        observation, info = env.reset(seed=int(rng.integers(2**31)))
        over = False
        while not over:
            action = int(rng.integers(len(MOVES))) if rng.random() < ERRORS else towards_goal(maze, *info["position"])
            following, reward, terminated, truncated, info = env.step(action)
            yield observation, action, reward, terminated, truncated, following
            observation, over = following, terminated or truncated


def towards_goal(maze, row, column):
    neighbours = [(row + down, column + right) for down, right in MOVES]
    return int(np.argmin([maze.distances[cell] if maze.free(cell) else np.inf for cell in neighbours]))


def main(steps, seed):
    maze = {"wall_density": 0.5, "maze_seed": seed}
    for method in (ebu.EBU, ebu.DQN):
        for count in (5, 0):
            agent = method("maze", env_args=maze, learning_starts=500, eval_every=500, seed=seed)
            if count:
                agent.remember(demonstrations(agent.make_env(), count, np.random.default_rng(seed)))
            scores = []
            agent.learn(steps, callback=lambda event, scores=scores: record(event, scores))
            arrived = [step for step, score in scores if score > 0]
            first = f"first at step {arrived[0]:,}" if arrived else "never"
            words = f"the goal was reached in {len(arrived)} of {len(scores)} evaluations, {first}"
            print(f"{method.__name__} with {count} demonstrations, seed {seed}: {words}", flush=True)


def record(event, scores):
    if isinstance(event, ebu.training.events.Evaluated):
        scores.append((event.step, event.evaluation.mean))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000, int(sys.argv[2]) if len(sys.argv) > 2 else 0)
