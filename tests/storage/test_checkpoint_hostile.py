"""Damage and malice in every slot of a checkpoint: found, announced, never loaded, never run."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import pickle
import shutil
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from ebu.errors import UserError
from ebu.storage import files
from ebu.storage.checkpoints import CheckpointStore
from ebu.storage.codec import parse_json, render_json, require_like
from ebu.storage.files import FileRecord
from ebu.storage.manifest import FILES, MANIFEST
from ebu.storage.verify import verify_checkpoints as verify
from tests.storage.test_checkpoints import Episodes, QuietDisk, assert_holds, fill, state

ROOM = 100
SHARED = "episodes-00000001-000000000000.bin"  # both generations refer to it
OWN = "episodes-00000002-000000000005.bin"


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Checkpoints of steps 10 and 20."""
    monkeypatch.setattr(files, "DISK", QuietDisk())
    folder = tmp_path / "checkpoints"
    fill(folder, (10, 20), ROOM)
    return folder


@pytest.fixture
def newest(run):
    return run / "generation-00000002"


def assert_passed_over(folder):
    """The newest checkpoint is not loaded: the one before is, which is announced in one line."""
    said = []
    loaded = CheckpointStore(folder).load(said.append)
    assert_holds(loaded, 10, Episodes(5, ROOM))
    assert len(said) == 1 and "\n" not in said[0] and len(said[0]) < 600 and said[0].isprintable()
    assert "generation-00000002 is damaged" in said[0] and "step 10" in said[0]
    assert verify(folder)
    return said[0]


# ---------------------------------------------------------------------- damage


@pytest.mark.parametrize("number", [300, pytest.param(1000, marks=pytest.mark.slow)])
def test_random_flips_and_truncations_are_all_detected(run, newest, number):
    rng = np.random.default_rng(2019)
    files = [*sorted(newest.iterdir()), run / SHARED, run / OWN]
    assert len(files) == 6
    fell_back = refused = 0
    for i in range(number):
        path = files[i % len(files)]
        whole = path.read_bytes()
        data = bytearray(whole)
        if rng.random() < 0.7:
            for place in rng.integers(len(data), size=rng.integers(1, 4)):
                data[place] ^= rng.integers(1, 256)
            if data == whole:
                continue
        else:
            del data[rng.integers(len(data)) :]
        path.write_bytes(data)
        if path.name == SHARED:  # the one before needs it, too
            with pytest.raises(UserError, match="no checkpoint") as refusal:
                CheckpointStore(run).load(pytest.fail)
            assert "\n" not in str(refusal.value)
            refused += 1
        else:
            assert_passed_over(run)
            fell_back += 1
        path.write_bytes(whole)
    assert fell_back + refused >= 0.99 * number and refused >= 0.16 * number
    assert verify(run) == []


@pytest.mark.parametrize("extra", [b"\0", b"\n", b"more"])
def test_bytes_added_to_any_file_are_detected(run, newest, extra):
    for path in (*sorted(newest.iterdir()), run / OWN):
        whole = path.read_bytes()
        path.write_bytes(whole + extra)
        assert_passed_over(run)
        path.write_bytes(whole)


def test_files_swapped_between_generations_are_detected(run, newest):
    older = run / "generation-00000001"
    for name in (MANIFEST, *FILES):
        shutil.copy(newest / name, newest / "kept")
        shutil.copy(older / name, newest / name)
        assert_passed_over(run)
        os.replace(newest / "kept", newest / name)


# ---------------------------------------------------------------------- malice


class Canary:
    """Unpickling it leaves a file behind."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def pickles(canary):
    plain = pickle.dumps(Canary(canary))
    zipped, numbers = io.BytesIO(), io.BytesIO()
    torch.save({"w": Canary(canary)}, zipped)
    np.save(numbers, np.array([Canary(canary)], object), allow_pickle=True)
    return {"pickle": plain, "torch.save": zipped.getvalue(), "npy": numbers.getvalue()}


def forge(run, name, data):
    """Put bytes into a slot of the newest checkpoint, with a manifest that vouches for them."""
    newest = run / "generation-00000002"
    if name == MANIFEST:
        (newest / name).write_bytes(data)
        return
    manifest = CheckpointStore(run)._manifest(2)
    record = FileRecord(name, len(data), hashlib.sha256(data).hexdigest())
    files = tuple(record if file.name == name else file for file in manifest.files)
    segments = tuple(replace(s, record=record) if s.file.name == name else s for s in manifest.segments)
    ((run if name == OWN else newest) / name).write_bytes(data)
    (newest / MANIFEST).write_bytes(replace(manifest, files=files, segments=segments).render())


LITTLE_MEMORY = 64 << 20  # of the size of the JSON limit


@contextlib.contextmanager
def frugally():
    """What is done inside takes seconds of computing, not minutes, and little memory: Python's own by its count, and whatever
    else (numpy's, PyTorch's) by the pages the system gave.
    """
    resident = Path("/proc/self/status"), Path("/proc/self/clear_refs")

    def peak():
        if not resident[0].exists():
            return 0
        return next(int(line.split()[1]) << 10 for line in resident[0].read_text().splitlines() if "VmHWM" in line)

    with contextlib.suppress(OSError):
        resident[1].write_text("5")  # the peak begins again from here
    tracemalloc.start()
    before, start = peak(), time.process_time()
    yield
    seconds, grown, own = time.process_time() - start, peak() - before, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert seconds < 10 and own < LITTLE_MEMORY and grown < 2 * LITTLE_MEMORY, (seconds, own, grown)


@pytest.fixture
def frugal():
    with frugally():
        yield


@pytest.mark.parametrize("slot", [MANIFEST, *FILES, OWN])
@pytest.mark.parametrize("kind", ["pickle", "torch.save", "npy"])
def test_a_pickle_in_any_slot_is_refused_and_never_run(run, tmp_path, frugal, slot, kind):
    canary = tmp_path / "canary"
    forge(run, slot, pickles(canary)[kind])
    if slot == "blocks.bin":  # opaque to the store, but of the wrong length
        assert "blocks" in assert_passed_over(run)
    else:
        assert_passed_over(run)
    assert not canary.exists()
    pickle.loads(pickle.dumps(Canary(canary)))  # the canary is alive
    assert canary.exists()


def test_a_pickle_of_the_right_length_stays_bytes(run, tmp_path, frugal):
    canary = tmp_path / "canary"
    data = pickle.dumps(Canary(canary))
    block = CheckpointStore(run)._manifest(2).files[2]
    forge(run, "blocks.bin", data.ljust(block.size, b".")[: block.size])
    loaded = CheckpointStore(run).load(pytest.fail)
    assert loaded.tree["environment"].startswith(data[:50]) and not canary.exists()


def tensor_file(header, data=b""):
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def huge(shape):
    count = 4 * int(np.prod(shape, dtype=object))
    entry = {"dtype": "F32", "shape": shape, "data_offsets": [0, count]}
    return tensor_file({"__metadata__": {"0/w": json.dumps(["torch", "float32", shape])}, "0/w": entry}, b"1234")


HOSTILE_FILES = {
    "empty": b"",
    "zeros": bytes(100_000),
    "noise": np.random.default_rng(0).bytes(100_000),
    "deep list": b"[" * 500_000,
    "deep dict": b'{"a":' * 300_000,
    "wide list": b"[" + b"[]," * 3_000_000 + b"[]]",
    "long number": b"[" + b"1" * 1_000_000 + b"]",
    "duplicate keys": b'{"tree":{"a":1,"a":2},"blocks":[]}',
    "not UTF-8": b'{"tree":"\xff","blocks":[]}',
    "NaN": b'{"tree":NaN,"blocks":[]}',
    "unknown kind": b'{"tree":{"$":"call","name":"os.system"},"blocks":[]}',
    "no blocks": b'{"tree":{"$":"bytes","name":"0/environment"},"blocks":[["0/environment",99999999999]]}',
    "negative block": b'{"tree":1,"blocks":[["a",-5],["b",105]]}',
    "deep state": b'{"tree":' + b"[" * 400 + b"]" * 400 + b',"blocks":[]}',
    "terminal codes": b'{"tree":{"$":"\\u001b[2J\\n\\ud800"},"blocks":[]}',
    "huge header": (2**63 - 1).to_bytes(8, "little") + b"{}",
    "huge tensor": huge([2**50]),
    "huger tensor": huge([2**50, 2**50, 2**50]),
    "object array": tensor_file(
        {"__metadata__": {"0/w": '["numpy","|O",[1]]'}, "0/w": {"dtype": "U8", "shape": [8], "data_offsets": [0, 8]}},
        bytes(8),
    ),
}


@pytest.mark.parametrize("slot", [MANIFEST, "state.json", "tensors.safetensors", OWN])
@pytest.mark.parametrize("kind", HOSTILE_FILES)
def test_a_hostile_file_is_refused_quickly_and_cheaply(run, frugal, slot, kind):
    forge(run, slot, HOSTILE_FILES[kind])
    assert_passed_over(run)


MANIFEST_LIES = {
    "path traversal": lambda m: m["segments"][0].update(name="../../../etc/passwd"),
    "absolute path": lambda m: m["segments"][0].update(name="/etc/passwd"),
    "another generation's file": lambda m: m["segments"][0].update(name="generation-00000001/state.json"),
    "a file outside": lambda m: m["files"][0].update(name="../config.json"),
    "a name with a line end": lambda m: m["segments"][0].update(name=f"{SHARED}\n"),
    "foreign digits": lambda m: m["segments"][0].update(name=SHARED.replace("1", "١")),
    "huge file": lambda m: m["files"][1].update(size=2**52),
    "huge segment": lambda m: m["segments"][0].update(size=2**52),
    "impossible size": lambda m: m["files"][1].update(size=2**200),
    "negative size": lambda m: m["files"][1].update(size=-1),
    "size as text": lambda m: m["files"][1].update(size="12"),
    "size as truth": lambda m: m["files"][1].update(size=True),
    "more episodes than bytes": lambda m: (m["segments"][-1].update(end=2**50), m.update(end_episode=2**50)),
    "episodes before the first": lambda m: m.update(first_episode=2**40),
    "a gap": lambda m: m["segments"][0].update(end=4),
    "a million segments": lambda m: m["segments"].extend([m["segments"][0]] * 4000),
    "no segments": lambda m: m.update(segments=[]),
    "no files": lambda m: m.update(files=[]),
    "files as text": lambda m: m.update(files="state.json"),
    "a wrong hash": lambda m: m["files"][0].update(sha256="0" * 64),
    "a hash that is none": lambda m: m["files"][0].update(sha256=7),
    "a future format": lambda m: m.update(format="ebu-checkpoint-2"),
    "another generation": lambda m: m.update(generation=1),
    "more than there is": lambda m: m.update(command="rm"),
}


@pytest.mark.parametrize("lie", MANIFEST_LIES)
def test_a_lying_manifest_is_refused(run, newest, frugal, lie):
    manifest = parse_json((newest / MANIFEST).read_bytes())
    del manifest["sha256"]
    MANIFEST_LIES[lie](manifest)
    digest = hashlib.sha256(render_json(manifest, indent=1)).hexdigest()
    (newest / MANIFEST).write_bytes(render_json({**manifest, "sha256": digest}, indent=1))
    assert_passed_over(run)


@pytest.mark.parametrize("slot", [MANIFEST, *FILES, OWN])
@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "device"])
def test_what_is_not_a_regular_file_is_refused(run, newest, tmp_path, frugal, slot, kind):
    path = (run if slot == OWN else newest) / slot
    whole = tmp_path / "elsewhere"
    path.rename(whole)
    if kind == "link":
        path.symlink_to(whole)  # to the very bytes that belong there
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero")
    assert_passed_over(run)


def test_a_generation_that_is_a_link_is_refused(run, newest, tmp_path):
    newest.rename(tmp_path / "elsewhere")
    newest.symlink_to(tmp_path / "elsewhere")
    assert "not a folder" in assert_passed_over(run)


@pytest.mark.parametrize("slot", ["tensors.safetensors", OWN])
def test_a_sparse_file_of_a_hundred_gigabytes_is_refused(run, newest, frugal, slot):
    path = (run if slot == OWN else newest) / slot
    size = 100 << 30
    os.truncate(path, size)
    manifest = CheckpointStore(run)._manifest(2)
    grow = {f.name: replace(f, size=size if f.name == slot else f.size) for f in manifest.files}
    segments = tuple(replace(s, record=replace(s.file, size=size)) if s.file.name == slot else s for s in manifest.segments)
    (newest / MANIFEST).write_bytes(replace(manifest, files=tuple(grow.values()), segments=segments).render())
    assert "sparse" in assert_passed_over(run)


def test_hostile_segment_lengths_are_refused(run, frugal):
    for lengths in ([2**64 - 1, 1, 0, 0, 0], [2**63, 2**63, 0, 0, 0], [10**6] * 5, [0] * 5):
        forge(run, OWN, b"episodes" * 4 + np.array(lengths, "<u8").tobytes())
        assert "does not hold the episodes" in assert_passed_over(run)


def test_a_generation_with_the_last_number_is_passed_over_and_said_to_have_no_successor(run):
    (run / "generation-99999999").mkdir()
    store = CheckpointStore(run)
    said = []
    assert store.load(said.append).step == 20 and "generation-99999999" in said[0]
    with pytest.raises(Exception, match="largest number"):
        store.save(30, state(30), Episodes(15))


def test_strangers_in_the_folder_are_left_alone(run):
    for name in ("generation-1", "generation-00000001.part.txt", "episodes.bin", "notes.txt"):
        (run / name).write_text("mine")
    store = CheckpointStore(run)
    store.load(pytest.fail)
    store.save(30, state(30), Episodes(15, ROOM))
    for name in ("generation-1", "generation-00000001.part.txt", "episodes.bin", "notes.txt"):
        assert (run / name).read_text() == "mine"


def test_debris_that_is_a_link_is_removed_without_touching_what_it_points_to(run, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("mine")
    (run / "generation-00000007.part").symlink_to(outside)
    (run / "episodes-00000007-000000000000.bin").symlink_to(outside / "precious")
    CheckpointStore(run).clean()
    assert (outside / "precious").read_text() == "mine" and not list(run.glob("*00000007*"))


def test_a_folder_that_is_a_file_is_one_line(tmp_path):
    (tmp_path / "checkpoints").write_text("")
    with pytest.raises(UserError, match="cannot be read"):
        CheckpointStore(tmp_path / "checkpoints").load(pytest.fail)


def test_a_checkpoint_of_another_network_does_not_fit(run):
    loaded = CheckpointStore(run).load(pytest.fail)
    template = {**state(0), "learner": {"parameters": torch.zeros(11, 50), "steps": 0}}
    require_like(loaded.tree, state(0))
    with pytest.raises(UserError, match=r"learner/parameters is torch.float32 \[2, 50\] instead of .* \[11, 50\]"):
        require_like(loaded.tree, template)
