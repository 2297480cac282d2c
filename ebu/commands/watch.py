"""``ebu eval`` and ``ebu play``: score a trained run, watch it, record it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tyro
from rich.console import Console

from ebu.agent import Agent
from ebu.api import evaluate, load
from ebu.commands.parsing import parse
from ebu.commands.window import Window, WindowClosed
from ebu.errors import UserError
from ebu.plugins import look_in_current_folder
from ebu.training.film import require_film, write_film


@dataclass(frozen=True)
class EvalArguments:
    """Score a trained run over whole episodes."""

    run: Annotated[Path, tyro.conf.Positional]
    """The run folder, or a policy file."""
    episodes: int = 30
    epsilon: float = 0.05
    """Probability of a random action."""
    seed: int = 0
    device: str = "auto"
    best: bool = False
    """For a run folder: the policy of the best evaluation instead of the last one."""
    trust_env: bool = False
    """Import the module of an environment that the file names as module:id."""


@dataclass(frozen=True)
class PlayArguments:
    """Watch a trained run in the terminal or in a window, or record it."""

    run: Annotated[Path, tyro.conf.Positional]
    """The run folder, or a policy file."""
    render: Literal["text", "human"] = "text"
    """text: in the terminal; human: in a window."""
    record: Path | None = None
    """Record a video: .mp4 or .gif."""
    episodes: int = 1
    epsilon: float = 0.0
    """Probability of a random action."""
    seed: int = 0
    fps: int = 0
    """Frames per second of the video or the window; 0: the environment's own."""
    max_steps: int = 10_000
    """Stop an episode after this many steps."""
    device: str = "auto"
    best: bool = False
    """For a run folder: the policy of the best evaluation instead of the last one."""
    trust_env: bool = False
    """Import the module of an environment that the file names as module:id."""


def evaluate_run(arguments: list[str]) -> int:
    args = parse(EvalArguments, arguments, "ebu eval")
    if args.trust_env:
        look_in_current_folder()
    require(args, episodes=1)
    agent = load(args.run, device=args.device, trust_env=args.trust_env, best=args.best)
    result = evaluate(agent, episodes=args.episodes, epsilon=args.epsilon, seed=args.seed)
    console = Console()
    console.print(
        f"[bold]{agent.algo}[/] on [bold]{agent.config.environment.env}[/], {args.episodes} episodes, ε = {args.epsilon:g}",
        highlight=False,
        soft_wrap=True,
    )
    console.print(
        f"score   mean [bold]{result.mean:.4g}[/]   std {result.std:.4g}   median {result.median:.4g}   "
        f"min {min(result.returns):.4g}   max {max(result.returns):.4g}",
        highlight=False,
        soft_wrap=True,
    )
    console.print(f"length  mean {np.mean(result.lengths):.4g}", highlight=False)
    console.print(
        f"value   mean Q of the actions taken {result.mean_q:.4g}, the discounted return that followed "
        f"{result.mean_discounted_return:.4g}",
        highlight=False,
        soft_wrap=True,
    )
    if result.relative_lengths:
        console.print(f"path / shortest path  mean {np.mean(result.relative_lengths):.3g}", highlight=False)
    return 0


def play_run(arguments: list[str]) -> int:
    args = parse(PlayArguments, arguments, "ebu play")
    if args.trust_env:
        look_in_current_folder()
    require(args, episodes=1, fps=0, max_steps=1)
    if args.record is not None:
        require_film(args.record)
    agent = load(args.run, device=args.device, trust_env=args.trust_env, best=args.best)
    env = agent.make_env(render_mode=_mode(agent, args))
    fps = args.fps or int(env.metadata.get("render_fps") or 15)
    frames: list[Any] = []
    with ExitStack() as stack:
        look: Callable[[Any], None] = _do_not_look
        if args.render == "human":
            window = stack.enter_context(closing(Window(agent.config.environment.env, fps)))
            look = window.show
            stack.enter_context(suppress(WindowClosed))
        for episode in range(args.episodes):
            shown, score = play_episode(agent, env, args, args.seed + episode, look)
            if args.record is not None:
                frames += shown
            print(f"episode {episode + 1}: score {score:.6g} in {len(shown) - 1} steps")
            if isinstance(shown[-1], str):
                print(shown[-1])
    if args.record is not None and frames:
        write_film(args.record, frames, fps)
        print(f"wrote {args.record}: {len(frames)} frames at {fps} per second")
    return 0


def _do_not_look(picture: Any) -> None:
    """For what is recorded, or printed when the episode is over."""


def _mode(agent: Agent, args: PlayArguments) -> str:
    """The render mode to use; one that the environment does not offer is refused."""
    mode = "rgb_array" if args.record or args.render == "human" else "ansi"
    offered = agent.env.metadata.get("render_modes", [])
    if mode not in offered:
        ways = "; use --render human or --record FILE.mp4" if "rgb_array" in offered else ""
        way = "shown as text" + ways if mode == "ansi" else "recorded" if args.record else "shown in a window"
        raise UserError(f"{agent.config.environment.env} cannot be {way} (it offers {', '.join(offered) or 'nothing'})")
    return mode


def require(args: EvalArguments | PlayArguments, **least: int) -> None:
    """Refuse counts below their minimum and an ε that is not a probability."""
    for name, low in least.items():
        if getattr(args, name) < low:
            raise UserError(f"--{name.replace('_', '-')} must be at least {low}, got {getattr(args, name)}")
    if not 0 <= args.epsilon <= 1:
        raise UserError(f"--epsilon must be between 0 and 1, got {args.epsilon}")


def play_episode(
    agent: Agent, env: Any, args: PlayArguments, seed: int, look: Callable[[Any], None]
) -> tuple[list[Any], float]:
    """What the environment showed at each step of one episode, and its score; ``look`` sees each as it happens."""
    from ebu.training.environment import Environment
    from ebu.training.evaluate import rollout

    shown: list[Any] = []

    def watch() -> None:
        shown.append(env.render())
        look(shown[-1])

    steps = rollout(
        agent.policy,
        Environment(env),
        seed=seed,
        epsilon=args.epsilon,
        rng=np.random.default_rng(seed),
        stack=agent.interface.stack,
        watch=watch,
    )
    score = sum(step.result.reward for step in islice(steps, args.max_steps))
    return shown, score
