"""What environments and methods are called on a page: one identity, one name, in every table and chart.

A method's identity is its algorithm and the settings in which its uses on this page differ. What comes with the task does
not count: the values of its preset, and any setting that is the same for all runs on it. The method's own settings (β, λ, n)
are named by value, one or two others in words; more get a letter, which is explained below the results.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ebu.config import Config, field_names, flat
from ebu.errors import UserError
from ebu.presets import configure
from ebu.registry import methods
from ebu.report.rows import Run

World = tuple[str, tuple[str, ...]]  # an environment's id and its arguments, without seeds

# Settings that do not change what is learned, or that only choose which repetition it is.
LOGGING = {"log_every", "log_interval", "eval_every", "checkpoint_every", "checkpoint_minutes"}
BESIDES = {"algo", "env", "env_args", "preset", "device", "threads", "compress", "vectorization", "seed"} | LOGGING
# How long and how a run was measured: another method only beside the same one on the same environment.
BUDGET = {"steps", "eval_episodes", "eval_epsilon", "eval_aggregate"}
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
IN_WORDS, LONG = 2, 30  # that many settings, in so many letters, are said in a name; more get a letter
ALWAYS = "trace_lambda"  # Q(λ) is never without its λ
UNSAID = object()  # a value that comes with the task


@dataclass(frozen=True)
class Name:
    label: str
    letter: str = ""  # "settings A", where the name has one
    meaning: str = ""  # and what it stands for


def is_seed(argument: str) -> bool:
    """Whether an environment's argument only chooses which instance of a task is drawn: maze_seed=3."""
    name = argument.partition("=")[0]
    return name == "seed" or name.endswith("_seed")


def world(run: Run) -> World:
    return run.env, tuple(sorted(pair for pair in run.env_args if not is_seed(pair)))


def reads(run: Run, setting: str) -> bool:
    """Whether the run's method reads a setting: β is EBU's alone. A method that does not say so is taken to read all."""
    method = methods().get(run.algo)
    if method is None or method.uses is None or setting in method.uses:
        return True
    if setting == "priority_alpha" and run.settings.get("episode_choice") == "errors":
        return True
    return not any(setting in (other.uses or ()) for other in methods().values())


def in_order(settings: Iterable[str]) -> list[str]:
    """By stages, as `ebu train --help` lists them, whatever the order in a run's file."""
    known = list(field_names())
    return sorted(settings, key=lambda name: (known.index(name) if name in known else len(known), name))


def usual(run: Run) -> Mapping[str, Any]:
    """The settings of the run's preset."""
    return _usual(run.algo, run.env, str(run.settings.get("preset", "quick")))


@functools.lru_cache(maxsize=256)
def _usual(algo: str, env: str, preset: str) -> Mapping[str, Any]:
    try:
        return flat(configure(algo, env, preset))
    except UserError:  # a preset, a method or an environment this version does not know
        return flat(Config())


def natural(words: str) -> list[tuple[float, str]]:
    """A key to sort by, with numbers by their value."""
    return [
        (float(part), "") if place % 2 else (-1.0, part)
        for place, part in enumerate(re.split(r"(\d+(?:\.\d+)?)", words.lower()))
    ]


# ---------------------------------------------------------------------- environments


def env_names(runs: Mapping[World, Sequence[Run]]) -> dict[World, str]:
    """The environment's id, and the arguments that make another task of it than its preset or than its rivals here."""
    names = {}
    for (env, arguments), members in runs.items():
        rivals = [set(others) for rival, others in runs if rival == env]
        shared = set.intersection(*rivals) & set.intersection(*({*(usual(run)["env_args"])} for run in members))
        names[env, arguments] = ", ".join([env, *(pair for pair in arguments if pair not in shared)])
    return names


# ---------------------------------------------------------------------- methods


@dataclass(frozen=True)
class Use:
    """One method on one environment."""

    run: Run
    changed: Mapping[str, Any]  # of the settings that the method reads, those that are not its preset's
    told: Set[str]  # the settings that not all methods on this environment have changed alike


def method_names(worlds: Sequence[Sequence[Run]]) -> dict[Path, Name]:
    """By path, the names of these runs: one of each method on each environment."""
    uses = [use for members in worlds for use in _uses(members)]
    presets: dict[str, set[str]] = {}
    for use in uses:
        presets.setdefault(use.run.env, set()).add(preset(use.run))
    several = any(len(found) > 1 for found in presets.values())  # else a preset comes with its environment
    said: dict[Path, dict[str, Any]] = {}
    for algo in dict.fromkeys(use.run.algo for use in uses):
        varying = {name for use in uses for name in use.told if name not in BUDGET or use.run.algo == algo}
        said |= _said([use for use in uses if use.run.algo == algo], varying)
    letters: dict[str, str] = {}
    names: dict[str, Name] = {}  # by identity
    found = {}
    for use in uses:
        run, values, of_preset = use.run, said[use.run.path], preset(use.run) if several else ""
        identity = text([run.algo, of_preset, {name: value for name, value in values.items() if value is not UNSAID}])
        if identity not in names:
            name = _name(run, values, of_preset, letters)
            number = sum(other.label == name.label or other.label.startswith(f"{name.label} #") for other in names.values())
            names[identity] = replace(name, label=f"{name.label} #{number + 1}") if number else name
        found[run.path] = names[identity]
    return found


def _uses(members: Sequence[Run]) -> list[Use]:
    """The runs on one environment."""
    changed = {run.path: _changed(run) for run in members}

    @functools.cache
    def told(name: str, algo: str) -> bool:
        beside = [run for run in members if reads(run, name) and (not algo or run.algo == algo)]
        return len({_way(changed[run.path], name) for run in beside}) > 1

    names = {name for found in changed.values() for name in found}
    return [
        Use(run, changed[run.path], {name for name in names if told(name, run.algo if name in BUDGET else "")})
        for run in members
    ]


def _changed(run: Run) -> dict[str, Any]:
    ordinary = usual(run)
    return {
        name: value
        for name, value in run.settings.items()
        if name not in BESIDES and reads(run, name) and text(ordinary.get(name)) != text(value)
    }


def _way(changed: Mapping[str, Any], name: str) -> str:
    return text(changed[name]) if name in changed else "as usual"


def _said(uses: Sequence[Use], varying: Set[str]) -> dict[Path, dict[str, Any]]:
    """For each use of one algorithm, its values of the settings that tell these uses apart."""
    own = _own(uses[0].run.algo)
    said: dict[Path, dict[str, Any]] = {use.run.path: {} for use in uses}
    for name in in_order(uses[0].run.settings):
        if name in own:
            telling = len({_way(use.changed, name) for use in uses}) > 1 or name == ALWAYS
            values = [use.run.settings.get(name) for use in uses]
        elif name in varying:
            values = _compared(uses, name)
            telling = len({"" if value is UNSAID else text(value) for value in values}) > 1
        else:
            continue
        if telling:
            for use, value in zip(uses, values):
                said[use.run.path][name] = value
    return said


def _compared(uses: Sequence[Use], name: str) -> list[Any]:
    """The values of a setting, or where presets bring different ones, only what was changed for a part of the methods."""
    if len({text(usual(use.run).get(name)) for use in uses}) == 1:
        return [use.run.settings.get(name) for use in uses]
    return [use.changed[name] if name in use.changed and name in use.told else UNSAID for use in uses]


def _own(algo: str) -> tuple[str, ...]:
    return methods()[algo].settings if algo in methods() else ()


def _name(run: Run, said: Mapping[str, Any], preset: str, letters: dict[str, str]) -> Name:
    own, ordinary = _own(run.algo), usual(run)
    others = [name for name in said if name not in own]
    if len(others) > IN_WORDS:  # of many, only what is not as usual
        others = [name for name in others if said[name] is UNSAID or text(said[name]) != text(ordinary.get(name))]
    others = [name for name in others if said[name] is not UNSAID]
    title, symbols, words = NAMES.get(run.algo, run.algo), [], []
    for name in (name for name in said if name in own):
        if name == ALWAYS and "(λ)" in title:
            title = title.replace("(λ)", f"(λ={short(said[name])})")
        elif name in SYMBOLS:
            symbols.append(f"{SYMBOLS[name]}={short(said[name])}")
        else:
            words.append(in_words(name, said[name]))
    symbols += [f"{SYMBOLS[name]}={short(said[name])}" for name in others if name in SYMBOLS and name != "tau"]
    others = [name for name in others if name not in SYMBOLS or name == "tau"]
    letter, meaning = "", ", ".join(in_words(name, said[name]) for name in others)
    if len(others) > IN_WORDS or len(meaning) > LONG:
        letter = letters.setdefault(meaning, f"settings {_letter(len(letters))}")
        words.append(letter)
    else:
        symbols += [f"τ={short(said[name])}" for name in others if name == "tau"]
        words += [in_words(name, said[name]) for name in others if name != "tau"]
    return Name(", ".join(filter(None, [" ".join([title, *symbols]), *words, preset])), letter, meaning if letter else "")


def _letter(number: int) -> str:
    return chr(ord("A") + number) if number < 26 else str(number + 1)


def preset(run: Run) -> str:
    return Path(str(run.settings.get("preset", "quick"))).stem  # of a file of one's own, its name


def in_words(setting: str, value: Any) -> str:
    words = setting.replace("_", " ").replace("double q", "double Q")
    return ("" if value else "no ") + words if isinstance(value, bool) else f"{words} {short(value)}"


def short(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "(" + ", ".join(map(short, value)) + ")"
    return f"{value:g}" if isinstance(value, float) else str(value)


def text(value: Any) -> str:
    """Equal for equal settings, whether they come from a file or from the code (a tuple is a list there)."""
    return json.dumps(value, sort_keys=True)
