"""Starting values of all settings, by kind of environment. One truth per number: command line, API and docs read these."""

from __future__ import annotations

from typing import Any

from ebu.config import Config, merge_environment_arguments, override
from ebu.envs.make import family
from ebu.errors import UserError
from ebu.registry import find_method

# family → preset → settings that differ from the defaults in config.py
PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "maze": {
        # Digits fixed per maze make the task easy; a small network and a reward of 10 make it a matter of a minute.
        "quick": {
            "steps": 10_000,
            "env_args": ("redraw_digits=false", "wall_density=0.3"),
            "network": "mlp",
            "hidden_sizes": (256, 256),
            "gamma": 0.9,
            "beta": 1.0,
            "learning_starts": 3_000,  # a random walk finds the goal within about 700 steps; wait for a few visits
            "train_freq": 2,
            "batch_size": 64,
            "buffer_size": 30_000,
            "learning_rate": 5e-4,
            "target_update_interval": 200,
            "exploration_schedule": "delayed-linear",
            "exploration_fraction": 0.6,
            "exploration_final_eps": 0.0,
            "loss": "huber-mean",
            "reward_clip": 10.0,
            "eval_every": 1_000,
            "eval_episodes": 1,
            "log_every": 500,
        },
        # Appendix D of the paper; what it leaves open is settled in docs/deviations.md.
        "paper": {
            "steps": 200_000,
            "env_args": ("redraw_digits=true", "wall_density=0.3"),
            "gamma": 0.9,
            "beta": 1.0,
            "n_steps": "episode",
            "truncation_is_terminal": True,
            "learning_starts": 0,
            "train_freq": 50,
            "batch_size": 350,
            "buffer_size": 30_000,
            "optimizer": "rmsprop",
            "optimizer_decay": 0.9,
            "optimizer_eps": 1e-10,
            "learning_rate": 1e-3,
            "loss": "mse",
            "target_update_interval": 2_000,
            "exploration_schedule": "quadratic",
            "exploration_fraction": 1.0,
            "exploration_final_eps": 0.0,
            "eval_every": 10_000,
            "eval_episodes": 1,
        },
    },
    "minatar": {
        "quick": {
            "steps": 200_000,
            "learning_starts": 5_000,
            "train_freq": 4,
            "learning_rate": 2.5e-4,
            "exploration_fraction": 0.25,
            "target_update_interval": 1_000,
            "eval_every": 20_000,
        },
    },
    # Settings under which every method learns CartPole-v1 within 50,000 steps.
    "other": {
        "quick": {
            "hidden_sizes": (128, 128),
            "train_freq": 1,
            "batch_size": 128,
            "learning_rate": 1e-3,
            "learning_rate_schedule": "linear",
            # A fall is one step in a hundred, and its error is as large as the value that was expected: a loss that caps
            # errors at 1 hardly hears it, and values grow without end.
            "loss": "mse",
            "target_update_interval": 1,
            "tau": 0.02,
            "double_q": True,  # without it values grow beyond what can be earned, and the policy with them
            "exploration_final_eps": 0.1,
            "priority_lr_scale": 1.0,  # a quarter of a step size that shrinks to 0 anyway learns too little
            # An episode lasts up to 500 steps: the sum of scores would favour whoever played once more.
            "sync_interval": 10_000,
            "sync_score": "mean",
            "eval_every": 2_000,
        },
    },
}
PRESETS["minigrid"] = PRESETS["other"]

# Appendix D of the paper, which is Nature DQN's set-up.
_ATARI_PAPER: dict[str, Any] = {
    "steps": 2_500_000,
    "stack": 4,
    "buffer_size": 1_000_000,
    "gamma": 0.99,
    "beta": 0.5,
    "reward_clip": 1.0,
    "learning_starts": 50_000,
    "train_freq": 4,
    "batch_size": 32,
    "optimizer": "deepmind-rmsprop",
    "optimizer_decay": 0.95,
    "optimizer_eps": 0.01,
    "learning_rate": 2.5e-4,
    "learning_rate_schedule": "constant",
    "loss": "huber-sum",
    "target_update_interval": 10_000,
    "tau": 1.0,
    "exploration_schedule": "delayed-linear",
    "exploration_fraction": 0.4,
    "exploration_final_eps": 0.1,
    "sync_interval": 62_500,
    "eval_every": 62_500,
    "eval_episodes": 30,
    "eval_epsilon": 0.05,
    "log_every": 2_500,
}
PRESETS["atari"] = {
    "paper": _ATARI_PAPER,
    # The authors' released defaults: one update per step, their emulator settings and initial weights.
    "released": _ATARI_PAPER
    | {
        "env_args": ("protocol=released",),
        "train_freq": 1,
        "initialisation": "he",
        "random_first_actions": 4,
    },
    # A first look in about half an hour on a laptop. After the 50,000 updates of a million frames Nature's optimiser has
    # hardly begun (it divides by at least √0.01, and the gradients of a new network are far smaller); Adam has by 10,000.
    "quick": _ATARI_PAPER
    | {
        "steps": 200_000,
        "buffer_size": 200_000,
        "learning_starts": 10_000,
        "optimizer": "adam",
        "optimizer_eps": 1e-8,
        "learning_rate": 1e-4,
        "loss": "huber-mean",
        "target_update_interval": 1_000,
        "exploration_fraction": 0.2,
        "exploration_final_eps": 0.05,
        "sync_interval": 20_000,
        "eval_every": 50_000,
        "eval_episodes": 5,
    },
}


def preset_names(env: str) -> list[str]:
    return list(PRESETS[family(env)])


def configure(algo: str = "ebu", env: str = "maze", preset: str = "quick", **settings: Any) -> Config:
    """The preset for this environment with the given settings on top."""
    names = preset_names(env)
    if preset not in names:
        raise UserError(f"there is no preset {preset!r} for {env}; choose from {', '.join(names)}")
    config = override(Config(), algo=algo, env=env, preset=preset, **PRESETS[family(env)][preset])
    config = override(config, **find_method(algo).defaults)
    if isinstance(settings.get("env_args"), tuple):
        settings["env_args"] = merge_environment_arguments(config.environment.env_args, settings["env_args"])
    return override(config, **settings)
