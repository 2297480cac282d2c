"""``ebu train``: from flags to a finished run folder."""

from __future__ import annotations

import json
import shlex
import sys
import textwrap
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from rich.console import Console
from rich.markup import escape

from ebu.agent import Agent, Progress, Ranks, create_run
from ebu.agent.unused import unused_settings
from ebu.commands.help import describe_flags, help_width
from ebu.commands.parsing import parse, peek
from ebu.commands.ranks import with_ranks
from ebu.commands.words import flags_of, in_full, is_flag
from ebu.config import Config, override
from ebu.config_check import check
from ebu.env_arguments import merge_environment_arguments
from ebu.envs.make import names_module, require_named
from ebu.errors import UserError
from ebu.plugins import inherited_plugins, look_in_current_folder
from ebu.preset_files import is_file_name, read_preset
from ebu.presets import as_meant, configure, in_words
from ebu.storage.lock import RunLock
from ebu.storage.run_folder import RunFolder, evaluations
from ebu.training.due import why_no_update

USAGE = """usage: ebu train [ENV] [options]

Train an agent. Without options: EBU on the embedded MNIST maze.

  ebu train CartPole-v1 --algo dqn --seed 1
  ebu train maze --preset paper --env-args wall_density=0.5
  ebu train --preset tuned.toml
"""

T = TypeVar("T")

# What people set. Everything else is under --help-all.
COMMON = (
    *("env", "algo", "preset", "steps", "seed", "run", "device", "env_args"),
    *("learning_rate", "batch_size", "buffer_size", "gamma", "beta", "exploration_fraction", "eval_every"),
    *("quiet", "tensorboard"),
)


@dataclass(frozen=True)
class TrainArguments:
    """Options of ``ebu train`` besides the settings of the run."""

    run: Path | None = None
    """Folder to write; by default runs/ALGO-ENV-SEED, numbered if it exists."""
    tensorboard: bool = True
    """Write TensorBoard events into the run folder."""
    quiet: bool = False
    """Print no progress while training."""
    settings: Config = field(default_factory=Config)


def train(arguments: list[str]) -> int:
    return with_ranks(lambda ranks: _train(arguments, ranks))


def _train(arguments: list[str], ranks: Ranks | None) -> int:
    read = read_settings(TrainArguments, arguments, "ebu train")
    if read.help_asked is not None:
        names = list(COMMON) if read.help_asked != "--help-all" else None
        print(USAGE + "\n" + describe_flags(read.default, names) + "\n" + _about_defaults(read.default.settings, names))
        return 0
    parsed, config = read.parsed, read.config
    from ebu.networks.factories import name_of

    name_of(config.network.network)  # the user's own command line: a network named as module:factory is imported
    agent = Agent.from_config(config, ranks=ranks)  # everything that can be refused is refused here, before a folder is made
    tell_unused(agent, read.given)
    folder = create_run(parsed.run or _free_folder(config), config)
    with RunLock(folder.path):
        return train_and_report(folder, agent, parsed.tensorboard, parsed.quiet, resume=False)


def tell_unused(agent: Agent, given: Collection[str]) -> None:
    """A line for each option on the command line that nothing reads."""
    console = Console(stderr=True, highlight=False)
    for unused in unused_settings(agent.method, agent.config, agent.interface.spec, given):
        console.print(f"[yellow]warning:[/] {escape(unused.on_the_command_line())}", soft_wrap=True)


@dataclass(frozen=True)
class Read(Generic[T]):
    """A command line with settings in it."""

    parsed: T
    default: T
    config: Config
    """The settings, with what the preset adds to them."""
    help_asked: str | None
    """The word that asked for help; then nothing is parsed."""
    given: frozenset[str] = frozenset()
    """The names of the options on the command line, as opposed to those of the preset."""


def read_settings(cls: type[T], arguments: list[str], program: str) -> Read[T]:
    """The arguments of a command whose dataclass has all settings in its field ``settings``."""
    help_asked = next((word for word in arguments if word in ("-h", "--help", "--help-all")), None)
    arguments, loose = in_full([word for word in arguments if word != help_asked], flags_of(cls))
    arguments = [*_environment(arguments, loose, program), *arguments]
    if ":" in peek(arguments, "--env", ""):  # module:id, of the user's own
        look_in_current_folder()
    starting = starting_settings(arguments)
    default = cls(settings=starting)  # type: ignore[call-arg]
    if help_asked is not None:
        return Read(default, default, starting, help_asked)
    parsed = parse(cls, arguments, program, default)
    settings: Config = parsed.settings  # type: ignore[attr-defined]
    merged = merge_environment_arguments(starting.environment.env_args, settings.environment.env_args)
    resolved = {"algo": starting.algo, "preset": starting.preset}  # an alias, a preset file
    given = frozenset(word[2:].removeprefix("no-").replace("-", "_") for word in arguments if is_flag(word))
    return Read(parsed, default, as_meant(override(settings, env_args=merged, **resolved), given), None, given)


def _environment(arguments: list[str], loose: list[str], program: str) -> list[str]:
    """``CartPole-v1`` as ``--env CartPole-v1``."""
    if len(loose) > 1:
        raise UserError(
            f"unexpected arguments: {', '.join(loose[1:])} (the environment is {loose[0]}); see `{program} --help`"
        )
    if loose and "--env" in arguments:
        raise UserError(f"the environment is named twice: {loose[0]} and {peek(arguments, '--env', '')}")
    return ["--env", *loose] if loose else []


def _about_defaults(config: Config, names: list[str] | None) -> str:
    lines = [
        f"Defaults are those of {config.algo} on {config.environment.env}, preset {config.preset}: {in_words(config)}.",
        "Counts may be written 20000, 20k, 2e4 or 1M.",
    ]
    if names is not None:
        lines.append(f"`ebu train --help-all` lists all {len(flags_of(TrainArguments))} options.")
    return "\n".join(textwrap.fill(line, help_width()) for line in lines)


def starting_settings(arguments: list[str]) -> Config:
    """What the preset gives for the method and the environment that are named, by flags or by a preset file."""
    preset = peek(arguments, "--preset", "quick")
    named = read_preset(preset) if is_file_name(preset) else {}
    env = peek(arguments, "--env", "")
    if not env and "env" in named:
        require_named(named["env"], preset)
    config = configure(peek(arguments, "--algo", named.get("algo", "ebu")), env or named.get("env", "maze"), preset)
    check(config)
    return config


def train_and_report(
    folder: RunFolder, agent: Agent, tensorboard: bool, quiet: bool, resume: bool, drop_damaged: bool = False
) -> int:
    """Train to the end of the plan, or to a signal, and print what came of it; returns the exit code."""
    from ebu.training.progress import ProgressLines
    from ebu.training.signals import termination_interrupts

    def announce(text: str) -> None:
        console.print(text, markup=False, soft_wrap=True)

    config = agent.config
    console = Console(stderr=True, highlight=False)
    where = escape(str(folder.path))
    console.print(f"[bold]{config.algo}[/] on [bold]{escape(config.environment.env)}[/] → {where}", soft_wrap=True)
    console.print(f"preset {config.preset}: {in_words(config)}", style="dim", soft_wrap=True)
    if agent.ranks > 1:
        console.print(f"{agent.learners} learners on {agent.ranks} ranks, each on {agent.device.type}", style="dim")
    if tensorboard:
        console.print(f"live curves: tensorboard --logdir {where}", style="dim", soft_wrap=True)
    _tell_memory(agent, console)
    stopped = "interrupted"
    with suppress(KeyboardInterrupt), termination_interrupts():  # before the first step, and after the last
        progress = agent.train_in(
            folder,
            resume=resume,
            drop_damaged=drop_damaged,
            tensorboard=tensorboard,
            progress_bar=not quiet and sys.stderr.isatty(),
            listeners=[] if quiet or sys.stderr.isatty() else [ProgressLines(config.steps, announce)],
            announce=announce,
        )
        if progress.finished:
            _print_summary(folder, agent, progress)
            return 0
        stopped = f"stopped at step {agent.loop.step:,}"
    print(f"{stopped}; continue with: ebu resume {_place(folder, config)}", file=sys.stderr)
    return 130


def _tell_memory(agent: Agent, console: Console) -> None:
    """Print how much RAM the replay memory will need, before it is filled."""
    from ebu.training.footprint import available_bytes, expect

    config, spec = agent.config, agent.interface.spec
    steps = min(config.memory.buffer_size, config.steps)
    expected = expect(steps, spec.shape, spec.dtype, stack=agent.interface.stack, compress=config.memory.compress)
    console.print(expected.words(), style="dim", soft_wrap=True)
    warning = expected.warning(available_bytes())
    if warning is not None:
        console.print(f"[yellow]warning:[/] {warning}", soft_wrap=True)


def _free_folder(config: Config) -> Path:
    stem = f"{config.algo}-{config.environment.env.replace('/', '-').replace(':', '-')}-{config.run.seed}"
    path, number = Path("runs") / stem, 2
    while path.exists():
        path, number = Path("runs") / f"{stem}-{number}", number + 1
    return path


def _print_summary(folder: RunFolder, agent: Agent, progress: Progress) -> None:
    """A few facts, the curve, where things are."""
    from ebu.training.conclusion import greedy_maze
    from ebu.training.summary import sparkline

    summary = json.loads(folder.summary.read_text(encoding="utf-8"))
    console = Console()
    lines = _facts(summary, agent, progress)
    scores = [test["mean_reward"] for test in evaluations(folder.rows())]
    if len(scores) > 1:
        lines.append(("greedy score", f"{sparkline(scores)}  {min(scores):.4g} … {max(scores):.4g}"))
    place = _place(folder, agent.config)
    lines += [("picture", str(folder.curve)), ("next", f"ebu eval {place}"), ("", f"ebu play {place}")]
    width = max(len(name) for name, _ in lines)
    for name, value in lines:  # commands and paths are copied from here: no line is folded
        console.print(f"{name:<{width}}  {value}", highlight=False, markup=False, soft_wrap=True)
    maze = greedy_maze(agent)
    if maze is not None:
        console.print(maze.render_text(maze.values), highlight=False, markup=False)
        console.print(f"as a picture: {folder.path / 'maze.png'}", style="dim", highlight=False, markup=False)
    if "greedy_relative_length" in summary:
        ratio = summary["greedy_relative_length"]
        verdict = "the shortest path" if ratio == 1.0 else "not yet the shortest path"
        console.print(f"greedy path / shortest path = [bold]{ratio:.2f}[/]  ({verdict})", highlight=False)


def _place(folder: RunFolder, config: Config) -> str:
    """The run as a command takes it: with the user's plugins, and trusted where its settings name a module of the user's."""
    from ebu.networks.factories import is_own

    needs_trust = names_module(config.environment.env) or is_own(config.network.network)
    flags = ["--trust-env"] * needs_trust + [f"--plugin {shlex.quote(name)}" for name in inherited_plugins()]
    return " ".join([shlex.quote(str(folder.path)), *flags])


def _facts(summary: dict[str, Any], agent: Agent, progress: Progress) -> list[tuple[str, str]]:
    facts = [("steps", f"{summary['steps']:,}")]
    if progress.steps:
        speed = f"{progress.steps:,} now, in {progress.seconds:.0f} s: {progress.steps / progress.seconds:,.0f} per second"
        facts = [("steps", f"{summary['steps']:,} ({speed})")]
    if (reason := why_no_update(agent.loop)) is not None:
        facts.append(("warning", reason))
    if "final_mean_reward" in summary:
        facts.append(("final score", f"{summary['final_mean_reward']:.4g}  (best {summary['best_mean_reward']:.4g})"))
    memory = agent.loop.memory
    facts.append(("memory", f"{memory.steps:,} steps of {memory.episodes:,} episodes in {memory.nbytes / 1e6:.1f} MB"))
    return facts
