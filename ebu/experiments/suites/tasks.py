"""What a suite consists of: its methods, with their look in pictures, and its tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ebu.experiments import plots

EBU_HALF, EBU_ONE, ADAPTIVE = "EBU (β=0.5)", "EBU (β=1)", "EBU (adaptive β)"
DQN, N_STEP, PER, RETRACE, PENG, TIGHTENING = "DQN", "n-step DQN (n=3)", "PER", "Retrace(λ)", "Peng's Q(λ)", "OT"
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    EBU_HALF: ("ebu", {"beta": 0.5}),
    EBU_ONE: ("ebu", {"beta": 1.0}),
    DQN: ("dqn", {}),
    N_STEP: ("n-step", {"n_steps": 3}),
    PENG: ("peng", {}),
    PER: ("per", {}),
    RETRACE: ("retrace", {}),
    TIGHTENING: ("optimality-tightening", {}),
    ADAPTIVE: ("adaptive-ebu", {}),
}
TELLING = (EBU_HALF, EBU_ONE, DQN, N_STEP, PENG)  # cheap, and the comparison the claim is about: these go first
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
}


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
    group: str = ""
    """Tasks are aggregated by group."""
    anchor: float | None = None
    """A published training average of DQN after as many steps."""
