"""What an item is: one figure, table or theorem of the paper, or one's own, that ``ebu reproduce`` makes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ebu.errors import UserError

BUDGETS = ("quick", "laptop", "full")  # minutes, a night on two cores, the paper's own numbers


@dataclass(frozen=True)
class Item:
    """An item's name, what it shows, its settings by budget, and the functions that make it.

    Either ``run`` computes it directly, or ``trials`` says what is to be trained and ``analyse`` reads the run folders.
    Both return the rows, and write rows, picture, table and page with ``ebu.experiments.output``.
    """

    name: str
    """The name that ``ebu reproduce`` takes; the picture and the page have it, too."""
    title: str
    claim: str
    """What the paper shows or says there."""
    alt: str
    """The picture in words."""
    settings: Mapping[str, Any]
    """Budget → what differs between budgets."""
    run: Callable[..., list[dict[str, Any]]] | None = None
    """``run(budget, out, seed)``"""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Budget → how long ``run`` takes on one core."""
    trials: Callable[..., list[Any]] | None = None
    """``trials(budget, seed)`` → the ``Trial``s"""
    analyse: Callable[..., list[dict[str, Any]]] | None = None
    """``analyse(budget, trials, folders, out)``"""
    note: Callable[[str], str] | None = None
    """Budget → what it leaves out of the full one, for the top of the page."""
    tables: Callable[[list[dict[str, Any]]], Sequence[Any]] | None = None
    """Rows → the tables of the page, where they can be made from rows alone."""
    address: str = ""
    """``module:ITEM``, by which ``ebu reproduce`` finds an item from outside the package."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.-]*", self.name):
            raise UserError(f"invalid name of an item: {self.name!r}; it becomes a file name: use letters, digits and dashes")
        if missing := [budget for budget in BUDGETS if budget not in self.settings]:
            raise UserError(f"item {self.name} has no settings for the budget {', '.join(missing)}")
        trained = self.trials is not None and self.analyse is not None
        if (self.run is None) != trained or (self.trials is None) != (self.analyse is None):
            raise UserError(f"item {self.name} needs either run, or trials and analyse")
        if self.run is not None and (missing := [budget for budget in BUDGETS if budget not in self.seconds]):
            raise UserError(f"item {self.name} has no seconds for the budget {', '.join(missing)}")

    @classmethod
    def of(cls, module: str, text: str | None, alt: str, settings: Mapping[str, Any], **others: Any) -> Item:
        """The item of a module: named as its file, its title the first line of the docstring, its claim the next paragraph."""
        title, claim, *_ = (" ".join(paragraph.split()) for paragraph in (text or "").split("\n\n"))
        name = module.rpartition(".")[2].replace("_", "-")
        return cls(name, title, claim, alt, settings, **others)

    def at(self, budget: str) -> Any:
        """The settings of a budget."""
        if budget not in self.settings:
            raise UserError(f"unknown budget {budget!r}; choose one of {', '.join(self.settings)}")
        return self.settings[budget]

    def left_out(self, budget: str) -> str:
        """The note of a budget; nothing where its settings are those of the full one."""
        return "" if self.note is None or self.at(budget) == self.at("full") else self.note(budget)
