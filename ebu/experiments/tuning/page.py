"""The page of a study: what came out, its history, which settings mattered, and the curves of the best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from ebu.experiments.sweeps.pruning import import_optuna
from ebu.experiments.tuning.study import Work, best_trial, over_trials
from ebu.report import html
from ebu.report.page import Section, build_page
from ebu.storage.files import write_atomically

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#8A8A8A"
BEST_CURVES = 5


def write_page(work: Work, confirmed: Mapping[str, Sequence[float]], made_by: str) -> Path:
    trials = over_trials(work.study)
    folders = work.confirmed_folders(max(map(len, confirmed.values()), default=0)) or _best_folders(work, trials)
    subject = f"{work.plan.config.algo} on {work.plan.config.environment.env}"
    sections = [
        Section("best", "Best settings", _best(work, confirmed)),
        Section("history", "History", _history(work, trials)),
        Section("importances", "What mattered", _importances(work)),
        Section("trials", "All trials", _trials(work, trials)),
    ]
    note = "" if confirmed else "Scores below are those of the trials themselves: the best of many is partly luck."
    return build_page(folders, work.out / "tuning.html", f"Tuning {subject}", note=note, before=sections, made_by=made_by)


def _best_folders(work: Work, trials: Sequence[Any]) -> list[Path]:
    complete = sorted((one for one in trials if one.value is not None), key=lambda one: -one.value)
    paths = [work.out / "trials" / one.user_attrs["folder"] for one in complete if "folder" in one.user_attrs]
    return [path for path in dict.fromkeys(paths) if path.exists()][:BEST_CURVES]  # others may lie on another machine


def _best(work: Work, confirmed: Mapping[str, Sequence[float]]) -> str:
    best, default = best_trial(work.study), work.plan.default
    if best is None:
        return "<p>No trial is complete yet.</p>"
    rows = [[name, short(value), short(default.get(name))] for name, value in best.params.items()]
    parts = [html.table(["setting", f"trial {best.number}", "start"], rows)]
    if confirmed:
        rows = [
            [name, str(len(values)), f"{_mean(values):.4g}", ", ".join(f"{v:.4g}" for v in values)]
            for name, values in confirmed.items()
        ]
        parts.append(html.table(["", "seeds", "mean score", "each"], rows, "On seeds that no trial of the study used"))
    return "".join(parts) + html.command(f"ebu train --preset {work.best_file}")


def _history(work: Work, trials: Sequence[Any]) -> str:
    def draw(axes: Any) -> None:
        complete = [(one.number, one.value) for one in trials if one.state.name == "COMPLETE"]
        pruned = [(one.number, one.value) for one in trials if one.state.name == "PRUNED" and one.value is not None]
        if pruned:
            axes.plot(*zip(*pruned), "x", color=GREY, ms=5, label="pruned, at its last evaluation")
        if complete:
            axes.plot(*zip(*complete), "o", color=BLUE, ms=5, label="complete")
            best, line = float("-inf"), []
            for number, value in sorted(complete):
                best = max(best, value)
                line.append((number, best))
            axes.step(*zip(*line), color=ORANGE, lw=1.5, where="post", label="best so far")
            axes.legend(frameon=False)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set(xlabel="trial", ylabel="score")

    counts = {name: sum(one.state.name == name for one in trials) for name in ("COMPLETE", "PRUNED", "FAIL")}
    words = ", ".join(f"{count} {name.lower()}" for name, count in counts.items() if count)
    return _figure(work.out / "history.png", draw, f"Score of each trial and the best so far: {words}", words)


def _importances(work: Work) -> str:
    found = importances(work.study)
    if not found:
        return "<p>More completed trials are needed to estimate this.</p>"

    def draw(axes: Any) -> None:
        names = list(found)[::-1]
        axes.barh(names, [found[name] for name in names], color=BLUE)
        axes.set(xlabel="importance")

    words = "How well each setting separates good trials from the others (PED-ANOVA), as a share of the total."
    return _figure(work.out / "importances.png", draw, "Importance of each setting: " + _listed(found), words)


def importances(study: Any) -> dict[str, float]:
    """Shares by setting, the largest first; nothing where there are too few trials."""
    optuna = import_optuna()
    try:
        evaluator = optuna.importance.PedAnovaImportanceEvaluator()
        found = optuna.importance.get_param_importances(study, evaluator=evaluator)
    except (ValueError, RuntimeError):
        return {}
    return {name: float(share) for name, share in found.items()}


def _trials(work: Work, trials: Sequence[Any]) -> str:
    names = list(work.plan.space)
    rows = [
        [
            str(one.number),
            one.state.name.lower(),
            "–" if one.value is None else f"{one.value:.4g}",
            *(short(one.params.get(name)) for name in names),
        ]
        for one in trials
    ]
    listed = html.table(["trial", "state", "score", *names], rows)
    return f"<details><summary>{len(trials)} trials, with their settings</summary>{listed}</details>"


def _figure(path: Path, draw: Any, alt: str, caption: str) -> str:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.4), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    draw(axes)
    drawn = BytesIO()
    figure.savefig(drawn, format="png")
    write_atomically(path, drawn.getvalue())
    return html.picture(path, alt, caption)


def _listed(shares: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {100 * share:.0f} %" for name, share in shares.items())


def short(value: Any) -> str:
    return "–" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
