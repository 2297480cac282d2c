"""Toy text: FrozenLake and Taxi with tables

Not in the paper, which claims that EBU needs fewer steps than one-step Q-learning and than methods that cut traces.

Every method acts ε-greedily with the same random stream, so before anything is learned all of them walk the same path
and a seed is a pair. Two groups: learning from each step once, and replaying memory with four moves of the table for
each step. Step sizes (and λ of Q(λ)) are chosen for each method and task by the mean score over the run on other seeds.
The score is exact: the expected return of the greedy policy within the environment's 200 steps, from the table of the
environment. "Solved" is 95 % of what the optimal policy scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from ebu.experiments import output, plots
from ebu.experiments.item import Item
from ebu.theory.mdp import MDP, from_gymnasium, greedy_policy, optimal_values, policy_value
from ebu.theory.tabular import (
    BackwardReplay,
    EpisodeLearner,
    EpisodeReplay,
    OnlineWatkins,
    QLearning,
    Simulator,
    StepSize,
    TabularLearner,
    UniformReplay,
    backward,
    constant,
)

GAMMA, EPSILON, HORIZON, SOLVED, MOVES_PER_STEP = 0.99, 0.1, 200, 0.95, 4
EVALUATIONS, CURVE = 200, 50  # scores taken in a run; scores kept in its row

SETTINGS: dict[str, dict[str, Any]] = {
    "quick": {"seeds": 3, "steps": 0.1, "tuning_seeds": 0},
    "laptop": {"seeds": 20, "steps": 1.0, "tuning_seeds": 0},
    "full": {"seeds": 20, "steps": 1.0, "tuning_seeds": 3},
}
SECONDS = {"quick": 45, "laptop": 2_700, "full": 4_200}  # on one core


@dataclass(frozen=True)
class TabularTask:
    env: str  # the newest version of this name that Gymnasium has
    options: dict[str, Any]
    steps: int
    alpha: float  # used where nothing is tuned

    def mdp(self) -> MDP:
        versions = [name for name in gymnasium.registry if name.startswith(f"{self.env}-v")]
        return from_gymnasium(max(versions), **self.options)


TASKS = {
    "FrozenLake 8×8": TabularTask("FrozenLake", {"map_name": "8x8", "is_slippery": False}, 100_000, 1.0),
    "FrozenLake 8×8 slippery": TabularTask("FrozenLake", {"map_name": "8x8", "is_slippery": True}, 200_000, 0.1),
    "Taxi": TabularTask("Taxi", {}, 150_000, 1.0),
}

Common = tuple[int, int, float, StepSize]  # states, actions, γ, α
Build = Callable[[Common, np.random.Generator, float], TabularLearner]


@dataclass(frozen=True)
class TabularMethod:
    build: Build
    replay: bool = False
    lambdas: tuple[float, ...] = (0.0,)  # tried beside the step sizes; 0 where there is none


def _episodes(beta: float) -> Build:
    return lambda common, rng, _: EpisodeLearner(*common, rule=backward(beta))


def _replayed_episodes(beta: float) -> Build:
    return lambda common, rng, _: EpisodeReplay(*common, rule=backward(beta), rng=rng, moves_per_step=MOVES_PER_STEP)


METHODS = {
    "Q-learning": TabularMethod(lambda common, rng, _: QLearning(*common)),
    "Watkins Q(λ)": TabularMethod(lambda common, rng, lam: OnlineWatkins(*common, trace_lambda=lam), lambdas=(0.9, 0.5)),
    "Algorithm 1": TabularMethod(lambda common, rng, _: BackwardReplay(*common)),
    "EBU β=1": TabularMethod(_episodes(1.0)),
    "EBU β=0.5": TabularMethod(_episodes(0.5)),
    "uniform replay": TabularMethod(
        lambda common, rng, _: UniformReplay(*common, rng=rng, moves_per_step=MOVES_PER_STEP), replay=True
    ),
    "EBU β=1, replay": TabularMethod(_replayed_episodes(1.0), replay=True),
    "EBU β=0.5, replay": TabularMethod(_replayed_episodes(0.5), replay=True),
}
ALPHAS = (0.1, 0.3, 1.0)
RIVALS = ("Q-learning", "Watkins Q(λ)", "uniform replay")
NEVER = 10**12  # stands for "not within the budget" where medians are taken; null in the rows
TUNING_SEEDS_FROM = 1_000_000  # far from the seeds that are reported


def run(budget: str, out: Path, seed: int = 0) -> list[dict[str, Any]]:
    settings = ITEM.at(budget)
    rows: list[dict[str, Any]] = []
    for name, task in TASKS.items():
        mdp = task.mdp()
        best = np.round(optimal_values(mdp, GAMMA), 9)  # equal values must tie, or the policy would depend on rounding
        optimum = policy_value(mdp, greedy_policy(best), 1.0, HORIZON)
        steps = int(task.steps * settings["steps"])
        for label, method in METHODS.items():
            alpha, lam = _tuned(mdp, task, method, steps, optimum, settings["tuning_seeds"])
            for i in range(settings["seeds"]):
                row = {"part": "run", "task": name, "method": label, "replay": method.replay, "seed": seed + i}
                rows.append(row | _learn(mdp, method, alpha, lam, steps, optimum, seed + i))
    rows += list(_summaries(rows, np.random.default_rng(seed)))
    _draw(out, rows)
    return output.write(ITEM, out, rows, tables(rows), budget=budget, seed=seed)


def note(budget: str) -> str:
    chosen = SETTINGS[budget]
    words = f"Budget {budget}: {chosen['seeds']} seeds, {100 * chosen['steps']:.0f} % of the steps"
    return words + ", step sizes as given instead of tuned for each method on other seeds."


def _tuned(mdp: MDP, task: TabularTask, method: TabularMethod, steps: int, optimum: float, seeds: int) -> tuple[float, float]:
    """The step size and λ with the best mean score over the run, on seeds that are not reported."""
    if not seeds:
        return task.alpha, method.lambdas[0]

    def score(alpha: float, lam: float) -> float:
        several = range(TUNING_SEEDS_FROM, TUNING_SEEDS_FROM + seeds)
        return float(np.mean([_learn(mdp, method, alpha, lam, steps, optimum, s)["mean_score"] for s in several]))

    return max(((alpha, lam) for alpha in ALPHAS for lam in method.lambdas), key=lambda choice: score(*choice))


def _learn(mdp: MDP, method: TabularMethod, alpha: float, lam: float, steps: int, optimum: float, seed: int) -> dict[str, Any]:
    acting, learning = np.random.default_rng(seed).spawn(2)
    learner = method.build((mdp.states, mdp.actions, GAMMA, constant(alpha)), learning, lam)
    simulator = Simulator(mdp, acting, EPSILON, HORIZON)
    taken, solved, rewarded = 0, None, None
    scores: list[float] = []
    while len(scores) < EVALUATIONS:
        episode = simulator.episode(learner)
        taken += len(episode)
        if rewarded is None and episode.rewards.max() > 0:
            rewarded = taken
        while len(scores) < EVALUATIONS and taken >= (len(scores) + 1) * steps / EVALUATIONS:
            scores.append(policy_value(mdp, greedy_policy(learner.q), 1.0, HORIZON))
            if solved is None and scores[-1] >= SOLVED * optimum:
                solved = len(scores) * steps // EVALUATIONS
    return {
        "alpha": alpha,
        "trace_lambda": lam,
        "steps": steps,
        "first_reward_at": rewarded,
        "solved_at": solved,
        "mean_score": plots.number(np.mean(scores), 4),
        "final_score": plots.number(np.mean(scores[-EVALUATIONS // 10 :]), 4),
        "optimum": plots.number(optimum, 4),
        "curve": [plots.number(v, 3) for v in scores[EVALUATIONS // CURVE - 1 :: EVALUATIONS // CURVE]],
    }


def _summaries(rows: list[dict[str, Any]], rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    """Medians over seeds with 95 % bootstrap intervals; a run that was not solved counts as later than any other."""
    for task in TASKS:
        solved_at = {
            method: np.array([row["solved_at"] or NEVER for row in rows if (row["task"], row["method"]) == (task, method)])
            for method in METHODS
        }
        for label, late in solved_at.items():
            mine = [row for row in rows if (row["part"], row["task"], row["method"]) == ("run", task, label)]
            medians = np.sort(np.median(rng.choice(late, size=(2_000, len(late))), axis=1))
            yield {
                "part": "summary",
                **{key: mine[0][key] for key in ("task", "method", "replay", "alpha", "trace_lambda", "optimum")},
                "seeds": len(mine),
                "solved": int((late < NEVER).sum()),
                "median_steps": _steps(np.median(late)),
                "median_steps_interval": [_steps(medians[50]), _steps(medians[-51])],
                "seeds_faster_than": {rival: int((late < solved_at[rival]).sum()) for rival in RIVALS},
                "seeds_slower_than": {rival: int((late > solved_at[rival]).sum()) for rival in RIVALS},
                "mean_score": plots.number(np.mean([row["mean_score"] for row in mine]), 4),
                "final_score": plots.number(np.mean([row["final_score"] for row in mine]), 4),
            }


def _steps(value: float) -> float | None:
    return float(value) if value < NEVER / 2 else None


def tables(rows: list[dict[str, Any]]) -> list[output.Table]:
    """Median, 95 % interval, seeds faster and slower than Q-learning."""

    def thousands(steps: float | None) -> str:
        return "—" if steps is None else f"{steps / 1000:.1f}k"

    def line(row: dict[str, Any]) -> list[str]:
        low, high = row["median_steps_interval"]
        faster, slower = (row[f"seeds_{which}_than"]["Q-learning"] for which in ("faster", "slower"))
        return [
            row["task"],
            row["method"],
            f"{row['alpha']:g}" + (f", λ {row['trace_lambda']:g}" if row["trace_lambda"] else ""),
            f"{row['solved']}/{row['seeds']}",
            f"{thousands(row['median_steps'])} [{thousands(low)}, {thousands(high)}]",
            "" if row["method"] == "Q-learning" else f"{faster} / {slower}",
            f"{row['final_score']:.2f} of {row['optimum']:.2f}",
        ]

    header = ("task", "method", "α", "solved", "median steps", "faster / slower", "final score")
    return [output.Table("Steps until solved", header, [line(row) for row in rows if row["part"] == "summary"])]


def table(rows: list[dict[str, Any]]) -> str:
    """The same for the documentation."""
    return tables(rows)[0].markdown()


COLOURS = {
    "Q-learning": plots.INK,
    "Watkins Q(λ)": plots.VERMILION,
    "Algorithm 1": plots.GREEN,
    "EBU β=1": plots.BLUE,
    "EBU β=0.5": plots.SKY,
    "uniform replay": plots.INK,
    "EBU β=1, replay": plots.BLUE,
    "EBU β=0.5, replay": plots.SKY,
}


def _draw(out: Path, rows: list[dict[str, Any]]) -> None:
    """Learning without replay above, with replay below; the mean of the seeds and its 95 % interval."""
    figure, axes = plots.canvas(len(TASKS), rows=2, width=13.0, height=7.0)
    for i, ax in enumerate(axes):
        replay, task = bool(i // len(TASKS)), list(TASKS)[i % len(TASKS)]
        several = [m for m, method in METHODS.items() if method.replay == replay]
        for method in several:
            mine = [row for row in rows if (row["part"], row["task"], row["method"]) == ("run", task, method)]
            curves = np.array([row["curve"] for row in mine])  # [seeds, CURVE]
            at = mine[0]["steps"] / curves.shape[1] * np.arange(1, curves.shape[1] + 1) / 1000
            mean, error = curves.mean(0), 1.96 * curves.std(0) / np.sqrt(len(curves))
            ax.fill_between(at, mean - error, mean + error, color=COLOURS[method], alpha=0.15, lw=0)
            ax.plot(at, mean, color=COLOURS[method], lw=1.9, label=method)
        ax.axhline(mine[0]["optimum"], color=plots.GREY, lw=0.9)
        ax.set_ylim(*((-300, 30) if task == "Taxi" else (-0.03, 1.05)))
        plots.title(ax, f"{task}, {f'{MOVES_PER_STEP} replayed moves a step' if replay else 'each step once'}")
        if i % len(TASKS) == 0:
            ax.set_ylabel("greedy policy: chance to reach the goal")
            plots.legend(ax, loc="lower right")
        if task == "Taxi":
            ax.set_ylabel("greedy policy: expected return")
        if replay:
            ax.set_xlabel("thousand environment steps")
    plots.save(figure, out, ITEM.name)


ALT = "Learning curves of tabular methods on three tasks, without replay above, with replay below; the table has the numbers."
ITEM = Item.of(__name__, __doc__, ALT, SETTINGS, run=run, seconds=SECONDS, note=note, tables=tables)
