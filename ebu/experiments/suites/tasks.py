"""What a suite consists of: its methods, with their look in pictures, and its tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ebu.algorithms.redistributed_q import FAST_RECIPE
from ebu.experiments import plots

EBU_HALF, EBU_ONE, ADAPTIVE = "EBU (β=0.5)", "EBU (β=1)", "EBU (adaptive β)"
DQN, N_STEP, PER, TIGHTENING = "DQN", "n-step DQN (n=3)", "PER", "OT"
RETRACE, PENG = "Retrace(λ=0.7)", "Peng's Q(λ=0.5)"  # n and both λ are those that `ebu reproduce values` chooses
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    EBU_HALF: ("ebu", {"beta": 0.5}),
    EBU_ONE: ("ebu", {"beta": 1.0}),
    DQN: ("dqn", {}),
    N_STEP: ("n-step", {"n_steps": 3}),
    PENG: ("peng", {"trace_lambda": 0.5}),
    PER: ("per", {}),
    RETRACE: ("retrace", {"trace_lambda": 0.7}),
    TIGHTENING: ("optimality-tightening", {}),
    ADAPTIVE: ("adaptive-ebu", {}),
}
# For the comparison beyond the paper: the values each method may try, and the new one without each of its parts.
EBU_MORE, PENG_7, PENG_9, DOUBLE_DQN = "EBU (β=0.75)", "Peng's Q(λ=0.7)", "Peng's Q(λ=0.9)", "double DQN"
REDISTRIBUTED = "redistributed Q(λ=0.5)"
REDISTRIBUTED_7, REDISTRIBUTED_9 = "redistributed Q(λ=0.7)", "redistributed Q(λ=0.9)"
ENSEMBLE = "ensemble Q(λ)"
ENSEMBLE_MORE, ENSEMBLE_GATE = f"{ENSEMBLE}, λ to 0.9", f"{ENSEMBLE}, gate"
BASELINES: dict[str, tuple[str, dict[str, Any]]] = {
    EBU_HALF: METHODS[EBU_HALF],
    EBU_MORE: ("ebu", {"beta": 0.75}),
    EBU_ONE: METHODS[EBU_ONE],
    PENG: METHODS[PENG],
    PENG_7: ("peng", {"trace_lambda": 0.7}),
    PENG_9: ("peng", {"trace_lambda": 0.9}),
    DQN: METHODS[DQN],
    DOUBLE_DQN: ("dqn", {"double_q": True}),
    N_STEP: METHODS[N_STEP],
}
CANDIDATES: dict[str, tuple[str, dict[str, Any]]] = {
    REDISTRIBUTED: ("redistributed-q", {}),
    REDISTRIBUTED_7: ("redistributed-q", {"trace_lambda": 0.7}),
    REDISTRIBUTED_9: ("redistributed-q", {"trace_lambda": 0.9}),
    ENSEMBLE: ("ensemble-q", {}),
    ENSEMBLE_MORE: ("ensemble-q", {"trace_lambdas": (0.6, 0.7, 0.8, 0.9)}),
    ENSEMBLE_GATE: ("ensemble-q", {"gate": 1.0}),
}
ABLATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "redistributed Q(λ=0): one-step": ("redistributed-q", {"trace_lambda": 0.0}),
    "without the horizon": ("ensemble-q", {"horizon_updates": 0}),
    "own bootstrap": ("ensemble-q", {"bootstrap": "own"}),
    "all act": ("ensemble-q", {"acting": "mean"}),
    "one λ": ("ensemble-q", {"trace_lambdas": (0.65, 0.65, 0.65, 0.65)}),
    "one learner": ("ensemble-q", {"trace_lambdas": (0.65,)}),
}
# The new method with one ingredient more; what has been seen to help may become part of it.
NEWEST, BY_ERRORS = f"{ENSEMBLE}, newest episodes first", f"{ENSEMBLE}, episodes by errors"
PRIORS, BOUND = f"{ENSEMBLE}, random priors", f"{ENSEMBLE}, returns as bounds"
HISTOGRAMS = f"{ENSEMBLE}, classification"
INGREDIENTS: dict[str, tuple[str, dict[str, Any]]] = {
    NEWEST: ("ensemble-q", {"episode_choice": "newest"}),
    BY_ERRORS: ("ensemble-q", {"episode_choice": "errors"}),
    PRIORS: ("ensemble-q", {"prior_scale": 3.0}),
    BOUND: ("ensemble-q", {"return_bound": 0.5}),
    HISTOGRAMS: ("ensemble-q", {"value_head": "histogram"}),
}
# Values of n and λ that are tried beside those of the suites.
N_STEP_5, N_STEP_10 = "n-step DQN (n=5)", "n-step DQN (n=10)"
RETRACE_9, RETRACE_1 = "Retrace(λ=0.9)", "Retrace(λ=1)"
TRIED: dict[str, tuple[str, dict[str, Any]]] = {
    N_STEP_5: ("n-step", {"n_steps": 5}),
    N_STEP_10: ("n-step", {"n_steps": 10}),
    RETRACE_9: ("retrace", {"trace_lambda": 0.9}),
    RETRACE_1: ("retrace", {"trace_lambda": 1.0}),
}
EVERY_METHOD = METHODS | BASELINES | CANDIDATES | ABLATIONS | INGREDIENTS | TRIED
RIVALS = ((EBU_HALF, EBU_MORE, EBU_ONE), (PENG, PENG_7, PENG_9))  # the better of the two methods is to be beaten

# Any method with one thing changed; its label is made by ``with_change``. The fast recipe and a longer horizon count among
# the values that a method tries. The others explain, and decide nothing: they cost more arithmetic, or give a rival what is
# new in the candidate.
FAST, LONG, FAST_LONG, WIDE = "fast recipe", "γ=0.997", "fast recipe and γ=0.997", "4 times as wide"
TWICE, RESETS, LATE = "2 updates per step", "2 updates per step, resets", "redistributed rewards"
FAST_LATE = "fast recipe and redistributed rewards"
CHANGES = (FAST, LONG, FAST_LONG, WIDE, TWICE, RESETS, FAST_LATE, LATE)
TRIED_CHANGES = (FAST, LONG, FAST_LONG)


def with_change(label: str, change: str) -> str:
    """The label of a method with one of ``CHANGES`` in tables."""
    return f"{label}, {change}"


def without_change(label: str) -> tuple[str, str]:
    """The method of a label, and its change or nothing."""
    return next(
        ((label.removesuffix(f", {change}"), change) for change in CHANGES if label.endswith(f", {change}")), (label, "")
    )


def is_rival(label: str, values: Sequence[str]) -> bool:
    """Whether a label is one of the tried values of a method: its own three, or one of them with a change all may try."""
    method, change = without_change(label)
    return method in values and change in ("", *TRIED_CHANGES)


def settings_of(label: str, task: Task, scale: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The algorithm of a label and all settings of its run on a task."""
    method, change = without_change(label)
    algo, own = EVERY_METHOD[method]
    settings = {**scale, **task.settings, **own}
    updates = settings["steps"] // settings["train_freq"]
    fast = FAST_RECIPE | {"target_update_interval": settings["train_freq"]}  # τ is that of every update
    growing = {"initial_horizon": 0.1, "horizon_updates": updates // 2}  # γ from 0.97, as ever
    long = {"gamma": 0.997} | (growing if algo == "ensemble-q" else {})
    changed: dict[str, dict[str, Any]] = {
        "": {},
        FAST: fast,
        LONG: long,
        FAST_LONG: fast | long,
        WIDE: {"features_dim": 4 * task.hidden_units, "hidden_sizes": (task.hidden_units, 4 * task.hidden_units)},
        TWICE: {"gradient_steps": 2},
        RESETS: {"gradient_steps": 2, "reset_every": 2 * updates // 5},
        FAST_LATE: fast | {"redistribute_rewards": True},
        LATE: {"redistribute_rewards": True},
    }
    return algo, settings | changed[change]


TELLING = (EBU_HALF, EBU_ONE, DQN, N_STEP, PENG, RETRACE)  # cheap, and the comparison the claim is about: these go first
QUICK_METHODS = (EBU_HALF, DQN, N_STEP)
LOOK: dict[str, tuple[str, str, float]] = {  # colour, line, width
    EBU_HALF: (plots.BLUE, "-", 2.1),
    EBU_ONE: (plots.SKY, "-", 2.1),
    ADAPTIVE: (plots.GREEN, "-", 2.1),
    DQN: (plots.INK, "--", 1.7),
    N_STEP: (plots.ORANGE, "--", 1.5),
    PENG: ("#8C510A", "-.", 1.5),
    PER: (plots.PINK, "--", 1.5),
    RETRACE: (plots.VERMILION, "-.", 1.5),
    TIGHTENING: (plots.GREY, ":", 1.7),
    EBU_MORE: (plots.SEQUENCE[1], "--", 1.5),
    PENG_7: ("#BF812D", ":", 1.5),
    PENG_9: ("#543005", ":", 1.5),
    DOUBLE_DQN: (plots.INK, ":", 1.5),
    N_STEP_5: ("#B8860B", "--", 1.5),
    N_STEP_10: ("#8B6508", ":", 1.5),
    RETRACE_9: ("#F4A582", "-.", 1.5),
    RETRACE_1: ("#92230F", "-.", 1.5),
    REDISTRIBUTED: ("#006837", "-", 2.6),
    REDISTRIBUTED_7: ("#31A354", "-", 1.7),
    REDISTRIBUTED_9: ("#78C679", "-", 1.7),
    "redistributed Q(λ=0): one-step": ("#006837", ":", 1.5),
    ENSEMBLE: (plots.VERMILION, "-", 2.4),
    ENSEMBLE_MORE: (plots.VERMILION, "--", 1.5),
    ENSEMBLE_GATE: (plots.PINK, "-", 1.7),
    NEWEST: (plots.SKY, "--", 1.5),
    BY_ERRORS: (plots.SKY, ":", 1.5),
    PRIORS: (plots.GREEN, "--", 1.5),
    BOUND: (plots.ORANGE, "-.", 1.5),
    HISTOGRAMS: (plots.GREY, "-.", 1.5),
    "without the horizon": (plots.ORANGE, ":", 1.5),
    "own bootstrap": (plots.PINK, ":", 1.5),
    "all act": (plots.GREEN, ":", 1.5),
    "one λ": (plots.GREY, "--", 1.5),
    "one learner": (plots.BLUE, ":", 1.5),
}

LINES = {"-": 1, "--": 2, "-.": 3, ":": 4}


def look_of(label: str) -> tuple[str, Any, float]:
    """Colour, line and width: a changed method has its own colour, with dashes that no other method has."""
    method, change = without_change(label)
    colour, line, width = LOOK[method]
    return (colour, (0, (2 + 2 * CHANGES.index(change), 1, LINES[line], 1)), 1.5) if change else (colour, line, width)


@dataclass(frozen=True)
class Task:
    """One environment of a suite."""

    name: str
    env: str
    floor: float
    """The score of random play."""
    ceiling: float | None = None
    """The score that counts as 1; None for the best mean of a method, over all tasks of the same environment."""
    env_args: tuple[str, ...] = ()
    numbered: str = ""
    """The argument of the environment that is the run's seed, such as the number of a maze."""
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Where the task differs from the suite's scale."""
    group: str = ""
    """Tasks are aggregated by group."""
    hidden_units: int = 128
    """Of the last hidden layer in the network of its preset."""
    anchor: float | None = None
    """A published training average of DQN after as many steps."""

    def arguments(self, seed: int) -> tuple[str, ...]:
        """The environment's arguments in the run of a seed."""
        return (*self.env_args, f"{self.numbered}={seed}") if self.numbered else self.env_args

    def steps(self, usual: int) -> int:
        """Of a run, where those of the suite have so many."""
        return int(self.settings.get("steps", usual))


AS_THEY_ARE, DELAYED = "as they are", "delayed"  # groups of tasks


def delayed(task: Task) -> Task:
    """The task with all rewards at the episode's end."""
    late = ("reward_delay=episode",)
    return replace(task, name=f"{task.name}, {DELAYED}", env_args=late, group=DELAYED, anchor=None)
