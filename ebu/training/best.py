"""The policy with the best evaluation of a run, kept beside the last one."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor

from ebu.config import Config
from ebu.networks.ensemble import stacked
from ebu.networks.policy_file import SavedPolicy, save_policy
from ebu.storage.codec import require_like
from ebu.training.events import Evaluated, Event
from ebu.training.loop import TrainingLoop


def policy_of(loop: TrainingLoop, config: Config) -> SavedPolicy:
    """The current policy: of K learners, that of the one that leads, or of all of an ensemble."""
    return SavedPolicy(config, loop.interface.spec, loop.interface.actions, loop.interface.stack, policy_tensors(loop))


def policy_tensors(loop: TrainingLoop) -> dict[str, Tensor]:
    """The weights of that policy, with an axis of learners where there are several."""
    online, learners = loop.learner.online, loop.policies.judged_learners(loop.rotation.leader())
    if len(learners) == 1:
        return online.named_tensors(learners[0])
    # Copies: weights fetched from another process overwrite those fetched before.
    members = [{name: tensor.clone() for name, tensor in online.named_tensors(k).items()} for k in learners]
    return stacked(members)


class BestPolicy:
    """Listens for evaluations and writes the policy of the best; of equal ones, the first.

    The checkpoints hold it, too: the file may be newer than the checkpoint a run is resumed from.
    """

    NONE: ClassVar[dict[str, Any]] = {"score": None, "tensors": None}  # before the first evaluation

    def __init__(self, path: Path, loop: TrainingLoop, config: Config) -> None:
        self._path = path
        self._loop = loop
        self._config = config
        self._score: float | None = None
        self._tensors: dict[str, Any] | None = None

    def __call__(self, event: Event) -> None:
        if isinstance(event, Evaluated) and (self._score is None or event.evaluation.mean > self._score):
            policy = policy_of(self._loop, self._config)
            self._score = event.evaluation.mean
            self._tensors = {name: tensor.detach().cpu().clone() for name, tensor in policy.tensors.items()}
            self._write()

    def _write(self) -> None:
        interface = self._loop.interface
        assert self._tensors is not None
        save_policy(self._path, SavedPolicy(self._config, interface.spec, interface.actions, interface.stack, self._tensors))

    def state_dict(self) -> dict[str, Any]:
        return {"score": self._score, "tensors": self._tensors}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Back to the best of a checkpoint, on the disk as well."""
        score, tensors = state["score"], state["tensors"]
        if score is not None and (isinstance(score, bool) or not isinstance(score, int | float)):
            raise TypeError("the best score is not a number")
        if tensors is not None:
            require_like(tensors, {k: v.cpu() for k, v in policy_of(self._loop, self._config).tensors.items()}, "best")
        self._score, self._tensors = score, tensors
        if tensors is None:
            self._path.unlink(missing_ok=True)
        else:
            self._write()
