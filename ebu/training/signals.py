"""What SIGINT and SIGTERM do while a run lasts."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def termination_interrupts() -> Iterator[None]:
    """SIGTERM raises KeyboardInterrupt, as SIGINT does: for the work around a run, where nothing has to be saved."""
    with handling({signal.SIGTERM: signal.default_int_handler}):
        yield


@contextmanager
def stop_on_signals(ask_to_stop: Callable[[], None]) -> Iterator[None]:
    """The first SIGINT or SIGTERM asks; the second ends the process at once. What is saved stays saved.

    torchrun passes on a signal that may have reached the process already, and ends by itself one that does not stop.
    """
    asked = False

    def handle(number: int, _: Any) -> None:
        nonlocal asked
        if asked and "TORCHELASTIC_RUN_ID" not in os.environ:
            os._exit(128 + number)
        asked = True
        ask_to_stop()

    with handling({signal.SIGINT: handle, signal.SIGTERM: handle}):
        yield


@contextmanager
def stop_on_first_interrupt(ask_to_stop: Callable[[], None]) -> Iterator[None]:
    """The first SIGINT asks to stop between two steps; the second raises KeyboardInterrupt at once."""

    def handle(number: int, frame: Any) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        ask_to_stop()

    with handling({signal.SIGINT: handle}):
        yield


@contextmanager
def handling(handlers: dict[signal.Signals, Any]) -> Iterator[None]:
    """These signal handlers, and afterwards the ones before."""
    try:
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    except ValueError:  # not in the main thread, where signals cannot be caught
        before = {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
