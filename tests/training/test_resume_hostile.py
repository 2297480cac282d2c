"""Run folders from strangers. Every file of one may be a lie, and a checkpoint may be well-formed down to its hashes and
still hold what no run ever wrote: all is refused in one line, quickly, with little memory, and nothing is ever run.
"""

from __future__ import annotations

import itertools
import pickle
import random
import shutil
from contextlib import suppress

import numpy as np
import pytest
import torch
import zstandard

import ebu
from ebu.cli import main
from ebu.errors import RunFailure, UserError
from ebu.presets import configure
from ebu.storage.checkpoints import CheckpointStore
from ebu.storage.run_folder import RunFolder
from ebu.storage.verify import verify_run
from ebu.training.trainer import Trainer
from tests.storage.test_checkpoint_hostile import HOSTILE_FILES, Canary, frugally, pickles

STEPS = 60
SMALL = {"learning_starts": 30, "batch_size": 8, "hidden_sizes": (8,), "eval_every": 0, "eval_episodes": 1, "log_every": 10}
RUNS = {
    "per": ("CartPole-v1", {}),
    "ebu": ("FrozenLake-v1", {"episode_choice": "newest"}),
    "adaptive-ebu": ("CartPole-v1", {"betas": (0.0, 1.0), "episode_choice": "errors"}),
    "optimality-tightening": ("maze", {"stack": 2, "env_args": ("size=3", "cap=20")}),
}


class Stopped:
    """A run that was stopped in the middle: its settings, its checkpoint, its folder."""

    def __init__(self, path, algo):
        env, more = RUNS[algo]
        self.config = configure(algo, env, steps=STEPS, **(SMALL | more))
        self.folder = RunFolder.create(path, self.config)
        agent = ebu.Agent.from_config(self.config)
        session = Trainer(agent.loop, STEPS, folder=self.folder, announce=pytest.fail)
        assert not session.run([lambda event: event.step < 50], tensorboard=False)
        self.memory = agent.loop.memory
        self.tree = CheckpointStore(path / "checkpoints").load(pytest.fail).tree

    def forged(self, path, tree):
        """The same run with another state, in a checkpoint whose every hash is right."""
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(self.folder.path, path, ignore=shutil.ignore_patterns("checkpoints"))
        CheckpointStore(path / "checkpoints").save(self.tree["loop"]["step"], tree, self.memory)
        return RunFolder(path)

    def session(self, folder):
        return Trainer(ebu.Agent.from_config(self.config).loop, STEPS, folder=folder)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    return {algo: Stopped(tmp_path_factory.mktemp(algo) / "run", algo) for algo in RUNS}


# ---------------------------------------------------------------------- a state that no run wrote


def nodes(node, path=()):
    """Every part of a tree with its path; of lists, the first two items."""
    yield path, node
    items = node.items() if isinstance(node, dict) else enumerate(node[:2]) if isinstance(node, list | tuple) else ()
    for key, value in items:
        yield from nodes(value, (*path, key))


def put(node, path, value):
    """The tree with one part replaced."""
    if not path:
        return value
    key, *rest = path
    if isinstance(node, dict):
        return {**node, key: put(node[key], rest, value)}
    items = [put(item, rest, value) if i == key else item for i, item in enumerate(node)]
    return tuple(items) if isinstance(node, tuple) else items


def lies(value):
    """What may stand in the place of a value: of another type, dtype, shape or size, or impossible."""
    yield from (None, -1, 2**70, float("nan"), "text", b"bytes", [], {}, 10**9, np.zeros((3, 0)), torch.zeros(2, 3))
    if isinstance(value, dict):
        yield {**value, "foreign": 1}
        yield dict(list(value.items())[1:])
    if isinstance(value, list):
        yield value * 3
    if isinstance(value, bytes):
        yield from (value[: len(value) // 2], pickle.dumps(value))
    if isinstance(value, np.ndarray) and value.ndim:
        yield from (value[:0], value[None], np.repeat(value, 2, 0))
        if value.dtype.kind in "iuf":
            yield from (value.astype(np.float16), value.astype(np.int8), value * float("nan"))
        if value.dtype == np.int64:
            yield from (value - 10**6, value + 10**6)
    if isinstance(value, torch.Tensor) and value.dim():
        yield from (value.double(), value.long(), value[None], value[..., :1], torch.cat([value, value]), value * float("nan"))


def believe(run, folder):
    """Resume the forged run and, should that work, train on; returns what became of it."""
    with frugally():
        session = run.session(folder)
        try:
            session.resume()
        except UserError as error:
            assert "\n" not in str(error)
            return "refused"
    try:
        session.run([], tensorboard=False)
    except (UserError, RunFailure):
        return "failed"
    return "harmless"


def test_the_forger_can_forge(stopped, tmp_path):
    for run in stopped.values():
        assert believe(run, run.forged(tmp_path / "forged", run.tree)) == "harmless"


@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
@pytest.mark.parametrize("algo", RUNS)
def test_lies_in_a_state_are_refused_or_harmless(stopped, tmp_path, algo):
    run = stopped[algo]
    told = [(path, lie) for path, value in nodes(run.tree) for lie in lies(value)]
    assert len(told) > 500
    ends = [
        believe(run, run.forged(tmp_path / "forged", put(run.tree, path, lie)))
        for path, lie in random.Random(algo).sample(told, 30)
    ]
    assert ends.count("refused") > 15


@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
@pytest.mark.parametrize("every", [9, pytest.param(1, marks=pytest.mark.slow)])
def test_lies_about_the_files_of_a_run_are_refused_or_harmless_also_to_verify(stopped, tmp_path, every):
    run = next(iter(stopped.values()))
    keys = ("metrics_bytes", "metrics_sha256", "timing", "versions", "memory_end_step", "config")
    told = [(path, lie) for key in keys for path, value in nodes(run.tree[key], (key,)) for lie in lies(value)]
    for path, lie in [(("metrics_bytes",), -1), (("versions",), np.zeros((3, 0))), *told[::every]]:
        folder = run.forged(tmp_path / "forged", put(run.tree, path, lie))
        assert all("\n" not in line for line in verify_run(folder))
        with suppress(UserError):
            run.session(folder).resume()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
@pytest.mark.parametrize("algo", RUNS)
def test_all_lies_in_a_state_are_refused_or_harmless(stopped, tmp_path, algo):
    run = stopped[algo]
    for path, value in nodes(run.tree):
        for lie in lies(value):
            believe(run, run.forged(tmp_path / "forged", put(run.tree, path, lie)))


def test_weights_of_the_wrong_dtype_or_shape_are_refused_by_name(stopped, tmp_path):
    run = stopped["ebu"]
    path = ("loop", "learner", "online", "parameters")
    weights = run.tree["loop"]["learner"]["online"]["parameters"]
    for wrong in (weights.double(), weights[:, :-1], weights.T, torch.zeros(0)):
        session = run.session(run.forged(tmp_path / "forged", put(run.tree, path, wrong.contiguous())))
        with pytest.raises(UserError, match=r"loop/learner/online/parameters is torch\.float"):
            session.resume()


# ---------------------------------------------------------------------- more than memory holds


def test_a_compressed_bomb_is_not_unpacked(stopped, tmp_path):
    run = stopped["adaptive-ebu"]
    pending = run.tree["loop"]["backlog"]["pending"][0]
    shape = [4 << 30, *pending["frames_shape"][1:]]
    rows, size = 1 << 20, 4 * int(np.prod(pending["frames_shape"][1:]))
    bomb = zstandard.ZstdCompressor(level=1).compress(bytes(rows * size))
    assert len(bomb) < 10_000
    for lie in ({"frames": bomb, "frames_shape": [rows, *shape[1:]]}, {"frames": bomb, "frames_shape": shape}):
        tree = put(run.tree, ("loop", "backlog", "pending", 0), {**pending, **lie})
        assert believe(run, run.forged(tmp_path / "forged", tree)) == "refused"


def test_priorities_of_a_billion_steps_are_not_believed(stopped, tmp_path):
    run = stopped["per"]
    path = ("loop", "sampler", "heap", "segments_of")
    for lie in ((8, 10**9, 0.5), (10**9, 40, 0.5), (8, 0, 0.5), (-1, 40, 0.5)):
        assert believe(run, run.forged(tmp_path / "forged", put(run.tree, path, lie))) == "refused"


# ---------------------------------------------------------------------- another run's checkpoint


def test_numbers_of_episodes_and_steps_beyond_64_bits_are_refused(stopped, tmp_path):
    run = stopped["ebu"]
    for name in ("first_episode", "first_step"):
        tree = put(run.tree, ("loop", "memory", name), 2**70)
        assert believe(run, run.forged(tmp_path / "forged", tree)) == "refused"


def test_checkpoints_of_another_environment_method_or_seed_are_refused(stopped, tmp_path):
    for mine, theirs in itertools.permutations(RUNS, 2):
        folder = stopped[mine].forged(tmp_path / "mixed", stopped[mine].tree)
        shutil.rmtree(folder.path / "checkpoints")
        shutil.copytree(stopped[theirs].folder.path / "checkpoints", folder.path / "checkpoints")
        with frugally(), pytest.raises(UserError, match="belongs to a run with other settings"):
            stopped[mine].session(folder).resume()


def test_a_state_of_another_method_under_the_right_settings_is_refused(stopped, tmp_path):
    for mine, theirs in itertools.permutations(RUNS, 2):
        tree = {**stopped[theirs].tree, "config": stopped[mine].tree["config"]}
        assert believe(stopped[mine], stopped[mine].forged(tmp_path / "forged", tree)) == "refused"


# ---------------------------------------------------------------------- every other file of a run folder


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "run"
    flags = "--steps 40 --learning-starts 10 --hidden-sizes 8 --eval-episodes 1 --tensorboard False --quiet True"
    assert main(["train", "--env", "CartPole-v1", *flags.split(), "--run", str(folder)]) == 0
    return folder


CONTENTS = [
    *(HOSTILE_FILES[kind] for kind in ("empty", "noise", "deep list", "long number", "NaN", "huge header", "huge tensor")),
    *(b'{"step": ' * 100_000 + b"\n", b'{"step": "x"}\n{"step": [1]}\n{"step": null}\n{"step": 1e999}\n', b"7\n"),
]
RESUME, VERIFY = "resume --quiet True --tensorboard False", "verify"
EVAL, REPORT = "eval --episodes 1", "report --out page.html"
SLOTS = {
    "config.json": [RESUME, VERIFY, EVAL, REPORT],
    "metrics.jsonl": [RESUME, VERIFY, REPORT],
    "timing.jsonl": [REPORT],
    "policy.ebu": [EVAL],
    "versions.json": [RESUME, REPORT],
    "summary.json": [RESUME, REPORT],
    "failure.json": [RESUME, REPORT],
    "lock": [RESUME],
}


@pytest.mark.parametrize("slot", SLOTS)
def test_a_hostile_file_in_any_slot_of_a_run_folder_is_one_line_at_worst(finished, tmp_path, monkeypatch, capsys, slot):
    monkeypatch.chdir(tmp_path)
    canary = tmp_path / "canary"
    for content in (*pickles(canary).values(), *CONTENTS):
        for line in SLOTS[slot]:
            shutil.rmtree(tmp_path / "run", ignore_errors=True)
            shutil.copytree(finished, tmp_path / "run")
            (tmp_path / "run" / slot).write_bytes(content)
            code = main([*line.split(), "run"])
            errors = capsys.readouterr().err
            assert code in (0, 1, 2) and "Traceback" not in errors and "--debug for the traceback" not in errors, errors
    assert not canary.exists()
    pickle.loads(pickle.dumps(Canary(canary)))  # the canary is alive
    assert canary.exists()
