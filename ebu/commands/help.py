"""The help of ``ebu train``: its flags with their defaults, all of them or those that people set."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import shutil
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from ebu.commands.words import ALIASES

WIDEST, COLUMN = 100, 26


def help_width() -> int:
    return min(shutil.get_terminal_size((WIDEST, 24)).columns, WIDEST)


def describe_flags(values: Any, names: Iterable[str] | None) -> str:
    """The flags of a dataclass, whose values are the defaults: these, in this order, or all, each under its group."""
    groups = list(_groups(values))
    if names is None:
        return "\n".join(f"{title}\n" + "".join(entries.values()) for title, entries in groups)
    entries = {name: text for _, entries in groups for name, text in entries.items()}
    return "".join(entries[name] for name in names)


def _groups(values: Any) -> Iterator[tuple[str, dict[str, str]]]:
    """Each dataclass in ``values`` as a title and its flags' lines, itself first."""
    docs, hints = field_docs(type(values)), get_type_hints(type(values))
    inside = {name for name in hints if dataclasses.is_dataclass(getattr(values, name))}
    entries = {
        name: _entry(name, hints[name], getattr(values, name), docs.get(name, "")) for name in hints if name not in inside
    }
    yield str(inspect.getdoc(type(values))).replace("``", "`"), entries
    for name in hints:
        if name in inside:
            yield from _groups(getattr(values, name))


def _entry(name: str, hint: Any, default: Any, doc: str) -> str:
    flag = f"--{name.replace('_', '-')}"
    short = [alias for alias, full in ALIASES.items() if full == flag and len(alias) < len(flag)]
    head = f"--[no-]{flag[2:]}" if hint is bool else f"{', '.join([flag, *short])} {_metavar(hint)}"
    doc = f"{doc} {_default(default)}".strip()
    lines = textwrap.wrap(doc, max(help_width() - COLUMN - 2, 30))
    if len(head) >= COLUMN - 1 or not lines:
        return "".join(f"{line}\n" for line in [f"  {head}", *(" " * (COLUMN + 2) + line for line in lines)])
    return "".join(f"  {left:<{COLUMN}}{line}\n" for left, line in zip([head, *[""] * len(lines)], lines))


def _metavar(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return "|".join(map(str, get_args(hint)))
    if get_origin(hint) is tuple:
        return f"{_metavar(get_args(hint)[0])} …"
    if get_origin(hint) in (Union, UnionType):
        return "|".join(_metavar(part) for part in get_args(hint) if part is not type(None))
    return {int: "N", float: "X", str: "NAME", Path: "PATH"}.get(hint, "VALUE")


def _default(value: Any) -> str:
    if value is None or value == () or value == "":
        return ""
    if isinstance(value, bool):
        return "[on]" if value else "[off]"
    if isinstance(value, float):
        return f"[{value:g}]"
    return f"[{' '.join(map(str, value))}]" if isinstance(value, tuple) else f"[{value}]"


def field_docs(cls: type[Any]) -> dict[str, str]:
    """The docstrings under a dataclass's fields, which Python does not keep."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(tree, ast.ClassDef)
    docs = {}
    for field, after in zip(tree.body, tree.body[1:]):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(after, ast.Expr):
            docs[field.target.id] = " ".join(ast.literal_eval(after.value).split())
    return docs
