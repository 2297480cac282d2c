"""What learners are made from: the factory that chooses their form."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import nn

from ebu.config import Config, LearnerConfig, override
from ebu.envs.spaces import ObservationSpec
from ebu.learning.histogram_learner import HistogramLearner
from ebu.learning.learner import LocalLearner
from ebu.learning.reward_model import AVERAGING, LEARNING_RATE
from ebu.learning.small_learner import SmallLearner
from ebu.learning.span_values import FORWARD_ROWS
from ebu.networks.histogram import Histogram
from ebu.networks.modules import build_network

if TYPE_CHECKING:
    from ebu.registry import Correction


@dataclass(frozen=True)
class Blueprint:
    """What learners are made from, and which form of them suits it."""

    config: Config
    observation: ObservationSpec
    actions: int
    stack: int  # frames in a state
    learners: int

    def skeleton(self) -> nn.Module:
        """The network's shape, without weights."""
        return build_network(self.observation, self.actions, self.stack, self.config.network)

    def build(self, learners: int, device: torch.device, correction: Correction | None = None) -> LocalLearner:
        """All of the learners, or a share of them, in this process."""
        skeleton, config = self.skeleton(), self.config.learner
        if isinstance(skeleton, Histogram):
            return HistogramLearner(skeleton, learners, config, device, correction)
        if self.learners == 1 and device.type == "cpu" and SmallLearner.fits(skeleton, config):
            return SmallLearner(skeleton, config, correction)
        return LocalLearner(skeleton, learners, config, device, correction)

    def build_reward_learner(self, device: torch.device) -> LocalLearner:
        """One network of this form for a model of rewards: a number for each action, learned by least squares with Adam."""
        plain = override(self.config, value_head="scalar", prior_scale=0.0)
        learner = LearnerConfig(
            optimizer="adam", learning_rate=LEARNING_RATE, loss="mse", tau=AVERAGING, batch_size=FORWARD_ROWS
        )
        return replace(self, config=replace(plain, learner=learner), learners=1).build(1, device)
