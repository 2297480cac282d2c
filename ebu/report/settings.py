"""The settings section of a report: what differs between methods, then between environments, then everything else."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from ebu.report.figures import by_env
from ebu.report.groups import Group, differing, differing_seeds, methods_in_order
from ebu.report.html import table
from ebu.report.naming import in_order, is_seed, natural, reads
from ebu.report.rows import Run

NOT_OF_METHODS = {"algo", "env", "env_args", "seed"}


def settings(groups: Sequence[Group]) -> str:
    worlds = by_env(groups)
    leaders = [member.runs[0] for member in groups]
    names = in_order({name for run in leaders for name in run.settings} - {"algo", "env", "seed"})
    between = {name for _, members in worlds for name in differing([member.runs[0] for member in members], NOT_OF_METHODS)}
    of_methods = [name for name in names if name in between]
    of_worlds = [name for name in names if name not in between and len(_values(name, groups)) > 1]
    parts = []
    if of_methods:
        parts.append(_methods_table(of_methods, groups))
    if of_worlds:
        alike: dict[tuple[str, ...], list[str]] = {}
        for env, members in worlds:
            alike.setdefault(tuple(" / ".join(_values(name, members)) or "–" for name in of_worlds), []).append(env)
        rows = [[name, *(values[place] for values in alike)] for place, name in enumerate(of_worlds)]
        parts.append(table(["setting", *map(_few, alike.values())], rows, "What differs between environments"))
    if apart := _repetitions(groups):
        parts.append(f'<p class="small soft">{escape(apart)}</p>')
    same = [name for name in names if name not in {*of_methods, *of_worlds} and _values(name, groups)]
    listed = table(["setting", "value"], [[name, _values(name, groups)[0]] for name in same])
    parts.append(f"<details><summary>The {len(same)} settings that are the same everywhere</summary>{listed}</details>")
    return "".join(parts)


def _values(name: str, groups: Sequence[Group]) -> list[str]:
    """The different values of a setting in these groups, of those whose method reads it."""
    if name == "env_args":
        return list(dict.fromkeys(_arguments(env, groups) for env, _ in by_env(groups)))
    runs = [member.runs[0] for member in groups if reads(member.runs[0], name)]
    return list(dict.fromkeys(value_in_words(run.settings.get(name)) for run in runs))


def _arguments(env: str, groups: Sequence[Group]) -> str:
    """The arguments of an environment, with all values of those that only choose one of its instances."""
    runs = [run for member in groups if member.env == env for run in member.runs]
    words: dict[str, dict[str, None]] = {}
    for pair in (pair for run in runs for pair in run.env_args):
        name, _, value = pair.partition("=")
        words.setdefault(name, {})[value] = None
    return ", ".join(f"{name}={_listed(name, list(found))}" for name, found in words.items()) or "none"


def _listed(name: str, found: list[str]) -> str:
    if not is_seed(f"{name}=") or len(found) == 1:
        return " or ".join(found)
    numbers = sorted(found, key=natural)
    whole = [int(value) for value in numbers if value.isdigit()]
    in_a_row = len(whole) == len(numbers) > 3 and whole == list(range(whole[0], whole[0] + len(whole)))
    return f"{numbers[0]}…{numbers[-1]}" if in_a_row else ", ".join(numbers)


def _repetitions(groups: Sequence[Group]) -> str:
    """What differs between the repetitions of a method, beside the seed: said once where it is the same for all."""
    several = [member for member in groups if len(member.runs) > 1]
    inside: dict[tuple[str, ...], list[Group]] = {}
    for member in several:
        names = (*differing_seeds(member.runs), *_others(member.runs))
        if names:
            inside.setdefault(names, []).append(member)
    if not inside:
        return ""
    parts = []
    for names, members in inside.items():
        where = "" if len(members) == len(several) else f" ({_few([f'{m.method} on {m.env}' for m in members])})"
        parts.append(f"{', '.join(names)}{where}")
    return f"Besides the seed, repetitions differ in {'; '.join(parts)}."


def _others(runs: Sequence[Run]) -> list[str]:
    return differing(runs, {"seed", "env_args"})


def _few(names: Sequence[str]) -> str:
    return " · ".join(names) if len(names) <= 2 else f"{names[0]} and {len(names) - 1} more"


def _methods_table(names: Sequence[str], groups: Sequence[Group]) -> str:
    """A row for each method; where it has other settings on other environments, a row for each of those uses."""
    uses: dict[str, dict[tuple[str, ...], list[str]]] = {method: {} for method in methods_in_order(groups)}
    for member in groups:
        values = tuple("".join(_values(name, [member])) or "–" for name in names)
        uses[member.method].setdefault(values, []).append(member.env)
    rows = [
        [method if len(found) == 1 else f"{method} ({_few(envs)})", *values]
        for method, found in uses.items()
        for values, envs in found.items()
    ]
    header = ["method", *names]
    caption = "What differs between methods" + " (–: not read by the method)" * any("–" in row for row in rows)
    if len(names) > len(rows):  # the longer side is to run down the page
        header, *rows = (list(column) for column in zip(header, *rows))
        header[0] = "setting"
    return table(header, rows, caption)


def value_in_words(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(value_in_words, value)) or "none"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "–" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
