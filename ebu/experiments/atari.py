"""The Atari experiments of section 5: methods as the paper calls them, trials by budget, curves and their pictures.

All methods share the preset: network, optimiser, memory, exploration, updates, tests. Only sampler, target rule and the
number of learners differ. A run of 20M frames is the run of 10M frames continued: ε falls over the same million steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from ebu.envs.atari_games import GAMES, Game, find_game
from ebu.errors import UserError
from ebu.experiments import output, plots
from ebu.experiments.item import Item
from ebu.experiments.sweeps.trials import Trial, trial
from ebu.report.figures import DEVIATION, Points, choices, side_by_side
from ebu.report.rows import Run, read_run

FRAMES_PER_STEP = 4
EPOCH = 62_500  # steps between tests in the paper, 0.25M frames
STEPS_10M, STEPS_20M = 40 * EPOCH, 80 * EPOCH

EBU_HALF, EBU_ONE, ADAPTIVE = "EBU (β=0.5)", "EBU (β=1)", "EBU (adaptive β)"
DQN, PER, RETRACE, TIGHTENING = "Nature DQN", "PER", "Retrace(λ)", "OT"
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    EBU_HALF: ("ebu", {"beta": 0.5}),
    EBU_ONE: ("ebu", {"beta": 1.0}),
    ADAPTIVE: ("adaptive-ebu", {}),
    DQN: ("dqn", {}),
    PER: ("per", {}),
    RETRACE: ("retrace", {}),
    TIGHTENING: ("optimality-tightening", {}),
}
# The column of the paper's Table 3 that has a method's score after 10M frames; β = 1 is drawn there and not printed.
PUBLISHED = {
    EBU_HALF: "ebu_0.5_10M",
    ADAPTIVE: "adaptive_ebu_10M",
    DQN: "dqn_10M",
    PER: "per_10M",
    RETRACE: "retrace_10M",
    TIGHTENING: "ot_10M",
}
LOOK = {
    ADAPTIVE: (plots.BLUE, "-"),
    EBU_HALF: (plots.SKY, "-"),
    EBU_ONE: (plots.VERMILION, "-"),
    DQN: (plots.INK, "--"),
}

# What every item shares in a budget; games, seeds and methods are its own.
FULL_10M: dict[str, Any] = {"preset": "paper"}
FULL_20M: dict[str, Any] = {"preset": "paper", "steps": STEPS_20M, "exploration_fraction": 0.2}
LAPTOP: dict[str, Any] = {"preset": "quick", "steps": 250_000, "eval_every": 12_500}
QUICK: dict[str, Any] = {
    "preset": "quick",
    "steps": 4_000,
    "buffer_size": 10_000,
    "learning_starts": 500,
    "target_update_interval": 500,
    "sync_interval": 1_000,
    "eval_every": 1_000,
    "eval_episodes": 1,
    "log_every": 500,
}
QUICK_BETAS = (0.0, 0.5, 1.0)  # adaptive EBU with three learners in place of eleven


def trials_of(games: Iterable[str], methods: Iterable[str], seeds: int, seed: int, scale: dict[str, Any]) -> list[Trial]:
    """Every method on every game with the same seeds and the same settings."""
    found = []
    for name in games:
        for label in methods:
            algo, own = METHODS[label]
            if scale is QUICK and algo == "adaptive-ebu":
                own = own | {"betas": QUICK_BETAS}
            found += [trial(algo, game(name).ale_id, s, label, **own, **scale) for s in range(seed, seed + seeds)]
    return found


def game(name: str) -> Game:
    found = find_game(name)
    if found is None:
        raise UserError(f"{name!r} is not one of the paper's 49 games")
    return found


ALL_GAMES = tuple(one.name for one in GAMES)


def grouped(trials: Sequence[Trial], folders: Sequence[Path]) -> dict[tuple[str, str], list[tuple[Trial, Run]]]:
    """The finished runs by game and method, in the order of the trials."""
    found: dict[tuple[str, str], list[tuple[Trial, Run]]] = {}
    for one, folder in zip(trials, folders):
        run = read_run(folder)
        if run.state == "finished":
            found.setdefault((game(one.env).name, one.label), []).append((one, run))
    return found


def best_until(run: Run, step: float) -> float | None:
    """The best test so far at a step: what the paper reports."""
    return max((value for at, value in run.points("eval", "mean_reward") if at <= step), default=None)


COLUMNS: dict[str, Callable[[Run], Points]] = {
    "score": lambda run: run.points("eval", "mean_reward"),
    "q": lambda run: run.points("eval", "mean_q"),
    "return": lambda run: run.points("eval", "mean_discounted_return"),
    "beta": choices,
}


def curve_row(name: str, method: str, runs: Sequence[Run]) -> dict[str, Any]:
    """Mean and standard deviation over seeds of test scores, Q, returns, and of β where it is chosen."""
    row: dict[str, Any] = {"part": "curve", "game": name, "method": method, "seeds": len(runs)}
    for column, points in COLUMNS.items():
        curves = [found for run in runs if (found := points(run))]
        if curves:
            at, table = side_by_side(curves)
            row[f"{column}_steps"] = at.astype(int).tolist()
            row[f"{column}_mean"] = [plots.number(value, 5) for value in np.nanmean(table, axis=0)]
            row[f"{column}_sd"] = _deviations(table)
    return row


def _deviations(table: np.ndarray) -> list[float | None]:
    """Between seeds, None where there are not two."""
    counts = np.isfinite(table).sum(axis=0)
    return [plots.number(np.nanstd(table[:, i], ddof=1), 5) if n > 1 else None for i, n in enumerate(counts)]


def last_values(run: Run) -> dict[str, float | None]:
    """The last value of each of COLUMNS, None where there is none."""
    return {column: points(run)[-1][1] if points(run) else None for column, points in COLUMNS.items()}


def run_row(one: Trial, run: Run) -> dict[str, Any]:
    ends = last_values(run)
    return {
        "part": "run",
        "trial": one.id,
        "game": game(one.env).name,
        "method": one.label,
        "seed": one.seed,
        "steps": run.step,
        "best_at_10M_frames": best_until(run, STEPS_10M) if run.step >= STEPS_10M else None,
        "best_score": best_until(run, run.step),
        "final_score": ends["score"],
        "final_q": ends["q"],
        "final_return": ends["return"],
        "final_beta": ends["beta"],
    }


def average(rows: Iterable[dict[str, Any]], name: str) -> float | None:
    known = [row[name] for row in rows if row[name] is not None]
    return float(np.mean(known)) if known else None


def curves_item(
    module: str,
    text: str | None,
    alt: str,
    settings: Mapping[str, dict[str, Any]],
    *,
    methods: Sequence[str],
    draw: Callable[[Path, Sequence[dict[str, Any]], Sequence[str]], None],
    table: Callable[[Sequence[dict[str, Any]], Sequence[str]], output.Table],
) -> Item:
    """An item of curves over 20M frames, every method on the games of a budget; its words are found as in ``Item.of``."""
    settings = {budget: chosen | {"full_steps": STEPS_20M} for budget, chosen in settings.items()}

    def trials(budget: str, seed: int = 0) -> list[Trial]:
        chosen = item.at(budget)
        return trials_of(chosen["games"], methods, chosen["seeds"], seed, chosen["scale"])

    def analyse(budget: str, trials: Sequence[Trial], folders: Sequence[Path], out: Path) -> list[dict[str, Any]]:
        games = item.at(budget)["games"]
        found = grouped(trials, folders)
        rows = [curve_row(name, method, [run for _, run in pairs]) for (name, method), pairs in found.items()]
        rows += [run_row(one, run) for pairs in found.values() for one, run in pairs]
        draw(out, rows, games)
        as_in_the_paper = {"paper": True, "spread": DEVIATION}
        return output.write_trained(item, out, rows, [table(rows, games)], budget, trials, folders, **as_in_the_paper)

    def note(budget: str) -> str:
        return reduced(budget, settings[budget], methods)

    item = Item.of(module, text, alt, settings, trials=trials, analyse=analyse, note=note)
    return item


# ---------------------------------------------------------------------- words


def frames(steps: float) -> str:
    """Frames behind this many steps: 2,500,000 → 10M."""
    count = steps * FRAMES_PER_STEP
    return f"{count / 1e6:g}M" if count >= 1e5 else f"{count / 1e3:g}k"


def reduced(budget: str, settings: dict[str, Any], methods: Sequence[str]) -> str:
    """What a budget left out, in words for the top of a page."""
    scale = settings["scale"]
    games, seeds = settings["games"], settings["seeds"]
    several = f"{len(games)} game{'s' * (len(games) > 1)} ({', '.join(games)}), {seeds} seed{'s' * (seeds > 1)}"
    words = f"Budget {budget}: {several}, {frames(scale['steps'])} frames instead of {frames(settings['full_steps'])}"
    if budget == "quick":
        betas = ", ".join(f"{beta:g}" for beta in QUICK_BETAS)
        fewer = f", adaptive EBU with β = {betas} only" if ADAPTIVE in methods else ""
        return (
            f"{words}, learning from step {scale['learning_starts']:,}, {scale['eval_episodes']} test episode every "
            f"{scale['eval_every']:,} steps{fewer}. The same for all "
            "methods. This shows that everything runs; no method has learned to play yet."
        )
    return words + (
        "; memory, exploration, target copies and synchronisation shortened with it, Adam as optimiser (the quick preset), "
        "5 test episodes instead of 30. The same for all methods. Too short to confirm or refute the paper's numbers."
    )


# ---------------------------------------------------------------------- pictures


def unit(steps: float) -> tuple[float, str]:
    """Frames for an axis: what to multiply steps by, and what that is called."""
    return (4e-6, "million frames") if steps * FRAMES_PER_STEP >= 2e5 else (4e-3, "thousand frames")


def draw_curves(ax: Axes, rows: Sequence[dict[str, Any]], column: str, **looks: Any) -> None:
    """One line for each method with a band of ± one standard deviation."""
    last = max((row[f"{column}_steps"][-1] for row in rows if row.get(f"{column}_steps")), default=1)
    factor, name = unit(last)
    for row in rows:
        if not row.get(f"{column}_steps"):
            continue
        colour, line = LOOK[row["method"]]
        x, y = np.array(row[f"{column}_steps"]) * factor, np.array(row[f"{column}_mean"], dtype=float)
        sd = np.array(row[f"{column}_sd"], dtype=float)
        ax.fill_between(x, y - sd, y + sd, color=colour, alpha=0.15, lw=0)
        ax.plot(x, y, **{"color": colour, "ls": line, "lw": 1.9, "label": row["method"], **looks})
    ax.set_xlim(0, last * factor)
    ax.set_xlabel(name)


def draw_nature(ax: Axes, name: str, small: bool = False) -> None:
    """Nature DQN's score after 200M frames: a line, or its number at the edge where the curves are far below."""
    score = game(name).paper["nature_dqn_200M"]
    low, high = ax.get_ylim()
    size = 6.5 if small else 8.5
    words = "Nature DQN, 200M frames" if not small else "Nature 200M"
    if low - 3 * (high - low) < score < high + 3 * (high - low):
        ax.axhline(score, color=plots.GREY, lw=1.1, ls=":")
        ax.annotate(words, (0.98, score), (0, 2), xycoords=("axes fraction", "data"), textcoords="offset points",
                    ha="right", va="bottom", fontsize=size, color=plots.GREY)  # fmt: skip
        ax.margins(y=0.08)
    else:
        far = f"{'↑' if score > high else '↓'} {words}: {score:,g}"
        height, side = (0.98, "top") if small else (1.01, "bottom")  # above the frame where the title leaves room
        ax.text(0.99, height, far, transform=ax.transAxes, ha="right", va=side, fontsize=size, color=plots.GREY)


def draw_beta(ax: Axes, rows: Sequence[dict[str, Any]], scale: tuple[float, str] | None = None) -> None:
    """The mean β that adaptive EBU chose at each synchronisation; ``scale`` (frames without one) turns steps into the axis."""
    mine = [row for row in rows if row.get("beta_steps")]
    for row in mine:
        last = max(*row["beta_steps"], *row.get("score_steps", [0]))
        factor, name = unit(last) if scale is None else scale
        x, y = np.array(row["beta_steps"]) * factor, np.array(row["beta_mean"], dtype=float)
        sd = np.array(row["beta_sd"], dtype=float)
        ax.fill_between(x, np.clip(y - sd, 0, 1), np.clip(y + sd, 0, 1), color=plots.BLUE, alpha=0.15, lw=0, step="post")
        ax.step(x, y, where="post", color=plots.BLUE, lw=1.6, marker="o", ms=3)
        ax.set_xlabel(name)
        ax.set_xlim(0, last * factor)
    if not mine:
        ax.text(0.5, 0.5, "no synchronisation yet", transform=ax.transAxes, ha="center", color=plots.GREY, fontsize=9)
    ax.set_ylim(-0.05, 1.05)
    ax.set_yticks([0, 0.5, 1])
