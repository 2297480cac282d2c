"""How an agent is given episodes that were recorded elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from ebu.agent.base import BaseAgent
from ebu.errors import UserError
from ebu.types import Episode


class Remembering(BaseAgent):
    """The part of an agent that takes recorded episodes."""

    def remember(self, episodes: Episode | Iterable[Any] | str) -> Self:
        """Add recorded episodes to the memory, before or between calls of ``learn``; if one is invalid, none is added.

        Args:
          episodes: an ``Episode``, transitions ``(observation, action, reward, terminated, truncated[, next_observation])``
            in order, a Minari data set or its id (extra ``minari``), or a list of these.

        They are replayed like the agent's own episodes and, like these, are dropped when the memory is full, oldest first.
        ``learn(0, gradient_steps=n)`` learns from them alone.
        """
        from ebu.training.recorded import EpisodeReader

        interface = self.interface
        reader = EpisodeReader(self._environment, interface.actions, interface.spec.shape, interface.spec.dtype)
        read = reader.read(episodes)
        steps, room = sum(map(len, read)), self.config.memory.buffer_size
        if steps > room:
            raise UserError(f"the episodes have {steps:,} steps, but the memory keeps {room:,}; increase buffer_size")
        for episode in read:
            self.loop.memory.add(episode)
        return self
