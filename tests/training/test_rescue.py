"""A damaged old episode must not cost a run: it continues without it, and its policy can always be saved."""

import json
import re
import shutil

import numpy as np
import pytest

import ebu
from ebu.cli import main
from ebu.config import override
from ebu.errors import UserError
from ebu.presets import configure
from ebu.storage.checkpoints import CheckpointStore
from ebu.storage.run_folder import RunFolder
from ebu.training.loop_state import forget_before
from ebu.training.trainer import Trainer
from tests.storage.test_checkpoints import damage

SMALL = {
    "learning_starts": 50,
    "batch_size": 16,
    "log_every": 50,
    "hidden_sizes": (16,),
    "eval_every": 0,
    "eval_episodes": 2,
    "checkpoint_every": 60,
    "seed": 3,
}
ALGORITHMS = {
    "ebu": {},
    "per": {},
    "adaptive-ebu": {"betas": (0.0, 1.0), "sync_interval": 120},
}
STOPPED_AT, STEPS = 300, 400
QUIET = ("--quiet", "--tensorboard", "False")


def half_done(path, algo="ebu"):
    """A run stopped with several segments in its checkpoints; its agent."""
    config = configure(algo, "CartPole-v1", **SMALL, **ALGORITHMS[algo], steps=STEPS)
    folder = RunFolder.create(path, config)
    agent = ebu.Agent.from_config(config)
    trainer = Trainer(agent.loop, STEPS, folder=folder)
    trainer.run([lambda event: event.step < STOPPED_AT], tensorboard=False)
    agent.save(folder.policy)
    return agent


@pytest.fixture(scope="module", params=ALGORITHMS)
def made(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("made") / "run"
    return path, half_done(path, request.param)


@pytest.fixture
def run(made, tmp_path):
    shutil.copytree(made[0], tmp_path / "run")
    return tmp_path / "run"


def segments_of(run):
    """The segments that the newest checkpoint refers to, oldest first, and what it is of."""
    store = CheckpointStore(run / "checkpoints")
    manifest = store._manifest(max(store._generations()))
    return [(segment, run / "checkpoints" / segment.file.name) for segment in manifest.segments], manifest


def resume(run, **options):
    said = []
    agent = ebu.resume(run, announce=said.append, **options)
    return agent, said


def test_one_damaged_segment_makes_every_checkpoint_unusable_and_the_way_out_is_told(run, capsys):
    (_, path), *_ = segments_of(run)[0]
    damage(path)
    assert main(["resume", str(run), *QUIET]) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert f"`ebu resume {run} --drop-damaged`" in error and f"`ebu rescue {run} --out policy.ebu`" in error


def test_every_damaged_segment_can_be_dropped_and_what_is_lost_is_told(made, tmp_path):
    memory = made[1].loop.memory
    segments, manifest = segments_of(made[0])
    shared_end = CheckpointStore(made[0] / "checkpoints")._manifest(manifest.generation - 1).end
    assert sum(segment.end <= shared_end for segment, _ in segments) >= 2
    for number, (segment, path) in enumerate(segments):
        run = tmp_path / str(number)
        shutil.copytree(made[0], run)
        damage(run / "checkpoints" / path.name)
        agent, said = resume(run, drop_damaged=True)
        if segment.first >= shared_end:  # the checkpoint before is whole
            assert "falling back to the checkpoint" in said[0] and not any("dropped" in line for line in said)
            continue
        [line] = [line for line in said if "dropped" in line]
        lost = memory.lengths(np.arange(manifest.first, segment.end)).sum()
        assert line.startswith(f"episodes {manifest.first} to {segment.end - 1} ({lost} steps) are dropped: {path.name} was")
        assert "not bit-for-bit" in line
        assert agent.loop.step == STEPS and agent.loop.memory.first_episode == segment.end
        assert RunFolder(run).is_finished
        assert main(["verify", str(run)]) == 0  # what was damaged is not referred to any more


def test_the_episodes_that_are_kept_are_the_same_and_keep_their_numbers_and_priorities(made, tmp_path):
    before = made[1].loop
    run = tmp_path / "run"
    shutil.copytree(made[0], run)
    segments, _ = segments_of(run)
    damage(segments[0][1])
    first = segments[0][0].end
    folder = RunFolder.open(run)
    after = ebu.Agent.from_config(folder.config()).loop
    Trainer(after, STEPS, folder=folder).resume(drop_damaged=True)
    assert (after.memory.first_episode, after.memory.end_episode) == (first, before.memory.end_episode)
    assert after.memory.end_step == before.memory.end_step
    for number in range(first, after.memory.end_episode):
        assert after.memory.pack(number) == before.memory.pack(number)
    if before.config.algo == "per":
        for loop in (before, after):
            loop.sampler.sample(loop.memory, 4, np.random.default_rng(0))
        heaps = [loop.sampler._heap.state_dict() for loop in (before, after)]
        then, now = (dict(zip(heap["steps"].tolist(), heap["priorities"].tolist())) for heap in heaps)
        assert now == {step: priority for step, priority in then.items() if step >= after.memory.first_step}
        assert now


def test_a_run_that_has_lost_all_its_episodes_continues(run):
    for _, path in segments_of(run)[0]:
        path.unlink()
    agent, said = resume(run, drop_damaged=True)
    assert agent.loop.step == STEPS and agent.loop.memory.episodes
    assert any("dropped" in line for line in said)


def test_a_checkpoint_that_is_whole_is_continued_exactly_also_when_dropping_is_allowed(run, tmp_path):
    shutil.copytree(run, tmp_path / "straight")
    resume(tmp_path / "straight")
    _, said = resume(run, drop_damaged=True)
    assert not any("dropped" in line for line in said)
    for name in ("policy.ebu", "metrics.jsonl"):
        assert (run / name).read_bytes() == (tmp_path / "straight" / name).read_bytes()


def test_the_flag_of_the_command_line(run, capsys):
    damage(segments_of(run)[0][0][1])
    assert main(["resume", str(run), "--drop-damaged", *QUIET]) == 0
    assert re.search(r"episodes 0 to \d+ \(\d+ steps\) are dropped: episodes-", capsys.readouterr().err)


def test_settings_are_found_in_a_checkpoint_with_damaged_episodes(run):
    damage(segments_of(run)[0][0][1])
    (run / "config.json").unlink()
    agent, said = resume(run, drop_damaged=True)
    assert agent.loop.step == STEPS
    assert "written again from the checkpoint" in said[0]


def test_steps_are_counted_in_checkpoints_that_did_not_record_them():
    memory = {"first_episode": 2, "first_step": 10}
    state = {"step": 100, "open": {"actions": [0] * 7}, "due": ["learn", "log"], "memory": memory}
    packed = [(5, (30).to_bytes(8, "little") + b"the rest")]
    changed, lost = forget_before(state, 5, packed, None)
    assert changed["memory"] == {"first_episode": 5, "first_step": 63} and lost == 53
    assert changed["due"] == ["learn", "log"]
    changed, lost = forget_before(state, 6, [], 90)
    assert changed["memory"] == {"first_episode": 6, "first_step": 90} and lost == 80
    assert changed["due"] == ["log"]
    with pytest.raises(ValueError, match="more steps than the run has taken"):
        forget_before(state, 5, [(5, (1000).to_bytes(8, "little"))], 90)


# ---------------------------------------------------------------------- the policy


def test_the_policy_of_a_damaged_run_is_the_one_it_would_have_saved(run, tmp_path, capsys):
    expected = (run / "policy.ebu").read_bytes()
    for _, path in segments_of(run)[0]:
        damage(path)
    newest = max((run / "checkpoints").glob("generation-*"))
    damage(newest / "blocks.bin") if (newest / "blocks.bin").stat().st_size else None
    for name in ("config.json", "metrics.jsonl", "policy.ebu"):
        (run / name).unlink()
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    out = tmp_path / "policy.ebu"
    assert main(["rescue", str(run), "--out", str(out)]) == 0
    printed = capsys.readouterr()
    step = segments_of(run)[1].step
    assert printed.out == f"{out}: the policy of step {step:,}\n" and printed.err == ""
    assert out.read_bytes() == expected
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    assert ebu.load(out).predict(np.zeros(4, np.float32))[0] in (0, 1)


def test_where_the_newest_weights_are_damaged_the_policy_is_of_the_checkpoint_before(run, tmp_path, capsys):
    newest = max((run / "checkpoints").glob("generation-*"))
    damage(newest / "tensors.safetensors")
    assert main(["rescue", str(run), "--out", str(tmp_path / "policy.ebu")]) == 0
    printed = capsys.readouterr()
    before = json.loads((min((run / "checkpoints").glob("generation-*")) / "manifest.json").read_bytes())["step"]
    assert f"the policy of step {before}" in printed.out
    assert f"{newest.name} is damaged (tensors.safetensors was changed" in printed.err
    assert ebu.load(tmp_path / "policy.ebu")


def test_what_cannot_be_rescued_is_one_line(run, tmp_path, capsys):
    out = str(tmp_path / "policy.ebu")
    assert main(["rescue", str(run), "--out", str(tmp_path / "no" / "policy.ebu")]) == 1
    assert "there is no folder" in capsys.readouterr().err
    for path in (run / "checkpoints").glob("generation-*/tensors.safetensors"):
        damage(path)
    assert main(["rescue", str(run), "--out", out]) == 2
    assert "has intact weights" in capsys.readouterr().err.splitlines()[-1]
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(UserError, match=r"has no checkpoint; its policy is .*policy\.ebu"):
        ebu.rescue(run, out)
    assert not (tmp_path / "policy.ebu").exists()


def test_a_checkpoint_of_another_network_is_refused(tmp_path):
    config = configure("ebu", "CartPole-v1", **SMALL, steps=80)
    folder = RunFolder.create(tmp_path / "run", config)
    agent = ebu.Agent.from_config(config)
    Trainer(agent.loop, 80, folder=folder).run(tensorboard=False)
    store = CheckpointStore(folder.checkpoints)
    tree = store.load(pytest.fail).tree
    for changes in ({"hidden_sizes": (17,)}, {"hidden_sizes": (10**6, 10**6)}):
        forged = json.loads(tree["config"]) | {k: list(v) for k, v in changes.items()}
        store.save(81, {**tree, "config": json.dumps(forged)}, agent.loop.memory)
        with pytest.raises(UserError):
            ebu.rescue(tmp_path / "run", tmp_path / "policy.ebu")
    assert override(config, hidden_sizes=(17,)) != config


# ---------------------------------------------------------------------- a folder that is gone


def test_a_run_whose_folder_is_removed_says_so_and_promises_nothing(tmp_path):
    run = tmp_path / "run"

    def remove(event):
        if event.step >= 150:
            shutil.rmtree(run, ignore_errors=True)

    agent = ebu.EBU("CartPole-v1", **SMALL)
    with pytest.raises(ebu.RunFailure) as failure:
        agent.learn(300, run=run, callback=remove)
    words = str(failure.value)
    assert "\n" not in words and "intact" not in words and "ebu resume" not in words
    assert "gone" in words
