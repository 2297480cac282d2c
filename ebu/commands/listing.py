"""``ebu list``: what there is to choose from."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from ebu.config import Config, override
from ebu.envs.families import families
from ebu.errors import UserError
from ebu.experiments.items import item_summaries
from ebu.presets import in_words
from ebu.registry import methods


def listing(arguments: list[str]) -> int:
    if arguments in (["--help"], ["-h"]):
        print("usage: ebu list\n\nLists the algorithms, environments, items of the paper and presets.")
        return 0
    if arguments:
        raise UserError(f"ebu list takes no arguments, got {' '.join(arguments)}")
    console = Console()
    examples = {name: text for kind in families() for name, text in kind.examples.items()}
    sections = {
        "Algorithms  (--algo)": {name: method.title for name, method in methods().items()},
        "Environments  (--env; any Gymnasium id with discrete actions)": examples,
        "Items of the paper  (ebu reproduce)": item_summaries(),
        "Presets  (--preset), with what each means for dqn": {
            f"{kind.name}: {preset}": in_words(override(Config(), **settings))
            for kind in families()
            for preset, settings in kind.presets.items()
        },
    }
    for title, entries in sections.items():
        table = Table(title=title, title_justify="left", title_style="bold", show_header=False, box=None)
        for name, text in entries.items():
            table.add_row(f"  [cyan]{name}[/]", text)
        console.print(table)
        console.print()
    return 0
