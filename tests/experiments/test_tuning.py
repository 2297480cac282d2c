"""``ebu tune`` with the real Optuna: trials, pruning, resuming, the preset file, the page, and refusals in one line."""

from __future__ import annotations

import json
import sys

import pytest

from ebu.config import from_json
from ebu.envs.families import families
from ebu.errors import UserError
from ebu.experiments.sweeps.adoption import finished_folders
from ebu.experiments.sweeps.pruning import Membership, open_storage, pruner_of, was_pruned
from ebu.experiments.sweeps.worker import carry_out
from ebu.experiments.tuning.page import importances, write_page
from ebu.experiments.tuning.study import Plan, Work, best_trial, distribution, open_study, over_trials
from ebu.preset_files import read_preset
from ebu.presets import configure
from ebu.registry import methods
from ebu.search_space import Choice, Range
from ebu.training.events import Evaluated, Trained
from ebu.types import Evaluation
from tests.conftest import ebu_

optuna = pytest.importorskip("optuna")

SMALL = {"steps": 120, "eval_every": 40, "eval_episodes": 1, "learning_starts": 30, "hidden_sizes": (8,), "batch_size": 8}
FLAGS = "--steps 120 --eval-every 40 --eval-episodes 1 --learning-starts 30 --hidden-sizes 8 --batch-size 8 --workers 1"
PLAN = Plan(configure("ebu", "CartPole-v1", **SMALL), "none")


class InProcess:
    """An engine without processes: the worker's own function, trial after trial."""

    store = ""

    def __init__(self, interrupt_after=None, broken=()):
        self.left, self.broken = interrupt_after, broken

    def run(self, sweep):
        for job in sweep.waiting():
            if self.left == 0:
                sweep.stops = 1
                job.end("stopped")
                continue
            self.left = None if self.left is None else self.left - 1
            job.begin()
            if job.trial.seed in self.broken:
                job.end("failed", "broken")
                continue
            outcome = carry_out(job.path, job.trial.config())
            job.end(outcome.state, outcome.reason)


def make_work(out, engine=None, plan=PLAN, together=2):
    out.mkdir(exist_ok=True)
    storage = f"sqlite:///{out / 'study.db'}"
    return Work(plan, open_study(plan, storage, "study"), storage, out, engine or InProcess(), together)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """A study of three trials, and the comparison on another seed."""
    work = make_work(tmp_path_factory.mktemp("tuned") / "out")
    work.run(3)
    return work, work.confirm(1)


def test_every_method_names_what_is_varied_and_starts_inside(tmp_path):
    for name, method in methods().items():
        for kind in families():
            env = next(iter(kind.examples))
            for preset in kind.presets:
                plan = Plan(configure(name, env, preset))
                for setting, one in plan.space.items():
                    assert distribution(one)._contains(distribution(one).to_internal_repr(plan.default[setting])), (
                        name,
                        env,
                        setting,
                    )
                assert method.search(plan.config).keys() >= {"learning_rate", "batch_size"}


def test_the_first_trial_is_where_one_starts_and_all_are_run_folders(tuned):
    work, _ = tuned
    trials = over_trials(work.study)
    assert [one.state.name for one in trials] == ["COMPLETE"] * 3
    assert trials[0].params == PLAN.default
    for one in trials:
        folder = work.out / "trials" / one.user_attrs["folder"]
        config = from_json((folder / "config.json").read_text())
        assert (config.run.seed, config.target.beta) == (one.number, one.params["beta"])
        rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        scores = {row["step"]: row["mean_reward"] for row in rows if row["kind"] == "eval"}
        assert one.intermediate_values == scores and one.value == pytest.approx(sum(scores.values()) / 3)
    assert best_trial(work.study).value == max(one.value for one in trials)


def test_the_best_settings_are_a_preset_file_that_trains(tuned, tmp_path):
    work, _ = tuned
    best = best_trial(work.study)
    assert ebu_("train --tensorboard False --preset", work.best_file, "--run", tmp_path / "run") == 0
    config = from_json((tmp_path / "run" / "config.json").read_text())
    assert config == configure("ebu", "CartPole-v1", **SMALL | best.params)
    assert read_preset(work.best_file)["env"] == "CartPole-v1"


def test_the_comparison_is_on_seeds_that_were_not_tuned_on(tuned):
    work, confirmed = tuned
    assert {name: len(scores) for name, scores in confirmed.items()} == {"tuned": 1, "default": 1}
    seeds = {from_json((folder / "config.json").read_text()).run.seed for folder in work.confirmed_folders(1)}
    assert seeds.isdisjoint(one.user_attrs["seed"] for one in over_trials(work.study))


def test_the_page_shows_history_importances_and_curves(tuned):
    work, confirmed = tuned
    page = write_page(work, confirmed, "ebu tune").read_text(encoding="utf-8")
    for words in ("Best settings", "History", "What mattered", "All trials", "Learning curves", "beta"):
        assert words in page
    assert page.count("data:image/png;base64,") >= 2 and "http" not in page.partition("</style>")[2].split("<script")[0]
    assert importances(work.study) == {} or sum(importances(work.study).values()) == pytest.approx(1)


def test_an_interrupted_study_goes_on_where_it_stopped(tmp_path):
    work = make_work(tmp_path / "out", InProcess(interrupt_after=1))
    with pytest.raises(KeyboardInterrupt):
        work.run(2)
    assert len(over_trials(work.study)) == 1 and work.best_file.exists()
    begun = [one.params for one in work.study.trials]
    again = make_work(tmp_path / "out")
    again.run(2)
    assert [one.params for one in again.study.trials][: len(begun)] == begun
    assert [one.state.name for one in again.study.trials] == ["COMPLETE"] * 2
    again.run(2)  # nothing is left
    assert len(again.study.trials) == 2


def test_trials_of_another_machine_are_left_to_it(tmp_path):
    mine, other = make_work(tmp_path / "mine"), make_work(tmp_path / "mine")
    object.__setattr__(other, "out", tmp_path / "theirs")
    asked = other._ask()
    mine.run(2)
    assert [one.state.name for one in mine.study.trials] == ["RUNNING", "COMPLETE"]
    assert asked.number == 0


def test_a_trial_that_fails_is_told_and_the_others_go_on(tmp_path, capsys):
    work = make_work(tmp_path / "out", InProcess(broken={1}))
    work.run(2)
    assert [one.state.name for one in work.study.trials] == ["COMPLETE", "FAIL"]
    assert "failed: broken" in capsys.readouterr().err


def evaluated(step, score):
    return Evaluated(step, Evaluation(returns=(score,), lengths=(1,), mean_q=0.0, mean_discounted_return=0.0))


def test_a_trial_that_falls_behind_is_stopped_at_an_evaluation(tmp_path):
    plan = Plan(PLAN.config, "median")
    study = open_study(plan, f"sqlite:///{tmp_path / 'study.db'}", "study")
    for _ in range(5):
        good = study.ask({"beta": distribution(Range(0.0, 1.0))})
        for step in (40, 80, 120):
            good.report(100.0, step)
        study.tell(good, 100.0)
    asked = study.ask({"beta": distribution(Range(0.0, 1.0))})
    Membership(f"sqlite:///{tmp_path / 'study.db'}", "study", asked._trial_id, "median", 120).write(tmp_path)
    pruner = pruner_of(tmp_path)
    assert pruner(Trained(10)) and pruner(evaluated(20, 1.0)) and not was_pruned(tmp_path)  # too early to judge
    assert not pruner(evaluated(40, 1.0)) and pruner.has_pruned and was_pruned(tmp_path)
    assert json.loads((tmp_path / "pruned.json").read_text()) == {"step": 40}
    assert study.trials[-1].intermediate_values == {20: 1.0, 40: 1.0}


def test_a_pruned_trial_is_a_short_finished_run_that_nobody_adopts(tmp_path, monkeypatch):
    work = make_work(tmp_path / "out", plan=Plan(PLAN.config, "median"), together=1)
    monkeypatch.setattr("optuna.trial.Trial.should_prune", lambda self: self.number == 1)
    work.run(2)
    assert [one.state.name for one in work.study.trials] == ["COMPLETE", "PRUNED"]
    folder = work.out / "trials" / work.study.trials[1].user_attrs["folder"]
    assert json.loads((folder / "summary.json").read_text())["steps"] == 40
    wanted = [PLAN.trial(one.user_attrs["seed"], one.params, "") for one in work.study.trials]
    beside = tmp_path / "item"
    assert set(finished_folders(wanted, beside)) == {wanted[0].id}


def test_a_study_of_something_else_is_refused_in_one_line(tmp_path, capsys):
    make_work(tmp_path / "out")
    other = Plan(configure("dqn", "Acrobot-v1", **SMALL))
    with pytest.raises(UserError) as error:
        make_work(tmp_path / "out", plan=other)
    assert (
        "is about ebu on CartPole-v1 for 120 steps (it differs in algo, env, search); choose another --out or --study"
        in str(error.value)
    )
    storage = f"sqlite:///{tmp_path / 'stranger.db'}"
    optuna.create_study(study_name="x", storage=storage).ask()
    with pytest.raises(UserError, match="was not made by ebu tune"):
        open_study(PLAN, storage, "x")


WRONG = {
    "--trials 0": "--trials must be at least 1",
    "--eval-every 0": "a trial is judged by its evaluations",
    "--eval-every 999": "a trial is judged by its evaluations",
    "--beta 3": "beta must be between 0 and 1",
    "--storage nowhere://x": "the storage nowhere://x cannot be used",
    "--address x:1": "--address names a Ray cluster",
}


@pytest.mark.parametrize("flags", WRONG)
def test_what_cannot_be_tuned_is_refused_in_one_line(flags, tmp_path, capsys):
    assert ebu_(f"tune CartPole-v1 {FLAGS} {flags} --out", tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert WRONG[flags] in error and len(error.splitlines()) == 1


def test_without_optuna_one_line_says_how_to_get_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert ebu_(f"tune CartPole-v1 {FLAGS} --out", tmp_path / "out") == 2
    assert "ebu tune needs an extra: pip install 'episodic-backward-update[tune]'" in capsys.readouterr().err


def test_the_storage_of_a_study_is_found_by_its_address(tmp_path):
    assert open_storage(f"sqlite:///{tmp_path / 'a.db'}").get_all_studies() == []
    assert distribution(Choice((1, "episode"))).choices == (1, "episode")


@pytest.mark.slow
def test_the_command_tunes_with_the_local_engine(tmp_path, capsys):
    assert ebu_(f"tune CartPole-v1 {FLAGS} --trials 3 --confirm 1 --out", tmp_path / "out") == 0
    shown = capsys.readouterr().out
    assert "0 of 3 trials ended" in shown and "seeds not used in tuning" in shown and "next: ebu train --preset" in shown
    assert ebu_(f"tune CartPole-v1 {FLAGS} --trials 3 --confirm 1 --out", tmp_path / "out") == 0
    assert "3 of 3 trials ended" in capsys.readouterr().out
