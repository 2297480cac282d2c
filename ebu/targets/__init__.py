"""Target rules: pure functions from a span's rewards, discounts, actions and values to the targets y[..., T].

The names here are for users: tensors, NumPy arrays and lists are taken, everything is checked (``edge.py``), and the result
is a tensor, or a NumPy array where ``q_next`` was one. The training loop calls the same functions without the checks, from the
modules they are written in: ``from ebu.targets.backward import backward``.
"""

from ebu.targets import backward as _backward
from ebu.targets import bootstrap as _bootstrap
from ebu.targets import double as _double
from ebu.targets import retrace as _retrace
from ebu.targets import tightening as _tightening
from ebu.targets.edge import checked

backward = checked(_backward.backward)
chosen_by = checked(_double.chosen_by)
combine = checked(_tightening.combine)
double_backward = checked(_double.double_backward)
epsilon_greedy = checked(_retrace.epsilon_greedy)
gated = checked(_retrace.gated)
n_step = checked(_bootstrap.n_step)
one_step = checked(_bootstrap.one_step)
peng = checked(_retrace.peng)
retrace = checked(_retrace.retrace)
tightening = checked(_tightening.tightening)
watkins = checked(_retrace.watkins)

__all__ = [
    "backward",
    "chosen_by",
    "combine",
    "double_backward",
    "epsilon_greedy",
    "gated",
    "n_step",
    "one_step",
    "peng",
    "retrace",
    "tightening",
    "watkins",
]
