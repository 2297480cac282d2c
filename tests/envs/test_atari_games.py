from __future__ import annotations

import subprocess
import sys

import pytest

from ebu.envs.atari_games import GAMES, PAPER_COLUMNS, find_game, paper_scores, resolve_game
from ebu.errors import UserError


def test_there_are_49_games_with_distinct_names_and_cartridges() -> None:
    assert len(GAMES) == len({game.name for game in GAMES}) == len({game.rom for game in GAMES}) == 49


def test_every_game_has_reference_scores_and_all_columns_of_table_3() -> None:
    assert len(PAPER_COLUMNS) == 8
    for game in GAMES:
        assert game.human != game.random
        assert tuple(game.paper) == PAPER_COLUMNS


@pytest.mark.parametrize(
    "name", ["ALE/Breakout-v5", "Breakout-v5", "BreakoutNoFrameskip-v4", "BreakoutDeterministic-v4", "breakout"]
)
def test_all_spellings_of_an_id_name_the_same_game(name: str) -> None:
    assert resolve_game(name) == "breakout"


@pytest.mark.parametrize(
    ("name", "rom"),
    [
        ("Ms. Pacman", "ms_pacman"),
        ("Q*Bert", "qbert"),
        ("H.E.R.O.", "hero"),
        ("Up and Down", "up_n_down"),
        ("Montezuma's Revenge", "montezuma_revenge"),
        ("Kung-Fu Master", "kung_fu_master"),
        ("RiverraidNoFrameskip-v4", "riverraid"),
        ("space_invaders", "space_invaders"),
    ],
)
def test_the_papers_names_are_understood(name: str, rom: str) -> None:
    assert resolve_game(name) == rom


def test_every_game_resolves_from_its_name_its_id_and_its_cartridge() -> None:
    for game in GAMES:
        assert resolve_game(game.name) == resolve_game(game.ale_id) == resolve_game(game.rom) == game.rom
        assert find_game(game.name) is find_game(game.ale_id) is find_game(game.rom) is game


def test_an_unknown_game_is_answered_with_close_names() -> None:
    with pytest.raises(UserError, match=r"'ALE/Brekout-v5'; did you mean breakout"):
        resolve_game("ALE/Brekout-v5")
    with pytest.raises(UserError, match="names are like ALE/Breakout-v5"):
        resolve_game("zzzzzzz")


def test_an_unknown_column_is_answered_with_the_columns() -> None:
    assert paper_scores("dqn_10M")["Pong"] == -2.68
    with pytest.raises(UserError, match="choose from ebu_0"):
        paper_scores("rainbow")


def test_games_and_reports_need_neither_pytorch_nor_the_emulator() -> None:
    code = (
        "import sys, ebu.envs.atari_games, ebu.report.scores, ebu.report.statistics;"
        "sys.exit(' '.join({'torch', 'ale_py'} & set(sys.modules)) or 0)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stderr == ""
