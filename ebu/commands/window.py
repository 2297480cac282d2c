"""A window that shows what an environment renders, at its own speed."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np

from ebu.errors import UserError

SMALLEST, LARGEST = 400, 900  # pixels of the longer side; small pictures are enlarged by whole factors


class WindowClosed(Exception):
    """The user has closed the window."""


class Window:
    """Opened at the first picture. ``fps`` pictures a second are shown; closing it, Escape or q ends the show."""

    def __init__(self, title: str, fps: int) -> None:
        if importlib.util.find_spec("pygame") is None:
            raise UserError("a window needs an extra: pip install 'episodic-backward-update[classic]'")
        import pygame

        self._pygame = pygame
        self._fps = fps
        self._surface: Any = None
        try:
            pygame.display.init()
        except pygame.error as error:
            raise UserError(f"no window can be opened here ({error}); use --record FILE.mp4") from error
        pygame.display.set_caption(title)
        self._clock = pygame.time.Clock()

    def show(self, picture: Any) -> None:
        """One picture, [height, width, 3] of bytes."""
        pixels = np.asarray(picture, np.uint8).swapaxes(0, 1)
        longer = max(pixels.shape[:2])
        factor = max(-(-SMALLEST // longer), 1) if longer < SMALLEST else min(LARGEST / longer, 1)
        size = (round(pixels.shape[0] * factor), round(pixels.shape[1] * factor))
        if self._surface is None:
            self._surface = self._pygame.display.set_mode(size)
        drawn = self._pygame.transform.scale(self._pygame.surfarray.make_surface(pixels), self._surface.get_size())
        self._surface.blit(drawn, (0, 0))
        self._pygame.display.flip()
        for event in self._pygame.event.get():
            pressed = getattr(event, "key", None)
            if event.type == self._pygame.QUIT or pressed in (self._pygame.K_ESCAPE, self._pygame.K_q):
                raise WindowClosed
        self._clock.tick(self._fps)

    def close(self) -> None:
        self._pygame.display.quit()
