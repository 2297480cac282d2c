"""Curves in Weights & Biases: a callback that logs rows of training and evaluations.

    WANDB_MODE=offline python examples/wandb_logger.py     # without an account; `wandb sync` uploads later

Needs `pip install wandb`.
"""

import sys

import wandb

import ebu
from ebu.callbacks import Callback, Evaluated, Trained
from ebu.config import flat


class WandbLogger(Callback):
    """Logs to a run of Weights & Biases, with all settings of the agent as the run's configuration."""

    def __init__(self, run):
        self.run = run

    def begin(self, agent):
        super().begin(agent)
        self.run.config.update(flat(agent.config), allow_val_change=True)
        self.run.define_metric("*", step_metric="step")

    def __call__(self, event):
        if isinstance(event, Trained):
            self.run.log({"step": event.step} | {f"train/{name}": value for name, value in event.metrics.items()})
        elif isinstance(event, Evaluated):
            self.run.log({"step": event.step, "eval/mean_reward": event.evaluation.mean})


if __name__ == "__main__":
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    with wandb.init(project="ebu") as run:
        agent = ebu.EBU("CartPole-v1", seed=0, log_every=max(steps // 10, 1), eval_every=max(steps // 4, 1))
        agent.learn(steps, callback=WandbLogger(run))
        print("logged in", run.dir)
