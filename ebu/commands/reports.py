"""``ebu report``, ``ebu explain`` and ``ebu reproduce``: pages and the paper's items."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from ebu.commands.parsing import parse
from ebu.errors import UserError

# item → module under ebu.experiments with SETTINGS, EXPECTED and run(budget, out, seed)
ITEMS = {
    "figure1": "figure1",
    "appendix-f": "appendix_f",
    "theorem1": "theorem1",
    "theorem2": "theorem2",
    "toy-text": "toytext",
}


@dataclass(frozen=True)
class ReportArguments:
    """One page about one or more runs, finished or still going."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Run folders, or folders of run folders."""
    out: Path = Path("report.html")
    title: str = "Report"


@dataclass(frozen=True)
class ExplainArguments:
    """A page that plays one episode backward, with the real rules' numbers."""

    out: Path = Path("explain.html")


@dataclass(frozen=True)
class ReproduceArguments:
    """One of the paper's items: rows, a picture, the published numbers beside ours."""

    item: Annotated[str, tyro.conf.Positional]
    """figure1, appendix-f, theorem1, theorem2, toy-text"""
    budget: Literal["quick", "laptop", "full"] = "quick"
    out: Path | None = None
    """Folder to write; by default results/ITEM."""
    seed: int = 0


def report(arguments: list[str]) -> int:
    from ebu.report.page import build_page

    args = parse(ReportArguments, arguments, "ebu report")
    if not args.runs:
        raise UserError("ebu report needs one or more run folders")
    path = build_page(list(args.runs), args.out, args.title)
    print(f"wrote {path}")
    return 0


def explain(arguments: list[str]) -> int:
    from ebu.experiments.explain_data import scenes
    from ebu.report.explain import build_explainer

    args = parse(ExplainArguments, arguments, "ebu explain")
    print(f"wrote {build_explainer(args.out, scenes())}")
    return 0


def reproduce(arguments: list[str]) -> int:
    args = parse(ReproduceArguments, arguments, "ebu reproduce")
    if args.item not in ITEMS:
        raise UserError(f"there is no item {args.item!r}; choose from {', '.join(ITEMS)}")
    module = importlib.import_module(f"ebu.experiments.{ITEMS[args.item]}")
    out = args.out or Path("results") / args.item
    out.mkdir(parents=True, exist_ok=True)
    rows = module.run(args.budget, out, args.seed)
    written = ", ".join(sorted(path.name for path in out.iterdir()))
    print(f"{args.item}: {len(rows)} rows in {out} ({written})")
    return 0
