"""The families of environments: names, making, presets and costs. A new family is one record here, or one call outside.

Each number is stated once: command line, API, experiments and docs read presets and costs from these records. What is needed
to make an environment (an emulator, MinAtar, MiniGrid) is imported when one is made.
"""

from __future__ import annotations

import importlib
import sys
from contextlib import suppress
from typing import Any

import gymnasium

from ebu.envs.arguments import registered_arguments
from ebu.envs.atari_games import find_game
from ebu.envs.family import SMALL_NETWORK, AnyEnv, Cost, Family, Settings, make_by_id
from ebu.envs.registration import MAZE_ID
from ebu.envs.registration import register as register_maze
from ebu.errors import UserError

# ---------------------------------------------------------------------- the paper's maze


def _make_maze(name: str, training: bool, **arguments: Any) -> AnyEnv:
    return make_by_id(MAZE_ID, training, **arguments)


MAZE = Family(
    "maze",
    recognises=lambda name: name in ("maze", MAZE_ID),
    make=_make_maze,
    arguments=lambda name: registered_arguments(MAZE_ID),
    register=register_maze,
    examples={"maze": f"the paper's 2D MNIST maze ({MAZE_ID})"},
    presets={
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
    costs={
        "quick": Cost(act=0.0002, update=0.0065, evaluate=0.0002, episode=300),
        "paper": Cost(act=0.0005, update=0.09, evaluate=0.0008, episode=300),
    },
)


# ---------------------------------------------------------------------- Atari


def _make_atari(name: str, training: bool, **arguments: Any) -> AnyEnv:
    """In training a life is an episode, in evaluation a whole game."""
    from ebu.envs.atari import make_atari

    return make_atari(name, training, **arguments)


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


def _is_atari(name: str) -> bool:
    """A game of the emulator, also without its prefix, unless the user has registered an environment of that name."""
    if name.startswith("ALE/"):
        return True
    known = gymnasium.registry.get(name)
    return find_game(name) is not None and (known is None or str(known.entry_point).startswith("ale_py"))


ATARI = Family(
    "atari",
    recognises=_is_atari,
    make=_make_atari,
    module="ale_py",
    extra="atari",
    packages=("ale-py",),
    examples={"ALE/Breakout-v5": "extra: atari; also plain breakout; the paper's 49 games and others"},
    presets={
        "paper": _ATARI_PAPER,
        # The authors' released defaults: one update per step, their emulator settings and initial weights.
        "released": _ATARI_PAPER
        | {
            "env_args": ("protocol=released",),
            "train_freq": 1,
            "initialisation": "he",
            "random_first_actions": 4,
        },
        # A first look in about half an hour on a laptop. After the 50,000 updates of a million frames Nature's optimiser
        # has hardly begun (it divides by at least √0.01, and the gradients of a new network are far smaller); Adam has by
        # 10,000.
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
    },
    costs=dict.fromkeys(("paper", "released", "quick"), Cost(act=0.0015, update=0.033, evaluate=0.002, episode=1_500)),
)


# ---------------------------------------------------------------------- MinAtar


def _register_minatar() -> None:
    from minatar import gym

    if not any(known.startswith("MinAtar/") for known in gymnasium.registry):
        gym.register_envs()


MINATAR = Family(
    "minatar",
    recognises=lambda name: name.startswith("MinAtar/"),
    register=_register_minatar,
    module="minatar",
    extra="minatar",
    packages=("minatar",),
    threads=1,
    examples={"MinAtar/Breakout-v1": "extra: minatar; also Asterix, Freeway, Seaquest, SpaceInvaders"},
    presets={
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
    costs={"quick": Cost(act=0.0001, update=0.0009, evaluate=0.00008, episode=300)},
)


# ---------------------------------------------------------------------- MiniGrid, and everything else

# Settings under which every method learns CartPole-v1 within 50,000 steps.
_SMALL_NETWORK_QUICK: Settings = {
    "hidden_sizes": (128, 128),
    "train_freq": 1,
    "batch_size": 128,
    "learning_rate": 1e-3,
    "learning_rate_schedule": "linear",
    # A fall is one step in a hundred, and its error is as large as the value that was expected: a loss that caps
    # errors at 1 hardly reacts to it, and values grow without bound.
    "loss": "mse",
    "target_update_interval": 1,
    "tau": 0.02,
    "double_q": True,  # without it values grow beyond what can be earned, and the policy with them
    "exploration_final_eps": 0.1,
    "priority_lr_scale": 1.0,  # a quarter of a step size that shrinks to 0 anyway learns too little
    # An episode lasts up to 500 steps: the sum of scores would favour the learner that played one episode more.
    "sync_interval": 10_000,
    "sync_score": "mean",
    "eval_every": 2_000,
}


def _register_minigrid() -> None:
    import minigrid

    if not any(known.startswith("MiniGrid") for known in gymnasium.registry):
        minigrid.register_minigrid_envs()


def _make_minigrid(name: str, training: bool, **arguments: Any) -> AnyEnv:
    from minigrid.wrappers import ImgObsWrapper

    env = make_by_id(name, training, **arguments)
    return ImgObsWrapper(env)  # the mission text is not an observation a value network can read


MINIGRID = Family(
    "minigrid",
    recognises=lambda name: name.startswith(("MiniGrid-", "BabyAI-")),
    make=_make_minigrid,
    register=_register_minigrid,
    module="minigrid",
    extra="minigrid",
    packages=("minigrid",),
    threads=1,
    examples={"MiniGrid-Empty-5x5-v0": "extra: minigrid; any MiniGrid id"},
    # One reward, at the end: with 0.99 a wasted step costs 1 % of the value, which a network hardly tells from noise.
    # An agent sees a part of the maze and remembers nothing: a policy that never errs walks in circles in a few places.
    presets={"quick": {**_SMALL_NETWORK_QUICK, "gamma": 0.95, "eval_epsilon": 0.05}},
    costs={"quick": SMALL_NETWORK},
)

OTHER = Family(
    "other",
    recognises=lambda name: True,
    examples={
        "CartPole-v1": "classic control; also Acrobot-v1, MountainCar-v0",
        "FrozenLake-v1": "toy text; also Taxi-v4, CliffWalking-v1",
        "LunarLander-v3": "extra: box2d",
    },
    presets={"quick": _SMALL_NETWORK_QUICK},
    costs={"quick": SMALL_NETWORK},
)


# ---------------------------------------------------------------------- the registry

_REGISTERED: list[Family] = [MAZE, ATARI, MINATAR, MINIGRID]


def register_family(added: Family) -> Family:
    """Make a family known. It is asked before those that are known already, so that it may claim some of their names."""
    if added.name in (known.name for known in families()):
        raise UserError(f"there is already a family of environments called {added.name!r}; choose another name")
    _REGISTERED.append(added)
    return added


def families() -> tuple[Family, ...]:
    """All families in the order of their registration; the one for all other names comes last."""
    return (*_REGISTERED, OTHER)


def family(name: str) -> Family:
    """The family an environment's name belongs to, of those registered so far; nothing is imported."""
    return next((known for known in reversed(_REGISTERED) if known.recognises(name)), OTHER)


def import_module_of(name: str) -> None:
    """Import the module of ``module:id``, as Gymnasium does: the module may register a family of its own."""
    module, colon, _ = name.partition(":")
    if colon and module and module not in sys.modules:
        with suppress(Exception):  # of any kind, others wrote it; making the environment says what is wrong
            importlib.import_module(module)


def packages() -> tuple[str, ...]:
    """The distributions of all families, whose versions a run folder records."""
    return tuple(package for known in families() for package in known.packages)
