"""One run from its folder to its summary: what ``ebu train``, ``ebu resume`` and the engines of experiments share."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from io import BytesIO
from typing import Protocol

import numpy as np
from PIL import Image

from ebu.api import Agent
from ebu.envs.mnist_maze import MNISTMaze
from ebu.storage.files import write_atomically
from ebu.storage.run_folder import RunFolder
from ebu.training.events import Event
from ebu.training.summary import draw_curve, summarise
from ebu.training.trainer import Announce, Listener, Session


class Watcher(Protocol):
    """Sees every event, and every step that has been taken; a progress bar is one."""

    def __call__(self, event: Event) -> object: ...

    def advance(self, done: int) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Carried:
    """How far a run was carried."""

    finished: bool
    steps: int  # taken now
    seconds: float


def carry_on(
    folder: RunFolder,
    agent: Agent,
    resume: bool,
    tensorboard: bool,
    announce: Announce,
    make_watcher: Callable[[int], Watcher] | None = None,
) -> Carried:
    """Train to the end of the plan, or to a signal. The policy is saved either way; a finished run has a summary.

    ``make_watcher`` is given the step at which the run begins. The caller holds the folder's lock.
    """
    with ExitStack() as stack:
        stack.enter_context(agent.threads())
        session = Session(folder, agent.loop, agent.config.steps, announce)
        if resume:
            session.resume()
        if session.is_finished:
            announce("the run is finished; nothing is left to do")
        start, start_step = time.perf_counter(), agent.loop.step
        listeners: list[Listener] = []
        on_step: Callable[[int], None] = lambda step: None  # noqa: E731
        if make_watcher is not None:
            watcher = make_watcher(start_step)
            stack.callback(watcher.close)
            listeners, on_step = [watcher], watcher.advance
        finished = session.run(listeners, on_step, tensorboard)
        seconds = time.perf_counter() - start
    with folder.failures_told():
        agent.save(folder.policy)
        if finished:
            conclude(folder, agent)
    return Carried(finished, agent.loop.step - start_step, seconds)


def conclude(folder: RunFolder, agent: Agent) -> None:
    """Pictures and the summary of a finished run; the summary comes last, since it says that everything is on the disk."""
    draw_curve(folder, folder.curve)
    if isinstance(agent.env.unwrapped, MNISTMaze):
        maze = greedy_maze(agent)
        drawn = BytesIO()
        Image.fromarray(maze.render_picture(maze.values)).save(drawn, format="PNG")
        write_atomically(folder.maze, drawn.getvalue())
    folder.write_summary(summarise(folder))


def greedy_maze(agent: Agent, seed: int = 0) -> MNISTMaze:
    """The agent's maze after one greedy episode, with the learned values of every cell where it sees one frame at a time."""
    maze = agent.make_env().unwrapped
    assert isinstance(maze, MNISTMaze)
    if agent.stack == 1:
        rng = np.random.default_rng(seed) if maze.redraw_digits else None
        cells = maze.all_positions()
        maze.values = dict(zip(cells, agent.q_values([maze.state_observation(cell, rng) for cell in cells])))
    observation, _ = maze.reset(seed=seed)
    frames, over = None, False
    while not over:
        action, frames = agent.predict(observation, frames)
        observation, _, terminated, truncated, _ = maze.step(action)
        over = terminated or truncated
    return maze
