"""A method of your own: the mean of EBU's backward target and DQN's one-step target.

python own_method.py
ebu train --plugin own_method --algo half --env CartPole-v1      # in the folder of this file
"""

import sys

import ebu
from ebu.memory.samplers import EpisodeSampler
from ebu.types import Targets


def rule(config):
    def make_targets(span):
        step = (span.rewards, span.discounts)
        backward = ebu.targets.backward(*step, span.actions, span.target_next, config.target.beta, span.continues)
        one_step = ebu.targets.one_step(*step, span.target_next)
        return Targets(0.5 * (backward + one_step))

    return make_targets


Half = ebu.register(
    ebu.Method("half", "Half EBU, half one-step", sampler=lambda config: EpisodeSampler(), rule=rule, defaults={"beta": 1.0})
)

if __name__ == "__main__":
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    agent = Half("CartPole-v1", seed=0).learn(steps, progress_bar=True)
    print("mean return of 30 episodes:", ebu.evaluate(agent).mean)
