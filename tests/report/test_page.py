"""The report page: the right numbers in the right places, in one file that asks for nothing."""

from __future__ import annotations

import itertools
import json
import re
import shlex

import numpy as np
import pytest

from ebu.cli import main
from ebu.commands.train import TrainArguments, read_settings
from ebu.config import flat
from ebu.errors import UserError
from ebu.report import figures, html
from ebu.report.groups import command, differing, group, slots
from ebu.report.headline import decimals
from ebu.report.page import Section, build_page
from ebu.report.rows import read_run
from tests.report.folders import write_maze_run, write_run


def text_of(page):
    return re.sub(r"<[^>]+>", " ", page.read_text(encoding="utf-8").split('<div id="spoken"')[0])


def data_of(page):
    return json.loads(re.search(r'id="data">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)[1])


def groups_of(*folders):
    return group(read_run(folder) for folder in folders)


# ---------------------------------------------------------------------- which runs belong together


def test_seeds_are_repetitions_and_settings_are_not(tmp_path):
    runs = [write_run(tmp_path / f"{beta}-{seed}", beta=beta, seed=seed) for beta in (0.5, 1.0) for seed in (0, 1)]
    found = groups_of(*runs)
    assert [(g.method, len(g.runs)) for g in found] == [("EBU β=0.5", 2), ("EBU β=1", 2)]


def test_a_run_of_a_version_with_fewer_settings_is_a_repetition(tmp_path):
    older, newer = (write_run(tmp_path / name, seed=seed) for seed, name in enumerate(("older", "newer")))
    settings = json.loads((older / "config.json").read_text())
    del settings["gradient_steps"], settings["betas"]
    (older / "config.json").write_text(json.dumps(settings))
    found = groups_of(older, newer)
    assert [(g.method, len(g.runs)) for g in found] == [("EBU", 2)]
    assert differing(found[0].runs) == ["seed"]


def test_where_a_run_was_computed_does_not_matter(tmp_path):
    runs = [write_run(tmp_path / d, device=d, threads=i, log_every=100 + i) for i, d in enumerate(("cpu", "cuda"))]
    assert len(groups_of(*runs)) == 1


def test_many_variants_get_looks_of_their_own(tmp_path):
    runs = [write_run(tmp_path / str(i), beta=i / 10) for i in range(11)]
    assert sorted(slots(groups_of(*runs)).values()) == list(range(11))


@pytest.mark.parametrize(
    ("algo", "env", "settings"),
    [
        ("ebu", "CartPole-v1", {"beta": 0.25, "seed": 3, "steps": 1234}),
        ("dqn", "maze", {"env_args": ("redraw_digits=false", "wall_density=0.5", "maze_seed=7"), "double_q": True}),
        ("adaptive-ebu", "CartPole-v1", {"betas": (0.0, 0.5), "n_steps": "episode"}),
        ("ebu", "CartPole-v1", {"target_update_interval": 50}),  # with the preset's soft τ
    ],
)
def test_the_command_gives_the_same_run_again(tmp_path, algo, env, settings):
    run = read_run(write_run(tmp_path / "run", algo, env, **settings))
    words = shlex.split(command(run))
    assert words[:2] == ["ebu", "train"]
    parsed = read_settings(TrainArguments, words[2:], "ebu train").config
    assert json.loads(json.dumps(flat(parsed))) == run.settings


# ---------------------------------------------------------------------- lines and intervals


def test_a_line_is_the_mean_of_its_runs_with_an_interval():
    line = figures.series("ebu", [("a", [(1, 0.0), (2, 4.0)]), ("b", [(1, 2.0), (2, 4.0)])])
    assert (line.x, line.y, line.n) == ([1, 2], [1, 4], [2, 2])
    assert 0 <= line.low[0] < 1 < line.high[0] <= 2 and line.low[1] == line.high[1] == 4


def test_one_run_has_no_interval():
    line = figures.series("ebu", [("a", [(1, 3.0)])])
    assert (line.y, line.low, line.high, line.runs) == ([3], [None], [None], [])


def test_a_run_still_going_does_not_bend_the_end_of_the_line():
    line = figures.series("ebu", [("whole", [(1, 1.0), (2, 1.0), (3, 1.0)]), ("going", [(1, 9.0)])])
    assert (line.y, line.n) == ([5, 1, 1], [2, 1, 1])


def test_a_band_can_be_the_standard_deviation():
    curves = [("a", [(1, 0.0)]), ("b", [(1, 2.0)])]
    line = figures.series("ebu", curves, spread=figures.DEVIATION)
    assert (line.y, line.low, line.high) == ([1], [pytest.approx(1 - 2**0.5, abs=1e-5)], [pytest.approx(1 + 2**0.5, abs=1e-5)])
    assert "± SD" in figures.in_words([line], figures.DEVIATION)


def test_nature_dqn_is_marked_in_the_papers_games_only(tmp_path):
    runs = groups_of(write_run(tmp_path / "pong", env="ALE/Pong-v5"), write_run(tmp_path / "pole"))
    marks = {chart.title: chart.marks for chart in figures.learning_curves(runs, paper=True).charts}
    assert marks == {"ALE/Pong-v5": [(18.9, "Nature DQN, 200M frames")], "CartPole-v1": []}
    assert all(chart.marks == [] for chart in figures.learning_curves(runs).charts)


def test_between_its_rows_a_run_keeps_its_latest_value():
    line = figures.series("ebu", [("a", [(1, 1.0), (3, 3.0)]), ("b", [(2, 10.0), (3, 30.0)])])
    assert (line.x, line.y, line.n) == ([1, 2, 3], [1, 5.5, 16.5], [1, 2, 2])


def test_long_curves_are_thinned_and_keep_both_ends():
    points = [(float(i), float(i)) for i in range(5_000)]
    line = figures.series("ebu", [("a", points)])
    assert len(line.x) == figures.MAX_POINTS and (line.x[0], line.x[-1]) == (0, 4_999)


def test_the_choices_of_adaptive_runs_meet_at_common_steps(tmp_path):
    def choices(*betas):  # the end of an episode, a little after the interval
        return [{"kind": "sync", "step": 100 * (i + 1) + len(betas) + i, "learner": 0, "beta": b} for i, b in enumerate(betas)]

    runs = [
        write_run(tmp_path / str(i), "adaptive-ebu", rows=choices(*betas), sync_interval=100, seed=i)
        for i, betas in enumerate([(0.0, 1.0), (0.5, 1.0, 1.0)])
    ]
    line = figures.diffusion(groups_of(*runs)).charts[0].views["beta"][0]
    assert line.x == [100, 200, 300] and line.y == [0.25, 1, 1]
    assert line.dots == [(100, 0.0, 1), (100, 0.5, 1), (200, 1.0, 2), (300, 1.0, 1)]


def test_overestimation_is_q_minus_return(tmp_path):
    panel = figures.overestimation(groups_of(write_run(tmp_path / "run", scores=(4.0, 8.0))))
    assert panel.charts[0].views["gap"][0].y == [1, 2]  # score / 2 − score / 4, as the folder was written


def test_the_papers_figure_4_comes_out_of_its_table():
    bars = figures.game_bars({}, paper=True)["views"][figures.PUBLISHED["adaptive_ebu_10M"]]
    assert bars["rows"][0][0] == "Video Pinball" and bars["rows"][-1][0] == "Krull" and len(bars["rows"]) == 49
    assert "38 of 49" in bars["words"]  # the paper says 39


def test_our_games_are_compared_with_our_own_dqn(tmp_path):
    runs = [
        write_run(tmp_path / f"{algo}{seed}", algo, "ALE/Pong-v5", scores=scores, seed=seed)
        for algo, scores in {"ebu": (5.0, 21.0, 3.0), "dqn": (-21.0, 0.0)}.items()
        for seed in (0, 1)
    ]
    views = figures.game_bars(figures.atari_scores(groups_of(*runs)), paper=False)["views"]
    assert views["EBU against our DQN"]["rows"] == [["Pong", pytest.approx(100 * 21 / (9.3 + 20.7), rel=1e-4), 21, 0]]


# ---------------------------------------------------------------------- the page


def test_many_environments_begin_with_one_table_of_scores(tmp_path):
    for env, score in {"CartPole-v1": 1.0, "Acrobot-v1": 2.0, "Taxi-v4": 3.0, "maze": 4.0, "FrozenLake-v1": 5.0}.items():
        write_run(tmp_path / f"runs/{env}", env=env, scores=(score,))
        write_run(tmp_path / f"runs/{env}-dqn", "dqn", env=env, scores=(score / 2,))
    text = build_page([tmp_path / "runs"], tmp_path / "page.html").read_text()
    results = text.partition('id="results"')[2].partition("</section>")[0]
    first, _, rest = results.partition("<details>")
    assert first.count('scope="row"') == 5 and "<b>5.0</b>" in first and 'class="number">2.5<' in first
    assert 'class="headline"' in rest


def results_of(page):
    return page.read_text(encoding="utf-8").partition('id="results"')[2].partition("</section>")[0].partition("<details>")[0]


def write_worlds(folder, scores, worlds=5):
    """Per environment the runs with these final scores of each algorithm."""
    for place in range(worlds):
        for algo, found in scores.items():
            for seed, score in enumerate(found):
                write_run(folder / f"{algo}-{place}-{seed}", algo, f"World{place}-v0", scores=(score,), seed=seed)
    return folder


def test_a_single_run_is_not_the_best_beside_repeated_ones(tmp_path):
    write_worlds(tmp_path / "runs", {"ebu": (2.0, 4.0), "dqn": (9.0,), "n-step": (1.0, 1.0)})
    first = results_of(build_page([tmp_path / "runs"], tmp_path / "page.html"))
    assert first.count('class="number"><b>3</b>') == 5 and first.count('class="number">9 (n=1)<') == 5
    assert "mean over 2 runs" in first and first.count("(n=") == 5 and "single run" in first


def test_where_all_are_single_runs_the_best_of_them_is_bold(tmp_path):
    write_worlds(tmp_path / "runs", {"ebu": (2.0,), "dqn": (9.0,)})
    first = results_of(build_page([tmp_path / "runs"], tmp_path / "page.html"))
    assert first.count("<b>9</b>") == 5 and "(n=" not in first and "one run each" in first


def test_letters_in_names_are_explained_below_the_results(tmp_path):
    write_run(tmp_path / "runs/plain")
    write_run(tmp_path / "runs/fast", layer_norm=True, max_grad_norm=10.0, hidden_sizes=(32,))
    page = build_page([tmp_path / "runs"], tmp_path / "page.html")
    results = page.read_text(encoding="utf-8").partition('id="results"')[2].partition("</section>")[0]
    assert "EBU, settings A" in results
    assert "<b>Settings A</b>: max grad norm 10, hidden sizes (32), layer norm." in results


def test_returns_are_thin_and_the_page_says_so(tmp_path):
    page = build_page([write_run(tmp_path / "run")], tmp_path / "page.html")
    lines = data_of(page)["panels"]["overestimation"]["charts"][0]["views"]["both"]
    assert [(line["what"], line["faint"]) for line in lines] == [("Q", False), ("return", True)]
    assert "thin lines of the same colour and dashes: the return" in text_of(page)


def test_software_versions_are_folded_away(tmp_path):
    write_run(tmp_path / "runs/one")
    text = build_page([tmp_path / "runs"], tmp_path / "page.html").read_text()
    assert "<details><summary>Software versions</summary>" in text


def test_watching_writes_the_page_again_until_all_runs_are_finished(tmp_path, capsys, monkeypatch):
    run = write_run(tmp_path / "runs/one", finished=False, steps=400)
    written = []

    def sleep(seconds):
        written.append((seconds, (tmp_path / "page.html").read_text()))
        if len(written) == 2:
            (run / "summary.json").write_text('{"steps": 400}')

    monkeypatch.setattr("ebu.commands.reports.time.sleep", sleep)
    assert main(["report", str(tmp_path / "runs"), "--out", str(tmp_path / "page.html"), "--watch", "--every", "2"]) == 0
    assert [seconds for seconds, _ in written] == [2, 2]
    assert all('"reload":2' in text for _, text in written)
    assert '"reload":0' in (tmp_path / "page.html").read_text()
    assert "1 runs not finished" not in capsys.readouterr().out


def test_the_headline_counts_and_averages(tmp_path):
    for seed, last in enumerate((10.0, 20.0)):
        write_run(tmp_path / f"runs/{seed}", scores=(30.0, last), seed=seed)
    write_run(tmp_path / "runs/going", scores=(99.0,), finished=False, seed=2, steps=200)
    failed = write_run(tmp_path / "runs/failed", scores=(-500.0,), finished=False, seed=3, steps=200)
    (failed / "failure.json").write_text('{"error": "reward is nan"}')
    text = text_of(build_page([tmp_path / "runs"], tmp_path / "page.html", "Four seeds"))
    row = re.search(r"EBU\s+4\s+(\S+)\s+\[(\S+), (\S+)\]\s+(\S+)\s+\[30, 30\]\s+1 at 50 %\s+1\s", text)
    assert [float(x) for x in row.groups()] == [15, 10, 20, 30]  # final with its interval, best: of the finished two
    assert "2 finished" in text and "1 not finished" in text and "1 failed" in text
    assert "failed: reward is nan" in text and "not finished: 100 of 200 steps" in text


def test_a_page_of_runs_that_are_all_still_going_says_so(tmp_path):
    folder = write_run(tmp_path / "run", finished=False, steps=1_000)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "eval", "step": 300, "mean_rew')
    text = text_of(build_page([folder], tmp_path / "page.html"))
    assert "so far" in text and "1 at 20 %" in text and "unreadable" not in text


def test_a_run_that_has_only_begun_makes_a_page(tmp_path):
    folder = write_run(tmp_path / "run", finished=False)
    (folder / "metrics.jsonl").write_text("")
    assert "1 at 0 %" in text_of(build_page([folder], tmp_path / "page.html"))


def test_the_chance_to_beat_dqn_is_shown_where_both_have_two_runs(tmp_path):
    for seed in (0, 1):
        write_run(tmp_path / f"runs/ebu{seed}", "ebu", scores=(5.0 + seed,), seed=seed)
        write_run(tmp_path / f"runs/dqn{seed}", "dqn", scores=(1.0 + seed,), seed=seed)
    text = text_of(build_page([tmp_path / "runs"], tmp_path / "page.html"))
    assert "Beats DQN" in text and "100 %" in text


def test_mazes_show_their_lengths_and_pictures(tmp_path):
    for seed in (0, 1):
        write_maze_run(tmp_path / f"runs/{seed}", lengths=(50.0, 1.0 + seed), seed=seed)
    page = build_page([tmp_path / "runs"], tmp_path / "page.html")
    images = re.findall(r'<img src="data:image/png;base64,[^"]+" alt="([^"]+)"', page.read_text(encoding="utf-8"))
    assert len(images) == 2 and "path 2 × the shortest" in images[1]
    assert data_of(page)["panels"]["lengths"]["charts"][0]["views"]["eval"][0]["y"] == [50, 1.5]


def test_settings_show_what_differs_and_keep_the_rest_folded(tmp_path):
    for beta in (0.5, 1.0):
        write_run(tmp_path / f"runs/{beta}", beta=beta)
    page = build_page([tmp_path / "runs"], tmp_path / "page.html").read_text(encoding="utf-8")
    section = page[page.index('id="settings"') : page.index('id="again"')]
    open_part, folded = section.split("<details>")
    assert "beta" in open_part and "gamma" not in open_part and "gamma" in folded


def test_versions_of_the_runs_are_shown_where_recorded(tmp_path):
    for i, version in enumerate(("2.3.0", "2.4.1")):
        folder = write_run(tmp_path / f"runs/{i}", seed=i)
        (folder / "versions.json").write_text(json.dumps({"torch": version}))
    assert "2.3.0, 2.4.1" in text_of(build_page([tmp_path / "runs"], tmp_path / "page.html"))


def test_the_page_asks_the_network_for_nothing(tmp_path):
    page = build_page([write_maze_run(tmp_path / "run")], tmp_path / "page.html", paper=True)
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"""(src|href)=["'](?!data:|#)""", text)
    assert "default-src 'none'" in text and "@import" not in text and "url(http" not in text


def test_words_from_files_cannot_become_code(tmp_path):
    attack = '</script><script>alert("x")</script><img src=x onerror=alert(1)>'
    folder = write_run(tmp_path / "run", "ebu", rows=[{"kind": "train", "step": 100, "ep_rew_mean": 1.0}])
    settings = json.loads((folder / "config.json").read_text())
    settings |= {"algo": attack, "env": attack, attack: attack, "preset": attack}
    (folder / "config.json").write_text(json.dumps(settings))
    (folder / "failure.json").write_text(json.dumps({"error": attack}))
    other = write_run(tmp_path / "other")
    text = build_page([folder, other], tmp_path / "page.html", title=attack, note=attack).read_text(encoding="utf-8")
    assert text.count("<script") == 2 and "<img src=x" not in text
    assert data_of(tmp_path / "page.html")  # and the data is still data


def test_what_is_not_a_number_becomes_null():
    assert html.embedded({"a": [float("nan"), float("inf"), 1.5]}) == '{"a":[null,null,1.5]}'


def test_the_same_rows_give_the_same_bytes(tmp_path):
    for seed in range(3):
        write_run(tmp_path / f"runs/{seed}", scores=(1.0, 2.0 * seed), seed=seed)
    pages = [build_page([tmp_path / "runs"], tmp_path / "page.html").read_bytes() for _ in range(2)]
    assert pages[0] == pages[1]


def test_cells_can_be_bold_and_stay_numbers():
    table = html.table(["", "score"], [["best", "**1,234.5**"], ["other", "7"]])
    assert '<td class="number"><b>1,234.5</b></td>' in table and '<td class="number">7</td>' in table


def test_sections_of_the_caller_come_first_and_need_no_runs(tmp_path):
    table = html.table(["", "ours", "paper"], [["mean", "1.5", "2"]], "Published numbers beside ours")
    page = build_page([], tmp_path / "page.html", before=[Section("table1", "Table 1", table)], made_by="ebu reproduce table1")
    text = text_of(page)
    assert "Published numbers beside ours" in text and "ebu reproduce table1" in text


def test_nothing_to_report_is_refused(tmp_path):
    with pytest.raises(UserError, match="nothing to report"):
        build_page([], tmp_path / "page.html")


def test_a_page_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write"):
        build_page([write_run(tmp_path / "run")], tmp_path / "file" / "page.html")


def test_fifty_runs_make_a_small_page(tmp_path):
    rng = np.random.default_rng(0)
    for algo, density, seed in itertools.product(("ebu", "dqn", "n-step", "retrace", "per"), (0.3, 0.5), range(5)):
        more = {"algo": algo, "seed": seed, "env_args": (f"wall_density={density}", f"maze_seed={seed}")}
        scores = rng.normal(size=100).cumsum().tolist()
        write_maze_run(tmp_path / f"runs/{algo}-{density}-{seed}", lengths=rng.uniform(1, 50, 40), scores=scores, **more)
    page = build_page([tmp_path / "runs"], tmp_path / "page.html")
    assert page.stat().st_size < 8e6


@pytest.mark.parametrize(
    ("values", "expected"),
    [((14.412, 9.25), 1), ((0.66, 0.4833), 3), ((6.2, 5.54), 2), ((9.0, 3.0), 0), ((2.5, 1.0), 1), ((1234.5, 0.5), 0), ((), 0),
     ((0.0, 0.0), 0), ((-20.83, -0.2), 1)],
)  # fmt: skip
def test_numbers_of_a_line_have_as_many_decimals_three_digits_in_the_largest(values, expected):
    assert decimals(values) == expected
