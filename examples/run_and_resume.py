"""A run folder from Python: metrics, TensorBoard curves, checkpoints and a summary, and how to continue after a stop."""

import sys

import ebu

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000

agent = ebu.EBU("CartPole-v1", seed=0, checkpoint_every=max(steps // 4, 1))


def stop_halfway(event):
    """Any function of an event is a callback; one that returns False stops the training."""
    return event.step < steps // 2


agent.learn(steps, callback=stop_halfway, run="runs/cartpole")
print("stopped at step", agent.loop.step)

agent = ebu.resume("runs/cartpole")  # exactly from the last checkpoint
print("finished at step", agent.loop.step)
