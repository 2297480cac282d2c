"""EBU and Peng's Q(λ) inside Stable-Baselines3: its policies, callbacks, wrappers, logger and files; our replay and targets.

    from ebu.sb3 import EBU

    model = EBU("MlpPolicy", "CartPole-v1", beta=0.5)
    model.learn(50_000)

Stable-Baselines3 comes with the extra ``sb3``.
"""

try:
    import stable_baselines3  # noqa: F401
except ImportError as error:
    words = "ebu.sb3 needs Stable-Baselines3; install it with: pip install 'episodic-backward-update[sb3]'"
    raise ImportError(words) from error

from ebu.sb3.algorithms import EBU, EpisodicDQN, PengQ
from ebu.sb3.buffers import DictEpisodeReplayBuffer, EpisodeReplayBuffer

__all__ = ["EBU", "DictEpisodeReplayBuffer", "EpisodeReplayBuffer", "EpisodicDQN", "PengQ"]
