"""Which runs are repetitions of one another, and what to call them.

Runs belong together when everything that matters to learning is the same: they differ in the seed, in which maze was
drawn, or in where and how often things were written down. A method is named after its algorithm, after its preset where
there are several, and in words after the settings in which it differs from other uses of that algorithm on the same
environment; it then has that name on all of them. More than two such settings are numbered, and told in a table.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ebu.config import Config, flat
from ebu.errors import UserError
from ebu.presets import configure
from ebu.report.rows import Run

# Settings that do not change what is learned, or that only choose which repetition it is.
SEEDS = {"seed", "maze_seed"}
LOGGING = {"log_every", "log_interval", "eval_every", "checkpoint_every"}
BESIDES = {"algo", "env", "env_args", "preset", "device", "threads"} | LOGGING | SEEDS
SYMBOLS = {"beta": "β", "gamma": "γ", "n_steps": "n", "trace_lambda": "λ", "tau": "τ"}
NAMES = {
    "ebu": "EBU",
    "adaptive-ebu": "adaptive EBU",
    "dqn": "DQN",
    "n-step": "n-step DQN",
    "per": "PER",
    "retrace": "Retrace(λ)",
    "peng": "Peng's Q(λ)",
    "watkins": "Watkins' Q(λ)",
    "optimality-tightening": "OT",
    "ensemble-q": "ensemble Q(λ)",
    "redistributed-q": "redistributed Q(λ)",
}

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

    @property
    def algo(self) -> str:
        return self.runs[0].algo

    def counted(self) -> tuple[Run, ...]:
        """The runs that scores are taken from: the finished ones, or while there are none those still going."""
        finished = tuple(run for run in self.runs if run.state == "finished")
        return finished or tuple(run for run in self.runs if run.state == "unfinished")


def group(runs: Iterable[Run]) -> list[Group]:
    """Groups by environment, then by method, in the order of PREFERRED."""
    by_env: dict[tuple[str, tuple[str, ...]], dict[tuple[str, str], list[Run]]] = {}
    for run in runs:
        by_env.setdefault(_world(run), {}).setdefault((run.algo, _identity(run)), []).append(run)
    names = _env_names(list(by_env))
    leaders = {world: {key: repetitions[0] for key, repetitions in methods.items()} for world, methods in by_env.items()}
    short = _short_names(leaders.values())
    telling = _telling_settings(leaders.values(), short)
    groups = []
    for world, methods in by_env.items():
        labels = _method_names(leaders[world], short, telling)
        for key in sorted(methods, key=lambda key: (order_of(key[0]), labels[key])):
            repetitions = sorted(methods[key], key=lambda run: (run.seed, str(run.path)))
            groups.append(Group(names[world], labels[key], tuple(repetitions)))
    return groups


def order_of(algo: str) -> int:
    return PREFERRED.index(algo) if algo in PREFERRED else len(PREFERRED)


def slots(groups: Sequence[Group]) -> dict[str, int]:
    """A colour and dash for every method: the same algorithm looks the same on every page, as far as it can."""
    taken: dict[str, int] = {}
    for member in groups:
        wanted = order_of(member.algo)
        if member.method not in taken:
            taken[member.method] = next(slot for slot in range(wanted, wanted + 1000) if slot not in taken.values())
    return taken


def differing(runs: Sequence[Run], leave_out: Iterable[str] = ()) -> list[str]:
    """The settings that are not the same in all of these runs."""
    names = {name: None for run in runs for name in run.settings if name not in set(leave_out)}
    return [name for name in names if len({_text(run.settings.get(name)) for run in runs}) > 1]


def command(run: Run) -> str:
    """The `ebu train` command that gives this run again: its preset and whatever differs from it."""
    preset, usual = str(run.settings.get("preset", "quick")), _usual(run)
    words = ["ebu", "train", "--algo", run.algo, "--env", run.env, "--preset", preset]
    for name, value in run.settings.items():
        if name in ("algo", "env", "preset") or _text(usual.get(name)) == _text(value):
            continue
        words += [f"--{name.replace('_', '-')}", *map(str, value if isinstance(value, list | tuple) else [value])]
    return shlex.join(words)


def _usual(run: Run) -> dict[str, Any]:
    """The settings of the run's preset."""
    try:
        return flat(configure(run.algo, run.env, str(run.settings.get("preset", "quick"))))
    except UserError:  # a preset or an environment this version does not know
        return flat(Config())


def _world(run: Run) -> tuple[str, tuple[str, ...]]:
    return run.env, tuple(sorted(pair for pair in run.env_args if pair.partition("=")[0] not in SEEDS))


def _identity(run: Run) -> str:
    return _text({name: value for name, value in sorted(run.settings.items()) if name not in BESIDES})


def _env_names(worlds: Sequence[tuple[str, tuple[str, ...]]]) -> dict[tuple[str, tuple[str, ...]], str]:
    """The environment's id, and those of its arguments that tell it from others of the same id."""
    names = {}
    for world in worlds:
        rivals = [set(arguments) for env, arguments in worlds if env == world[0]]
        own = [pair for pair in world[1] if not all(pair in arguments for arguments in rivals)]
        names[world] = ", ".join([world[0], *own])
    return names


def _short_names(worlds: Iterable[dict[tuple[str, str], Run]]) -> dict[int, str]:
    """Each method's algorithm with the symbols that tell its uses apart, and its preset where there are several."""
    worlds = list(worlds)
    runs = [run for methods in worlds for run in methods.values()]
    several = len({_preset(run) for run in runs}) > 1
    symbols: dict[str, dict[str, None]] = {}
    for methods in worlds:
        for algo, rivals in _by(methods.values(), lambda run: run.algo).items():
            symbols.setdefault(algo, {}).update(dict.fromkeys(name for name in differing(rivals) if name in SYMBOLS))
    names = {}
    for run in runs:
        told = [f"{SYMBOLS[name]}={_short(run.settings.get(name))}" for name in symbols[run.algo]]
        names[id(run)] = ", ".join(
            [" ".join([NAMES.get(run.algo, run.algo), *told[:2]]), *([_preset(run)] if several else [])]
        )
    return names


def _telling_settings(worlds: Iterable[dict[tuple[str, str], Run]], names: dict[int, str]) -> dict[str, list[str]]:
    """By short name, the other settings that tell its uses on some environment apart."""
    found: dict[str, dict[str, None]] = {}
    for methods in worlds:
        for name, rivals in _by(methods.values(), lambda run: names[id(run)]).items():
            found.setdefault(name, {}).update(dict.fromkeys(differing(rivals, {*BESIDES, *SYMBOLS})))
    return {name: list(settings) for name, settings in found.items()}


def _by(runs: Iterable[Run], key: Callable[[Run], str]) -> dict[str, list[Run]]:
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(key(run), []).append(run)
    return found


def _method_names(
    methods: dict[tuple[str, str], Run], short: dict[int, str], telling: dict[str, list[str]]
) -> dict[tuple[str, str], str]:
    """A few words for each method: EBU β=0.5, quick."""
    names: dict[tuple[str, str], str] = {}
    for key, run in methods.items():
        told = telling[short[id(run)]]
        words = [_in_words(name, run.settings[name]) for name in told if name in run.settings] if len(told) <= 2 else []
        label = ", ".join([short[id(run)], *words])
        number = sum(name == label or name.startswith(f"{label} #") for name in names.values())
        names[key] = f"{label} #{number + 1}" if number else label
    return names


def _preset(run: Run) -> str:
    return Path(str(run.settings.get("preset", "quick"))).stem  # of a file of one's own, its name


def _in_words(setting: str, value: Any) -> str:
    words = setting.replace("_", " ").replace("double q", "double Q")
    return ("" if value else "no ") + words if isinstance(value, bool) else f"{words} {_short(value)}"


def _short(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "(" + ", ".join(map(_short, value)) + ")"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _text(value: Any) -> str:
    """Equal for equal settings, whether they come from a file or from the code (a tuple is a list there)."""
    return json.dumps(value, sort_keys=True)
