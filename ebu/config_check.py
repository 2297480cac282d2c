"""Which settings are possible: their ranges, and one clear line for the first that is not."""

from __future__ import annotations

from numbers import Integral, Rational, Real
from typing import Any, Literal, get_args, get_origin, get_type_hints

from ebu.config import STAGES, Config, flat
from ebu.errors import UserError, shown

NETWORKS = ("auto", "mlp", "maze", "minatar", "nature")
MAX_LAYERS, MAX_WIDTH, MAX_LEARNERS = 64, 1_000_000, 1_000

RANDOM_SEED = "seed=random.randrange(2**32)"

_LARGE = 10**12
_COUNT = (1, _LARGE, "a whole number of at least 1")
_COUNT_OR_ZERO = (0, _LARGE, "a whole number of at least 0")
_SHARE = (0.0, 1.0, "between 0 and 1")
RANGES: dict[str, tuple[float, float, str]] = {
    "steps": _COUNT,
    "exploration_initial_eps": _SHARE,
    "exploration_final_eps": _SHARE,
    "exploration_fraction": _SHARE,
    "random_first_actions": _COUNT_OR_ZERO,
    "buffer_size": _COUNT,
    "stack": (1, 64, "a whole number between 1 and 64"),
    "gamma": _SHARE,
    "beta": _SHARE,
    "n_steps": (1, _LARGE, 'a whole number of at least 1, or "episode"'),
    "learning_starts": _COUNT_OR_ZERO,
    "train_freq": _COUNT,
    "gradient_steps": (1, 10_000, "a whole number of at least 1"),
    "batch_size": (1, 1_000_000, "a whole number of at least 1"),
    "learning_rate": (1e-30, 1e3, "greater than 0"),
    "learning_rate_final": (1e-9, 1.0, "greater than 0 and at most 1"),
    "max_grad_norm": (0.0, _LARGE, "at least 0"),
    "features_dim": (0, 1_000_000, "a whole number of at least 0"),
    "prior_scale": (0.0, _LARGE, "at least 0"),
    "optimizer_decay": (0.0, 1.0, "between 0 and 1"),
    "optimizer_eps": (0.0, 1e3, "at least 0"),
    "target_update_interval": _COUNT,
    "tau": (1e-9, 1.0, "greater than 0 and at most 1"),
    "reset_every": _COUNT_OR_ZERO,
    "trace_lambda": _SHARE,
    "horizon_updates": _COUNT_OR_ZERO,
    "initial_lambda": _SHARE,
    "initial_horizon": (1e-9, 1.0, "greater than 0 and at most 1"),
    "gate": (0.0, _LARGE, "at least 0"),
    "return_bound": (0.0, _LARGE, "at least 0"),
    "sync_interval": _COUNT,
    "tightening_weight": _SHARE,
    "tightening_neighbours": (1, 1_000, "a whole number of at least 1"),
    "priority_alpha": (0.0, 10.0, "at least 0"),
    "priority_beta": _SHARE,
    "priority_lr_scale": (1e-9, 1e3, "greater than 0"),
    "priority_sort_interval": _COUNT,
    "eval_every": _COUNT_OR_ZERO,
    "eval_episodes": _COUNT,
    "eval_epsilon": _SHARE,
    "seed": (0, 2**63 - 1, "a whole number between 0 and 2^63 − 1"),
    "threads": (0, 1024, "a whole number between 0 and 1024"),
    "log_every": _COUNT,
    "log_interval": _COUNT_OR_ZERO,
    "checkpoint_every": _COUNT,
    "checkpoint_minutes": (1e-3, 1e9, "greater than 0"),
    "n_envs": (1, 1024, "a whole number between 1 and 1024"),
    "max_episode_steps": _COUNT,
    "reward_clip": (0.0, _LARGE, "at least 0"),
}


def check(config: Config) -> None:
    """Refuse impossible settings before any work, naming the setting, its value and what it may be."""
    values = flat(config)
    for name, (low, high, what) in RANGES.items():
        value = values[name]
        if value == "episode" and name == "n_steps":
            continue
        if not _is_number(value, whole="whole" in what) or not low <= value <= high:
            too_large = _is_number(value) and value > high and "between" not in what
            limit = f", at most {high:,}" if too_large else ""
            way = f"; every run has one: for another each time, {RANDOM_SEED}" if name == "seed" and value is None else ""
            raise UserError(f"{name} must be {what}{limit}, got {shown(value)}{way}")
    hints = {name: hint for stage in STAGES for name, hint in get_type_hints(type(getattr(config, stage))).items()}
    for name, hint in hints.items():
        if get_origin(hint) is Literal and values[name] not in get_args(hint):
            raise UserError(f"{name} must be one of {', '.join(map(str, get_args(hint)))}, got {shown(values[name])}")
        if hint is bool and not isinstance(values[name], bool):
            raise UserError(f"{name} must be true or false, got {shown(values[name])}")
    for name in ("algo", "preset", "env", "device", "network"):
        if not isinstance(values[name], str):
            raise UserError(f"{name} must be a name, got {shown(values[name])}")
    for name in ("hidden_sizes", "betas", "trace_lambdas", "env_args", "env_wrappers"):
        if not isinstance(values[name], tuple):
            way = f"; write ({shown(values[name])},)" if isinstance(values[name], str | int | float) else ""
            raise UserError(f"{name} must be a tuple, got {shown(values[name])}{way}")
    if values["network"] not in NETWORKS and not _names_a_factory(values["network"]):
        own = "your own as module:factory"
        raise UserError(f"network must be one of {', '.join(NETWORKS)}, or {own}, got {shown(values['network'])}")
    sizes, pairs = values["hidden_sizes"], values["env_args"]
    if not 1 <= len(sizes) <= MAX_LAYERS or not all(_is_number(n, whole=True) and 1 <= n <= MAX_WIDTH for n in sizes):
        limits = f"(up to {MAX_LAYERS}, of up to {MAX_WIDTH:,})"
        raise UserError(f"hidden_sizes must be one or more whole numbers of at least 1 {limits}, got {shown(sizes)}")
    for name in ("betas", "trace_lambdas"):
        shares = values[name]
        if not 1 <= len(shares) <= MAX_LEARNERS or not all(_is_number(share) and 0 <= share <= 1 for share in shares):
            limit = f"(up to {MAX_LEARNERS:,})"
            raise UserError(f"{name} must be one or more numbers between 0 and 1 {limit}, got {shown(shares)}")
    if not all(isinstance(pair, str) for pair in pairs):
        raise UserError(f"env_args must be strings of the form key=value, got {shown(pairs)}")
    if not all(isinstance(text, str) for text in values["env_wrappers"]):
        raise UserError(f"env_wrappers must be names of wrappers, got {shown(values['env_wrappers'])}")
    if values["buffer_size"] < values["batch_size"]:
        raise UserError(
            f"buffer_size ({values['buffer_size']}) must hold at least one minibatch (batch_size {values['batch_size']})"
        )


def _names_a_factory(name: str) -> bool:
    """Whether a network's name is module:factory."""
    module, colon, factory = name.partition(":")
    return bool(module and colon and factory)


def _is_number(value: Any, whole: bool = False) -> bool:
    """Whether it is a number; a boolean is not."""
    return isinstance(value, int if whole else int | float) and not isinstance(value, bool)


def is_whole(number: Any) -> bool:
    """Whether it is a whole number, also one of NumPy's or 5.0."""
    if isinstance(number, Rational):
        return isinstance(number, Integral) and not isinstance(number, bool)
    return isinstance(number, Real) and float(number).is_integer()
