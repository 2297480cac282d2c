"""Every setting, grouped by the stage that reads it. Counts are agent steps unless the name says otherwise.

Names follow Stable-Baselines3 where the thing is the same. Field names are unique across stages, so that the Python
keyword (``learning_rate=``), the flag (``--learning-rate``) and the field are one word. Presets live in ``presets.py``.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args, get_origin, get_type_hints

from ebu.errors import UserError

Schedule = Literal["linear", "quadratic", "delayed-linear"]
Optimizer = Literal["adam", "rmsprop", "deepmind-rmsprop"]
Loss = Literal["huber-sum", "huber-mean", "mse"]
NETWORKS = ("auto", "mlp", "maze", "minatar", "nature")


@dataclass(frozen=True)
class ExplorationConfig:
    """How actions are chosen while training."""

    exploration_initial_eps: float = 1.0
    """ε at the first step."""
    exploration_final_eps: float = 0.05
    """ε once annealing is over."""
    exploration_fraction: float = 0.2
    """Fraction of the run over which ε is annealed."""
    exploration_schedule: Schedule = "linear"
    """linear; quadratic (the paper's maze); delayed-linear (flat until learning starts, the paper's Atari)."""
    random_first_actions: int = 0
    """Random actions at the start of every episode, in evaluation too; the released Atari code uses 4."""


@dataclass(frozen=True)
class MemoryConfig:
    """The episode memory."""

    buffer_size: int = 100_000
    """Capacity in steps; when it is exceeded, the oldest episode is dropped."""
    stack: int = 1
    """Number of latest frames that form a state, for images."""
    priority_alpha: float = 0.5
    """Initial priority exponent of prioritised replay and of episode_choice=errors; annealed to 0 over the run."""
    priority_beta: float = 0.0
    """Prioritised replay: exponent of the importance weights; 0 means none, as the authors chose."""
    priority_lr_scale: float = 0.25
    """Prioritised replay: factor on the learning rate, as the authors chose."""
    priority_sort_interval: int = 1_000_000
    """Prioritised replay: changes between full sorts of the heap."""
    episode_choice: Literal["uniform", "newest", "errors"] = "uniform"
    """How whole episodes are sampled: uniformly; those that have just ended first; or by mean error (see priority_alpha)."""
    compress: Literal["auto", "always", "never"] = "auto"
    """Lossless compression of stored frames; auto compresses images of 1 KiB and more."""


@dataclass(frozen=True)
class TargetConfig:
    """The targets that values are trained towards."""

    gamma: float = 0.99
    """Discount."""
    beta: float = 0.5
    """EBU's diffusion factor: 0 is one-step, 1 trusts the backward value fully."""
    n_steps: int | Literal["episode"] = 3
    """n-step DQN's n, or "episode"."""
    trace_lambda: float = 1.0
    """λ of Retrace, Peng's and Watkins' Q(λ)."""
    betas: tuple[float, ...] = tuple(k / 10 for k in range(11))
    """Adaptive EBU's diffusion factors, one learner each."""
    sync_interval: int = 62_500
    """Adaptive EBU: steps between copies of the best learner to all."""
    sync_score: Literal["sum", "mean"] = "sum"
    """Adaptive EBU: the best learner is chosen by the sum of its scores, as in the paper, or by their mean."""
    trace_lambdas: tuple[float, ...] = (0.5, 0.6, 0.7, 0.8)
    """Ensemble Q(λ): λ of each of its learners, once the horizon has settled."""
    bootstrap: Literal["ensemble", "own"] = "ensemble"
    """Ensemble Q(λ): learners bootstrap from the maximum of their mean values, or each from its own."""
    acting: Literal["turns", "mean"] = "turns"
    """Ensemble Q(λ): in training, one learner acts in each episode, or all act by their mean values."""
    horizon_updates: int = 10_000
    """Ensemble Q(λ): updates over which λ and γ move from their initial to their final values; 0: final from the start."""
    initial_lambda: float = 0.95
    """Ensemble Q(λ): λ of all learners at the first update."""
    initial_horizon: float = 1 / 3
    """Ensemble Q(λ): initial horizon 1/(1−γ) as a fraction of the final one; a third of that of γ = 0.99 is γ = 0.97."""
    gate: float = 0.0
    """Ensemble Q(λ): how strongly what followed a suboptimal action is down-weighted, in units of the error; 0: not at all."""
    return_bound: float = 0.0
    """Ensemble Q(λ): a target is at least the episode's return where learners differ by less than this many errors; 0: off."""
    redistribute_rewards: bool = False
    """Whole episodes: rewards paid only at an episode's end are redistributed over its steps by a learned model."""
    double_q: bool = False
    """Double Q-learning: the online network chooses the action inside the maximum, the target network evaluates it."""
    tightening_weight: float = 0.2
    """Optimality Tightening: weight of a violated bound; 0.2 as in the authors' code, 0.8 as in their paper (λ = 4)."""
    tightening_neighbours: int = 4
    """Optimality Tightening: number of states ahead and behind that give bounds."""
    truncation_is_terminal: bool = False
    """Treat an episode truncated by its step limit as terminated (value 0 beyond), as the paper does in its maze."""


@dataclass(frozen=True)
class LearnerConfig:
    """When and how the network is updated."""

    learning_starts: int = 1_000
    """Steps before the first update."""
    train_freq: int = 4
    """Steps between updates."""
    gradient_steps: int = 1
    """Minibatches at each update."""
    batch_size: int = 32
    """Transitions in a minibatch."""
    whole_episode: bool = False
    """Train on all steps of a sampled episode at once (Algorithm 2 to the letter) instead of minibatches."""
    optimizer: Optimizer = "adam"
    """deepmind-rmsprop is the centred form with ε inside the root, as in the Nature DQN code."""
    learning_rate: float = 1e-3
    """Learning rate of the optimiser."""
    learning_rate_schedule: Literal["constant", "linear", "exponential"] = "constant"
    """linear: decays to 0 at the end of the run; exponential: decays to the fraction learning_rate_final."""
    learning_rate_final: float = 0.01
    """Exponential schedule: the fraction of the learning rate that is left at the end of the run."""
    optimizer_decay: float = 0.95
    """RMSProp's decay rate of the running averages."""
    optimizer_eps: float = 1e-8
    """The optimiser's ε."""
    max_grad_norm: float = 0.0
    """Gradient clipping: largest norm of each learner's gradient; 0: no clipping."""
    loss: Loss = "huber-mean"
    """Huber loss, summed or averaged over the minibatch, or mean squared error."""
    target_update_interval: int = 500
    """Steps between updates of the target network."""
    tau: float = 1.0
    """How far the target network moves towards the online one at each of its updates; 1 is a hard copy."""
    reset_every: int = 0
    """Updates between resets, which reinitialise the network's last layer (Nikishin et al., 2022); 0: never."""


@dataclass(frozen=True)
class NetworkConfig:
    """The value network."""

    network: str = "auto"
    """auto chooses from the observation space; mlp, maze, minatar, nature; or your own as module:factory."""
    hidden_sizes: tuple[int, ...] = (64, 64)
    """Hidden layers of the mlp."""
    features_dim: int = 0
    """Units of the hidden layer after convolutions; 0: the network's default (512; minatar 128)."""
    layer_norm: bool = False
    """Layer normalisation between each hidden layer and its ReLU (Ba et al., 2016)."""
    initialisation: Literal["torch", "he"] = "torch"
    """torch: U(±1/√fan_in) everywhere; he: U(±√(6/fan_in)) and biases 0.1, as in the released Atari code."""
    dueling: bool = False
    """Two streams, state value and advantages, in place of the last layers (Wang et al., 2016)."""
    value_head: Literal["scalar", "histogram"] = "scalar"
    """scalar: one number per action; histogram: 51 bins, trained by classification (Farebrother et al., 2024)."""
    prior_scale: float = 0.0
    """Ensembles: scale of the fixed random prior added to each learner's network (Osband et al., 2018); 0: none."""


@dataclass(frozen=True)
class EvaluationConfig:
    """Scores of the greedy policy during training."""

    eval_every: int = 5_000
    """Steps between evaluations; 0 evaluates at the end only."""
    eval_episodes: int = 10
    """Episodes in one evaluation."""
    eval_epsilon: float = 0.0
    """Probability of a random action while evaluating."""
    eval_aggregate: Literal["last", "best"] = "last"
    """A run's score: its last evaluation, or the best so far, as the paper reports on Atari."""


@dataclass(frozen=True)
class RunConfig:
    """The run as a whole."""

    seed: int = 0
    """Seed of all randomness in the run."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:1, …"""
    threads: int = 0
    """CPU threads of the network; 0 chooses automatically: one for small networks, all cores for images."""
    log_every: int = 1_000
    """Steps between rows of training metrics."""
    log_interval: int = 0
    """Episodes between rows of training metrics, in place of log_every; 0 counts steps."""
    checkpoint_every: int = 50_000
    """Steps between checkpoints in a run folder, unless checkpoint_minutes pass first."""
    checkpoint_minutes: float = 10.0
    """Minutes between checkpoints in a run folder, unless checkpoint_every steps pass first."""


@dataclass(frozen=True)
class EnvironmentConfig:
    """The environment."""

    env: str = "maze"
    """maze, or any Gymnasium id with discrete actions."""
    env_args: tuple[str, ...] = ()
    """Arguments of the environment, as key=value; an unknown key is refused with a list of the valid ones."""
    env_wrappers: tuple[str, ...] = ()
    """Wrappers of gymnasium.wrappers around it, innermost first, such as 'ClipReward {"max_reward": 1}'."""
    n_envs: int = 1
    """Copies of the environment that run in parallel; steps, updates and schedules count the steps of all."""
    vectorization: Literal["sync", "async"] = "sync"
    """sync: all copies in this process; async: each in a process of its own, for slow environments."""
    max_episode_steps: int = 27_000
    """Steps after which an episode is truncated, at most buffer_size."""
    reward_clip: float = 0.0
    """Clip rewards to ± this for learning (scores stay raw); 0: no clipping."""


@dataclass(frozen=True)
class Config:
    """All settings of one run."""

    algo: str = "ebu"
    """Method, in upper or lower case; `ebu list` names them."""
    preset: str = "quick"
    """Starting values of all settings: a preset of the environment, or a TOML file."""
    steps: int = 50_000
    """Agent steps to train."""
    environment: EnvironmentConfig = field(default_factory=EnvironmentConfig)
    exploration: ExplorationConfig = field(default_factory=ExplorationConfig)
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    target: TargetConfig = field(default_factory=TargetConfig)
    learner: LearnerConfig = field(default_factory=LearnerConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    run: RunConfig = field(default_factory=RunConfig)


STAGES = [f.name for f in dataclasses.fields(Config) if f.name not in ("algo", "preset", "steps")]


def field_names() -> dict[str, str | None]:
    """Every setting's name → the stage it belongs to (None at the top)."""
    names: dict[str, str | None] = {"algo": None, "preset": None, "steps": None}
    hints = get_type_hints(Config)
    for stage in STAGES:
        names.update({f.name: stage for f in dataclasses.fields(hints[stage])})
    return names


def override(config: Config, **settings: Any) -> Config:
    """The configuration with some settings replaced, by their flat names."""
    stages = field_names()
    changes: dict[str, dict[str, Any]] = {}
    top: dict[str, Any] = {}
    for name, value in settings.items():
        if name not in stages:
            close = difflib.get_close_matches(name, stages, n=1)
            hint = f"; did you mean {close[0]}?" if close else "; `ebu train --help-all` lists them"
            raise UserError(f"there is no setting {name!r}{hint}")
        if hasattr(value, "tolist"):  # NumPy's and PyTorch's numbers
            value = value.tolist()
        if isinstance(value, list):
            value = tuple(value)
        stage = stages[name]
        (top if stage is None else changes.setdefault(stage, {}))[name] = value
    replaced = {stage: dataclasses.replace(getattr(config, stage), **values) for stage, values in changes.items()}
    return dataclasses.replace(config, **top, **replaced)


def flat(config: Config) -> dict[str, Any]:
    """All settings in one dictionary, by their flat names."""
    return {name: getattr(config if stage is None else getattr(config, stage), name) for name, stage in field_names().items()}


def to_json(config: Config) -> str:
    return json.dumps(flat(config), indent=2) + "\n"


def from_json(text: str) -> Config:
    settings = json.loads(text)
    if not isinstance(settings, dict):
        raise ValueError("settings are a JSON object of names and values")
    return override(Config(), **settings)


def is_extension(now: Config, then: Config) -> bool:
    """Whether the settings are unchanged but for more steps: the plan of a finished run may be extended."""
    return now.steps >= then.steps and now == override(then, steps=now.steps)


def environment_arguments(pairs: tuple[str, ...]) -> dict[str, Any]:
    """("wall_density=0.5", "slip=0.1") → {"wall_density": 0.5, "slip": 0.1}; a value that is not JSON stays a string."""
    arguments: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise UserError(f"--env-args takes key=value, got {pair!r}; for example --env-args wall_density=0.5")
        try:
            arguments[key] = json.loads(text)
        except json.JSONDecodeError:
            arguments[key] = {"True": True, "False": False, "None": None}.get(text, text)
    return arguments


def environment_pairs(given: Any) -> tuple[str, ...]:
    """Environment arguments as pairs: {"slip": 0.1}, ["slip=0.1"] and ("slip=0.1",) mean the same."""
    if isinstance(given, Mapping):
        try:
            return tuple(f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in given.items())
        except TypeError as error:
            raise UserError(f"env_args takes numbers, strings and booleans, got {_shown(given)}") from error
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise UserError(f'env_args takes a dictionary or pairs such as ("slip=0.1",), got {_shown(given)}')
    return tuple(given)


def merge_environment_arguments(base: tuple[str, ...], given: tuple[str, ...]) -> tuple[str, ...]:
    """``given`` on top of ``base``: a key that is given again replaces the old pair, the others stay."""
    if not all(isinstance(pair, str) for pair in given):
        raise UserError(f"env_args must be strings of the form key=value, got {_shown(given)}")
    keys = {pair.partition("=")[0] for pair in given}
    return (*(pair for pair in base if pair.partition("=")[0] not in keys), *given)


def check(config: Config) -> None:
    """Refuse impossible settings before any work, naming the setting, its value and what it may be."""
    values = flat(config)
    for name, (low, high, what) in _RANGES.items():
        value = values[name]
        if value == "episode" and name == "n_steps":
            continue
        if not _is_number(value, whole="whole" in what) or not low <= value <= high:
            too_large = _is_number(value) and value > high and "between" not in what
            limit = f", at most {high:,}" if too_large else ""
            raise UserError(f"{name} must be {what}{limit}, got {_shown(value)}")
    hints = {name: hint for stage in STAGES for name, hint in get_type_hints(type(getattr(config, stage))).items()}
    for name, hint in hints.items():
        if get_origin(hint) is Literal and values[name] not in get_args(hint):
            raise UserError(f"{name} must be one of {', '.join(map(str, get_args(hint)))}, got {_shown(values[name])}")
        if hint is bool and not isinstance(values[name], bool):
            raise UserError(f"{name} must be true or false, got {_shown(values[name])}")
    for name in ("algo", "preset", "env", "device", "network"):
        if not isinstance(values[name], str):
            raise UserError(f"{name} must be a name, got {_shown(values[name])}")
    for name in ("hidden_sizes", "betas", "trace_lambdas", "env_args", "env_wrappers"):
        if not isinstance(values[name], tuple):
            raise UserError(f"{name} must be a tuple, got {_shown(values[name])}")
    if values["network"] not in NETWORKS and not _names_a_factory(values["network"]):
        own = "your own as module:factory"
        raise UserError(f"network must be one of {', '.join(NETWORKS)}, or {own}, got {_shown(values['network'])}")
    sizes, pairs = values["hidden_sizes"], values["env_args"]
    if not 1 <= len(sizes) <= MAX_LAYERS or not all(_is_number(n, whole=True) and 1 <= n <= MAX_WIDTH for n in sizes):
        limits = f"(up to {MAX_LAYERS}, of up to {MAX_WIDTH:,})"
        raise UserError(f"hidden_sizes must be one or more whole numbers of at least 1 {limits}, got {_shown(sizes)}")
    for name in ("betas", "trace_lambdas"):
        shares = values[name]
        if not 1 <= len(shares) <= MAX_LEARNERS or not all(_is_number(share) and 0 <= share <= 1 for share in shares):
            limit = f"(up to {MAX_LEARNERS:,})"
            raise UserError(f"{name} must be one or more numbers between 0 and 1 {limit}, got {_shown(shares)}")
    if not all(isinstance(pair, str) for pair in pairs):
        raise UserError(f"env_args must be strings of the form key=value, got {_shown(pairs)}")
    if not all(isinstance(text, str) for text in values["env_wrappers"]):
        raise UserError(f"env_wrappers must be names of wrappers, got {_shown(values['env_wrappers'])}")
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


def _shown(value: Any) -> str:
    """The offending value, at a length that leaves room for the rest of the line."""
    try:
        text = repr(value)
    except ValueError:  # an integer longer than Python is willing to write
        return "an integer of thousands of digits"
    return text if len(text) <= 100 else f"{text[:97]}..."


MAX_LAYERS, MAX_WIDTH, MAX_LEARNERS = 64, 1_000_000, 1_000

_LARGE = 10**12
_COUNT = (1, _LARGE, "a whole number of at least 1")
_COUNT_OR_ZERO = (0, _LARGE, "a whole number of at least 0")
_SHARE = (0.0, 1.0, "between 0 and 1")
_RANGES: dict[str, tuple[float, float, str]] = {
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
