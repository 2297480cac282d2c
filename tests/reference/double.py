"""Double Q inside the backward maximum, written as two tables that are changed in place."""

import numpy as np


def double_algorithm_2(rewards, discounts, actions, q_next, q_online_next, beta, continues=None):
    steps = len(rewards)
    if continues is None:
        continues = [True] * steps
    table, online = np.array(q_next, float), np.array(q_online_next, float)
    y = np.zeros(steps)
    for k in range(steps - 1, -1, -1):
        if k < steps - 1 and continues[k]:
            taken = actions[k + 1]
            for t in (table, online):
                t[k, taken] = beta * y[k + 1] + (1 - beta) * t[k, taken]
        y[k] = rewards[k] + discounts[k] * table[k, online[k].argmax()]
    return y
