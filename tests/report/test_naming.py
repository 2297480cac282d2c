"""Names of methods and environments: one identity, one name, wherever it is shown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ebu import registry
from ebu.config import flat
from ebu.presets import configure
from ebu.report.groups import differing, group, slots
from ebu.report.naming import natural
from ebu.report.rows import read_run
from tests.report.folders import write_run

FAST = {"layer_norm": True, "learning_rate": 5e-4, "learning_rate_schedule": "linear", "max_grad_norm": 10.0, "tau": 0.005}
BREAKOUT, FREEWAY = "MinAtar/Breakout-v1", "MinAtar/Freeway-v1"


def groups_of(*folders):
    return group(read_run(folder) for folder in folders)


def named(groups):
    return [(found.env, found.method, len(found.runs)) for found in groups]


# ---------------------------------------------------------------------- methods


def test_a_method_has_one_name_and_colour_on_all_environments(tmp_path):
    """Presets differ between environments; that alone does not make two methods of one."""
    runs = [write_run(tmp_path / f"{a}{e}", algo=a, env=e) for a in ("ebu", "dqn") for e in ("CartPole-v1", "maze")]
    assert slots(groups_of(*runs)) == {"EBU": 0, "DQN": 1}


def test_a_method_told_apart_on_one_environment_keeps_its_name_on_the_others(tmp_path):
    worlds = {"CartPole-v1": (0.5, 1.0), "Acrobot-v1": (1.0,)}
    runs = [write_run(tmp_path / f"{e}{b}", env=e, beta=b) for e, betas in worlds.items() for b in betas]
    assert named(groups_of(*runs)) == [
        ("Acrobot-v1", "EBU β=1", 1),
        ("CartPole-v1", "EBU β=0.5", 1),
        ("CartPole-v1", "EBU β=1", 1),
    ]


def test_a_name_never_holds_other_settings_on_another_environment(tmp_path):
    """Two uses with many settings apart, of which some environments have only one: none is an unnamed second one."""
    runs = [
        write_run(tmp_path / "fast", env=BREAKOUT, **FAST),
        write_run(tmp_path / "plain", env=BREAKOUT),
        write_run(tmp_path / "late", env=BREAKOUT, env_args=("reward_delay=episode",), **FAST),
        write_run(tmp_path / "freeway", env=FREEWAY),
        write_run(tmp_path / "peng", "peng", env=BREAKOUT, **FAST),
        write_run(tmp_path / "peng-freeway", "peng", env=FREEWAY),
    ]
    found = groups_of(*runs)
    assert named(found) == [
        (BREAKOUT, "EBU", 1),
        (BREAKOUT, "EBU, settings A", 1),
        (BREAKOUT, "Peng's Q(λ=0.7), settings A", 1),
        (f"{BREAKOUT}, reward_delay=episode", "EBU, settings A", 1),
        (FREEWAY, "EBU", 1),
        (FREEWAY, "Peng's Q(λ=0.7)", 1),
    ]
    assert {(g.letter, g.meaning) for g in found if g.letter} == {
        ("settings A", "learning rate 0.0005, learning rate schedule linear, max grad norm 10, tau 0.005, layer norm")
    }


def test_what_a_task_brings_does_not_make_another_method(tmp_path):
    """Its own network and number of steps, for all methods on it alike."""
    tasks = {"CartPole-v1": {}, "Acrobot-v1": {"hidden_sizes": (32,), "train_freq": 2, "tau": 0.5}}
    runs = [write_run(tmp_path / f"{a}{e}", a, e, **own) for e, own in tasks.items() for a in ("ebu", "dqn")]
    assert {method for _, method, _ in named(groups_of(*runs))} == {"EBU", "DQN"}


def test_the_length_of_a_run_is_part_of_a_name_only_beside_the_same_method(tmp_path):
    lengths = {"CartPole-v1": {"ebu": 300, "dqn": 200}, "Acrobot-v1": {"ebu": 100, "dqn": 100}}
    runs = [write_run(tmp_path / f"{a}{e}", a, e, steps=n) for e, found in lengths.items() for a, n in found.items()]
    assert {method for _, method, _ in named(groups_of(*runs))} == {"EBU", "DQN"}
    longer = write_run(tmp_path / "longer", "dqn", "CartPole-v1", steps=400)
    found = [method for env, method, _ in named(groups_of(*runs, longer)) if env == "CartPole-v1"]
    assert found == ["EBU", "DQN, steps 200", "DQN, steps 400"]


def test_presets_that_differ_by_environment_leave_what_was_changed_on_one_of_them(tmp_path):
    runs = [
        write_run(tmp_path / "pole", env="CartPole-v1"),  # τ of its preset: 0.02
        write_run(tmp_path / "hard", env=BREAKOUT),  # 1
        write_run(tmp_path / "soft", env=BREAKOUT, tau=0.02),
    ]
    assert named(groups_of(*runs)) == [("CartPole-v1", "EBU", 1), (BREAKOUT, "EBU", 1), (BREAKOUT, "EBU τ=0.02", 1)]


def test_settings_a_method_does_not_read_are_no_difference(tmp_path):
    runs = [write_run(tmp_path / f"{a}{b}", a, beta=b, seed=int(2 * b)) for a in ("ebu", "dqn") for b in (0.5, 1.0)]
    found = groups_of(*runs)
    assert [(g.method, len(g.runs)) for g in found] == [("EBU β=0.5", 1), ("EBU β=1", 1), ("DQN", 2)]
    assert differing(found[2].runs) == ["seed"]


def test_a_method_that_does_not_say_what_it_reads_may_read_all(tmp_path, monkeypatch):
    own = replace(registry.find_method("dqn"), name="own", uses=None)
    monkeypatch.setitem(registry._METHODS, "own", own)
    runs = [write_run(tmp_path / f"{algo}{beta}", algo, beta=beta) for algo in ("own", "dqn") for beta in (0.5, 1.0)]
    assert [(g.method, len(g.runs)) for g in groups_of(*runs)] == [("DQN", 2), ("own β=0.5", 1), ("own β=1", 1)]


@pytest.mark.parametrize(
    ("algo", "name"), [("retrace", "Retrace(λ=0.7)"), ("peng", "Peng's Q(λ=0.7)"), ("watkins", "Watkins' Q(λ=0.7)")]
)
def test_the_trace_of_a_method_is_part_of_its_name(tmp_path, algo, name):
    assert groups_of(write_run(tmp_path / "run", algo, trace_lambda=0.7))[0].method == name


def test_methods_are_named_in_words_by_what_differs(tmp_path):
    plain = write_run(tmp_path / "plain", "dqn", double_q=False)
    double = write_run(tmp_path / "double", "dqn", double_q=True)
    many = write_run(tmp_path / "many", "per", batch_size=7, gamma=0.5, hidden_sizes=(3,), train_freq=9, tau=0.5)
    few = write_run(tmp_path / "few", "per")
    names = {g.method for g in groups_of(plain, double, many, few)}
    assert names == {"DQN, double Q", "DQN, no double Q", "PER", "PER γ=0.5, settings A"}


def test_the_preset_is_part_of_the_name_only_where_an_environment_has_several(tmp_path):
    quick = [write_run(tmp_path / f"quick{beta}", env="maze", beta=beta) for beta in (0.5, 1.0)]
    assert {g.method for g in groups_of(*quick)} == {"EBU β=0.5", "EBU β=1"}
    paper = flat(configure("ebu", "maze", "paper")) | {"steps": 200, "eval_every": 100}
    paper = write_run(tmp_path / "paper", env="maze", **{k: v for k, v in paper.items() if k not in ("algo", "env")})
    assert {g.method for g in groups_of(*quick, paper)} == {"EBU β=0.5, quick", "EBU β=1, quick", "EBU β=1, paper"}
    pole = write_run(tmp_path / "pole", env="CartPole-v1", beta=1.0)
    assert {g.method for g in groups_of(paper, pole)} == {"EBU β=1"}


# ---------------------------------------------------------------------- environments


def test_mazes_of_one_kind_are_repetitions(tmp_path):
    def arguments(density, maze):
        return (f"wall_density={density}", f"maze_seed={maze}")

    runs = [write_run(tmp_path / f"{d}{m}", env="maze", env_args=arguments(d, m)) for d in (0.3, 0.5) for m in (0, 1)]
    assert [(g.env, len(g.runs)) for g in groups_of(*runs)] == [("maze, wall_density=0.3", 2), ("maze, wall_density=0.5", 2)]


def test_what_makes_another_task_is_said_also_where_all_environments_share_it(tmp_path):
    late = [write_run(tmp_path / f"late{e[8]}", env=e, env_args=("reward_delay=episode",)) for e in (BREAKOUT, FREEWAY)]
    assert [g.env for g in groups_of(*late)] == [f"{BREAKOUT}, reward_delay=episode", f"{FREEWAY}, reward_delay=episode"]


@pytest.mark.parametrize(
    "setting",
    [{"checkpoint_minutes": 2.0}, {"checkpoint_every": 500}, {"compress": "never"}, {"vectorization": "async"}],
    ids=str,
)
def test_how_a_run_is_stored_makes_no_other_method_of_it(tmp_path, setting):
    runs = [write_run(tmp_path / "usual"), write_run(tmp_path / "other", seed=1, **setting)]
    assert [(found.method, len(found.runs)) for found in groups_of(*runs)] == [("EBU", 2)]


def test_arguments_of_the_preset_and_seeds_are_not_part_of_a_name(tmp_path):
    arguments = ("redraw_digits=false", "wall_density=0.3", "slip=0.1", "maze_seed=4")
    assert groups_of(write_run(tmp_path / "run", env="maze", env_args=arguments))[0].env == "maze, slip=0.1"


def test_environments_come_in_the_order_of_their_numbers(tmp_path):
    folders = [write_run(tmp_path / d, env="maze", env_args=(f"wall_density={d}",)) for d in ("0.4", "0.15", "0.5", "0.2")]
    assert [g.env.partition("=")[2] for g in groups_of(*folders)] == ["0.15", "0.2", "0.4", "0.5"]
    assert sorted(["n=10", "n=9", "m"], key=natural) == ["m", "n=9", "n=10"]
