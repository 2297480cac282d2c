"""A user's own module: a family of environments and two items, as the documentation tells to write them."""

from __future__ import annotations

import gymnasium
import numpy as np

from ebu.envs.families import register_family
from ebu.envs.family import Cost, Family
from ebu.experiments import output, plots
from ebu.experiments.item import Item
from ebu.experiments.sweeps.trials import trial
from ebu.report.rows import read_run

MADE: list[tuple[str, bool]] = []  # name and training, of every environment made


class Corridor(gymnasium.Env):
    """Walk right to the end of a corridor; a step left is lost time."""

    def __init__(self, length=4, cap=20):
        self.observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self.length, self.cap = length, cap

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.steps = 0, 0
        return self._look(), {}

    def step(self, action):
        self.place = max(0, self.place + (1 if action else -1))
        self.steps += 1
        over = self.place == self.length
        return self._look(), float(over), over, self.steps == self.cap and not over, {}

    def _look(self):
        return np.array([self.place / self.length], np.float32)


def make(name, training, **arguments):
    MADE.append((name, training))
    arguments.pop("render_mode", None)
    return Corridor(**{"cap": 20 if training else 10, **arguments})


SMALL = {"hidden_sizes": (8,), "learning_starts": 20, "eval_every": 100, "eval_episodes": 1, "log_every": 100}
CORRIDOR = Family(
    "corridor",
    recognises=lambda name: name.rpartition(":")[2].startswith("Corridor"),
    make=make,
    presets={"quick": {**SMALL, "steps": 200}, "tiny": {**SMALL, "steps": 120, "gamma": 0.5}},
    costs={"tiny": Cost(act=1.0, update=0.0, evaluate=0.0, episode=10)},
    examples={"Corridor-4": "a corridor, for tests"},
)
register_family(CORRIDOR)

ENVIRONMENT = f"{__name__}:Corridor-4"


# ---------------------------------------------------------------------- an item that is computed


def _write(item, out, rows, budget, seed, **others):
    figure, (ax,) = plots.canvas(1, width=4.0, height=3.0)
    ax.plot([row["value"] for row in rows])
    plots.save(figure, out, item.name)
    table = output.Table("Values", ("seed", "value"), [[str(row["seed"]), output.cell(row["value"])] for row in rows])
    output.write(item, out, rows, [table], budget=budget, seed=seed, **others)
    return rows


def run(budget, out, seed=0):
    rows = [{"seed": seed + i, "value": 2.0 * i} for i in range(COMPUTED.at(budget))]
    return _write(COMPUTED, out, rows, budget, seed)


COMPUTED = Item(
    name="doubles",
    title="Doubles: even numbers in a row",
    claim="Not in the paper.",
    alt="A straight line.",
    settings={"quick": 3, "laptop": 30, "full": 300},
    run=run,
    seconds={"quick": 1, "laptop": 1, "full": 2},
    note=lambda budget: "" if budget == "full" else f"Budget {budget}: fewer numbers.",
    address=f"{__name__}:COMPUTED",
)


# ---------------------------------------------------------------------- an item that is trained


def trials(budget, seed=0):
    return [trial("ebu", ENVIRONMENT, seed, "EBU", preset="tiny", steps=TRAINED.at(budget))]


def analyse(budget, trials, folders, out):
    rows = [{"seed": one.seed, "value": float(read_run(folder).step)} for one, folder in zip(trials, folders)]
    return _write(TRAINED, out, rows, budget, trials[0].seed, runs=folders)


TRAINED = Item(
    name="corridors",
    title="Corridors: EBU finds the end",
    claim="Not in the paper.",
    alt="A dot.",
    settings={"quick": 120, "laptop": 1_000, "full": 10_000},
    trials=trials,
    analyse=analyse,
    address=f"{__name__}:TRAINED",
)
