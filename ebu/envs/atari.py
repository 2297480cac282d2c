"""Atari 2600 games on the Arcade Learning Environment, by the protocol of Nature DQN as the paper uses it.

A game and an episode are two things. In training a lost life ends the episode (``terminated``) but not the game: the
next ``reset`` continues from the emulator's state, and its first observation is the screen the last episode ended with.
After game over, after a truncation (a game that got stuck must not fill the memory), or when called in mid-episode,
``reset`` starts a new game; ``reset(options={"new_game": True})`` does so always.

The emulator is deterministic; all chance (no-ops, sticky actions) is drawn from ``np_random``. So the same seeds and
actions give the same frames, in a used environment as in a new one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, get_args

import gymnasium
import numpy as np
from gymnasium import spaces

from ebu.envs.atari_games import resolve_game
from ebu.envs.screen import NTSC, Bytes, MergeIndexed, Merging, Resizing, merge_rgb, resizer
from ebu.errors import UserError

NOOP = 0
# A snapshot in the first frames of a game is replayed from power-on instead of loaded: Q*bert and Amidar boot with
# frames longer than the emulator's limit, and what it keeps of a half-drawn frame is not part of the state it saves.
REPLAYED_FRAMES = 60
PAL_LINES = 250
LARGEST_SCREEN = 1024  # the games have 160 × 210 pixels


@dataclass(frozen=True)
class AtariSettings:
    """Every choice of the protocol. The defaults are the paper's, for training."""

    frame_skip: int = 4
    """Frames for which an action is repeated; the reward is their sum."""
    skip_stops_early: bool = True
    """End the repetition at game over and, where it ends the episode, at a lost life."""
    noop_min: int = 1
    """A game begins with a random number of frames without action, from this …"""
    noop_max: int = 30
    """… to this."""
    noops_after_life_loss: int = 0
    """Frames without action at the start of an episode that continues after a lost life."""
    life_loss_ends_episode: bool = True
    """True to train, False to play whole games."""
    sticky: float = 0.0
    """Probability, at each frame, that the emulator repeats the last action instead of taking the new one."""
    full_action_space: bool = False
    """All 18 actions instead of those the game uses."""
    screen_size: int = 84
    """Height and width of an observation."""
    screen_merge: Merging = "rgb"
    """Maximum over two frames on RGB, then luminance; or "grayscale", luminance first."""
    screen_resize: Resizing = "bilinear"
    """"bilinear" between two pixels (OpenCV's), "area" average (Torch 7's), or "antialias" (Pillow's)."""
    max_episode_steps: int = 27_000
    """Agent steps after which an episode is truncated; 0 for no limit."""

    def __post_init__(self) -> None:
        checks = {
            "frame_skip must be at least 1": self.frame_skip >= 1,
            "noop_min and noop_max must be 0 ≤ noop_min ≤ noop_max": 0 <= self.noop_min <= self.noop_max,
            "noops_after_life_loss must not be negative": self.noops_after_life_loss >= 0,
            "sticky must be in [0, 1)": 0.0 <= self.sticky < 1.0,
            f"screen_size must be between 1 and {LARGEST_SCREEN}": 1 <= self.screen_size <= LARGEST_SCREEN,
            "screen_merge must be rgb or grayscale": self.screen_merge in get_args(Merging),
            "screen_resize must be bilinear, area or antialias": self.screen_resize in get_args(Resizing),
            "max_episode_steps must not be negative": self.max_episode_steps >= 0,
        }
        for rule, holds in checks.items():
            if not holds:
                raise UserError(f"{rule}, got {self}")


PAPER_TRAINING = AtariSettings()
PAPER_EVALUATION = replace(PAPER_TRAINING, life_loss_ends_episode=False, max_episode_steps=4_500)  # 18,000 frames
# What the authors' released code does instead: no random starts in training, two frames without action at the start of
# every episode (to fill its screen buffer), and the rest as written here.
RELEASED_TRAINING = replace(
    PAPER_TRAINING,
    skip_stops_early=False,
    noop_min=2,
    noop_max=2,
    noops_after_life_loss=2,
    screen_merge="grayscale",
    screen_resize="antialias",
    max_episode_steps=0,
)
RELEASED_EVALUATION = replace(
    RELEASED_TRAINING, noop_min=2, noop_max=32, life_loss_ends_episode=False, max_episode_steps=4_500
)
PROTOCOLS: dict[str, tuple[AtariSettings, AtariSettings]] = {
    "paper": (PAPER_TRAINING, PAPER_EVALUATION),
    "released": (RELEASED_TRAINING, RELEASED_EVALUATION),
}


class Atari(gymnasium.Env[Bytes, Any]):
    """One game. Observations are single frames, uint8 [1, size, size], which the agent stacks. Rewards are raw.

    ``info``: ``lives``, ``game_over``, ``frames`` emulated in this game, and the game's ``score`` so far.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012 (Gymnasium's own declaration)

    def __init__(
        self, game: str, settings: AtariSettings = PAPER_TRAINING, *, render_mode: str | None = None, **overrides: Any
    ) -> None:
        known = AtariSettings.__dataclass_fields__
        unknown = [name for name in overrides if name not in known]
        if unknown:
            raise UserError(f"Atari has no setting {', '.join(unknown)}; it has {', '.join(known)}")
        if render_mode not in (None, "rgb_array"):
            raise UserError(f"Atari can be rendered as rgb_array, not as {render_mode!r}")
        self.settings = replace(settings, **overrides)
        self.render_mode = render_mode
        self.game = resolve_game(game)
        self._ale = _load(self.game)
        self._power_on = self._ale.cloneState(include_rng=True)

        legal = self._ale.getLegalActionSet() if self.settings.full_action_space else self._ale.getMinimalActionSet()
        self._actions = [int(action.value) for action in legal]
        self.action_meanings = tuple(action.name for action in legal)
        self.action_space = spaces.Discrete(len(self._actions))
        size = self.settings.screen_size
        self.observation_space = spaces.Box(0, 255, (1, size, size), np.uint8)

        self._power_up()
        self._boot_frames = self._ale.getEpisodeFrameNumber()  # some games count those in which they press Select
        self._prepare_screens()
        self._opening: list[int] = []  # the first actions of the game, as the emulator got them
        self._held = NOOP
        self._lives = self._steps = 0
        self._score = 0.0
        self._observation: Bytes | None = None  # None before the first reset
        self._game_goes_on = False  # the episode was ended by a lost life only

    def _prepare_screens(self) -> None:
        """Screens are kept as palette bytes, or as RGB for the European cartridges, whose palette is another one."""
        rgb = self._ale.getScreenRGB()
        indexed = len(rgb) < PAL_LINES and bool((NTSC[self._ale.getScreen()] == rgb).all())
        self._fetch: Callable[[Bytes], None] = self._ale.getScreen if indexed else self._ale.getScreenRGB
        shape = rgb.shape[:2] if indexed else rgb.shape
        self._screens = [np.zeros(shape, np.uint8), np.zeros(shape, np.uint8)]  # the last two frames, newest last
        merging = self.settings.screen_merge
        self._merge = MergeIndexed(merging) if indexed else lambda a, b: merge_rgb(a, b, merging)
        self._resize = resizer(self.settings.screen_resize, rgb.shape[:2], self.settings.screen_size)

    # ------------------------------------------------------------------ Gymnasium

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Bytes, dict[str, Any]]:
        super().reset(seed=seed)
        if self._game_goes_on and not (options or {}).get("new_game"):
            for _ in range(self.settings.noops_after_life_loss):
                self._emulate(NOOP)
            if self._game_over():
                self._begin_game()
        else:
            self._begin_game()
        self._game_goes_on = False
        self._steps = 0
        self._lives = self._ale.lives()
        return self._observe(), self._info(self._game_over())

    def step(self, action: int) -> tuple[Bytes, float, bool, bool, dict[str, Any]]:
        settings = self.settings
        wanted = self._actions[action]
        reward = 0.0
        life_lost = False
        for _ in range(settings.frame_skip):
            reward += self._emulate(wanted)
            lives = self._ale.lives()
            life_lost |= settings.life_loss_ends_episode and lives < self._lives
            self._lives = lives
            game_over = self._game_over()
            if settings.skip_stops_early and (game_over or life_lost):
                break
        self._score += reward
        self._steps += 1
        terminated = game_over or life_lost
        self._game_goes_on = life_lost and not game_over
        truncated = not terminated and self._steps == settings.max_episode_steps
        return self._observe(), reward, terminated, truncated, self._info(game_over)

    def render(self) -> Bytes | None:
        """The newest raw screen, RGB [H, W, 3]."""
        if self.render_mode is None:
            return None
        newest = self._screens[1]
        return NTSC[newest] if newest.ndim == 2 else newest.copy()

    # ------------------------------------------------------------------ exact resume

    def snapshot(self) -> dict[str, Any]:
        """Everything that ``restore`` needs to continue with identical frames, also in another process."""
        if self._observation is None:
            raise UserError("there is nothing to save before the first reset")
        return {
            "game": self.game,
            "settings": asdict(self.settings),
            "emulator": self._ale.cloneState(include_rng=True).serialize(),
            "opening": list(self._opening),
            "frames": self._frames(),
            "screens": np.stack(self._screens),  # the emulator does not save them
            "observation": self._observation.copy(),
            "held": self._held,
            "lives": self._lives,
            "steps": self._steps,
            "score": self._score,
            "game_goes_on": self._game_goes_on,
            "random": self.np_random.bit_generator.state,
        }

    def restore(self, snapshot: dict[str, Any]) -> Bytes:
        """Continue from ``snapshot``; returns the current observation."""
        if (snapshot["game"], snapshot["settings"]) != (self.game, asdict(self.settings)):
            raise UserError(f"the snapshot is of {snapshot['game']} with {snapshot['settings']}; make that game first")
        from ale_py import ALEState

        self._power_up()
        for action in snapshot["opening"]:
            self._ale.act(action)
        if snapshot["frames"] > len(snapshot["opening"]):
            self._ale.restoreState(ALEState(snapshot["emulator"]))
        self._opening = list(snapshot["opening"])
        self._screens = [screen.copy() for screen in snapshot["screens"]]
        self._held, self._lives = snapshot["held"], snapshot["lives"]
        self._steps, self._score = snapshot["steps"], snapshot["score"]
        self._game_goes_on = snapshot["game_goes_on"]
        self.np_random.bit_generator.state = snapshot["random"]
        self._observation = snapshot["observation"].copy()
        return self._observation.copy()

    # ------------------------------------------------------------------ the emulator

    def _power_up(self) -> None:
        """A new game in the emulator. Its reset alone leaves traces of the previous game in 13 of the 49 games."""
        self._ale.restoreState(self._power_on)
        self._ale.reset_game()

    def _begin_game(self) -> None:
        self._power_up()
        self._opening, self._held, self._score = [], NOOP, 0.0
        for screen in self._screens:
            self._fetch(screen)
        for _ in range(self.np_random.integers(self.settings.noop_min, self.settings.noop_max + 1)):
            self._emulate(NOOP)

    def _emulate(self, action: int) -> int:
        """One frame. Returns its reward and replaces the older of the two screens."""
        if self.settings.sticky and self.np_random.random() < self.settings.sticky:
            action = self._held
        self._held = action
        if len(self._opening) < REPLAYED_FRAMES:
            self._opening.append(action)
        reward: int = self._ale.act(action)
        self._screens.reverse()
        self._fetch(self._screens[1])
        return reward

    def _frames(self) -> int:
        """Frames emulated in this game."""
        return int(self._ale.getEpisodeFrameNumber() - self._boot_frames)

    def _game_over(self) -> bool:
        return bool(self._ale.game_over(with_truncation=False))

    def _observe(self) -> Bytes:
        self._observation = self._resize(self._merge(*self._screens))[None]
        return self._observation.copy()

    def _info(self, game_over: bool) -> dict[str, Any]:
        return {"lives": self._lives, "game_over": game_over, "frames": self._frames(), "score": self._score}


def make_atari(
    name: str, training: bool, protocol: str = "paper", *, render_mode: str | None = None, **overrides: Any
) -> Atari:
    """The game for training or for evaluation, by the paper's protocol or that of the authors' released code."""
    if protocol not in PROTOCOLS:
        raise UserError(f"there is no Atari protocol {protocol!r}; choose from {', '.join(PROTOCOLS)}")
    for_training, for_evaluation = PROTOCOLS[protocol]
    return Atari(name, for_training if training else for_evaluation, render_mode=render_mode, **overrides)


def _load(rom: str) -> Any:
    """An emulator with the cartridge in it, silent and without its own randomness."""
    try:
        from ale_py import ALEInterface, LoggerMode, roms
    except ImportError as error:
        raise UserError(
            f"{rom} needs the Atari emulator; install it with: pip install 'episodic-backward-update[atari]'"
        ) from error
    ALEInterface.setLoggerMode(LoggerMode.Error)
    path = roms.get_rom_path(rom)
    if path is None or ALEInterface.isSupportedROM(path) is None:  # loading it would end the process
        raise UserError(f"the emulator has no single-player game {rom}; choose another game")
    ale = ALEInterface()
    ale.setInt("random_seed", 0)
    ale.setFloat("repeat_action_probability", 0.0)  # sticky actions are drawn here, from the seed of the episode
    ale.loadROM(path)
    return ale
