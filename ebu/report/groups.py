"""Which runs are repetitions of one another, and in which order and colours methods appear.

Runs belong together when everything that matters to learning is the same: they differ in the seed, in which maze was
drawn, in where and how often things were written down, or in settings their method does not read.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ebu.report.naming import BESIDES, env_names, is_seed, method_names, natural, reads, text, usual, world
from ebu.report.rows import Run

COLOURS = 6  # of the style sheet
DASHES = ("", "7 4", "2 4")  # each colour comes in three; chart.js knows the same
PREFERRED = (
    "ebu",
    "dqn",
    "adaptive-ebu",
    "n-step",
    "retrace",
    "per",
    "optimality-tightening",
    "peng",
    "watkins",
    "ensemble-q",
    "redistributed-q",
)


@dataclass(frozen=True)
class Group:
    """The repetitions of one method on one environment."""

    env: str  # as shown
    method: str  # as shown
    runs: tuple[Run, ...]
    letter: str = ""  # "settings A", where the method's name has one,
    meaning: str = ""  # and what it stands for

    @property
    def algo(self) -> str:
        return self.runs[0].algo

    def counted(self) -> tuple[Run, ...]:
        """The runs that scores are taken from: the finished ones, or while there are none those still going."""
        finished = tuple(run for run in self.runs if run.state == "finished")
        return finished or tuple(run for run in self.runs if run.state == "unfinished")


def group(runs: Iterable[Run]) -> list[Group]:
    """Groups by environment, in the order of their names, then by method, in the order of PREFERRED."""
    by_env: dict[tuple[str, tuple[str, ...]], dict[tuple[str, str], list[Run]]] = {}
    for run in runs:
        by_env.setdefault(world(run), {}).setdefault((run.algo, _settings(run)), []).append(run)
    envs = env_names({place: [run for members in found.values() for run in members] for place, found in by_env.items()})
    places = sorted(by_env, key=lambda place: natural(envs[place]))
    leaders = [[repetitions[0] for repetitions in by_env[place].values()] for place in places]
    names = method_names([sorted(runs, key=lambda run: order_of(run.algo)) for runs in leaders])
    groups = []
    for place in places:
        named = [(names[members[0].path], members) for members in by_env[place].values()]
        for name, members in sorted(named, key=lambda pair: (order_of(pair[1][0].algo), natural(pair[0].label))):
            repetitions = sorted(members, key=lambda run: (run.seed, str(run.path)))
            groups.append(Group(envs[place], name.label, tuple(repetitions), name.letter, name.meaning))
    return groups


def order_of(algo: str) -> int:
    return PREFERRED.index(algo) if algo in PREFERRED else len(PREFERRED)


def methods_in_order(groups: Sequence[Group]) -> list[str]:
    """The methods by PREFERRED, then by name, each once."""
    return list(dict.fromkeys(g.method for g in sorted(groups, key=lambda g: (order_of(g.algo), natural(g.method)))))


def slots(groups: Sequence[Group]) -> dict[str, int]:
    """A colour and dash for every method: the same algorithm looks the same on every page, as far as it can."""
    taken: dict[str, int] = {}
    for member in groups:
        wanted = order_of(member.algo)
        if member.method not in taken:
            taken[member.method] = next(slot for slot in range(wanted, wanted + 1000) if slot not in taken.values())
    return taken


def differing(runs: Sequence[Run], leave_out: Iterable[str] = ()) -> list[str]:
    """The settings that are not the same in all of these runs, of those that their methods read."""
    names = {name: None for run in runs for name in run.settings if name not in set(leave_out)}
    return [name for name in names if len({text(run.settings.get(name)) for run in runs if reads(run, name)}) > 1]


def differing_seeds(runs: Sequence[Run]) -> list[str]:
    """The arguments of the environment that only choose one of its instances and are not the same in all of these runs."""
    pairs = [{pair for pair in run.env_args if is_seed(pair)} for run in runs]
    apart = {pair for found in pairs for pair in found if not all(pair in others for others in pairs)}
    return sorted({pair.partition("=")[0] for pair in apart})


def command(run: Run) -> str:
    """The `ebu train` command that gives this run again: its preset and whatever differs from it."""
    preset, ordinary = str(run.settings.get("preset", "quick")), usual(run)
    words = ["ebu", "train", "--algo", run.algo, "--env", run.env, "--preset", preset]
    different = {name for name, value in run.settings.items() if text(ordinary.get(name)) != text(value)}
    if "target_update_interval" in different:
        different.add("tau")  # an interval that is given alone would change it
    for name, value in run.settings.items():
        if name not in different or name in ("algo", "env", "preset"):
            continue
        words += [f"--{name.replace('_', '-')}", *map(str, value if isinstance(value, list | tuple) else [value])]
    return shlex.join(words)


def _settings(run: Run) -> str:
    """Equal for repetitions, whichever preset the settings come from."""
    return text({n: value for n, value in sorted(run.settings.items()) if n not in BESIDES and reads(run, n)})
