"""EBU inside Stable-Baselines3 learns CartPole."""

from __future__ import annotations

import gymnasium
import pytest

pytest.importorskip("stable_baselines3")
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.monitor import Monitor

from ebu.sb3 import EBU


@pytest.mark.slow
def test_cartpole_is_learned():
    """Some evaluation comes near the most there is, 500; which one depends on the processor's arithmetic."""
    model = EBU(
        "MlpPolicy",
        "CartPole-v1",
        double_q=True,
        learning_rate=lambda left: 1e-3 * left,
        buffer_size=100_000,
        learning_starts=1_000,
        batch_size=128,
        tau=0.02,
        target_update_interval=1,
        train_freq=1,
        exploration_fraction=0.2,
        exploration_final_eps=0.1,
        policy_kwargs={"net_arch": [128, 128]},
        seed=0,
        device="cpu",
    )
    scores = EvalCallback(Monitor(gymnasium.make("CartPole-v1")), eval_freq=2_000, n_eval_episodes=10, verbose=0)
    model.learn(30_000, callback=scores)
    assert scores.best_mean_reward >= 400
