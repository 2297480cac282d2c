"""README, docs/results.md and the picture say what the rows under results/ say."""

import json
import shutil
from pathlib import Path

import pytest

from ebu.experiments.items import find_item
from ebu.experiments.mazes import EBU, N_STEP, ONE_STEP
from scripts.results import claims, page, picture, readme, summary
from scripts.results.__main__ import disagreements, write
from scripts.results.atari import atari_claims, pairs
from scripts.results.suites import COLUMNS, TITLES, overestimation_claims, sample_claims
from scripts.results.tree import Tree
from tests.experiments.pages import write_trial
from tests.report.folders import write_run

HERE = Tree(Path(__file__).parent.parent)
UPDATE = "run `make results`"


@pytest.fixture
def copied(tmp_path):
    """A copy of everything that is read and written."""
    for name in ("README.md", "docs/results.md", "docs/pictures", "results"):
        source, target = HERE.root / name, tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("trials", "checkpoints"))
        else:
            shutil.copy(source, target)
    return Tree(tmp_path)


def test_readme_page_and_picture_say_what_the_rows_say():
    assert disagreements(HERE) == [], UPDATE


def test_changed_rows_are_noticed_everywhere_until_all_is_written_again(copied):
    path = copied.root / "results/maze-quick.jsonl"
    first, *others = path.read_text().splitlines()
    path.write_text("\n".join([json.dumps(json.loads(first) | {"final": 2.0}), *others]) + "\n")
    shutil.rmtree(copied.root / "results/atari")
    assert disagreements(copied) == ["README.md", "docs/results.md", "docs/pictures/results.png"]
    write(copied)
    assert disagreements(copied) == []


def test_a_new_atari_run_joins_the_claims_the_page_and_the_picture(copied):
    shutil.rmtree(copied.root / "results/atari", ignore_errors=True)
    for algo, scores in {"ebu": (1.0, 20.0, 10.0), "dqn": (1.0, 2.0, 3.0)}.items():
        run = write_run(
            copied.root / f"results/atari/Breakout-{algo}", algo, "ALE/Breakout-v5", scores, 250_000, preset="paper", seed=0
        )
        (run / "timing.jsonl").write_text('{"step": 750000, "seconds": 7200.0}\n')
    short = "| 174.8 against 28.4 | 20.0 against 3.0 after 3M frames (1 seed) | open: the run is shorter |"
    assert short in readme.block(copied) and short in page.page(copied)
    assert "random play 1.7" in page.page(copied)
    assert "`ebu train --algo ebu --env ALE/Breakout-v5 --preset paper --steps 750000 " in page.page(copied)
    line = next(line for line in page.page(copied).splitlines() if line.startswith("| Breakout | paper | EBU (β=0.5)"))
    assert line.startswith("| Breakout | paper | EBU (β=0.5) | 0 | 750,000 | 3M | 20.00 | 10.00 | 174.76 | 401.20 | 1.7 |")
    assert "| 2.0 |" in line  # hours
    curve = picture.shown(copied)["atari"]["Breakout (paper preset)"]["ebu"]
    assert (curve["frames"], curve["mean"]) == ([1.0, 2.0, 3.0], [1.0, 20.0, 10.0])
    picture.draw(copied)
    assert picture.digest_in_picture(copied) == picture.digest(copied)


def test_atari_runs_in_progress_are_compared_at_the_last_test_that_both_have_and_shorter_plans_are_left_out(copied):
    shutil.rmtree(copied.root / "results/atari", ignore_errors=True)
    atari = copied.root / "results/atari"
    settings = {"env": "ALE/Breakout-v5", "every": 250_000, "preset": "paper", "seed": 0}
    write_run(atari / "short-ebu", "ebu", scores=(99.0,), **settings)
    write_run(atari / "short-dqn", "dqn", scores=(1.0,), **settings)
    write_run(atari / "ebu", "ebu", scores=(1.0, 5.0, 7.0), finished=False, steps=2_500_000, **settings)
    (pair,) = pairs(copied, "paper")  # of runs that both have
    assert (pair.planned_steps, pair.ebu, pair.dqn) == (250_000, 99.0, 1.0)
    write_run(atari / "dqn", "dqn", scores=(2.0, 1.0), finished=False, steps=2_500_000, **settings)
    (pair,) = pairs(copied, "paper")
    assert (pair.game.name, pair.steps, pair.seeds, pair.ebu, pair.dqn) == ("Breakout", 500_000, 1, 5.0, 2.0)
    claim = next(atari_claims(copied))
    assert "5.0 against 2.0 after 2M frames of 10M (1 seed)" in claim.ours and claim.holds == "open: the run is shorter"
    assert "not decided yet** for " in summary.summary(copied)[1] and "Breakout (Atari)" in summary.summary(copied)[1]
    curve = picture.shown(copied)["atari"]["Breakout (paper preset)"]["ebu"]
    assert (curve["frames"], curve["mean"]) == ([1.0, 2.0, 3.0], [1.0, 5.0, 7.0])


@pytest.mark.parametrize(
    ("ebu", "dqn", "seeds", "holds"),
    [
        (20.0, 3.0, 1, "leaning yes"),
        (3.0, 20.0, 4, "leaning no"),  # p = 2 / 70
        (20.0, 3.0, 5, "yes"),  # p = 2 / 252
        (3.0, 20.0, 5, "no"),
    ],
)
def test_runs_as_long_as_the_papers_decide_the_claim_once_there_are_seeds_enough(ebu, dqn, seeds, holds, copied):
    shutil.rmtree(copied.root / "results/atari", ignore_errors=True)
    for algo, score in (("ebu", ebu), ("dqn", dqn)):
        for seed in range(seeds):
            folder = copied.root / f"results/atari/{algo}-{seed}"
            scores = (score + seed,)
            write_run(folder, algo, "ALE/Breakout-v5", scores=scores, every=2_500_000, preset="paper", seed=seed)
    claim = next(atari_claims(copied))
    assert (claim.holds, "too few seeds" in claim.details) == (holds, holds.startswith("leaning"))
    text = "\n".join(summary.summary(copied))
    verdict = {"yes": "**shown** for ", "no": "**refuted** for "}.get(holds, "**not decided yet** for ")
    assert "Breakout (Atari)" in text.partition(verdict)[2].partition(";")[0].partition("\n")[0]
    missing = "too few seeds of that length: the claim is open"
    assert (missing in text) == ("the claim is open" in text) == holds.startswith("leaning")


def finished(item, folder, trials, trained):
    """An item of the budget laptop, made from some of its trials."""
    folders = [write_trial(trained / one.id, one, points=12) for one in trials]
    shutil.rmtree(folder, ignore_errors=True)
    find_item(item).analyse("laptop", trials, folders, folder)


def test_claims_about_mazes_say_how_many_mazes_they_rest_on(copied, tmp_path):
    for item in ("table1", "figure2"):
        trials = [one for one in find_item(item).trials("laptop") if one.seed < 2]
        finished(item, copied.root / "results" / item, trials, tmp_path / item)
    text = page.page(copied)
    assert "o far 24 of 144 trials are finished" in text
    assert "| 50 % | N-step DQN | 2 | 11.32 | 3.12 |" in text
    found = list(claims.maze_claims(copied))
    assert len(found) == 7 and all("maze" in claim.ours for claim in found)
    assert all("8 mazes" in found[place].ours for place in (0, 2))  # of four densities
    assert "6 mazes" in found[1].ours and "with 30 % walls or more" in found[1].claim  # the paper has n-step ahead at 20 %
    assert "**The paper's maze** (8 mazes of four wall densities" in "\n".join(summary.summary(copied))
    assert set(picture.shown(copied)["mazes"]) == {EBU, ONE_STEP, N_STEP}


def test_rows_of_the_easier_maze_support_no_claim_of_the_paper(copied):
    path = copied.root / "results/table1/rows.jsonl"
    path.parent.mkdir(exist_ok=True)
    easy = {"part": "cell", "steps": 10_000, "method": EBU, "mazes": 2}
    path.write_text(json.dumps(easy) + "\n")
    assert not [claim for claim in readme.claims(copied) if "table1" in claim.command]
    assert picture.shown(copied)["mazes"] == {}


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([(1.0, 2.0)] * 7, (7, False)),  # 2 · 0.5⁷ = 0.016
        ([(1.0, 2.0)] * 8, (8, True)),  # 2 · 0.5⁸ = 0.008
        ([(2.0, 1.0)] * 8, (0, True)),
        ([(1.0, 1.0)] * 8, (0, False)),  # ties say nothing
        ([(1.0, 2.0)] * 4 + [(4.0, 5.0)] * 4 + [(9.0, 9.0)] * 9, (8, False)),  # the medians are equal
        ([], (0, False)),
    ],
)
def test_a_comparison_is_decided_by_a_sign_test_that_agrees_with_the_medians(pairs, expected):
    assert claims.ahead(pairs) == expected


def test_a_method_that_does_not_arrive_within_the_run_arrives_after_one_that_does(copied):
    """Where neither arrives the two are equal; slippery mazes are another comparison."""
    arrived = {EBU: [1_000, 2_000, None, 9_000], ONE_STEP: [None, 3_000, None, 5_000]}
    rows = [
        {"part": "maze", "slip": slip, "wall_density": 0.5, "method": method, "maze": maze, "training_at_the_end": 1.0}
        | {"steps_to_twice_the_shortest": step}
        for slip in (0.0, 0.1)
        for method, steps in arrived.items()
        for maze, step in enumerate(steps)
        if (maze == 3) == bool(slip)
    ]
    (copied.root / "results/figure2/rows.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    assert claims.arrivals(copied, ONE_STEP) == [(1_000, float("inf")), (2_000, 3_000), (float("inf"), float("inf"))]
    assert claims.arrivals(copied, N_STEP) == []
    first = next(claims.maze_claims(copied))
    assert first.ours == "2,000 against more than 200,000; first in 2 of 3 mazes"
    assert first.details.endswith("sign test: p = 0.5: too few mazes")
    assert (first.holds, first.place) == ("leaning yes", "the paper's maze (one-step DQN)")


def test_slippery_mazes_are_compared_when_every_method_has_finished_one(copied):
    """A sweep that is stopped early has EBU's runs without its rivals', or other mazes of theirs."""
    path = copied.root / "results/figure2/rows.jsonl"
    others = [line for line in path.read_text(encoding="utf-8").splitlines() if not json.loads(line).get("slip")]

    def claimed(*runs):
        rows = [{"part": "maze", "slip": 0.1, "wall_density": 0.5, "method": method, "maze": maze, "training_half_way": length}
                for method, maze, length in runs]  # fmt: skip
        path.write_text("\n".join([*others, *map(json.dumps, rows)]) + "\n", encoding="utf-8")
        return [claim.ours for claim in claims.slippery(copied)]

    ours = [("EBU (β=1)", 0, 2.0), ("EBU (β=0.5)", 0, 3.0)]
    assert claimed(*ours, ("EBU (β=0.25)", 0, 4.0)) == claimed(*ours, ("One-step DQN", 0, 5.0)) == []
    assert claimed(*ours, ("One-step DQN", 0, 5.0), ("N-step DQN", 1, 1.0)) == []
    (words,) = claimed(*ours, ("One-step DQN", 0, 5.0), ("N-step DQN", 0, 2.5), ("N-step DQN", 1, 1.0))
    assert words == "best β: EBU (β=1) 2.00, best rival: N-step DQN 2.50 (1 maze)"


def test_only_mazes_that_both_methods_have_finished_are_compared():
    rows = [
        {"method": EBU, "wall_density": 0.5, "maze": 0, "training": 1.5},
        {"method": EBU, "wall_density": 0.5, "maze": 1, "training": 2.5},
        {"method": ONE_STEP, "wall_density": 0.5, "maze": 1, "training": 9.0},
        {"method": ONE_STEP, "wall_density": 0.4, "maze": 0, "training": 8.0},
    ]
    assert claims.paired(rows, EBU, ONE_STEP) == [(2.5, 9.0)]


def test_overestimation_is_compared_on_games_and_seeds_that_all_methods_have(copied):
    """Gaps of 2, 0.5 and 1 in Breakout, of 3, 1 and 1 in Asterix; a second seed of one method alone is left out."""
    rows = [
        {"part": "run", "game": game, "seed": seed, "method": method, "q": q, "return": 1.0}
        for game, seed, method, q in (
            ("Breakout", 0, "EBU (β=1)", 3.0), ("Breakout", 0, "EBU (β=0.5)", 1.5), ("Breakout", 0, "DQN", 2.0),
            ("Asterix", 0, "EBU (β=1)", 4.0), ("Asterix", 0, "EBU (β=0.5)", 2.0), ("Asterix", 0, "DQN", 2.0),
            ("Asterix", 1, "EBU (β=1)", 99.0),
        )
    ]  # fmt: skip
    path = copied.root / "results/overestimation/rows.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (claim,) = overestimation_claims(copied)
    assert claim.ours.endswith("EBU (β=1) 2.5, EBU (β=0.5) 0.8, DQN 1.0")
    assert "less with β = 0.5 than with 1 in 2 of 2 pairs" in claim.details
    assert claim.holds == "less with β = 0.5: leaning yes; not at all: leaning no"
    path.write_text("", encoding="utf-8")
    assert list(overestimation_claims(copied)) == []


@pytest.mark.parametrize("high, holds", [(0.8, "yes"), (0.9, "leaning yes"), (1.1, "leaning yes")])
def test_the_claim_about_samples_is_decided_by_the_better_beta_with_an_interval_that_allows_for_the_choice(
    high, holds, copied
):
    """An interval of 95 % that ends at 0.9 would leave 1 out, had there been one β and one test."""
    aggregate = {
        "part": "aggregate", "group": "delayed", "steps": 100_000, "area_iqm": 0.5, "runs": 10, "steps_over_dqn_left_out": 0
    }  # fmt: skip
    rows = [
        aggregate | {"method": method, "steps_over_dqn": ratio, "steps_over_dqn_low": 0.5, "steps_over_dqn_high": end}
        for method, ratio, end in (("EBU (β=1)", 0.7, high), ("EBU (β=0.5)", 1.2, 2.0), ("DQN", None, None))
    ]
    for item in ("minatar", "minigrid", "delay"):
        shutil.rmtree(copied.root / "results" / item, ignore_errors=True)
    assert list(sample_claims(copied)) == []
    path = copied.root / "results/delay/rows.jsonl"
    path.parent.mkdir()
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (claim,) = sample_claims(copied)
    assert claim.ours == f"of DQN's: 70 % (50 to {100 * high:.0f}) with β=1, 120 % (50 to 200) with β=0.5"
    assert claim.holds == f"{holds}; the gain is smaller than the paper's"
    assert "by the better of 2 β" in claim.details and ("too few runs" in claim.details) == (holds != "yes")


@pytest.mark.parametrize("item", ["minatar", "minigrid", "delay"])
def test_a_suite_joins_the_page_and_the_table_when_it_has_rows(item, copied, tmp_path):
    shutil.rmtree(copied.root / "results" / item, ignore_errors=True)
    assert f"`{item}`" in page.page(copied) and f"ebu reproduce {item} --budget laptop" not in page.page(copied)
    trials = [one for one in find_item(item).trials("laptop") if one.seed == 0 and one.algo in ("ebu", "dqn")]
    finished(item, copied.root / "results" / item, trials, tmp_path / "trained")
    text = page.page(copied)
    assert f"`ebu reproduce {item} --budget laptop` (" in text and f"{COLUMNS[item]}: steps" in text
    assert f"| {TITLES[item]}: fewer steps than DQN to the same score |" in readme.block(copied)
    assert f"](../results/{item}/{item}.png)" in text and "Means over seeds by task" in text
    assert "ahead of DQN" in text and "(one seed gives no interval)" in text
    if item == "delay":
        assert picture.shown(copied)["delay"]
        picture.draw(copied)


def test_a_method_is_ahead_by_its_area_only_where_the_intervals_are_apart(copied):
    aggregate = {"part": "aggregate", "group": "", "steps": 100_000, "final_iqm": 0.5, "runs": 15, "tasks": 5}
    steps = dict.fromkeys(("steps_over_dqn", "steps_over_dqn_low", "steps_over_dqn_high", "steps_over_dqn_left_out"))
    areas = {"DQN": (0.5, 0.46, 0.54), "Retrace(λ=0.7)": (0.63, 0.6, 0.65), "EBU (β=0.5)": (0.51, 0.5, 0.53),
             "EBU (β=1)": (0.41, 0.38, 0.45)}  # fmt: skip
    rows = [
        aggregate | steps | {"method": method, "area_iqm": area, "area_iqm_low": low, "area_iqm_high": high}
        for method, (area, low, high) in areas.items()
    ]
    path = copied.root / "results/minatar/rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    text = "\n".join(summary.summary(copied))
    assert (
        "Retrace(λ=0.7) is ahead of DQN and EBU (β=1) is behind it; no difference from it is shown for EBU (β=0.5) "
        "(the intervals over seeds overlap)."
    ) in text


@pytest.mark.parametrize(
    ("low", "holds"),
    [(1.25, "no for EBU"), (1.1, "too few mazes for EBU"), (None, "no for EBU")],
)
def test_a_path_counts_as_longer_than_the_shortest_by_the_lower_end_of_its_interval(low, holds, copied):
    pooled = {"part": "pooled", "mazes": 12, "latest_ten_steps": [200_000]}
    rows = [
        pooled | {"method": method, "latest_ten_median": [median], "latest_ten_median_low": [end]}
        for method, median, end in ((EBU, 1.3, low), (ONE_STEP, 1.1, 1.0), (N_STEP, 1.0, 1.0))
    ]
    path = copied.root / "results/figure2/rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (claim,) = (claim for claim in claims.maze_claims(copied) if claim.claim.startswith("Maze, at the end"))
    assert claim.holds == f"{holds}; yes for one-step DQN and n-step DQN"


def test_speed_is_given_over_the_faster_peer_and_with_the_older_instructions_too(copied):
    training = {"what": "training, ebu", "ours": "1,200 steps/s", "ratio": 4.0, "instructions": "AVX512",
                "peer": "Stable-Baselines3 DQN: 300 steps/s, CleanRL's DQN: 600 steps/s"}  # fmt: skip
    older = {"what": "training, ebu, AVX2", "ours": "900 steps/s", "ratio": 3.0, "instructions": "AVX2"}
    over = {"what": "play, ebu, over CleanRL's DQN (rounds from 1.9 to 2.2)", "ratio": 2.1}
    over_older = training | older | over | {"what": f"{over['what']}, AVX2", "ratio": 1.5}
    rows = [training, training | older, training | over, over_older]
    path = copied.root / "results/bench.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert [(line[0], line[3]) for line in readme.speed_lines(copied)] == [
        ("training", "2.0×, with AVX2 1.5×"), ("play", "2.1×, with AVX2 1.5×"),
    ]  # fmt: skip
