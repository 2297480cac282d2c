"""Every setting, grouped by the stage that reads it. Counts are agent steps unless the name says otherwise.

Names follow Stable-Baselines3 where the thing is the same. Field names are unique across stages, so that the Python
keyword (``learning_rate=``), the flag (``--learning-rate``) and the field are one word. Presets live in ``presets.py``.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, get_args, get_type_hints

from ebu.errors import UserError

Schedule = Literal["linear", "quadratic", "delayed-linear"]
Optimizer = Literal["adam", "rmsprop", "deepmind-rmsprop"]
Loss = Literal["huber-sum", "huber-mean", "mse"]


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
    """Steps between updates of the target network; if given without tau and longer than train_freq, tau is 1: hard copies."""
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


@cache
def _counts() -> frozenset[str]:
    """The settings that are whole numbers."""
    hints = get_type_hints(Config)
    for stage in STAGES:
        hints |= get_type_hints(hints[stage])
    return frozenset(name for name, kind in hints.items() if int in (kind, *get_args(kind)))


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
        if isinstance(value, float) and value.is_integer() and name in _counts():  # 1e5
            value = int(value)
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
