"""``ebu theory bound``: the largest diffusion factor that keeps EBU unbiased in a finite MDP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import tyro

from ebu.commands.parsing import parse
from ebu.errors import UserError


@dataclass(frozen=True)
class BoundArguments:
    """The largest safe β of a finite MDP: Theorem 2 as printed, and corrected to returns."""

    mdp: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MDP")]
    """A toy-text id (FrozenLake-v1, Taxi-v4, CliffWalking-v1) or one of the paper's examples."""
    gamma: float | None = None
    """Discount; by default the example's own, or 0.99."""


def theory(arguments: list[str]) -> int:
    if not arguments or arguments[0] not in ("bound",):
        if arguments and arguments[0] in ("-h", "--help"):
            print("usage: ebu theory bound MDP [--gamma γ]")
            return 0
        raise UserError("unknown arguments; use: ebu theory bound MDP [--gamma γ]")
    from ebu.theory.bound import bound_for

    args = parse(BoundArguments, arguments[1:], "ebu theory bound")
    print(bound_for(args.mdp, args.gamma).describe())
    return 0
