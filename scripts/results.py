"""Writes docs/results.md, the README's table and its picture from the rows under results/.

``--check`` changes nothing and exits 1 when one of the three does not say what the rows say.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, PngImagePlugin

from ebu.envs.atari_games import find_game, paper_scores
from ebu.experiments import atari, plots
from ebu.experiments import own_scores as scores
from ebu.experiments.item import Item
from ebu.experiments.items import figure4, find_item, item_names, table1, table2
from ebu.presets import configure
from ebu.report.rows import Run, find_runs, read_run
from ebu.report.scores import count_wins, paper_table_2

ROOT = Path(__file__).parent.parent
README, PAGE = ROOT / "README.md", ROOT / "docs/results.md"
PICTURE, MAZE = ROOT / "docs/pictures/results.png", ROOT / "docs/pictures/maze.png"
BEGIN, END = "<!-- results:begin -->", "<!-- results:end -->"

COLOURS = {"ebu": plots.BLUE, "dqn": plots.VERMILION, "adaptive-ebu": plots.GREEN, "n-step": plots.ORANGE, "per": plots.PINK}

Row = dict[str, Any]


# ---------------------------------------------------------------------- what there is


def rows(name: str) -> list[Row]:
    """The rows of a file under results/, none if it is not there."""
    path = ROOT / "results" / name
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def folder_of(item: str) -> Path | None:
    """Where an item's rows are committed."""
    places = (ROOT / "results" / item, ROOT / "results/theory" / item)
    return next((place for place in places if (place / "rows.jsonl").is_file()), None)


def item_rows(item: str) -> list[Row]:
    folder = folder_of(item)
    return rows(str((folder / "rows.jsonl").relative_to(ROOT / "results"))) if folder else []


def atari_runs() -> list[Run]:
    folder = ROOT / "results/atari"
    return [read_run(path) for path in find_runs([folder])] if folder.is_dir() and any(folder.rglob("config.json")) else []


def preset_of(run: Run) -> str:
    return str(run.settings.get("preset"))


def by_algo(found: Iterable[Row]) -> dict[str, list[Row]]:
    grouped: dict[str, list[Row]] = {}
    for row in found:
        grouped.setdefault(row["algo"], []).append(row)
    return grouped


def several(count: int, noun: str) -> str:
    return f"{count} {noun}" + "s" * (count != 1)


# ---------------------------------------------------------------------- the README's table


def readme_lines() -> list[list[str]]:
    """What, how to get it, what came out; only what there are rows for."""
    lines = []
    if mazes := rows("maze-quick.jsonl"):
        solved = sum(row["final"] == 1.0 for row in mazes)
        lines.append([
            f"MNIST maze, {len(mazes)} mazes, 10,000 steps", "`ebu train`",
            f"EBU's greedy path is a shortest path in {solved} of {len(mazes)}",
        ])  # fmt: skip
    lines += atari_lines()
    if cartpole := by_algo(rows("cartpole.jsonl")):
        means = ", ".join(f"{algo} {np.mean([row['last_five'] for row in found]):.0f}" for algo, found in cartpole.items())
        lines.append(["CartPole-v1, 50,000 steps, greedy return of at most 500", "`ebu train --env CartPole-v1`", means])
    return lines + table_1_lines() + suite_lines() + paper_lines() + speed_lines()


def atari_lines() -> list[list[str]]:
    """The best tests of our methods beside the paper's at 10M frames, by game, length and preset."""
    columns = scores.columns(atari_runs())
    cases = {(name, column.steps, column.preset) for column in columns for name in column.scores}
    return [_atari_line(*case, columns) for case in sorted(cases)]


def _atari_line(game: str, steps: int, preset: str, columns: Sequence[scores.Column]) -> list[str]:
    mine = [column for column in columns if game in column.scores and (column.steps, column.preset) == (steps, preset)]
    ours = ", ".join(f"{column.method} {column.scores[game]:.1f}" for column in mine)
    paper = ", ".join(f"{paper_scores(column.published)[game]:.1f}" for column in mine if column.published)
    seeds = max(len(column.runs[game]) for column in mine)
    found = find_game(game)
    return [
        f"{game}, {atari.frames(steps)} frames, `{preset}` preset",
        f"`ebu train --env {found.ale_id if found else game} --preset {preset} --steps {steps}`",
        f"best test: {ours} ({several(seeds, 'seed')}; random play {found.random if found else 0:.1f}; "
        f"the paper after 10M frames: {paper})",
    ]


def table_1_lines() -> list[list[str]]:
    """Table 1 on the paper's own task, at the density with the most mazes so far; rows of easier tasks say nothing of it."""
    paper = table1.SETTINGS["full"]
    cells = [row for row in item_rows("table1") if row["part"] == "cell" and row.get("steps") == paper["steps"]]
    by_density = {row["wall_density"]: [one for one in cells if one["wall_density"] == row["wall_density"]] for row in cells}
    complete = {density: found for density, found in by_density.items() if all(row["mazes"] for row in found)}
    if not complete:
        return []
    density, found = max(complete.items(), key=lambda pair: (min(row["mazes"] for row in pair[1]), pair[0]))
    mazes = min(row["mazes"] for row in found)
    ours = ", ".join(f"{row['method']} {row['training_median']:.2f} (paper {row['paper_median']:.2f})" for row in found)
    return [[
        f"Table 1: MNIST maze half way, {100 * density:.0f} % walls, {several(mazes, 'maze')} of {paper['mazes']}",
        "`ebu reproduce table1 --budget laptop`", f"median path / shortest: {ours}",
    ]]  # fmt: skip


def suite_lines() -> list[list[str]]:
    """Interquartile means of the suites, of the methods that have a run of every task."""
    lines = []
    for name in ("minatar", "minigrid", "delay"):
        item = find_item(name)
        full = item.settings["full"]["scale"]["steps"]
        found = [row for row in item_rows(name) if row["part"] == "aggregate" and row["steps"] == full]
        for group in dict.fromkeys(row["group"] for row in found):
            mine = [row for row in found if row["group"] == group and row["final_iqm"] is not None]
            if not mine:
                continue
            best = sorted(mine, key=lambda row: -row["area_iqm"])
            fewest, most = (choose(row["runs"] for row in mine) for choose in (min, max))
            runs = f"{fewest} runs" if fewest == most else f"{fewest} to {most} runs"
            scores = ", ".join(f"{row['method']} {row['area_iqm']:.2f}" for row in best)
            lines.append([
                f"{item.title}, {group}" if group else item.title, f"`ebu reproduce {name} --budget laptop`",
                f"normalised area under the curve: {scores} ({runs})",
            ])  # fmt: skip
    return lines


def paper_lines() -> list[list[str]]:
    """The paper's items in one sentence each."""
    aggregates = paper_table_2()
    gaps = [
        max(abs(aggregates[column].mean - mean), abs(aggregates[column].median - median))
        for column, (_, mean, median) in table2.EXPECTED.items()
    ]
    won = count_wins(paper_scores("adaptive_ebu_10M"), paper_scores("dqn_10M")).wins
    text = figure4.EXPECTED["wins_in_the_text"][atari.ADAPTIVE]
    lines = [
        [
            "Table 2 from the raw scores of Table 3",
            "`ebu reproduce table2`",
            f"all printed numbers, within {max(gaps):.2f} points",
        ],
        [
            "Figure 4 from the same",
            "`ebu reproduce figure4`",
            f"adaptive EBU ahead of DQN in {won} of 49 games (text: {text})",
        ],
    ]
    if found := item_rows("figure1"):
        end = found[-1]
        words = (
            f"solved after {end['backward_solved_at_update']} updates; uniform draws need {end['uniform_mean_updates']:.1f}"
        )
        lines.append(["Figure 1: one stored episode from its end", "`ebu reproduce figure1`", f"{words} on average"])
    if found := item_rows("appendix-f"):
        longest = max(row["n"] for row in found)
        needed = {row["method"]: row["episodes_until_optimal"] for row in found if row["n"] == longest}
        words = f"EBU {needed['EBU β=1']} episodes, methods that cut traces {needed['Watkins Q(1)']}"
        lines.append([f"Appendix F: a chain with {longest - 1} exits", "`ebu reproduce appendix-f`", words])
    if found := item_rows("theorem1"):
        largest = max(row["largest_modulus"] for row in found if row["part"] == "operator")
        lines.append(["Theorem 1: contraction", "`ebu reproduce theorem1`", f"largest modulus found {largest:.4f}, γ = 0.9"])
    if found := item_rows("theorem2"):
        summary = next(row for row in found if row["part"] == "random summary")
        wrong, right = (summary[f"{which}_bound_allows_a_biased_beta"] for which in ("printed", "corrected"))
        words = f"false as printed: in {wrong} of {summary['mdps']} random MDPs; corrected bounds: in {right}"
        lines.append(["Theorem 2: the largest safe β", "`ebu reproduce theorem2`", words])
    return lines


def speed_lines() -> list[list[str]]:
    """Against others' code, the widest gap for each; the comparisons among our own methods are in docs/results.md."""
    best: dict[str, Row] = {}
    for row in rows("bench.jsonl"):
        rival = row["peer"].partition(":")[0]
        if not rival.startswith(("Algorithm 2", "Stable-Baselines3")):
            continue
        if rival not in best or row["ratio"] > best[rival]["ratio"]:
            best[rival] = row
    rivals = best.values()
    return [[row["what"], "`make bench`", f"{row['ours']} ({row['peer']}): {row['ratio']:.1f}×"] for row in rivals]


def block() -> str:
    words = (
        "Everything here is regenerated by `make results` from the rows in `results/`; all of it, with the published numbers "
        "beside ours, is in [docs/results.md](docs/results.md)."
    )
    return "\n\n".join(["## Results", words, plots.markdown(("what", "how", "result"), readme_lines())])


def rendered() -> str:
    """The README as it should be."""
    text = README.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{block()}\n{END}{tail}"


# ---------------------------------------------------------------------- docs/results.md


def page() -> str:
    """All rows under results/ as one page."""
    parts = [
        "# Results",
        "Generated by `make results` from the rows under `results/`; do not edit. A dash stands for what was not run.",
        "![Learning curves of the committed runs](pictures/results.png)",
        *maze_part(),
        *atari_part(),
        *cartpole_part(),
        *items_part(),
        *bench_part(),
    ]
    return "\n\n".join(parts) + "\n"


def maze_part() -> list[str]:
    found = rows("maze-quick.jsonl")
    if not found:
        return []
    every = configure("ebu", "maze").evaluation.eval_every
    lines = []
    for row in sorted(found, key=lambda row: row["maze_seed"]):
        first = next((every * (i + 1) for i, length in enumerate(row["curve"]) if length == 1.0), None)
        lines.append([
            str(row["maze_seed"]), f"{row['final']:.2f}", "–" if first is None else f"{first:,}", f"{row['seconds']:.0f}",
        ])  # fmt: skip
    header = ("maze", "greedy path / shortest after 10,000 steps", "first shortest path at step", "seconds")
    return [
        "## MNIST maze, quick preset",
        "EBU (β = 1) with fixed digits and a small network, wall density 0.3. Made by `python scripts/evidence.py maze`. The "
        "paper's harder task (digits redrawn, 200,000 steps; all methods end at a median of 1) is `ebu reproduce table1`.",
        plots.markdown(header, lines),
    ]


def cartpole_part() -> list[str]:
    grouped = by_algo(rows("cartpole.jsonl"))
    if not grouped:
        return []
    lines = [
        [
            algo, str(len(found)), ", ".join(f"{row['last_five']:.0f}" for row in sorted(found, key=lambda row: row["seed"])),
            f"{np.mean([row['last_five'] for row in found]):.0f}", f"{np.mean([row['seconds'] for row in found]):.0f}",
        ]
        for algo, found in grouped.items()
    ]  # fmt: skip
    return [
        "## CartPole-v1, 50,000 steps",
        "Default settings. A seed's return is the mean of its last five greedy evaluations, at most 500. Made by "
        "`python scripts/evidence.py cartpole`; the paper has no such experiment.",
        plots.markdown(("method", "seeds", "return of each seed", "mean", "seconds"), lines),
    ]


def atari_part() -> list[str]:
    found = atari_runs()
    if not found:
        return []
    lines = []
    for run in sorted(found, key=lambda run: (run.env, preset_of(run), run.algo, run.seed)):
        game, tests = find_game(run.env), run.points("eval", "mean_reward")
        column = scores.columns([run])
        published = column[0].published if column else None
        q, came = (run.points("eval", name) for name in ("mean_q", "mean_discounted_return"))
        lines.append([
            game.name if game else run.env, preset_of(run), scores.method_of(run), str(run.seed), f"{run.step:,}",
            atari.frames(run.step),
            f"{max(value for _, value in tests):.2f}" if tests else "–", f"{tests[-1][1]:.2f}" if tests else "–",
            f"{game.paper[published]:.2f}" if game and published else "–",
            f"{game.paper['nature_dqn_200M']:.2f}" if game else "–",
            f"{game.random:.1f}" if game else "–",
            f"{q[-1][1]:.3f} / {came[-1][1]:.3f}" if q and came else "–",
            f"{run.seconds / 3600:.1f}" if run.seconds else "–",
            "" if run.state == "finished" else run.state,
        ])  # fmt: skip
    header = (
        "game", "preset", "method", "seed", "steps", "frames", "best test", "last test", "paper, 10M frames",
        "Nature DQN, 200M", "random play", "Q / return at the end", "hours", "",
    )  # fmt: skip
    return [
        "## Atari",
        "Single runs under `results/atari`, each an ordinary run folder. The paper's scores are means over 8 seeds (4 for "
        "adaptive EBU) of the best test after 10M frames; where ours are shorter or fewer they are no reproduction of it. "
        "Q and return are of clipped rewards, as learned from.",
        plots.markdown(header, lines),
    ]


def items_part() -> list[str]:
    parts = ["## The items of `ebu reproduce`"]
    aggregates = paper_table_2()
    parts += [
        "### Table 2 and Figure 4: from the paper's raw scores",
        "`ebu reproduce table2`, `ebu reproduce figure4`, `ebu reproduce table3`: no training is needed.",
        plots.markdown(
            ("method (frames)", "hours, printed", "mean %, printed", "recomputed", "median %, printed", "recomputed"),
            [
                [
                    table2.NAMES[column], "–" if hours is None else str(hours), f"{mean:.2f}",
                    f"{aggregates[column].mean:.2f}", f"{median:.2f}", f"{aggregates[column].median:.2f}",
                ]
                for column, (hours, mean, median) in table2.EXPECTED.items()
            ],
        ),
    ]  # fmt: skip
    waiting = []
    for name in item_names():
        item, folder = find_item(name), folder_of(name)
        if folder is None:
            waiting.append(f"`{name}`")
            continue
        parts += [f"### {item.title}", item.claim, f"`ebu reproduce {name}`; rows in `{folder.relative_to(ROOT)}`."]
        parts += budget_of(folder)
        parts += [f"![{item.title}](../{path.relative_to(ROOT)})" for path in sorted(folder.glob("*.png"))]
        parts += tables_of(item, folder)
    if waiting:
        parts.append(f"No rows are committed for {', '.join(waiting)}: `ebu reproduce ITEM --budget quick` makes them.")
    return parts


def budget_of(folder: Path) -> list[str]:
    """What the rows leave out of the paper's experiment, as the item said when it made them."""
    path = folder / "table.md"
    paragraphs = path.read_text(encoding="utf-8").split("\n\n") if path.is_file() else []
    return [paragraph.strip() for paragraph in paragraphs if paragraph.startswith("Budget ")]


def tables_of(item: Item, folder: Path) -> list[str]:
    """From its rows where the item can; else as it wrote them."""
    if item.tables is not None:
        return [f"{table.title}:\n\n{table.markdown()}" for table in item.tables(item_rows(item.name))]
    text = (folder / "table.md").read_text(encoding="utf-8")
    return [part.replace("\n\n", ":\n\n", 1).strip() for part in text.split("\n## ")[1:]]


def bench_part() -> list[str]:
    found = rows("bench.jsonl")
    lines = [[row["what"], row["ours"], row["peer"], f"{row['ratio']:.2f}×"] for row in found]
    header = ("measured side by side", "ours", "beside it", "ratio")
    return ["## Benchmarks", "Made by `make bench ARGS=--save`.", plots.markdown(header, lines)] if found else []


# ---------------------------------------------------------------------- the picture


def shown() -> dict[str, Any]:
    """Everything the picture draws, as plain numbers: title → label → (x, y)."""
    panels: dict[str, Any] = {}
    every = configure("ebu", "maze").evaluation.eval_every
    if mazes := rows("maze-quick.jsonl"):
        curves = np.array([row["curve"] for row in mazes])
        share = [round(float(value), 4) for value in 100 * (curves == 1.0).mean(axis=0)]
        panels[f"{len(mazes)} mazes solved, %"] = {"x": "thousand steps", "ebu": [thousands(len(share), every), share]}
    for game, runs in atari_panels().items():
        panels[f"{game}, test score"] = {"x": "million frames", **runs}
    if len(panels) < 3 and (cartpole := by_algo(rows("cartpole.jsonl"))):
        every = configure("ebu", "CartPole-v1").evaluation.eval_every
        panels["CartPole-v1, greedy return"] = {"x": "thousand steps"} | {
            algo: mean_curve([row["curve"] for row in found], every) for algo, found in cartpole.items() if algo in COLOURS
        }
    return panels


def atari_panels(most: int = 2) -> dict[str, dict[str, Any]]:
    """The games with the longest runs: test scores by method, mean over seeds at the steps that all have."""
    found: dict[str, dict[str, list[Run]]] = {}
    for run in atari_runs():
        if (game := find_game(run.env)) and run.points("eval", "mean_reward"):
            found.setdefault(f"{game.name} ({preset_of(run)})", {}).setdefault(run.algo, []).append(run)
    longest = sorted(found, key=lambda name: -max(run.step for runs in found[name].values() for run in runs))[:most]
    return {name: {algo: _mean_points(runs) for algo, runs in sorted(found[name].items())} for name in longest}


def _mean_points(runs: Sequence[Run]) -> list[list[float]]:
    curves = [dict(run.points("eval", "mean_reward")) for run in runs]
    common = sorted(set.intersection(*(set(curve) for curve in curves)))
    x = [round(step * atari.FRAMES_PER_STEP / 1e6, 6) for step in common]
    return [x, [round(float(np.mean([curve[step] for curve in curves])), 4) for step in common]]


def mean_curve(curves: Sequence[Sequence[float]], every: int) -> list[list[float]]:
    length = min(map(len, curves))
    values = np.mean([curve[:length] for curve in curves], axis=0)
    return [thousands(length, every), [round(float(value), 4) for value in values]]


def thousands(count: int, every: int) -> list[float]:
    """The steps of so many evaluations, in thousands."""
    return [every * (i + 1) / 1000 for i in range(count)]


def digest() -> str:
    """Of what the picture shows. It is written into the picture, as pixels may differ between versions of libraries."""
    text = json.dumps(shown(), sort_keys=True) + hashlib.sha256(MAZE.read_bytes()).hexdigest()
    return hashlib.sha256(text.encode()).hexdigest()


def digest_in_picture() -> str:
    with Image.open(PICTURE) as image:
        return str(image.info.get("Rows", ""))


def draw() -> None:
    panels = shown()
    figure, axes = plots.canvas(
        1 + len(panels), width=3.4 + 3.5 * len(panels), height=3.7, width_ratios=[1.05, *[1] * len(panels)]
    )
    axes[0].imshow(Image.open(MAZE))
    axes[0].set_axis_off()
    plots.title(axes[0], "A maze learned by EBU")
    for ax, (title, curves) in zip(axes[1:], panels.items()):
        for algo, (x, y) in ((name, curve) for name, curve in curves.items() if name != "x"):
            ax.plot(x, y, color=COLOURS.get(algo, plots.GREY), lw=2, label=algo, marker="o" if len(x) < 30 else None, ms=3)
        ax.set_xlabel(curves["x"])
        plots.title(ax, title)
        plots.legend(ax, loc="best")
    plots.save(figure, PICTURE.parent, PICTURE.stem)
    with Image.open(PICTURE) as image:
        notes = PngImagePlugin.PngInfo()
        notes.add_text("Rows", digest())
        image.save(PICTURE, pnginfo=notes, dpi=(150, 150))


# ----------------------------------------------------------------------


def disagreements() -> list[str]:
    """The files that do not say what the rows say."""
    expected = {README: rendered(), PAGE: page()}
    wrong = [path for path, text in expected.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if not PICTURE.exists() or digest_in_picture() != digest():
        wrong.append(PICTURE)
    return [str(path.relative_to(ROOT)) for path in wrong]


if __name__ == "__main__":
    if "--check" in sys.argv:
        if wrong := disagreements():
            sys.exit(f"not what the rows say: {', '.join(wrong)}; run `make results`")
        sys.exit(0)
    if digest_in_picture() != digest() if PICTURE.exists() else True:
        draw()
    README.write_text(rendered(), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
