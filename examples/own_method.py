"""A method of your own: half of EBU's backward target, half of the one-step target.

    ebu train --plugin own_method --algo half --env CartPole-v1
"""

import ebu
from ebu.memory.samplers import EpisodeSampler
from ebu.types import Targets


def rule(config):
    def make_targets(span):
        step = (span.rewards, span.discounts)
        far = ebu.targets.backward(*step, span.actions, span.target_next, config.target.beta, span.continues)
        near = ebu.targets.one_step(*step, span.target_next)
        return Targets(0.5 * (far + near))

    return make_targets


Half = ebu.register(
    ebu.Method("half", "Half EBU, half one-step", sampler=lambda config: EpisodeSampler(), rule=rule, defaults={"beta": 1.0})
)
