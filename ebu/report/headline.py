"""The table at the top of a report: per environment and method, what came out, with intervals and failures."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

import numpy as np

from ebu.report.figures import RESAMPLES, Estimate, by_env, estimate, median_of_runs
from ebu.report.groups import COLOURS, DASHES, Group, methods_in_order
from ebu.report.html import table
from ebu.report.naming import NAMES
from ebu.report.rows import Run
from ebu.report.statistics import Statistic, mean, probability_of_improvement

CAPTION = (
    "Means over runs with 95 % bootstrap intervals over runs; rough for fewer than five. Final: the last evaluation. "
    "Best: each run's best evaluation, as the paper reports. Scores are of finished runs, where there are any."
)
FEW_ENVIRONMENTS = 4
BASELINE = NAMES["dqn"]
BEATS = f" Beats {BASELINE}: the probability that a run ends above a run of {BASELINE}; ties count half."


def headline(groups: Sequence[Group], looks: dict[str, int]) -> str:
    """Runs, final and best score with intervals, path length in mazes, how many runs are not finished or failed."""
    lengths = any(run.points("eval", "relative_lengths") for member in groups for run in member.runs)
    chances = {(member.env, member.method): chance for member in groups if (chance := beats_baseline(member, groups))}
    extra = ["Path / shortest"] * lengths + [f"Beats {BASELINE}"] * bool(chances)
    columns = ["Method", "Runs", "Final score", "", "Best score", *extra, "Not finished", "Failed"]
    bodies = []
    for env, members in by_env(groups):
        finals = {member.method: over_runs(member, "mean_reward", last, mean) for member in members}
        known = [value for found in finals.values() if found for value in found if value is not None]
        span = (min(known), max(known)) if known else (0.0, 1.0)
        rows = []
        for member in members:
            cells = _scores(member, finals[member.method], span, looks[member.method])
            if lengths:
                cells.append(_cell("Path / shortest (median)", over_runs(member, "relative_lengths", last, median_of_runs)))
            if chances:
                cells.append(_cell(f"Beats {BASELINE}", chances.get((env, member.method)), " %"))
            rows.append(_row(member, looks[member.method], [*cells, *_states(member)]))
        title = f'<tr><th class="env" colspan="{len(columns)}" scope="rowgroup">{escape(env)}</th></tr>'
        bodies.append(f"<tbody>{title}{''.join(rows)}</tbody>")
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in columns)
    caption = f"<caption>{CAPTION}{BEATS * bool(chances)}</caption>"
    full = f'<table class="headline">{caption}<thead><tr>{head}</tr></thead>{"".join(bodies)}</table>'
    if len(bodies) <= FEW_ENVIRONMENTS:
        return f'<div class="scroll">{full}</div>{meanings(groups)}'
    details = f'<details><summary>With intervals and the state of the runs</summary><div class="scroll">{full}</div></details>'
    return overview(groups) + meanings(groups) + details


def overview(groups: Sequence[Group]) -> str:
    """Where there are many environments: the final scores of all methods at a glance, the best of each in bold.

    A mean over another number of runs than most says so, and one run alone is not the best where others were repeated.
    """
    methods = methods_in_order(groups)
    counts = {(member.env, member.method): len(one_of_each(member, "mean_reward", last)) for member in groups}
    usual = max(sorted(set(counts.values()) - {0}, reverse=True), key=list(counts.values()).count, default=0)
    rows = []
    for env, members in by_env(groups):
        found = {member.method: over_runs(member, "mean_reward", last, mean) for member in members}
        scores = {method: estimate[0] for method, estimate in found.items() if estimate}
        repeated = [score for method, score in scores.items() if counts[env, method] > 1]
        best = max(repeated or scores.values(), default=0.0)
        digits = decimals(list(scores.values()))
        shown = {}
        for method, score in scores.items():
            runs = counts[env, method]
            words = f"{score:,.{digits}f}" + f" (n={runs})" * (runs != usual)
            shown[method] = f"**{words}**" if score == best and (runs > 1 or not repeated) else words
        rows.append([env, *(shown.get(method, "–") for method in methods)])
    over = "one run each" if usual == 1 else f"mean over {usual} runs"
    others = " (n: the number of runs where it is another)" if set(counts.values()) - {0, usual} else ""
    alone = "; a single run is not compared with repeated ones" if usual > 1 and 1 in counts.values() else ""
    words = (
        f"Final score, {over}{others}; the highest of each row in bold, whether or not the difference is significant{alone}."
    )
    return table(["environment", *methods], rows, words)


def meanings(groups: Sequence[Group]) -> str:
    """What the letters in the names of methods stand for."""
    found = dict(sorted({member.letter: member.meaning for member in groups if member.letter}.items()))
    words = "".join(
        f"<b>{escape(letter[0].upper() + letter[1:])}</b>: {escape(meaning)}. " for letter, meaning in found.items()
    )
    return f'<p class="small soft">{words}These are in place of the values of the preset.</p>' if found else ""


def one_of_each(member: Group, column: str, pick: Callable[[list[float]], float]) -> list[float]:
    """One number of each run's evaluations, of the runs that have any."""
    curves = [[value for _, value in run.points("eval", column)] for run in member.counted()]
    return [pick(values) for values in curves if values]


def over_runs(member: Group, column: str, pick: Callable[[list[float]], float], statistic: Statistic) -> Estimate | None:
    """One number of each run's evaluations, and the statistic of those over runs with its interval."""
    found = one_of_each(member, column, pick)
    return estimate(found, statistic, np.random.default_rng(0)) if found else None


def beats_baseline(member: Group, groups: Sequence[Group]) -> Estimate | None:
    """The probability, in percent, that a run ends above one of the baseline's; estimated from at least two runs of each."""
    rival = next((other for other in groups if other.env == member.env and other.method == BASELINE), None)
    if rival is None or member.method == BASELINE:
        return None
    ours, theirs = ([p[-1][1] for run in g.counted() if (p := run.points("eval", "mean_reward"))] for g in (member, rival))
    if min(len(ours), len(theirs)) < 2:
        return None
    rng = np.random.default_rng(0)
    found = probability_of_improvement({"final": ours}, {"final": theirs}, rng=rng, resamples=RESAMPLES)
    return 100 * found.estimate, 100 * found.low, 100 * found.high


def last(values: list[float]) -> float:
    return values[-1]


def number(value: float) -> str:
    """Four digits, thousands apart."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def decimals(values: Sequence[float]) -> int:
    """As many for each number of a line: three digits of the largest, fewer where none needs them."""
    largest = max(map(abs, values), default=0.0)
    places = max(2 - math.floor(math.log10(largest)), 0) if largest > 0 else 0
    return next(fewer for fewer in range(places + 1) if all(round(v, fewer) == round(v, places) for v in values))


Cell = tuple[str, str, str]  # name, HTML, class


def _cell(name: str, found: Estimate | None, unit: str = "") -> Cell:
    return name, _with_interval(found, unit), "score" if found else "none"


def _scores(member: Group, final: Estimate | None, span: tuple[float, float], slot: int) -> list[Cell]:
    unfinished = all(run.state != "finished" for run in member.runs) and final is not None
    so_far = ' <span class="badge going">so far</span>' * unfinished
    return [
        ("Runs", str(len(member.runs)), ""),
        ("Final score", _with_interval(final) + so_far, "score"),
        ("", _glyph(final, span, slot), "plotted"),
        ("Best score", _with_interval(over_runs(member, "mean_reward", max, mean)), "score"),
    ]


def _states(member: Group) -> list[Cell]:
    going = [run for run in member.runs if run.state == "unfinished"]
    failed = sum(run.state == "failed" for run in member.runs)
    return [
        ("Not finished", _badge("going", _progress(going)), "" if going else "none"),
        ("Failed", _badge("failed", str(failed) if failed else ""), "" if failed else "none"),
    ]


def _row(member: Group, slot: int, cells: Sequence[Cell]) -> str:
    inner = "".join(f'<td data-name="{escape(name)}" class="{kind}">{body}</td>' for name, body, kind in cells)
    return f'<tr><th class="method" scope="row">{_swatch(slot)}{escape(member.method)}</th>{inner}</tr>'


def _with_interval(found: Estimate | None, unit: str = "") -> str:
    if found is None:
        return "–"
    value, low, high = found
    around = f' <span class="around">[{number(low)}, {number(high)}]</span>' if low is not None and high is not None else ""
    return f"<b>{number(value)}{unit}</b>{around}"


def _glyph(found: Estimate | None, span: tuple[float, float], slot: int) -> str:
    """The interval as a bar with a dot, on the scale of its environment; the numbers beside it say the same."""
    if found is None:
        return ""
    width = span[1] - span[0]

    def line(start: float, end: float, looks: str) -> str:
        x1, x2 = (6 + 108 * ((x - span[0]) / width if width else 0.5) for x in (start, end))
        return f'<line x1="{x1:.1f}" x2="{x2:.1f}" y1="8" y2="8" vector-effect="non-scaling-stroke" {looks}/>'

    value, low, high = found
    colour = f'stroke="var(--c{slot % COLOURS})" stroke-linecap="round"'
    bar = line(low, high, f'{colour} stroke-width="5" opacity=".4"') if low is not None and high is not None else ""
    dot = line(value, value, f'{colour} stroke-width="9"')  # a line without length: its round ends make a dot at any width
    axis = '<line x1="0" x2="120" y1="8" y2="8" stroke="var(--line)" vector-effect="non-scaling-stroke"/>'
    return f'<svg class="glyph" viewBox="0 0 120 16" preserveAspectRatio="none" aria-hidden="true">{axis}{bar}{dot}</svg>'


def _swatch(slot: int) -> str:
    looks = f'stroke="var(--c{slot % COLOURS})" stroke-width="3" stroke-dasharray="{DASHES[slot // COLOURS % len(DASHES)]}"'
    return f'<svg class="swatch" viewBox="0 0 26 10" aria-hidden="true"><line x1="1" x2="25" y1="5" y2="5" {looks}/></svg>'


def _badge(kind: str, words: str) -> str:
    return f'<span class="badge {kind}">{escape(words)}</span>' if words else '<span class="soft">0</span>'


def _progress(runs: Sequence[Run]) -> str:
    if not runs:
        return ""
    share = sum(run.step for run in runs) / max(sum(run.planned_steps for run in runs), 1)
    return f"{len(runs)} at {100 * share:.0f} %"
