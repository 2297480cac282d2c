"""The items of the paper, a file each, and the registry that finds them.

A module in this package declares one ``ITEM``; the item is named after the file, with dashes for underscores. From outside,
``register_item`` adds an item, and ``ebu reproduce my_module:ITEM`` takes one from any module that can be imported.
Names and summaries are read without importing the modules, which need PyTorch and Matplotlib.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
from importlib import resources

from ebu.errors import UserError
from ebu.experiments.item import Item

KINDS = ("figure", "table", "appendix", "theorem")  # in this order, then all others

_REGISTERED: dict[str, Item] = {}


def item_names() -> list[str]:
    """All items: those of this package by kind and name, then those registered from outside."""
    return [*_modules(), *_REGISTERED]


def item_summaries() -> dict[str, str]:
    """Item → one line about it."""
    shipped = {name: _first_line(module) for name, module in _modules().items()}
    return shipped | {name: item.title for name, item in _REGISTERED.items()}


def find_item(name: str) -> Item:
    """The item of this name, or the one at ``module:attribute``."""
    if name in _REGISTERED:
        return _REGISTERED[name]
    if name in _modules():
        item: Item = importlib.import_module(f"{__name__}.{_modules()[name]}").ITEM
        return item
    if ":" in name:
        return _at_address(name)
    raise UserError(f"there is no item {name!r}; choose from {', '.join(item_names())}")


def register_item(item: Item) -> Item:
    """Make an item known to ``ebu reproduce`` and ``ebu list``."""
    if item.name in item_names():
        raise UserError(f"there is already an item called {item.name!r}; choose another name")
    _REGISTERED[item.name] = item
    return item


def _modules() -> dict[str, str]:
    """Item → its module in this package."""
    modules = [found.name for found in pkgutil.iter_modules(__path__) if not found.name.startswith("_")]

    def place(module: str) -> tuple[int, str]:
        return next((i for i, kind in enumerate(KINDS) if module.startswith(kind)), len(KINDS)), module

    return {module.replace("_", "-"): module for module in sorted(modules, key=place)}


def _first_line(module: str) -> str:
    """Of the module's docstring, without importing it and all it needs."""
    source = resources.files(__name__).joinpath(f"{module}.py").read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]


def _at_address(address: str) -> Item:
    module, _, attribute = address.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # of any kind: others wrote the module
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(f"cannot take an item from {address!r}: {reason}") from error
    if not isinstance(found, Item):
        raise UserError(f"{address!r} is not an item: ebu.experiments.item.Item expected, got {type(found).__name__}")
    return found
