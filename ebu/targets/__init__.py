"""Target rules: pure functions from a span's rewards, discounts, actions and values to the targets y[..., T]."""

from ebu.targets.backward import backward
from ebu.targets.bootstrap import n_step, one_step

# A new rule is one function, one line here, one test row.
TARGET_RULES = {
    "backward": backward,
    "one_step": one_step,
    "n_step": n_step,
}

__all__ = ["TARGET_RULES", "backward", "n_step", "one_step"]
