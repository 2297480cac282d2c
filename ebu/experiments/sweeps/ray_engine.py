"""Trials on a Ray cluster: an existing one by its address, or one started here, which no other machine can reach.

Where a node sees the sweep's folder under the same path (one machine, or a shared file system), a trial runs in it, and
after a loss another worker continues from its last checkpoint. Elsewhere it runs in the node's own scratch folder
and its files are returned through Ray; a store, where one is given, then transfers its checkpoints from node to node.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import socket
import tempfile
import threading
import time
import uuid
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ebu.config import from_json, to_json
from ebu.errors import UserError
from ebu.experiments.sweeps.local_engine import cores
from ebu.experiments.sweeps.store import Store, address_of, copy_order
from ebu.experiments.sweeps.sweep import REFRESH_SECONDS, Job, Outcome, State, Sweep, look
from ebu.plugins import inherited_plugins, load_plugins
from ebu.storage.files import inside, make_folders, read_file, regular_files, write_atomically
from ebu.storage.lock import NAME as LOCK
from ebu.version import __version__

KNOCK_SECONDS = 10.0
TELL_SECONDS = 1.0  # between reports of a trial
BUSY_SECONDS = 1.0  # before a trial whose last holder is not quite gone is tried again
RAY_WITH_TOKENS = (2, 59)  # the first version whose local clusters ask for a token by default
OBJECT_STORE_BYTES = 256 << 20  # of a cluster started here, where almost nothing travels

Files = dict[str, bytes]  # by their path in the run folder


@dataclass(frozen=True)
class RayEngine:
    address: str = ""
    """Address of the cluster, as Ray writes it ("auto", "host:6379", "ray://host:10001"); without one, starts one here."""
    workers: int = 0
    """Trials in parallel; 0: as many as the cluster has room for."""
    cpus: float = 1.0
    """CPUs for each trial."""
    gpus: float = 0.0
    """GPUs for each trial; with a fraction, several trials share one."""
    retries: int = 20
    """How often a trial whose worker or node was lost is restarted."""
    store: str = ""

    def run(self, sweep: Sweep) -> None:
        try:
            import ray
        except ImportError as error:
            raise UserError("--engine ray needs an extra: pip install 'episodic-backward-update[ray]'") from error
        ours = not ray.is_initialized()
        if ours:
            self._connect(ray)
        try:
            with sweep.listening(), _token(sweep.out) as token, sweep.shown():
                _Conductor(ray, self, sweep, token).work()
        finally:
            if ours:
                ray.shutdown()

    def _connect(self, ray: Any) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        address = self.address or os.environ.get("RAY_ADDRESS", "")
        try:
            if address:
                _knock(address)
                ray.init(address=address, **quiet)
            else:
                room = {"num_cpus": self.workers or cores(), "object_store_memory": OBJECT_STORE_BYTES}
                _require_tokens(ray)
                with _loopback(ray):
                    ray.init(address="local", include_dashboard=False, **room, **quiet)
        except OSError as error:
            words = f"no Ray cluster answers at {address or 'this machine'}"
            raise UserError(f"{words}; start one with `ray start --head`, or leave out --address") from error
        except (RuntimeError, ValueError) as error:
            raise UserError(f"Ray at {address or 'this machine'} cannot be used: {error}") from error


def _require_tokens(ray: Any) -> None:
    """Refuse a version of Ray without authentication: anyone who reaches a cluster can run code on it."""
    if tuple(int(part) for part in ray.__version__.split(".")[:2]) < RAY_WITH_TOKENS:
        needed = ".".join(map(str, RAY_WITH_TOKENS))
        raise UserError(f"Ray {ray.__version__} starts clusters without authentication; install Ray {needed} or newer")
    known = any(os.environ.get(name) for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"))
    if not known and not (Path.home() / ".ray" / "auth_token").exists():
        # Ray would write one to that file, readable by others. Ray keeps it in memory, so it stays as long as the process.
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)


@contextmanager
def _loopback(ray: Any) -> Iterator[None]:
    """A cluster started meanwhile listens on the loopback address only.

    ``_node_ip_address="127.0.0.1"`` would not do: Ray replaces it by the machine's address, unless clusters of several
    machines are switched off, as they are on Windows and macOS.
    """
    constants = ray._private.ray_constants
    before = constants.ENABLE_RAY_CLUSTER
    constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before


def _knock(address: str) -> None:
    """An OSError where nothing listens; Ray would retry for minutes and then end the process."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host, int(port)), timeout=KNOCK_SECONDS).close()


@contextmanager
def _token(out: Path) -> Iterator[Path]:
    """A file by which a node knows that it sees this folder, and not another one of the same name."""
    token = out / f".sweep-{uuid.uuid4().hex}"
    token.touch()
    try:
        yield token
    finally:
        token.unlink(missing_ok=True)


# ---------------------------------------------------------------------- on the machine of the sweep


class Board:
    """An actor: the progress that trials report, and whether they are to stop."""

    def __init__(self) -> None:
        self._standings: dict[str, tuple[int, float | None]] = {}
        self._stop = False

    def tell(self, name: str, step: int, score: float | None) -> bool:
        """Called by a trial at intervals; true asks it to stop."""
        self._standings[name] = (step, score)
        return self._stop

    def read(self) -> dict[str, tuple[int, float | None]]:
        return self._standings

    def stop(self) -> None:
        self._stop = True

    def files(self, path: str) -> Files:
        """What the machine of the sweep has of a trial, for a node that takes it up."""
        return read_files(Path(path))


class _Conductor:
    """Submits the trials, tracks them, collects their results."""

    def __init__(self, ray: Any, engine: RayEngine, sweep: Sweep, token: Path) -> None:
        self._ray = ray
        self._engine = engine
        self._sweep = sweep
        self._token = token
        self._waiting = deque(sweep.waiting())
        self._tasks: dict[Any, Job] = {}
        self._carry_out = ray.remote(num_cpus=engine.cpus, num_gpus=engine.gpus, max_retries=engine.retries)(carry_out_on_node)
        board = ray.remote(num_cpus=0)(Board)
        if not engine.address.startswith("ray://"):  # beside this process: lost only with it
            here = ray.get_runtime_context().get_node_id()
            strategy = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(here, soft=False)
            board = board.options(scheduling_strategy=strategy)
        self._board = board.remote()

    def work(self) -> None:
        stops = 0
        while self._tasks or (self._waiting and not self._sweep.stops):
            while self._waiting and not self._sweep.stops and self._has_room():
                job = self._waiting.popleft()
                self._tasks[self._carry_out.remote(self._order(job), self._board)] = job
            if self._sweep.stops > stops:
                stops = self._sweep.stops
                self._stop(at_once=stops > 1)
            done, _ = self._ray.wait(list(self._tasks), timeout=REFRESH_SECONDS)
            self._look()
            for task in done:
                self._collect(self._tasks.pop(task), task)
            self._sweep.refresh()

    def _has_room(self) -> bool:
        return not self._engine.workers or len(self._tasks) < self._engine.workers

    def _order(self, job: Job) -> Order:
        return Order(
            name=job.trial.id,
            path=str(job.path),
            token=str(self._token),
            config=to_json(job.trial.config()),
            version=__version__,
            store=address_of(self._engine.store, job.trial.id),
            plugins=tuple(inherited_plugins()),
        )

    def _look(self) -> None:
        standings = self._ray.get(self._board.read.remote())
        for job in self._tasks.values():
            if job.trial.id in standings:
                if job.state == "waiting":
                    job.begin()
                job.step, job.score = standings[job.trial.id]

    def _collect(self, job: Job, task: Any) -> None:
        if not job.started:
            job.begin()
        errors = self._ray.exceptions
        try:
            outcome, files = self._ray.get(task)
        except errors.TaskCancelledError:
            return job.end("stopped")
        except errors.RayTaskError as error:
            return job.end("failed", f"{type(error.cause).__name__}: {' '.join(str(error.cause).split())}")
        except errors.RayError as error:
            if self._sweep.stops:
                return job.end("stopped")
            return job.end("failed", f"its worker was lost {self._engine.retries + 1} times ({type(error).__name__})")
        write_files(job.path, files)
        if self._engine.store and not job.is_complete:
            Store(address_of(self._engine.store, job.trial.id)).pull(job.path)
        job.step, job.score = look(job.path)
        ended: dict[str, State] = {"finished": "finished", "failed": "failed"}
        job.end(ended.get(outcome.state, "stopped"), outcome.reason)

    def _stop(self, at_once: bool) -> None:
        self._board.stop.remote()
        for task, job in self._tasks.items():
            if at_once or job.state == "waiting":
                self._ray.cancel(task, force=at_once)


# ---------------------------------------------------------------------- on a node


@dataclass(frozen=True)
class Order:
    """What a node needs to know of a trial."""

    name: str
    path: str
    token: str
    config: str
    version: str
    store: str
    plugins: tuple[str, ...] = ()  # modules that are installed on the node, or are in a folder on its path


def carry_out_on_node(order: Order, board: Any) -> tuple[Outcome, Files]:
    """The task of one trial. Its files are returned where they are not already where they belong."""
    import ray

    from ebu.experiments.sweeps.worker import carry_out

    if order.version != __version__:
        return Outcome("failed", f"a node has ebu {__version__}, the sweep {order.version}; install the same on both"), {}
    try:
        load_plugins(order.plugins)
    except UserError as error:
        return Outcome("failed", f"on a node of the cluster: {error}"), {}
    shared = Path(order.token).exists()
    path = Path(order.path) if shared else _scratch(order.name)
    store = Store(order.store) if order.store else None
    if not shared and store is None and not (path / "config.json").exists():
        write_files(path, ray.get(board.files.remote(order.path)))
    with _telling(ray, board, order.name, path) as asked_to_stop:
        outcome = carry_out(path, from_json(order.config), store)
        while outcome.state == "busy" and not asked_to_stop.is_set():
            time.sleep(BUSY_SECONDS)  # the lost process has not ended yet, or another sweep holds the trial
            outcome = carry_out(path, from_json(order.config), store)
    if shared:
        return outcome, {}
    files = read_files(path) if store is None else {}
    shutil.rmtree(path, ignore_errors=True)
    return outcome, files


@contextmanager
def _telling(ray: Any, board: Any, name: str, path: Path) -> Iterator[threading.Event]:
    """Meanwhile, a thread reports the trial's progress to the board, and interrupts the trial when it is to stop."""
    from ebu.experiments.sweeps.worker import interrupt

    over, asked_to_stop = threading.Event(), threading.Event()

    def tell() -> None:
        answer = None
        while not over.wait(TELL_SECONDS if answer is not None else 0.0):
            try:
                # Never wait for the answer: Ray would take a waiting task for an idle one.
                if answer is not None and ray.wait([answer], timeout=0)[0] and ray.get(answer) and not asked_to_stop.is_set():
                    asked_to_stop.set()
                    interrupt()
                answer = board.tell.remote(name, *look(path))
            except ray.exceptions.RayError:
                answer = None
                over.wait(TELL_SECONDS)  # the sweep is gone; Ray is about to end this process

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield asked_to_stop
    except KeyboardInterrupt:  # asked to stop while it had no trial in hand
        asked_to_stop.set()
    finally:
        over.set()
        teller.join()


def _scratch(name: str) -> Path:
    """A folder of this user on this node; the same for the same trial, so that the next worker continues in it."""
    root = Path(tempfile.gettempdir()) / f"ebu-trials-{os.getuid() if hasattr(os, 'getuid') else 'user'}"
    root.mkdir(mode=0o700, exist_ok=True)
    if hasattr(os, "getuid") and (root.is_symlink() or root.stat().st_uid != os.getuid()):
        raise UserError(f"{root} is owned by another user; set TMPDIR on this node to a folder of your own")
    return root / name


def read_files(path: Path) -> Files:
    return {file.relative_to(path).as_posix(): read_file(file, None) for file in regular_files(path) if file.name != LOCK}


def write_files(path: Path, files: Files) -> None:
    """Each file whole or not at all; the summary last, since it says that everything is there."""
    for name in sorted(files, key=copy_order):
        target = inside(path, name)
        make_folders(target.parent)
        write_atomically(target, files[name])
