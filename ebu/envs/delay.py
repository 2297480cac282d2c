"""Rewards that come late: what an environment pays is withheld and handed over in one sum.

The task and the undiscounted return stay the same; only the credit is harder to assign. With it any environment becomes one
whose rewards are rare and late, which is what backward updates are for.
"""

from __future__ import annotations

from typing import Any, Literal, SupportsFloat

import gymnasium

from ebu.errors import UserError


class DelayedReward(gymnasium.Wrapper[Any, Any, Any, Any], gymnasium.utils.RecordConstructorArgs):
    """Withholds every reward and pays the sum of those withheld

    - ``delay=n``: at steps n, 2n, 3n, … of the episode, and at its last step, whichever comes first. A reward is late by up
      to n − 1 steps; ``delay=1`` changes nothing;
    - ``delay="episode"``: at the last step only, whether the episode terminates or is truncated there.

    All other steps pay 0. Nothing is carried from one episode to the next: a reset forgets what is withheld, and so an episode
    that is cut from outside (``max_episode_steps`` of the settings, not the environment's own limit) loses it. Rewards are
    clipped for learning (``reward_clip``) as they are paid, that is, the sum is.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], delay: int | Literal["episode"] = "episode") -> None:
        whole = isinstance(delay, int) and not isinstance(delay, bool) and delay >= 1
        if not whole and delay != "episode":
            raise UserError(f'reward_delay must be a whole number of steps of at least 1, or "episode", got {delay!r}')
        gymnasium.utils.RecordConstructorArgs.__init__(self, delay=delay)
        gymnasium.Wrapper.__init__(self, env)
        self.delay = delay
        self._withheld = 0.0
        self._steps = 0  # of this episode

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._withheld, self._steps = 0.0, 0
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._withheld += float(reward)
        self._steps += 1
        is_due = terminated or truncated or (self.delay != "episode" and self._steps % self.delay == 0)
        paid = self._withheld if is_due else 0.0
        if is_due:
            self._withheld = 0.0
        return observation, paid, terminated, truncated, info
