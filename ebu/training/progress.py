"""Progress of a run: steps, speed, score, time left; as a bar, or in lines where there is no terminal."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from ebu.training.events import Evaluated, Event, Trained

REFRESH_STEPS = 100


class _Facts:
    """The latest scores, from events."""

    def __init__(self) -> None:
        self.training: float | None = None  # mean of the last episodes
        self.greedy: float | None = None  # the last evaluation

    def __call__(self, event: Event) -> None:
        if isinstance(event, Trained) and "ep_rew_mean" in event.metrics:
            self.training = event.metrics["ep_rew_mean"]
        elif isinstance(event, Evaluated):
            self.greedy = event.evaluation.mean

    def words(self) -> list[str]:
        named = {"score": self.training, "greedy": self.greedy}
        return [f"{name} {value:.4g}" for name, value in named.items() if value is not None]


class _Speed(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:,.0f} steps/s" if speed else "… steps/s", style="cyan")


class ProgressBar:
    """Listens to events; ``advance`` is called at every step and is cheap."""

    def __init__(self, total: int, title: str, console: Console | None = None, start: int = 0) -> None:
        self._progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=None),
            TextColumn(f"{{task.completed:,.0f}}/{total:,}"),
            _Speed(),
            TextColumn("{task.fields[facts]}"),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
            console=console,
            refresh_per_second=4,
            expand=True,
        )
        self._facts = _Facts()
        self._task = self._progress.add_task(title, total=total, completed=start, facts="")
        self._progress.start()

    def __call__(self, event: Event) -> None:
        self._facts(event)
        self._progress.update(self._task, facts=" ".join(self._facts.words()))

    def advance(self, done: int) -> None:
        if done % REFRESH_STEPS == 0:
            self._progress.update(self._task, completed=done)

    def close(self) -> None:
        self._progress.stop()


class ProgressLines:
    """The same in a line every ``interval`` seconds, for logs; nothing for what ends sooner."""

    def __init__(
        self, total: int, write: Callable[[str], None], interval: float = 30.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._total = total
        self._write = write
        self._interval = interval
        self._clock = clock
        self._facts = _Facts()
        self._since: tuple[float, int] | None = None  # of the last line: time and step

    def __call__(self, event: Event) -> None:
        self._facts(event)

    def advance(self, done: int) -> None:
        """A step of the run."""
        since = self._due(done)
        if since is not None:
            seconds, steps = since
            speed = max(steps, 1) / seconds
            left = duration((self._total - done) / speed)
            self._say(done, f"{speed:,.0f} per second", *self._facts.words(), f"about {left} left")

    def evaluating(self, done: int) -> None:
        """A step of an evaluation, which is none of the run."""
        if self._due(done) is not None:
            self._say(done, *self._facts.words(), "evaluating")

    def _due(self, done: int) -> tuple[float, int] | None:
        """Seconds and steps since the last line, if it is time for another."""
        now = self._clock()
        then, before = self._since = self._since or (now, done)
        if now - then < self._interval:
            return None
        self._since = now, done
        return now - then, done - before

    def _say(self, done: int, *words: str) -> None:
        self._write(", ".join([f"{done:,} of {self._total:,} steps ({done / self._total:.0%})", *words]))


def duration(seconds: float) -> str:
    """For people: 40 s, 12 min, 3 h 10 min, 28 h, 2 d 5 h, 40 d."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 600:
        return f"{minutes // 60} h {minutes % 60} min" if minutes % 60 else f"{minutes // 60} h"
    hours = round(seconds / 3600)
    if hours < 48:
        return f"{hours} h"
    return f"{hours // 24} d {hours % 24} h" if hours < 240 else f"{round(hours / 24):,} d"
