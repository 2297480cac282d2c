"""The settings section: only what a method reads, each fact once."""

from __future__ import annotations

import re

from ebu.report.groups import group
from ebu.report.rows import read_run
from ebu.report.settings import settings
from tests.report.folders import write_run


def section(*folders):
    return settings(group(read_run(folder) for folder in folders))


def rows(text):
    """First cell → the others, over all tables."""
    lines = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", line) for line in re.findall(r"<tr>(.*?)</tr>", text)]
    return {first: others for first, *others in lines}


def mazes(folder, algos=("ebu", "dqn"), densities=(0.3, 0.5), seeds=range(4)):
    return [
        write_run(folder / f"{a}{d}{s}", a, "maze", env_args=(f"wall_density={d}", f"maze_seed={s}"), seed=s)
        for a in algos
        for d in densities
        for s in seeds
    ]


def test_a_method_shows_only_the_settings_that_it_reads(tmp_path):
    settings = {"ebu": {"beta": 0.25}, "dqn": {}, "peng": {"trace_lambda": 0.9}, "retrace": {"trace_lambda": 0.5}}
    found = rows(section(*(write_run(tmp_path / algo, algo, **own) for algo, own in settings.items())))
    assert found["method"] == ["trace_lambda"]
    assert (found["EBU"], found["DQN"], found["Peng&#x27;s Q(λ=0.9)"]) == (["–"], ["–"], ["0.9"])
    assert found["beta"] == ["0.25"] and "betas" not in found and "gate" not in found and "sync_interval" not in found


def test_a_column_of_a_setting_is_empty_for_the_methods_that_do_not_read_it(tmp_path):
    runs = [write_run(tmp_path / f"{a}{b}", a, beta=b) for a in ("ebu", "dqn") for b in (0.5, 1.0)]
    found = rows(section(*runs))
    assert (found["EBU β=0.5"], found["EBU β=1"], found["DQN"]) == (["0.5"], ["1"], ["–"])


def test_what_differs_between_repetitions_is_said_once(tmp_path):
    text = section(*mazes(tmp_path))
    assert "Besides the seed, repetitions differ in maze_seed." in text
    assert text.count("repetitions differ") == 1


def test_what_differs_between_some_repetitions_names_them(tmp_path):
    more = [write_run(tmp_path / f"pole{seed}", seed=seed) for seed in range(2)]
    assert "repetitions differ in maze_seed (EBU on maze, wall_density=0.5)." in section(
        *mazes(tmp_path, ("ebu",), (0.5,)), *more
    )


def test_a_table_shows_all_mazes_of_an_environment(tmp_path):
    found = rows(section(*mazes(tmp_path)))
    assert [words.rpartition("maze_seed=")[2] for words in found["env_args"]] == ["0…3", "0…3"]
    found = rows(section(*mazes(tmp_path / "few", seeds=(2, 10))))
    assert [words.rpartition("maze_seed=")[2] for words in found["env_args"]] == ["2, 10", "2, 10"]
