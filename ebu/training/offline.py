"""Learning from the stored episodes alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from ebu.errors import Interrupted
from ebu.training.events import Event, Trained
from ebu.training.loop import TrainingLoop


def learn_offline(loop: TrainingLoop, updates: int) -> Iterator[Event]:
    """So many updates, with schedules planned over them.

    The target network is updated after as many of them as there would be in ``target_update_interval`` steps.
    """
    config = loop.config.learner
    between = max(round(config.target_update_interval * config.gradient_steps / config.train_freq), 1)
    for done in range(updates):
        if loop.should_stop():
            return
        with suppress(Interrupted):  # during the targets: nothing is changed yet
            loop.update(done, updates, loop.config.exploration.exploration_final_eps)
            if loop.updates % between == 0:
                loop.learner.update_target()
            if (done + 1) % loop.config.run.log_every == 0:
                yield Trained(loop.step, loop.metrics())
