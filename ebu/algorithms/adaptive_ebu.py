"""EBU with an adaptive diffusion factor (Lee, Choi and Chung, 2019, Appendix A). Changes from EBU:

- K learners, each with its own network and one of the diffusion factors ``betas``, learn from the same minibatches;
- they take turns acting, an episode each, and every ``sync_interval`` steps the one that scored best is copied to all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ebu.agent import Agent
from ebu.algorithms.ebu import backward_rule, sampler
from ebu.config import Config
from ebu.registry import Method
from ebu.search_space import SearchSpace, around, usual_space

if TYPE_CHECKING:
    from ebu.registry import Rule


def rule(config: Config) -> Rule:
    return backward_rule(config, config.target.betas)


def search(config: Config) -> SearchSpace:
    return usual_space(config) | {"sync_interval": around(config.target.sync_interval, 4.0, whole=True)}


class AdaptiveEBU(Agent):
    """EBU with one learner for each of ``betas``; every ``sync_interval`` steps the best is copied to all."""

    method = Method(
        "adaptive-ebu",
        "EBU with K learners; the best diffusion factor is copied to all",
        sampler,
        rule,
        settings=("betas",),
        uses=("betas", "sync_interval", "sync_score", "double_q"),
        search=search,
        learners=lambda config: len(config.target.betas),
    )
