"""The rows under results/, and the files that are written from them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ebu.report.rows import Run, find_runs, read_run

Row = dict[str, Any]


@dataclass(frozen=True)
class Tree:
    """A checkout of the repository."""

    root: Path

    @property
    def readme(self) -> Path:
        return self.root / "README.md"

    @property
    def page(self) -> Path:
        return self.root / "docs/results.md"

    @property
    def picture(self) -> Path:
        return self.root / "docs/pictures/results.png"

    @property
    def maze(self) -> Path:
        return self.root / "docs/pictures/maze.png"

    def rows(self, name: str) -> list[Row]:
        """The rows of a file under results/, none if it is not there."""
        path = self.root / "results" / name
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []

    def folder_of(self, item: str) -> Path | None:
        """Where an item's rows are committed."""
        places = (self.root / "results" / item, self.root / "results/theory" / item)
        return next((place for place in places if (place / "rows.jsonl").is_file()), None)

    def item_rows(self, item: str, part: str | None = None) -> list[Row]:
        """An item's rows, or those of one part of it."""
        folder = self.folder_of(item)
        found = self.rows(str((folder / "rows.jsonl").relative_to(self.root / "results"))) if folder else []
        return found if part is None else [row for row in found if row.get("part") == part]

    def atari_runs(self) -> list[Run]:
        folder = self.root / "results/atari"
        return [read_run(path) for path in find_runs([folder])] if any(folder.rglob("config.json")) else []


def by_algo(found: Iterable[Row]) -> dict[str, list[Row]]:
    grouped: dict[str, list[Row]] = {}
    for row in found:
        grouped.setdefault(row["algo"], []).append(row)
    return grouped


def preset_of(run: Run) -> str:
    return str(run.settings.get("preset"))


def several(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + "s" * (count != 1)
