"""Algorithm 2 as printed, one number at a time: the oracle of the target rules."""

from __future__ import annotations

import numpy as np


def algorithm_2(rewards, discounts, actions, q_next, beta, continues=None):
    """y[T] of one stream. ``continues`` splits it into episodes, each treated on its own."""
    steps = len(rewards)
    if continues is None:
        continues = [True] * steps
    table = np.array(q_next, dtype=np.float64)
    y = np.zeros(steps)
    for k in range(steps - 1, -1, -1):
        if k < steps - 1 and continues[k]:
            taken = actions[k + 1]
            table[k, taken] = beta * y[k + 1] + (1 - beta) * table[k, taken]
        y[k] = rewards[k] + discounts[k] * table[k].max()
    return y


def n_step_return(rewards, discounts, q_next, n, continues=None):
    """The n-step target written as a sum: rewards up to n steps or the episode's end, then one bootstrap."""
    steps = len(rewards)
    if continues is None:
        continues = [True] * steps
    limit = steps if n == "episode" else n
    y = np.zeros(steps)
    for t in range(steps):
        total, weight, k = 0.0, 1.0, t
        while True:
            total += weight * rewards[k]
            weight *= discounts[k]
            if k == steps - 1 or not continues[k] or k - t + 1 == limit:
                break
            k += 1
        y[t] = total + weight * np.max(q_next[k])
    return y
