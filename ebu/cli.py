"""The command line: parse, call, print."""

from __future__ import annotations

import difflib
import importlib
import io
import os
import sys
from collections.abc import Callable

from ebu.errors import RunFailure, UserError
from ebu.plugins import inherited_plugins, load_plugins, take_plugins

MISUSE, FAILURE = 2, 1


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit code. Errors are one line, with a traceback only under --debug."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in arguments
    arguments = [a for a in arguments if a != "--debug"]
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    # Threads that wait by spinning steal the core from the one they wait for as soon as the machine is shared.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    for stream in (sys.stdout, sys.stderr):  # a character that the terminal cannot show must not end a run
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        arguments, plugins = take_plugins(arguments)
        load_plugins([*inherited_plugins(), *plugins])
        return _dispatch(arguments)
    except (UserError, RunFailure) as error:
        if debug:
            raise
        print(f"ebu: {error}", file=sys.stderr)
        return MISUSE if isinstance(error, UserError) else FAILURE
    except KeyboardInterrupt:
        print("ebu: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader has closed the pipe (`ebu list | head`): there is nothing left to write to
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # otherwise the interpreter complains on exit
        return FAILURE
    except MemoryError:
        if debug:
            raise
        print("ebu: out of memory; use a smaller --batch-size, --hidden-sizes or --buffer-size", file=sys.stderr)
        return FAILURE
    except Exception as error:  # anything unexpected, such as a defect or a broken environment: still one line
        if debug:
            raise
        text = " ".join(str(error).split()) or type(error).__name__
        print(f"ebu: {type(error).__name__}: {text} (run again with --debug for the traceback)", file=sys.stderr)
        return FAILURE


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_usage())
        return 0
    if arguments[0] in ("--version", "version"):
        from ebu.version import __version__

        print(__version__)
        return 0
    name, rest = arguments[0], arguments[1:]
    if name not in COMMANDS:
        close = difflib.get_close_matches(name, COMMANDS, n=1)
        meant = f"did you mean {close[0]}?" if close else f"choose from {', '.join(COMMANDS)}"
        raise UserError(f"there is no command {name!r}; {meant}")
    return COMMANDS[name][1](rest)


def _usage() -> str:
    lines = ["usage: ebu COMMAND [options]", "", "Sample-efficient value learning with Episodic Backward Update.", ""]
    lines += [f"  {name:<9} {summary}" for name, (summary, _) in COMMANDS.items()]
    lines += ["", "`ebu COMMAND --help` explains a command. Without options, `ebu train` trains on the embedded MNIST maze."]
    lines += ["--plugin MODULE imports a module with methods of your own; --debug shows the traceback of an error."]
    return "\n".join(lines)


# Each command imports what it needs when it is called: `ebu --help` does not wait for PyTorch.


def _command(module: str, function: str) -> Callable[[list[str]], int]:
    def run(arguments: list[str]) -> int:
        return int(getattr(importlib.import_module(f"ebu.commands.{module}"), function)(arguments))

    return run


COMMANDS: dict[str, tuple[str, Callable[[list[str]], int]]] = {
    "train": ("train an agent", _command("train", "train")),
    "resume": ("continue an interrupted run exactly", _command("resume", "resume")),
    "rescue": ("save the policy of a run whose checkpoints are damaged", _command("resume", "rescue")),
    "verify": ("check a run folder, and that resuming is exact", _command("resume", "verify")),
    "eval": ("score a trained run", _command("watch", "evaluate_run")),
    "play": ("watch a trained run, or record it", _command("watch", "play_run")),
    "report": ("write a page about one or more runs", _command("reports", "report")),
    "reproduce": ("regenerate an item of the paper: rows and a picture", _command("reports", "reproduce")),
    "explain": ("write a page that plays an episode backward", _command("reports", "explain")),
    "theory": ("compute the largest safe diffusion factor of a finite MDP", _command("theory", "theory")),
    "tune": ("search for better settings, as a preset file", _command("tune", "tune")),
    "share": ("export a trained run as a folder with a model card", _command("share", "share_run")),
    "presets": ("show presets, as files that can be edited and shared", _command("presets", "presets")),
    "list": ("list algorithms, environments, presets and items", _command("listing", "listing")),
}


if __name__ == "__main__":
    sys.exit(main())
