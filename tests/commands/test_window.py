"""``ebu play --render human``: a real window of the display library, on its driver without a screen."""

from __future__ import annotations

import numpy as np
import pytest

from ebu.commands.window import Window, WindowClosed
from tests.conftest import ebu_

pygame = pytest.importorskip("pygame")


@pytest.fixture(autouse=True)
def no_screen(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    pygame.display.quit()  # an environment of an earlier test may have opened it, with another driver
    yield
    pygame.display.quit()


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    import ebu

    path = tmp_path_factory.mktemp("window") / "policy.ebu"
    ebu.EBU("maze", seed=0, env_args={"size": 4, "cap": 20}, hidden_sizes=(8,)).save(path)
    return path


@pytest.mark.parametrize(("side", "window"), [(10, 400), (300, 600), (500, 500), (1800, 900)])
def test_small_pictures_are_enlarged_and_large_ones_fit(side, window):
    shown = Window("test", fps=1_000)
    shown.show(np.zeros((side, side, 3), np.uint8))
    assert pygame.display.get_surface().get_size() == (window, window)
    shown.close()


def test_the_window_shows_the_picture():
    picture = np.zeros((20, 10, 3), np.uint8)
    picture[15, 2] = (255, 0, 0)
    shown = Window("test", fps=1_000)
    shown.show(picture)
    surface = pygame.display.get_surface()
    assert surface.get_size() == (200, 400)
    assert surface.get_at((2 * 20 + 10, 15 * 20 + 10))[:3] == (255, 0, 0) and surface.get_at((100, 100))[:3] == (0, 0, 0)
    shown.close()


@pytest.mark.parametrize("event", [{"type": "QUIT"}, {"type": "KEYDOWN", "key": "K_q"}])
def test_closing_the_window_ends_the_show(event):
    shown = Window("test", fps=1_000)
    shown.show(np.zeros((10, 10, 3), np.uint8))
    keys = {"key": getattr(pygame, event["key"])} if "key" in event else {}
    pygame.event.post(pygame.event.Event(getattr(pygame, event["type"]), keys))
    with pytest.raises(WindowClosed):
        shown.show(np.zeros((10, 10, 3), np.uint8))
    shown.close()


def test_play_opens_a_window_and_closes_it(policy, capsys, monkeypatch):
    sizes = []
    show = Window.show
    monkeypatch.setattr(Window, "show", lambda self, picture: (show(self, picture), sizes.append(np.shape(picture)))[0])
    assert ebu_(f"play {policy} --render human --fps 1000 --max-steps 5") == 0
    assert "episode 1: score" in capsys.readouterr().out
    assert len(sizes) == 6 and len(set(sizes)) == 1
    assert not pygame.display.get_init()


def test_without_a_screen_it_is_one_line(policy, capsys, monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "no-such-driver")
    assert ebu_(f"play {policy} --render human") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "no window can be opened here" in line and "--record FILE.mp4" in line
