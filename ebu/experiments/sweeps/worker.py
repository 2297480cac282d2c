"""A trial in a process of its own: from its folder, whatever is in it, to a finished run or a reason why not.

The local engine starts one such worker for each core. A worker imports what trials need and then forks for each of them,
so that a trial has a process to itself and does not wait for PyTorch to come up. Orders come on standard input, a JSON
object a line; answers go to standard output: the process that runs the trial, the outcome, and how the process ended.
The end of the input asks the trial to stop. So it also stops, with a checkpoint, when the engine itself is gone.
"""

from __future__ import annotations

import _thread
import faulthandler
import importlib
import json
import os
import signal
import sys
import threading
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ebu.agent import Agent, create_run
from ebu.config import Config, from_json
from ebu.errors import RunFailure, UserError
from ebu.experiments.sweeps.pruning import pruner_of
from ebu.experiments.sweeps.store import Mirror, Store
from ebu.experiments.sweeps.sweep import Outcome
from ebu.plugins import inherited_plugins, load_plugins
from ebu.storage.files import Damaged, make_folders, open_append
from ebu.storage.lock import Held, RunLock
from ebu.storage.run_folder import RunFolder
from ebu.training.conclusion import conclude
from ebu.training.events import Listener

NEEDED_LATER = ("matplotlib.backends.backend_agg", "matplotlib.figure")  # imported where they are used, by every trial


def carry_out(path: Path, config: Config, store: Store | None = None) -> Outcome:
    """Begin or continue the trial in this folder. A finished one stays as it is; a failure is an answer, not an exception."""
    try:
        if store is not None and not (path / "config.json").exists():
            make_folders(path)
            with RunLock(path):
                store.pull(path)
        folder = _provide(path, config)
        with RunLock(path), folder.failures_recorded():
            if not folder.is_finished:
                folder.restore_config(lambda text: print(text, flush=True), known=config)
                _train(folder, config, store)
            if not folder.is_finished:
                return Outcome("stopped")
            folder.drop_checkpoints()
            if store is not None:
                store.push(path)
            return Outcome("finished")
    except Held as error:
        return Outcome("busy", str(error))
    except KeyboardInterrupt:
        return Outcome("stopped")
    except Exception as error:
        text = " ".join(str(error).split())
        known = isinstance(error, UserError | RunFailure)
        return Outcome("failed", text if known and text else f"{type(error).__name__}: {text}")


def _provide(path: Path, config: Config) -> RunFolder:
    """The trial's folder, made here unless it is there; another sweep may make it at this very moment."""
    if not (path / "config.json").exists():
        try:
            return create_run(path, config)
        except UserError:
            if not (path / "config.json").exists():
                raise
    return RunFolder.open(path)


def _train(folder: RunFolder, config: Config, store: Store | None) -> None:
    with ExitStack() as stack:
        listeners: list[Listener] = []
        if store is not None:
            mirror = Mirror(store, folder.path)
            listeners.append(mirror)
            stack.callback(mirror.close)
        agent, pruner = Agent.from_config(config), pruner_of(folder.path)
        if pruner is not None:
            listeners.append(pruner)
        agent.train_in(folder, resume=True, tensorboard=False, listeners=listeners)
        if pruner is not None and pruner.has_pruned:  # it ends here, as a run that is shorter than planned
            conclude(folder, agent)


def interrupt() -> None:
    """Ask the trial in the main thread to stop at a checkpoint, as Ctrl-C would."""
    _thread.interrupt_main(signal.SIGINT)


def main() -> int:
    # Signals for the whole group, such as Ctrl-C, are the engine's: it tells each trial once, and only once.
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    signal.signal(signal.SIGINT, signal.default_int_handler)
    answers = os.dup(1)
    os.dup2(2, 1)  # whatever an environment prints is no answer
    for module in NEEDED_LATER:
        importlib.import_module(module)
    load_plugins(inherited_plugins())
    while line := sys.stdin.readline():
        order = json.loads(line)
        if sys.platform in ("win32", "darwin"):  # where a fork is not safe or not there, the next worker does the next trial
            _obey(order, answers)
            _answer(answers, {"exit": 0})
            return 0
        child = os.fork()
        if child == 0:
            with suppress(KeyboardInterrupt):  # asked to stop before it had begun
                _obey(order, answers)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        _answer(answers, {"exit": os.waitstatus_to_exitcode(status)})
    return 0


def _obey(order: dict[str, str], answers: int) -> None:
    path = Path(order["path"])
    try:
        written = open_append(path / "log.txt")
    except Damaged as error:  # a link, say: nothing is written to where it leads
        return _answer(answers, {"outcome": asdict(Outcome("failed", str(error)))})
    log = written.fileno()
    os.dup2(log, 1)
    os.dup2(log, 2)
    faulthandler.enable()
    _answer(answers, {"pid": os.getpid()})

    def wait_for_the_end() -> None:
        while os.read(0, 4096):
            pass
        interrupt()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    store = Store(order["store"]) if order["store"] else None
    outcome = carry_out(path, from_json(order["config"]), store)
    if os.fstat(log).st_size == 0:
        (path / "log.txt").unlink(missing_ok=True)
    _answer(answers, {"outcome": asdict(outcome)})


def _answer(answers: int, values: dict[str, Any]) -> None:
    with suppress(OSError):  # the engine may be gone
        os.write(answers, json.dumps(values).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main())
