"""Every setting of an agent as a keyword, for editors and type checkers.

Written by ``python -m scripts.typed_settings`` from ebu/config.py, where fields and docstrings are kept; not edited by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict

from ebu.config import Loss, Optimizer, Schedule


class Settings(TypedDict, total=False):
    """Any setting by its name; what is not given is the preset's."""

    exploration_initial_eps: float
    """ε at the first step."""
    exploration_final_eps: float
    """ε once annealing is over."""
    exploration_fraction: float
    """Fraction of the run over which ε is annealed."""
    exploration_schedule: Schedule
    """linear; quadratic (the paper's maze); delayed-linear (flat until learning starts, the paper's Atari)."""
    random_first_actions: int
    """Random actions at the start of every episode, in evaluation too; the released Atari code uses 4."""
    buffer_size: int
    """Capacity in steps; when it is exceeded, the oldest episode is dropped."""
    stack: int
    """Number of latest frames that form a state, for images."""
    priority_alpha: float
    """Initial priority exponent of prioritised replay and of episode_choice=errors; annealed to 0 over the run."""
    priority_beta: float
    """Prioritised replay: exponent of the importance weights; 0 means none, as the authors chose."""
    priority_lr_scale: float
    """Prioritised replay: factor on the learning rate, as the authors chose."""
    priority_sort_interval: int
    """Prioritised replay: changes between full sorts of the heap."""
    episode_choice: Literal["uniform", "newest", "errors"]
    """How whole episodes are sampled: uniformly; those that have just ended first; or by mean error (see priority_alpha)."""
    compress: Literal["auto", "always", "never"]
    """Lossless compression of stored frames; auto compresses images of 1 KiB and more."""
    gamma: float
    """Discount."""
    beta: float
    """EBU's diffusion factor: 0 is one-step, 1 trusts the backward value fully."""
    n_steps: int | Literal["episode"]
    """n-step DQN's n, or "episode"."""
    trace_lambda: float
    """λ of Retrace, Peng's and Watkins' Q(λ)."""
    betas: Sequence[float]
    """Adaptive EBU's diffusion factors, one learner each."""
    sync_interval: int
    """Adaptive EBU: steps between copies of the best learner to all."""
    sync_score: Literal["sum", "mean"]
    """Adaptive EBU: the best learner is chosen by the sum of its scores, as in the paper, or by their mean."""
    trace_lambdas: Sequence[float]
    """Ensemble Q(λ): λ of each of its learners, once the horizon has settled."""
    bootstrap: Literal["ensemble", "own"]
    """Ensemble Q(λ): learners bootstrap from the maximum of their mean values, or each from its own."""
    acting: Literal["turns", "mean"]
    """Ensemble Q(λ): in training, one learner acts in each episode, or all act by their mean values."""
    horizon_updates: int
    """Ensemble Q(λ): updates over which λ and γ move from their initial to their final values; 0: final from the start."""
    initial_lambda: float
    """Ensemble Q(λ): λ of all learners at the first update."""
    initial_horizon: float
    """Ensemble Q(λ): initial horizon 1/(1−γ) as a fraction of the final one; a third of that of γ = 0.99 is γ = 0.97."""
    gate: float
    """Ensemble Q(λ): how strongly what followed a suboptimal action is down-weighted, in units of the error; 0: not at all."""
    return_bound: float
    """Ensemble Q(λ): a target is at least the episode's return where learners differ by less than this many errors; 0: off."""
    redistribute_rewards: bool
    """Whole episodes: rewards paid only at an episode's end are redistributed over its steps by a learned model."""
    double_q: bool
    """Double Q-learning: the online network chooses the action inside the maximum, the target network evaluates it."""
    tightening_weight: float
    """Optimality Tightening: weight of a violated bound; 0.2 as in the authors' code, 0.8 as in their paper (λ = 4)."""
    tightening_neighbours: int
    """Optimality Tightening: number of states ahead and behind that give bounds."""
    truncation_is_terminal: bool
    """Treat an episode truncated by its step limit as terminated (value 0 beyond), as the paper does in its maze."""
    learning_starts: int
    """Steps before the first update."""
    train_freq: int
    """Steps between updates."""
    gradient_steps: int
    """Minibatches at each update."""
    batch_size: int
    """Transitions in a minibatch."""
    whole_episode: bool
    """Train on all steps of a sampled episode at once (Algorithm 2 to the letter) instead of minibatches."""
    optimizer: Optimizer
    """deepmind-rmsprop is the centred form with ε inside the root, as in the Nature DQN code."""
    learning_rate: float
    """Learning rate of the optimiser."""
    learning_rate_schedule: Literal["constant", "linear", "exponential"]
    """linear: decays to 0 at the end of the run; exponential: decays to the fraction learning_rate_final."""
    learning_rate_final: float
    """Exponential schedule: the fraction of the learning rate that is left at the end of the run."""
    optimizer_decay: float
    """RMSProp's decay rate of the running averages."""
    optimizer_eps: float
    """The optimiser's ε."""
    max_grad_norm: float
    """Gradient clipping: largest norm of each learner's gradient; 0: no clipping."""
    loss: Loss
    """Huber loss, summed or averaged over the minibatch, or mean squared error."""
    target_update_interval: int
    """Steps between updates of the target network; if given without tau and longer than train_freq, tau is 1: hard copies."""
    tau: float
    """How far the target network moves towards the online one at each of its updates; 1 is a hard copy."""
    reset_every: int
    """Updates between resets, which reinitialise the network's last layer (Nikishin et al., 2022); 0: never."""
    network: str | Callable[..., Any]
    """auto chooses from the observation space; mlp, maze, minatar, nature; or your own as module:factory."""
    hidden_sizes: Sequence[int]
    """Hidden layers of the mlp."""
    features_dim: int
    """Units of the hidden layer after convolutions; 0: the network's default (512; minatar 128)."""
    layer_norm: bool
    """Layer normalisation between each hidden layer and its ReLU (Ba et al., 2016)."""
    initialisation: Literal["torch", "he"]
    """torch: U(±1/√fan_in) everywhere; he: U(±√(6/fan_in)) and biases 0.1, as in the released Atari code."""
    dueling: bool
    """Two streams, state value and advantages, in place of the last layers (Wang et al., 2016)."""
    value_head: Literal["scalar", "histogram"]
    """scalar: one number per action; histogram: 51 bins, trained by classification (Farebrother et al., 2024)."""
    prior_scale: float
    """Ensembles: scale of the fixed random prior added to each learner's network (Osband et al., 2018); 0: none."""
    eval_every: int
    """Steps between evaluations; 0 evaluates at the end only."""
    eval_episodes: int
    """Episodes in one evaluation."""
    eval_epsilon: float
    """Probability of a random action while evaluating."""
    eval_aggregate: Literal["last", "best"]
    """A run's score: its last evaluation, or the best so far, as the paper reports on Atari."""
    seed: int
    """Seed of all randomness in the run."""
    device: str
    """auto, cpu, cuda, cuda:1, …"""
    threads: int
    """CPU threads of the network; 0 chooses automatically: one for small networks, all cores for images."""
    log_every: int
    """Steps between rows of training metrics."""
    log_interval: int
    """Episodes between rows of training metrics, in place of log_every; 0 counts steps."""
    checkpoint_every: int
    """Steps between checkpoints in a run folder, unless checkpoint_minutes pass first."""
    checkpoint_minutes: float
    """Minutes between checkpoints in a run folder, unless checkpoint_every steps pass first."""
    env_args: Mapping[str, Any] | Sequence[str]
    """Arguments of the environment, as key=value; an unknown key is refused with a list of the valid ones."""
    env_wrappers: Sequence[str]
    """Wrappers of gymnasium.wrappers around it, innermost first, such as 'ClipReward {"max_reward": 1}'."""
    n_envs: int
    """Copies of the environment that run in parallel; steps, updates and schedules count the steps of all."""
    vectorization: Literal["sync", "async"]
    """sync: all copies in this process; async: each in a process of its own, for slow environments."""
    max_episode_steps: int
    """Steps after which an episode is truncated, at most buffer_size."""
    reward_clip: float
    """Clip rewards to ± this for learning (scores stay raw); 0: no clipping."""
    steps: int
    """Agent steps to train."""
