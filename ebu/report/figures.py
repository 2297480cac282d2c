"""What the page's charts show, as plain data: groups of runs → series with intervals. The drawing is in assets/chart.js.

A panel is one section of charts under one legend. Its ``views`` are alternatives to choose from; each chart (one per
environment) has the series of every view.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ebu.envs.atari_games import find_game, paper_scores
from ebu.report import scores
from ebu.report.groups import Group
from ebu.report.naming import NAMES
from ebu.report.rows import Run
from ebu.report.statistics import Statistic, best_so_far, interval, mean, value_at

DQN = NAMES["dqn"]
MAX_POINTS = 120  # of one curve: more than a screen resolves
RESAMPLES = 1_000
PUBLISHED = {
    "adaptive_ebu_10M": "The paper's Figure 4: adaptive EBU against DQN (10M frames)",
    "ebu_0.5_10M": "The paper's EBU, β = 0.5, against its DQN (10M frames)",
}
Points = Sequence[tuple[float, float]]  # (step, value)
Estimate = tuple[float, float | None, float | None]  # value, low, high


@dataclass(frozen=True)
class Series:
    """One line with its band: ``y`` over ``n`` runs at each ``x``."""

    method: str
    x: list[float]
    y: list[float]
    low: list[float | None]
    high: list[float | None]
    n: list[int]
    runs: list[dict[str, Any]] = field(default_factory=list)  # the single runs behind it: name, x, y
    what: str = ""  # said after the method's name where a method has two lines
    faint: bool = False  # drawn thin: dashes tell methods apart and can say nothing else
    steps: bool = False  # a value holds until the next one
    dots: list[tuple[float, float, int]] = field(default_factory=list)  # (x, y, how many runs)


@dataclass(frozen=True)
class Chart:
    title: str
    views: Mapping[str, list[Series]]
    alt: str  # what is to be seen, in words
    marks: list[tuple[float, str]] = field(default_factory=list)  # horizontal lines of this chart alone: height, words


@dataclass(frozen=True)
class Panel:
    """Charts under one legend."""

    id: str
    x: str
    y: str
    views: Mapping[str, str]  # key → the words on the button
    charts: list[Chart]
    marks: list[tuple[float, str]] = field(default_factory=list)  # horizontal lines: height, words
    log: bool = False
    can_log: bool = True
    span: tuple[float, float] | None = None  # of the y axis, where it is fixed
    band: str = "95 % interval"  # what the bands are

    def data(self) -> dict[str, Any]:
        return asdict(self)


# ---------------------------------------------------------------------- from runs to a line


def median_of_runs(samples: Sequence[np.ndarray]) -> np.ndarray:
    return np.asarray(np.median(samples[0], axis=-1))


def series(
    method: str,
    curves: Sequence[tuple[str, Points]],
    statistic: Statistic = mean,
    spread: Spread | None = None,
    **looks: Any,
) -> Series | None:
    """The statistic over runs wherever at least one has come, with its spread wherever two have."""
    known = [(name, points) for name, points in curves if points]
    if not known:
        return None
    at, table = side_by_side([points for _, points in known])
    rng = np.random.default_rng(0)
    found_by = (spread or INTERVAL).of
    places, estimates = [], []
    for place in range(len(at)):
        values = table[:, place][np.isfinite(table[:, place])]
        if values.size:
            places.append((at[place], values.size))
            estimates.append(found_by(values, statistic, rng))
    single = [
        {"name": name, "x": at[np.isfinite(row)].tolist(), "y": short(row[np.isfinite(row)])}
        for (name, _), row in zip(known, table)
    ]
    return Series(
        method,
        x=[float(x) for x, _ in places],
        y=short(y for y, _, _ in estimates),
        low=[None if low is None else short([low])[0] for _, low, _ in estimates],
        high=[None if high is None else short([high])[0] for _, _, high in estimates],
        n=[int(n) for _, n in places],
        runs=single if len(single) > 1 else [],
        **looks,
    )


def estimate(values: Iterable[float], statistic: Statistic, rng: np.random.Generator) -> Estimate:
    """The statistic over runs and its 95 % bootstrap interval, which one run alone does not have."""
    sample = [float(value) for value in values]
    if len(sample) < 2:
        return float(statistic([np.array(sample)])), None, None
    found = interval({"runs": sample}, statistic, rng=rng, resamples=RESAMPLES)
    return found.estimate, found.low, found.high


def deviation(values: Iterable[float], statistic: Statistic, rng: np.random.Generator) -> Estimate:
    """The statistic ± the standard deviation between runs, which the paper's curves show."""
    sample = np.array([float(value) for value in values])
    centre = float(statistic([sample]))
    if sample.size < 2:
        return centre, None, None
    around = float(sample.std(ddof=1))
    return centre, centre - around, centre + around


@dataclass(frozen=True)
class Spread:
    """What the band around a line says, and how it is found."""

    name: str  # on the switch
    words: str  # in the sentence under a heading
    of: Callable[[Iterable[float], Statistic, np.random.Generator], Estimate]


INTERVAL = Spread("95 % interval", "its 95 % bootstrap interval", estimate)
DEVIATION = Spread("± SD", "± one standard deviation between runs", deviation)


def side_by_side(curves: Sequence[Points]) -> tuple[np.ndarray, np.ndarray]:
    """Steps [P] and values [runs, P] of curves that were measured at different steps, NaN where a run says nothing.

    Between its rows a run keeps its latest value; beyond its last row it is not counted, so that a run that is still
    going does not bend the end of a line.
    """
    at = _common_steps(curves)
    return at, np.array([_at(points, at) for points in curves])


def _common_steps(curves: Sequence[Points]) -> np.ndarray:
    steps = np.unique([step for points in curves for step, _ in points])
    if len(steps) > MAX_POINTS:
        steps = steps[np.unique(np.linspace(0, len(steps) - 1, MAX_POINTS).round().astype(int))]
    return steps


def _at(points: Points, at: np.ndarray) -> np.ndarray:
    steps, values = zip(*points)
    return np.where(at <= steps[-1], value_at(steps, values, at), np.nan)


def short(values: Iterable[float]) -> list[float]:
    """Six digits: more than a screen shows, and a third of the bytes."""
    return [float(f"{value:.6g}") for value in values]


# ---------------------------------------------------------------------- the panels


def learning_curves(groups: Sequence[Group], spread: Spread = INTERVAL, paper: bool = False) -> Panel | None:
    """Score over steps: greedy evaluations, the best of them so far, and the training episodes."""

    def best(run: Run) -> Points:
        points = run.points("eval", "mean_reward")
        return list(zip([step for step, _ in points], best_so_far([value for _, value in points]).tolist()))

    views: dict[str, tuple[str, Callable[[Run], Points]]] = {
        "eval": ("evaluation", lambda run: run.points("eval", "mean_reward")),
        "best": ("best so far", best),
        "train": ("training episodes", lambda run: run.points("train", "ep_rew_mean")),
    }
    charts = [_chart(env, members, views, mean, spread, references(env) if paper else []) for env, members in by_env(groups)]
    words = {key: words for key, (words, _) in views.items()}
    return _panel("curves", "agent steps", "score", words, charts, band=spread.name)


def references(env: str) -> list[tuple[float, str]]:
    """What Nature DQN scored after 200M frames, where the environment is one of the paper's games."""
    game = find_game(env.partition(",")[0])
    return [(game.paper["nature_dqn_200M"], "Nature DQN, 200M frames")] if game else []


def relative_lengths(groups: Sequence[Group], spread: Spread = INTERVAL, paper: bool = False) -> Panel | None:
    """Path length over the shortest path, where the environment knows it: 1 is perfect."""
    views: dict[str, tuple[str, Callable[[Run], Points]]] = {
        "eval": ("greedy path", lambda run: run.points("eval", "relative_lengths")),
        "train": ("training episode", lambda run: run.points("train", "relative_length")),
    }
    charts = [_chart(env, members, views, median_of_runs, spread) for env, members in by_env(groups)]
    words = {key: words for key, (words, _) in views.items()}
    marks = [(1.0, "shortest path")]
    return _panel("lengths", "agent steps", "path / shortest", words, charts, marks=marks, log=True, band=spread.name)


def overestimation(groups: Sequence[Group], spread: Spread = INTERVAL, paper: bool = False) -> Panel | None:
    """What the agent predicted (Q of the actions it took) against the discounted return that followed."""

    def difference(run: Run) -> Points:
        came = dict(run.points("eval", "mean_discounted_return"))
        return [(step, q - came[step]) for step, q in run.points("eval", "mean_q") if step in came]

    charts = []
    for env, members in by_env(groups):
        both = []
        for member in members:
            q = [(name(run), run.points("eval", "mean_q")) for run in playing(member)]
            came = [(name(run), run.points("eval", "mean_discounted_return")) for run in playing(member)]
            both += [
                series(member.method, q, spread=spread, what="Q"),
                series(member.method, came, spread=spread, what="return", faint=True),
            ]
        gap = [series(m.method, [(name(run), difference(run)) for run in playing(m)], spread=spread) for m in members]
        found = {"both": [s for s in both if s], "gap": [s for s in gap if s]}
        if found["gap"]:
            charts.append(Chart(env, found, f"{env}, Q minus the return that followed. {in_words(found['gap'], spread)}"))
    words = {"both": "Q and return", "gap": "Q minus return"}
    looks: dict[str, Any] = {"marks": [(0.0, "")], "can_log": False, "band": spread.name}
    return _panel("overestimation", "agent steps", "value", words, charts, **looks)


def diffusion(groups: Sequence[Group], spread: Spread = INTERVAL, paper: bool = False) -> Panel | None:
    """The diffusion factor that adaptive EBU chose at each synchronisation."""
    charts = []
    for env, members in by_env(groups):
        lines: list[Series] = []
        for member in members:
            chosen = [(name(run), choices(run)) for run in playing(member) if run.syncs]
            line = series(member.method, chosen, steps=True, dots=_counts(chosen))
            lines += [line] if line else []
        if lines:
            charts.append(Chart(env, {"beta": lines}, f"{env}, mean β chosen. {in_words(lines)}"))
    return _panel("beta", "agent steps", "β chosen", {"beta": "β"}, charts, can_log=False, span=(0.0, 1.0))


def choices(run: Run) -> list[tuple[float, float]]:
    """(step, β), the step rounded down to the interval: seeds synchronise at the first episode's end after it."""
    every = int(run.settings.get("sync_interval") or 1)
    pairs = [(float(row["step"] - row["step"] % every), row.get("beta")) for row in run.syncs]
    return [(step, float(beta)) for step, beta in pairs if isinstance(beta, int | float)]


def _counts(chosen: Sequence[tuple[str, Points]]) -> list[tuple[float, float, int]]:
    counted = Counter(point for _, points in chosen for point in points)
    return [(step, beta, n) for (step, beta), n in sorted(counted.items())]


def _chart(
    env: str,
    members: Sequence[Group],
    views: Mapping[str, tuple[str, Callable[[Run], Points]]],
    statistic: Statistic,
    spread: Spread,
    marks: Sequence[tuple[float, str]] = (),
) -> Chart | None:
    drawn: dict[str, list[Series]] = {}
    for key, (_, points) in views.items():
        lines = [series(m.method, [(name(run), points(run)) for run in playing(m)], statistic, spread) for m in members]
        if found := [line for line in lines if line]:
            drawn[key] = found
    if not drawn:
        return None
    first = next(iter(drawn))
    spoken = "".join(f" {words}: {height:,.4g}." for height, words in marks)
    return Chart(env, drawn, f"{env}, {views[first][0]}. {in_words(drawn[first], spread)}{spoken}", list(marks))


def _panel(id: str, x: str, y: str, words: Mapping[str, str], charts: Sequence[Chart | None], **looks: Any) -> Panel | None:
    drawn = [chart for chart in charts if chart]
    if not drawn:
        return None
    used = {key: text for key, text in words.items() if any(key in chart.views for chart in drawn)}
    return Panel(id, x, y, used, drawn, **looks)


def by_env(groups: Sequence[Group]) -> list[tuple[str, list[Group]]]:
    envs = dict.fromkeys(member.env for member in groups)
    return [(env, [member for member in groups if member.env == env]) for env in envs]


def playing(member: Group) -> list[Run]:
    """Every run but the failed ones; those still going count as far as they have come."""
    return [run for run in member.runs if run.state != "failed"]


def name(run: Run) -> str:
    maze = next((pair.partition("=")[2] for pair in run.env_args if pair.startswith("maze_seed=")), None)
    return f"seed {run.seed}" if maze is None else f"maze {maze}, seed {run.seed}"


def in_words(lines: Sequence[Series], spread: Spread | None = None) -> str:
    """What a chart shows, for those who do not see it: where each line ends."""
    ends = []
    for line in lines:
        label = " ".join(filter(None, [line.method, line.what]))
        around = "" if line.low[-1] is None else f" ({(spread or INTERVAL).name} {line.low[-1]:.4g} to {line.high[-1]:.4g})"
        ends.append(f"{label} ends at {line.y[-1]:.4g}{around} after {line.x[-1]:,.0f} steps, {line.n[-1]} of its runs there.")
    return " ".join(ends)


# ---------------------------------------------------------------------- games side by side (Figure 4)


def atari_scores(groups: Sequence[Group]) -> dict[str, dict[str, float]]:
    """By method, by game: the mean over seeds of the best evaluation, as the paper reports."""
    found: dict[str, dict[str, float]] = {}
    for member in groups:
        game = find_game(member.env.partition(",")[0])
        best = [max(value for _, value in points) for run in member.counted() if (points := run.points("eval", "mean_reward"))]
        if game is not None and best:
            found.setdefault(member.method, {})[game.name] = float(np.mean(best))
    return found


def game_bars(ours: Mapping[str, Mapping[str, float]], paper: bool) -> dict[str, Any] | None:
    """Relative scores by game, best first. Ours are compared with our own DQN where it has played the same games."""
    published = paper_scores("dqn_10M")
    views: dict[str, dict[str, Any]] = {}
    for method, raw in ours.items():
        own = {game: ours[DQN][game] for game in raw if game in ours.get(DQN, {})}
        if method != DQN and own:
            views[f"{method} against our {DQN}"] = _bars({game: raw[game] for game in own}, own)
        views[f"{method} against the paper's DQN (10M frames)"] = _bars(raw, {game: published[game] for game in raw})
    if paper:
        for column, words in PUBLISHED.items():
            views[words] = _bars(paper_scores(column), published)
    return {"id": "games", "views": views} if views else None


def _bars(agent: Mapping[str, float], baseline: Mapping[str, float]) -> dict[str, Any]:
    gains = scores.relative_scores(agent, baseline)
    won = scores.count_wins(agent, baseline)
    return {
        "rows": [[game, *short([gain, agent[game], baseline[game]])] for game, gain in gains.items()],
        "words": f"Ahead in {won.wins} of {len(gains)} games, behind in {won.losses}"
        + (f", level in {won.ties}." if won.ties else "."),
    }
