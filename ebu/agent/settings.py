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
    """Share of the run over which ε is annealed."""
    exploration_schedule: Schedule
    """linear; quadratic (the paper's maze); delayed-linear (flat until learning starts, the paper's Atari)."""
    random_first_actions: int
    """Random actions at the start of every episode, in evaluation too; the released Atari code takes 4."""
    buffer_size: int
    """Steps kept; the oldest episode leaves when there are more."""
    stack: int
    """Latest frames that form a state, for images."""
    priority_alpha: float
    """Prioritised replay, and episodes by their errors: how strongly errors decide at first; falls to 0 over the run."""
    priority_beta: float
    """Prioritised replay: exponent of the importance weights; 0 means none, as the authors chose."""
    priority_lr_scale: float
    """Prioritised replay: factor on the step size, as the authors chose."""
    priority_sort_interval: int
    """Prioritised replay: changes between full sorts of the heap."""
    episode_choice: Literal["uniform", "newest", "errors"]
    """Whole episodes: each equally likely; those that have just ended first; or by mean error, as priority_alpha says."""
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
    """Adaptive EBU: the best learner by the sum of its scores, as the paper, or by their mean."""
    trace_lambdas: Sequence[float]
    """Ensemble Q(λ): λ of each of its learners, once the horizon has settled."""
    bootstrap: Literal["ensemble", "own"]
    """Ensemble Q(λ): learners bootstrap from the maximum of their mean values, or each from its own."""
    acting: Literal["turns", "mean"]
    """Ensemble Q(λ): in training one learner acts in each episode, or all by their mean values."""
    horizon_updates: int
    """Ensemble Q(λ): updates over which λ and γ go from their first to their last values; 0 begins with the last."""
    initial_lambda: float
    """Ensemble Q(λ): λ of all learners at the first update."""
    initial_horizon: float
    """Ensemble Q(λ): the horizon 1/(1−γ) at the first update, as a share of gamma's: a third of 0.99's is 0.97's."""
    gate: float
    """Ensemble Q(λ): how much less counts what followed an action worse than the best, in units of the error; 0: nothing."""
    return_bound: float
    """Ensemble Q(λ): a target is at least the episode's return where learners differ by less than this many errors; 0: off."""
    double_q: bool
    """The online network chooses the action inside the maximum, the target network values it."""
    tightening_weight: float
    """Optimality Tightening: weight of a violated bound; 0.2 as the authors' code, 0.8 as their paper (λ = 4)."""
    tightening_neighbours: int
    """Optimality Tightening: states ahead and behind that give bounds."""
    truncation_is_terminal: bool
    """Treat an episode cut by its step limit as ended (value 0 beyond), as the paper does in its maze."""
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
    """Step size of the optimiser."""
    learning_rate_schedule: Literal["constant", "linear", "exponential"]
    """linear brings the step size to 0 at the end of the run, exponential to the share learning_rate_final."""
    learning_rate_final: float
    """Exponential schedule: the share of the step size that is left at the end of the run."""
    optimizer_decay: float
    """RMSProp's averaging constant."""
    optimizer_eps: float
    """The optimiser's ε."""
    max_grad_norm: float
    """Longest gradient of a learner; a longer one is shortened to this norm. 0 leaves all as they are."""
    loss: Loss
    """Error of a value: Huber's, summed or averaged over the minibatch, or the mean of squares."""
    target_update_interval: int
    """Steps between updates of the target network."""
    tau: float
    """How far the target network moves to the online one at each of its updates; 1 is a hard copy."""
    reset_every: int
    """Updates between resets, at which the network's last layer starts anew (Nikishin et al., 2022); 0 never does."""
    network: str | Callable[..., Any]
    """auto chooses from the observation space; mlp, maze, minatar, nature; or your own as module:factory."""
    hidden_sizes: Sequence[int]
    """Hidden layers of the mlp."""
    features_dim: int
    """Units of the hidden layer after convolutions; 0 takes the network's own (512, minatar 128)."""
    layer_norm: bool
    """Layer normalisation between each hidden layer and its ReLU (Ba et al., 2016)."""
    initialisation: Literal["torch", "he"]
    """torch: U(±1/√fan_in) everywhere; he: U(±√(6/fan_in)) and biases 0.1, as the released Atari code."""
    dueling: bool
    """Two streams, state value and advantages, in place of the last layers (Wang et al., 2016)."""
    value_head: Literal["scalar", "histogram"]
    """One number for each action, or a histogram of 51 bins that is learned by classification (Farebrother et al., 2024)."""
    prior_scale: float
    """A second network that keeps its random weights is added, times this (Osband et al., 2018); for ensembles. 0: none."""
    eval_every: int
    """Steps between evaluations; 0 evaluates at the end only."""
    eval_episodes: int
    """Episodes in one evaluation."""
    eval_epsilon: float
    """Probability of a random action while evaluating."""
    eval_aggregate: Literal["last", "best"]
    """A run's score: its last evaluation, or the best so far, as the paper reports on Atari."""
    seed: int
    """All randomness of the run follows from it."""
    device: str
    """auto, cpu, cuda, cuda:1, …"""
    threads: int
    """CPU threads of the network; 0 chooses: one for small networks, all cores for images."""
    log_every: int
    """Steps between rows of training metrics."""
    log_interval: int
    """Episodes between rows of training metrics, in place of log_every; 0 counts steps."""
    checkpoint_every: int
    """Steps between checkpoints of the command line's runs …"""
    checkpoint_minutes: float
    """… and minutes, whichever comes first."""
    env_args: Mapping[str, Any] | Sequence[str]
    """Settings of the environment, as key=value; a wrong key lists those that exist."""
    env_wrappers: Sequence[str]
    """Wrappers of gymnasium.wrappers around it, innermost first, such as 'ClipReward {"max_reward": 1}'."""
    n_envs: int
    """Copies of the environment that are played at once; steps, updates and schedules count the steps of all."""
    vectorization: Literal["sync", "async"]
    """sync: all copies in this process; async: each in a process of its own, for environments that take long."""
    max_episode_steps: int
    """An episode that lasts longer is cut here as truncated; never later than after buffer_size steps."""
    reward_clip: float
    """Clip rewards to ± this for learning (scores stay raw); 0 leaves them."""
    steps: int
    """Agent steps to train."""
