"""A new family of environments is one record, registered from outside."""

from __future__ import annotations

import json

import pytest

from ebu.cli import main
from ebu.envs.families import OTHER, families, family, register_family
from ebu.envs.family import SMALL_NETWORK, Family
from ebu.envs.make import make_environment
from ebu.errors import UserError
from ebu.experiments.sweeps.trials import trial

ENVIRONMENT = "tests.outside.laboratory:Corridor-4"


def only_quick(name, recognises):
    return Family(name, recognises=recognises, presets={"quick": {}})


def test_ebu_train_takes_the_preset_and_the_environments_of_the_record(tmp_path, capsys, laboratory):
    assert main(["train", "--env", ENVIRONMENT, "--preset", "tiny", "--run", str(tmp_path / "run")]) == 0, capsys.readouterr()
    config = json.loads((tmp_path / "run/config.json").read_text())
    text = json.dumps(config)
    assert '"tiny"' in text and '"steps": 120' in text and '"gamma": 0.5' in text
    assert set(laboratory.MADE) == {(ENVIRONMENT, True), (ENVIRONMENT, False)}


def test_an_unknown_preset_names_those_of_the_record(capsys):
    assert main(["train", "--env", ENVIRONMENT, "--preset", "paper"]) == 2
    assert "choose from quick, tiny" in capsys.readouterr().err


def test_a_trial_costs_what_the_record_says(laboratory):
    tiny, quick = (trial("ebu", ENVIRONMENT, 0, preset=preset) for preset in ("tiny", "quick"))
    assert tiny.expected_seconds() == pytest.approx(3.0 + 120)
    assert laboratory.CORRIDOR.cost("quick") == SMALL_NETWORK and 3.0 < quick.expected_seconds() < 4.0


def test_ebu_list_names_it(capsys):
    assert main(["list"]) == 0
    text = capsys.readouterr().out
    assert "Corridor-4" in text and ": quick" in text and ": tiny" in text


def test_the_family_for_all_other_names_stays_last():
    register_family(only_quick("mine", lambda name: name == "mine"))
    assert families()[-1] is OTHER and family("mine").name == "mine" and family("CartPole-v1") is OTHER


def test_a_later_family_may_claim_names_of_an_earlier_one():
    mine = register_family(only_quick("my-grids", lambda name: name.startswith("MiniGrid-Mine")))
    assert family("MiniGrid-Mine-v0") is mine
    assert family("MiniGrid-Empty-5x5-v0").name == "minigrid"


def test_a_module_before_a_colon_is_imported_and_may_register_its_family(tmp_path, monkeypatch):
    (tmp_path / "own_corridors.py").write_text(
        "from ebu.envs.families import register_family\n"
        "from ebu.envs.family import Family\n"
        "from tests.outside.laboratory import Corridor\n"
        "register_family(Family('own', lambda name: name.startswith('own_corridors:'), {'quick': {}},\n"
        "                       make=lambda name, training, **arguments: Corridor(**arguments)))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert make_environment("own_corridors:Any-v0", {"length": 7}).length == 7
    assert family("own_corridors:Any-v0").name == "own"


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: register_family(only_quick("maze", lambda name: False)), "already a family of environments called 'maze'"),
        (lambda: register_family(only_quick("other", lambda name: False)), "already a family of environments called 'other'"),
        (lambda: Family("mine", lambda name: True, presets={"long": {}}), "needs a preset called 'quick'; it has long"),
        (lambda: Family("mine", lambda name: True, {"quick": {}}, costs={"slow": SMALL_NETWORK}), "a cost for slow"),
        (lambda: Family(" ", lambda name: True, {"quick": {}}), "needs a name"),
    ],
)
def test_a_record_that_cannot_be_used_is_refused(made, words):
    with pytest.raises(UserError, match=words):
        made()


def test_a_missing_package_and_a_broken_environment_are_one_line():
    def fail(name, training, **arguments):
        raise RuntimeError("out\nof order")

    register_family(Family("absent", lambda name: name == "absent", {"quick": {}}, module="no_such_module_at_all"))
    register_family(Family("broken", lambda name: name == "broken", {"quick": {}}, make=fail))
    with pytest.raises(UserError, match=r"^absent needs the package no_such_module_at_all, which is not installed$"):
        make_environment("absent")
    with pytest.raises(UserError, match=r"^broken could not be created with its defaults: out of order$"):
        make_environment("broken")
