"""Five demonstrations against none, on an 8 × 8 frozen lake with one reward at its far corner.

python demonstrations.py
"""

import sys
from collections import deque

import numpy as np

import ebu

LAKE = {"map_name": "8x8", "is_slippery": False}


def distances(moves):
    """Steps to the goal from every state, by breadth-first search backward; ``moves`` is Gymnasium's table."""
    before = {}
    for state, actions in moves.items():
        for ((_, beyond, reward, terminated),) in actions.values():
            if reward or not terminated:  # not into a hole
                before.setdefault(beyond, set()).add(state)
    goal = max(moves)
    found, queue = {goal: 0}, deque([goal])
    while queue:
        here = queue.popleft()
        for state in before.get(here, set()) - found.keys():
            found[state] = found[here] + 1
            queue.append(state)
    return found


def demonstrations(env, count, rng):
    """Transitions as Gymnasium gives them: each episode takes one of the shortest ways."""
    moves = env.unwrapped.P
    distance = distances(moves)
    for _ in range(count):
        observation, _ = env.reset(seed=int(rng.integers(2**31)))
        over = False
        while not over:
            after = {action: distance.get(outcome[0][1], np.inf) for action, outcome in moves[observation].items()}
            action = int(rng.choice([action for action, steps in after.items() if steps == min(after.values())]))
            following, reward, terminated, truncated, _ = env.step(action)
            yield observation, action, reward, terminated, truncated, following
            observation, over = following, terminated or truncated


def main(steps, seed):
    for method in (ebu.EBU, ebu.DQN):
        for count in (5, 0):
            agent = method("FrozenLake-v1", env_args=LAKE, seed=seed, eval_every=250, eval_episodes=1)
            if count:
                agent.remember(demonstrations(agent.make_env(), count, np.random.default_rng(seed)))
            scores = []
            agent.learn(steps, callback=lambda event, scores=scores: record(event, scores))
            arrived = [step for step, score in scores if score > 0]
            first = f"first at step {arrived[0]:,}" if arrived else "never"
            share = len(arrived) / max(len(scores), 1)
            words = f"the goal was reached in {share:.0%} of {len(scores)} evaluations, {first}"
            print(f"{method.__name__} with {count} demonstrations, seed {seed}: {words}", flush=True)


def record(event, scores):
    if isinstance(event, ebu.training.events.Evaluated):
        scores.append((event.step, event.evaluation.mean))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000, int(sys.argv[2]) if len(sys.argv) > 2 else 0)
