"""EBU beside DQN and n-step DQN on one task: the same steps, network and seeds; only sampler and target rule differ."""

import sys

import ebu

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000

for method in (ebu.EBU, ebu.DQN, ebu.NStepDQN):
    scores = []
    for seed in range(3):
        agent = method("FrozenLake-v1", env_args=("is_slippery=false",), seed=seed).learn(steps)
        scores.append(ebu.evaluate(agent, episodes=20, epsilon=0.0).mean)
    print(f"{method.__name__:10} {scores}")
