"""A changed bit in any file of a run, finished or not: noticed by ``ebu verify``, or without effect on the run."""

import itertools
import shutil

import numpy as np
import pytest

import ebu
from ebu.config import from_json
from ebu.errors import UserError
from ebu.presets import configure
from ebu.storage.run_folder import RunFolder
from ebu.storage.verify import verify_run
from ebu.training.trainer import Trainer

STOPPED_AT, STEPS = 240, 300
SETTINGS = {
    "learning_starts": 50, "batch_size": 16, "log_every": 50, "hidden_sizes": (16,), "eval_every": 100, "eval_episodes": 1,
    "checkpoint_every": 60, "seed": 3,
}  # fmt: skip
UNREAD = ("lock", "events.out.tfevents")  # nothing in them is read by a run or by a report


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A run that was stopped, with every kind of file that such a run can have."""
    path = tmp_path_factory.mktemp("stopped") / "run"
    config = configure("per", "CartPole-v1", **SETTINGS, steps=STEPS)
    folder = RunFolder.create(path, config)
    agent = ebu.Agent.from_config(config)
    Trainer(agent.loop, STEPS, folder=folder).run([lambda event: event.step < STOPPED_AT])
    agent.save(folder.policy)
    assert verify_run(folder) == []
    return path


@pytest.fixture(scope="module")
def continued(stopped, tmp_path_factory):
    """What the run ends with if nothing happens to it."""
    path = tmp_path_factory.mktemp("continued") / "run"
    shutil.copytree(stopped, path)
    ebu.resume(path, announce=lambda line: None)
    return {name: (path / name).read_bytes() for name in ("metrics.jsonl", "policy.ebu")}


@pytest.fixture
def run(stopped, tmp_path):
    shutil.copytree(stopped, tmp_path / "run")
    return tmp_path / "run"


def damages(run, number):
    """Every file, ``number`` times with another bit changed; as it was when the caller is done with it."""
    rng = np.random.default_rng(0)
    for path in sorted(path for path in run.rglob("*") if path.is_file()):
        content = path.read_bytes()
        for place in rng.integers(len(content) * 8, size=number) if content else []:
            damaged = bytearray(content)
            damaged[place // 8] ^= 1 << (place % 8)
            path.write_bytes(damaged)
            yield path, int(place)
            path.write_bytes(content)


def is_without_effect(path, stopped):
    if path.name.startswith(UNREAD):
        return True
    return path.name == "config.json" and from_json(path.read_text()) == RunFolder(stopped).read_config()  # white space


@pytest.mark.parametrize("number", [3, pytest.param(250, marks=pytest.mark.slow)])
def test_a_changed_bit_in_any_file_is_noticed_or_without_effect(run, stopped, number):
    names = set()
    for path, place in damages(run, number):
        names.add(path.name.partition("-0")[0].partition(".tfevents")[0])
        assert verify_run(RunFolder(run)) or is_without_effect(path, stopped), (path.name, place)
    assert names >= {
        "config.json", "versions.json", "metrics.jsonl", "timing.jsonl", "policy.ebu", "lock", "events.out", "episodes",
        "manifest.json", "state.json", "tensors.safetensors", "blocks.bin",
    } - {path.name for path in run.rglob("*") if not path.stat().st_size}  # fmt: skip


@pytest.mark.parametrize("number", [2, pytest.param(250, marks=pytest.mark.slow)])
def test_a_changed_bit_in_any_file_of_a_finished_run_is_noticed(run, number):
    ebu.resume(run, announce=lambda line: None)
    assert RunFolder(run).is_finished and any(run.glob("checkpoints/generation-*"))
    for path, place in damages(run, number):
        assert verify_run(RunFolder(run)) or path.name == "lock", (path.name, place)


@pytest.mark.parametrize(("number", "every"), [(1, 4), pytest.param(25, 1, marks=pytest.mark.slow)])
def test_a_damaged_run_ends_as_it_would_have_or_says_so(run, continued, tmp_path, number, every):
    """Refused in one line, continued from the checkpoint before with the same result, or not concerned at all."""
    for path, place in itertools.islice(damages(run, number), 0, None, every):
        copy = tmp_path / "copy"
        shutil.copytree(run, copy)
        try:
            ebu.resume(copy, announce=lambda line: None)
        except UserError as error:
            assert "\n" not in str(error)
        else:
            ended = {name: (copy / name).read_bytes() for name in continued}
            assert ended == continued, (path.name, place)
        shutil.rmtree(copy)


def test_rows_that_were_changed_are_not_continued_unless_told_to(run, continued):
    metrics = run / "metrics.jsonl"
    content = metrics.read_bytes()
    place = content.index(b'"step": 50') + 8
    metrics.write_bytes(content[:place] + b"4" + content[place + 1 :])
    with pytest.raises(UserError, match=r"was changed: .* --drop-damaged` continues with the rows as they are"):
        ebu.resume(run)
    said = []
    ebu.resume(run, announce=said.append, drop_damaged=True)
    assert "continues with the rows as they are" in said[0]
    changed = metrics.read_bytes()
    assert changed[place : place + 1] == b"4"
    assert changed[:place] + b"5" + changed[place + 1 :] == continued["metrics.jsonl"]
    assert verify_run(RunFolder(run)) == []


def test_rows_that_are_missing_do_not_cost_the_run(run, continued):
    metrics = run / "metrics.jsonl"
    metrics.write_bytes(metrics.read_bytes()[:-30])  # in the middle of a row
    with pytest.raises(UserError, match="cannot be resumed exactly"):
        ebu.resume(run)
    ebu.resume(run, drop_damaged=True, announce=lambda line: None)
    lines = metrics.read_bytes().splitlines()
    assert set(lines) < set(continued["metrics.jsonl"].splitlines()) and len(lines) >= 3


def test_a_policy_whose_checksum_lost_its_name_is_not_taken_for_one_of_an_older_version(run):
    policy = run / "policy.ebu"
    content = policy.read_bytes()
    begin = content.rindex(rb"\"sha256\"")
    for place in range(begin, begin + 14):
        policy.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        assert any("policy.ebu" in problem for problem in verify_run(RunFolder(run))), place
