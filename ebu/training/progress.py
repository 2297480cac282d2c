"""A progress bar with what one wants to know while waiting: score, ε, loss, steps per second, time left."""

from __future__ import annotations

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

from ebu.training.events import EpisodeEnded, Evaluated, Event, Trained

REFRESH_STEPS = 100


class _Speed(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:,.0f} steps/s" if speed else "… steps/s", style="cyan")


class ProgressBar:
    """Listens to events; ``advance`` is called at every step and is cheap."""

    def __init__(self, total: int, title: str, console: Console | None = None, start: int = 0) -> None:
        self._progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=8),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[facts]}"),
            _Speed(),
            TimeRemainingColumn(compact=True),
            console=console,
            refresh_per_second=4,
        )
        self._facts: dict[str, str] = {}
        self._task = self._progress.add_task(title, total=total, completed=start, facts="")
        self._progress.start()

    def __call__(self, event: Event) -> None:
        if isinstance(event, EpisodeEnded):
            return
        if isinstance(event, Trained):
            metrics = event.metrics
            if "ep_rew_mean" in metrics:
                self._facts["score"] = f"{metrics['ep_rew_mean']:.4g}"
            self._facts["ε"] = f"{metrics['epsilon']:.2f}"
            if "loss" in metrics:
                self._facts["loss"] = f"{metrics['loss']:.2g}"
        elif isinstance(event, Evaluated):
            self._facts["greedy"] = f"{event.evaluation.mean:.4g}"
        text = " ".join(f"[dim]{name}[/dim] {value}" for name, value in self._facts.items())
        self._progress.update(self._task, facts=text)

    def advance(self, done: int) -> None:
        if done % REFRESH_STEPS == 0:
            self._progress.update(self._task, completed=done)

    def close(self) -> None:
        self._progress.stop()
