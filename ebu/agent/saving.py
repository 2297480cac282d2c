"""How an agent is saved and restored."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ebu.agent.base import BaseAgent
from ebu.errors import UserError
from ebu.training.environment import Interface

if TYPE_CHECKING:
    from ebu.networks.policy_file import SavedPolicy


class Saving(BaseAgent):
    """The part of an agent that writes and reads files."""

    def save(self, path: str | Path, memory: bool = False) -> None:
        """Write the policy, weights and settings, to one file without pickle.

        With ``memory``, everything that is needed to continue exactly: memory, optimiser, schedules, random generators,
        the open episode. ``ebu.load(path).learn(n)`` then gives the same result as if this agent had continued.
        """
        if memory:
            from ebu.training.whole_agent import save_whole

            return save_whole(Path(path), self.loop, self.config)
        from ebu.networks.policy_file import save_policy
        from ebu.training.best import policy_of

        saved = self._restored
        if self._loop is not None or saved is None:
            saved = policy_of(self.loop, self.config)
        save_policy(Path(path), saved)

    def restore(self, saved: SavedPolicy) -> None:
        """Use the weights of a policy file, to act and to continue learning."""
        try:
            Interface(saved.observation, saved.actions, saved.stack).require_same(self.interface)
        except UserError as error:
            raise UserError(f"the policy was trained on other observations or actions: {error}") from error
        expected = self.learners if self.method.ensemble else 1
        if saved.learners != expected:
            raise UserError(f"invalid policy: it holds {saved.learners} networks, but its settings say {expected}")
        self._restored = saved
