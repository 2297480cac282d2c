"""Curves in MLflow: a callback that logs rows of training and evaluations, and the policy at the end.

    python examples/mlflow_logger.py && mlflow ui --backend-store-uri sqlite:///mlflow.db

Needs `pip install mlflow`. Everything is kept in the current folder unless MLFLOW_TRACKING_URI names a server.
"""

import os
import sys

import mlflow

import ebu
from ebu.callbacks import Callback, Evaluated, Trained
from ebu.config import flat


class MLflowLogger(Callback):
    """Logs to the active run of MLflow, with all settings of the agent as its parameters."""

    def begin(self, agent):
        super().begin(agent)
        mlflow.log_params(flat(agent.config))

    def __call__(self, event):
        if isinstance(event, Trained):
            numbers = {
                f"train/{name}": float(value) for name, value in event.metrics.items() if isinstance(value, int | float)
            }
            mlflow.log_metrics(numbers, step=event.step)
        elif isinstance(event, Evaluated):
            mlflow.log_metric("eval/mean_reward", event.evaluation.mean, step=event.step)


if __name__ == "__main__":
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    mlflow.set_tracking_uri(os.environ.get("MLFLOW_TRACKING_URI", "sqlite:///mlflow.db"))
    mlflow.set_experiment("ebu")
    with mlflow.start_run() as run:
        agent = ebu.EBU("CartPole-v1", seed=0, log_every=max(steps // 10, 1), eval_every=max(steps // 4, 1))
        agent.learn(steps, callback=MLflowLogger())
        agent.save("cartpole.ebu")
        mlflow.log_artifact("cartpole.ebu")
        print("logged in run", run.info.run_id)
