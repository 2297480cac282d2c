"""``ebu presets``: the starting values there are, and any of them as a file to change and pass on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from ebu.commands.parsing import parse, peek
from ebu.config import Config, field_names, flat
from ebu.config_check import check
from ebu.envs.families import families
from ebu.envs.make import require_named
from ebu.errors import UserError
from ebu.preset_files import is_file_name, preset_text, read_preset
from ebu.presets import configure, differences
from ebu.storage.run_folder import RunFolder

USAGE = """usage: ebu presets [show PRESET]

Without arguments: the presets of each family of environments.

  ebu presets show quick --env CartPole-v1              # one of them, as the text of a preset file
  ebu presets show quick --env CartPole-v1 > my.toml    # to change it, and then: ebu train --preset my.toml
  ebu presets show my.toml                              # a preset file, with all that it sets
  ebu presets show runs/ebu-CartPole-v1-0               # the settings of a run, to use them again
"""


@dataclass(frozen=True)
class ShowArguments:
    """A preset as the text of a TOML file, which `ebu train --preset FILE` reads."""

    preset: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="PRESET")]
    """A preset of the environment, a preset file, or a run folder."""
    env: str = "maze"
    """The environment whose preset it is."""
    algo: str = "ebu"
    """The method, which may have starting values of its own."""
    all: bool = False
    """Every setting, not only those that differ from the defaults."""


def presets(arguments: list[str]) -> int:
    if not arguments:
        return _list()
    if arguments[0] in ("-h", "--help"):
        print(USAGE, end="")
        return 0
    if arguments[0] != "show":
        raise UserError(f"ebu presets takes no arguments, or show PRESET, got {' '.join(arguments)}")
    args = parse(ShowArguments, arguments[1:], "ebu presets show")
    config, comment = _resolve(args, arguments)
    check(config)
    print(preset_text(_chosen(config, args.all), comment), end="")
    return 0


def _list() -> int:
    table = Table(show_header=False, box=None)
    for kind in families():
        table.add_row(f"[cyan]{kind.name}[/]", ", ".join(kind.presets), f"[dim]such as {next(iter(kind.examples), '')}[/]")
    console = Console()
    console.print(table)
    console.print("one of them as a file: ebu presets show quick --env CartPole-v1", style="dim")
    return 0


def _resolve(args: ShowArguments, arguments: list[str]) -> tuple[Config, str]:
    """The whole configuration, and a line on where it is from."""
    if is_file_name(args.preset):
        named = read_preset(args.preset)
        env, algo = (
            peek(arguments, "--env", named.get("env", args.env)),
            peek(arguments, "--algo", named.get("algo", args.algo)),
        )
        require_named(env, args.preset)
        return configure(algo, env, args.preset), f"{args.preset}, for {algo} on {env}"
    if Path(args.preset).is_dir():
        config = RunFolder.open(Path(args.preset)).config()
        return config, f"{config.algo} on {config.environment.env}, the settings of {args.preset}"
    return configure(args.algo, args.env, args.preset), f"{args.algo} on {args.env}, preset {args.preset}"


def _chosen(config: Config, everything: bool) -> dict[str, object]:
    """What to show: all that the preset or the user has set; settings of the run as a whole only with ``everything``."""
    usual, values, stages = flat(Config()), flat(config), field_names()
    own = differences(config)
    head = {name: values[name] for name in ("preset", "algo", "env")}
    changed = {name: v for name, v in values.items() if (v != usual[name] or name in own) and stages[name] != "run"}
    return head | (values if everything else changed)
