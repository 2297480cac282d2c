"""A damaged episode costs neither the run nor another episode: it is left out, and the policy can always be saved."""

import copy
import hashlib
import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest

import ebu
from ebu.cli import main
from ebu.config import override
from ebu.errors import UserError
from ebu.memory.episodes import EpisodeMemory
from ebu.presets import configure
from ebu.storage.checkpoints import CheckpointStore
from ebu.storage.codec import encode_tensors, flatten, render_json
from ebu.storage.files import FileRecord, write_file
from ebu.storage.run_folder import RunFolder
from ebu.training.loop_state import state_of
from ebu.training.lost_episodes import restore_without_lost
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


def test_one_damaged_segment_makes_every_checkpoint_unusable_and_the_way_out_is_stated(run, capsys):
    (_, path), *_ = segments_of(run)[0]
    damage(path)
    assert main(["resume", str(run), *QUIET]) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert f"`ebu resume {run} --drop-damaged`" in error and f"`ebu rescue {run} --out policy.ebu`" in error


def in_older_form(run):
    """The run's checkpoints as earlier versions wrote them: no hash of an episode, nothing known of the steps of each."""
    store = CheckpointStore(run / "checkpoints")
    for generation in store._generations():
        manifest, tree = store._load_state(generation)
        del tree["episode_starts"]
        skeleton, tensors, blocks = flatten(tree)
        state = {"tree": skeleton, "blocks": [[name, len(block)] for name, block in blocks.items()]}
        contents = {"state.json": [render_json(state)], "tensors.safetensors": encode_tensors(tensors)}
        records = {file.name: file for file in manifest.files}
        for name, parts in contents.items():
            (path := store._path(generation) / name).unlink()
            records[name] = write_file(path, parts)
        older = []
        for segment in manifest.segments:
            path = run / "checkpoints" / segment.file.name
            data, count = path.read_bytes(), len(segment)
            if segment.file.size == len(data) and hashlib.sha256(data).hexdigest() == segment.file.sha256:
                data = data[: -40 * count] + data[-8 * count :]
                path.write_bytes(data)
            older.append(replace(segment, record=FileRecord(path.name, len(data), hashlib.sha256(data).hexdigest())))
        (store._path(generation) / "manifest.json").write_bytes(
            replace(manifest, files=tuple(records.values()), segments=tuple(older)).render()
        )


def places(segment, path):
    """Where each episode of a segment begins in its file, and where the last ends."""
    lengths = np.frombuffer(path.read_bytes()[-8 * len(segment) :], "<u8").astype(int)
    return [0, *np.cumsum(lengths).tolist()]


def test_a_changed_bit_costs_one_episode_wherever_it_is(made, tmp_path):
    before = made[1].loop
    (segment, path), *_ = segments_of(made[0])[0]
    begins, size = places(segment, path), path.stat().st_size
    assert len(segment) >= 3
    in_data = [(begins[i], i) for i in range(len(segment))] + [(begins[i + 1] - 1, i) for i in range(len(segment))]
    in_hashes = [(begins[-1] + 32 * i + 5, i) for i in range(len(segment))]
    in_lengths = [(size - 8 * len(segment) + 8 * i + byte, i) for i in range(len(segment)) for byte in (0, 7)]
    for place, i in (in_data + in_hashes + in_lengths)[:: 2 if before.config.algo == "per" else 7]:
        run = tmp_path / str(place)
        shutil.copytree(made[0], run)
        damage(run / "checkpoints" / path.name, place)
        after, said = restored(run)
        assert (
            f"1 of {before.memory.episodes} episodes ({before.memory.lengths(np.array([i]))[0]} steps) are dropped" in said[0]
        )
        assert f"damaged: {i}; {path.name} " in said[0] and "not bit-for-bit" in said[0]
        assert_kept(before, after, [i])


def test_several_damaged_episodes_are_dropped_and_no_other(made, tmp_path):
    before = made[1].loop
    run = tmp_path / "run"
    shutil.copytree(made[0], run)
    segments, _ = segments_of(run)
    (first, first_path), (second, second_path) = segments[0], segments[1]
    lost = [first.first, first.end - 1, second.end - 1]
    damage(first_path, 3)
    damage(first_path, places(first, first_path)[-2])
    damage(second_path, places(second, second_path)[-2])
    after, said = restored(run)
    assert f"3 of {before.memory.episodes} episodes" in said[0] and f"damaged: 0, {lost[1]}, {lost[2]};" in said[0]
    assert_kept(before, after, lost)


def restored(run):
    """The loop of a run taken up from its damaged checkpoint, without training, and what was said."""
    folder, said = RunFolder.open(run), []
    loop = ebu.Agent.from_config(folder.config()).loop
    Trainer(loop, STEPS, folder=folder, announce=said.append).resume(drop_damaged=True)
    return loop, said


def assert_kept(before, after, lost):
    """All episodes but those lost, as they were, moved up so that their numbers leave no gap."""
    kept = [number for number in range(before.memory.first_episode, before.memory.end_episode) if number not in lost]
    assert (after.memory.end_episode, after.memory.end_step) == (before.memory.end_episode, before.memory.end_step)
    assert after.memory.episodes == len(kept)
    for number, moved in zip(kept, range(after.memory.first_episode, after.memory.end_episode)):
        assert after.memory.pack(moved) == EpisodeMemory.renumbered(moved, before.memory.pack(number))
    if before.config.algo == "per":
        assert_priorities_moved(before, after, kept)


def assert_priorities_moved(before, after, kept):
    then, now = priorities_of(before), priorities_of(after)
    starts = dict(zip(range(before.memory.first_episode, before.memory.end_episode), before.memory.starts().tolist()))
    length = {number: int(before.memory.lengths(np.array([number]))[0]) for number in kept}
    moved = [step for number in kept for step in range(starts[number], starts[number] + length[number])]
    assert now == {after.memory.first_step + i: then[step] for i, step in enumerate(moved)}


def priorities_of(loop):
    """Step → priority, of all steps that the memory holds at this moment."""
    sampler = copy.deepcopy(loop.sampler)
    sampler.sample(loop.memory, 4, np.random.default_rng(0))
    heap = sampler._heap.state_dict()
    return dict(zip(heap["steps"].tolist(), heap["priorities"].tolist()))


def test_a_run_continues_without_damaged_episodes_and_is_sound_at_its_end(made, tmp_path):
    segments, manifest = segments_of(made[0])
    shared_end = CheckpointStore(made[0] / "checkpoints")._manifest(manifest.generation - 1).end
    assert sum(segment.end <= shared_end for segment, _ in segments) >= 2
    for segment, path in (segments[0], segments[-1]):
        run = tmp_path / path.name
        shutil.copytree(made[0], run)
        damage(run / "checkpoints" / path.name)
        agent, said = resume(run, drop_damaged=True)
        if segment.first >= shared_end:  # the checkpoint before is whole
            assert "falling back to the checkpoint" in said[0] and not any("dropped" in line for line in said)
            continue
        assert "1 of " in said[0] and "dropped" in said[0]
        assert agent.loop.step == STEPS and RunFolder(run).is_finished
        assert main(["verify", str(run)]) == 0  # what was damaged is not referred to any more


def test_of_an_older_checkpoint_all_episodes_after_the_damaged_segment_are_kept(made, tmp_path):
    before = made[1].loop
    run = tmp_path / "run"
    shutil.copytree(made[0], run)
    in_older_form(run)
    assert main(["verify", str(run)]) == 0
    segments, manifest = segments_of(run)
    damage(segments[0][1])
    after, said = restored(run)
    first = segments[0][0].end
    assert_kept(before, after, range(manifest.first, first))
    words = f"{first - manifest.first} of {before.memory.episodes} episodes ({after.memory.first_step} steps) are dropped"
    assert words in said[0] and f"damaged: {manifest.first} to {first - 1};" in said[0]


def test_an_older_checkpoint_that_is_whole_continues_exactly(run, tmp_path):
    shutil.copytree(run, tmp_path / "straight")
    in_older_form(run)
    for path in (run, tmp_path / "straight"):
        resume(path)
    for name in ("policy.ebu", "metrics.jsonl"):
        assert (run / name).read_bytes() == (tmp_path / "straight" / name).read_bytes()


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
    assert re.search(r"1 of \d+ episodes \(\d+ steps\) are dropped, damaged: \d+; episodes-", capsys.readouterr().err)


def test_settings_are_found_in_a_checkpoint_with_damaged_episodes(run):
    damage(segments_of(run)[0][0][1])
    (run / "config.json").unlink()
    agent, said = resume(run, drop_damaged=True)
    assert agent.loop.step == STEPS
    assert "written again from the checkpoint" in said[0]


def test_episodes_with_more_steps_than_the_run_has_taken_are_refused(made):
    loop = ebu.Agent.from_config(made[1].loop.config).loop
    tree = {"loop": state_of(made[1].loop), "memory_end_step": made[1].loop.memory.end_step}
    packed = [(number, made[1].loop.memory.pack(number)) for number in range(made[1].loop.memory.end_episode)]
    packed[-1] = (packed[-1][0], (1000).to_bytes(8, "little") + packed[-1][1][8:])
    with pytest.raises(ValueError, match="more steps than the run has taken"):
        restore_without_lost(loop, tree, packed[1:])


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
