"""Target rules: pure functions from a span's rewards, discounts, actions and values to the targets y[..., T]."""

from ebu.targets.backward import backward
from ebu.targets.bootstrap import n_step, one_step
from ebu.targets.double import chosen_by, double_backward
from ebu.targets.retrace import epsilon_greedy, peng, retrace, watkins
from ebu.targets.tightening import combine, tightening

__all__ = [
    "backward",
    "chosen_by",
    "combine",
    "double_backward",
    "epsilon_greedy",
    "n_step",
    "one_step",
    "peng",
    "retrace",
    "tightening",
    "watkins",
]
