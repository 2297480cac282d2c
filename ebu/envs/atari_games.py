"""The 49 Atari games of the paper: names, reference scores, the paper's results; and which game a name means.

Random and human scores are those of Mnih et al. (2015), Extended Data Table 2: with them the paper's Table 2 comes out.
Needs neither the emulator nor PyTorch, so that reports can read it.
"""

from __future__ import annotations

import csv
import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType

from ebu.errors import UserError


@dataclass(frozen=True)
class Game:
    """One game. ``paper`` holds the raw scores of the paper's Table 3 by column."""

    name: str  # as the paper writes it
    ale_id: str  # as Gymnasium registers it
    random: float
    human: float
    paper: Mapping[str, float]

    @property
    def rom(self) -> str:
        """The emulator's name of the cartridge: ``Ms. Pacman`` → ``ms_pacman``."""
        camel = self.ale_id.removeprefix("ALE/").removesuffix("-v5")
        return re.sub(r"(?<!^)(?=[A-Z])", "_", camel).lower()


def _read() -> tuple[Game, ...]:
    text = resources.files("ebu.envs").joinpath("data/atari_games.csv").read_text(encoding="utf-8")
    games = []
    for row in csv.DictReader(text.splitlines()):
        name, ale_id = row.pop("game"), row.pop("ale_id")
        numbers = {column: float(value) for column, value in row.items()}
        random, human = numbers.pop("random"), numbers.pop("human")
        games.append(Game(name, ale_id, random, human, MappingProxyType(numbers)))
    return tuple(games)


GAMES: tuple[Game, ...] = _read()
PAPER_COLUMNS: tuple[str, ...] = tuple(GAMES[0].paper)


def paper_scores(column: str) -> dict[str, float]:
    """A column of Table 3: raw score by the paper's name of the game."""
    if column not in PAPER_COLUMNS:
        raise UserError(f"Table 3 has no column {column!r}; choose from {', '.join(PAPER_COLUMNS)}")
    return {game.name: game.paper[column] for game in GAMES}


def find_game(name: str) -> Game | None:
    """The paper's game that a name means in any of its spellings, or None."""
    key = _key(name)
    return next((game for game in GAMES if key in (_key(game.name), _key(game.rom))), None)


def resolve_game(name: str) -> str:
    """The emulator's name of a game written as ALE/Breakout-v5, BreakoutNoFrameskip-v4, breakout or the paper's name.

    The version in an id chooses nothing here: frame skip, sticky actions and the rest are settings of the environment.
    """
    known = _known()
    key = _key(name)
    if key in known:
        return known[key]
    close = list(dict.fromkeys(known[match] for match in difflib.get_close_matches(key, known, n=3, cutoff=0.6)))
    hint = f"did you mean {' or '.join(close)}?" if close else "names are like ALE/Breakout-v5 or breakout"
    raise UserError(f"there is no Atari game {name!r}; {hint}")


def _key(name: str) -> str:
    """``ALE/MsPacman-v5``, ``ms_pacman`` and ``Ms. Pacman`` → ``mspacman``."""
    bare = re.sub(r"(NoFrameskip|Deterministic)?-v\d+$", "", name.strip().removeprefix("ALE/"))
    return re.sub(r"[^a-z0-9]", "", bare.lower())


@cache
def _known() -> dict[str, str]:
    """Key → cartridge: the paper's games by both their names, and whatever else the installed emulator carries."""
    known = {_key(spelling): game.rom for game in GAMES for spelling in (game.name, game.rom)}
    try:
        from ale_py import roms
    except ImportError:
        return known
    return known | {_key(rom): rom for rom in roms.get_all_rom_ids()}
