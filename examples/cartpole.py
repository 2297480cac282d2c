"""Train on a Gymnasium environment, score the result, save it and load it again."""

import sys

import ebu

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000

agent = ebu.EBU("CartPole-v1", beta=0.5, seed=0)
agent.learn(steps, progress_bar=True)
print("mean return of 30 episodes:", ebu.evaluate(agent).mean)

agent.save("cartpole.ebu")
again = ebu.load("cartpole.ebu")
print("the same after loading:", ebu.evaluate(again).mean)
