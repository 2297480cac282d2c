"""A policy in one file: what is saved comes back, and whatever is not such a file is refused in one line."""

from __future__ import annotations

import json
import math
import os
import pickle
import random
import struct
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save, save_file

from ebu.config import override, to_json
from ebu.envs.spaces import ObservationSpec
from ebu.errors import RunFailure, UserError
from ebu.networks.fastest import fastest_ensemble
from ebu.networks.modules import build_network
from ebu.networks.policy_file import FORMAT, SavedPolicy, load_policy, save_policy
from ebu.presets import configure
from ebu.storage import seal

SPECS = {
    "vector": (ObservationSpec("vector", (4,), "float32"), 1, "CartPole-v1"),
    "onehot": (ObservationSpec("onehot", (1,), "int64", (16,)), 1, "FrozenLake-v1"),
    "image": (ObservationSpec("image", (1, 84, 84), "uint8", scale=1 / 255), 4, "Some-Image-v0"),
}


def make_policy(kind="vector", seed=0):
    spec, stack, env = SPECS[kind]
    config = configure("ebu", env, beta=0.25, hidden_sizes=(8, 4))
    network = fastest_ensemble(build_network(spec, 3, stack, config.network), 1, torch.device("cpu"))
    network.initialise(torch.Generator().manual_seed(seed))
    return SavedPolicy(config, spec, 3, stack, network.named_tensors())


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "policy.ebu"
    save_policy(path, make_policy())
    return path


def refused(path):
    """The message of the refusal, which is one line that names the file."""
    with pytest.raises(UserError) as error:
        load_policy(path)
    message = str(error.value)
    assert "\n" not in message and path.name in message
    return message


@pytest.mark.parametrize("kind", SPECS)
def test_everything_saved_is_restored(tmp_path, kind):
    policy = make_policy(kind)
    save_policy(tmp_path / "p.ebu", policy)
    loaded = load_policy(tmp_path / "p.ebu")
    assert loaded.config == policy.config
    assert (loaded.observation, loaded.actions, loaded.stack) == (policy.observation, 3, policy.stack)
    assert loaded.tensors.keys() == policy.tensors.keys()
    for name, tensor in policy.tensors.items():
        assert torch.equal(loaded.tensors[name], tensor)


@pytest.mark.parametrize("kind", SPECS)
def test_the_loaded_network_gives_the_same_values(tmp_path, kind):
    policy = make_policy(kind)
    save_policy(tmp_path / "p.ebu", policy)
    spec, stack, _ = SPECS[kind]
    shape = (stack * spec.shape[0], *spec.shape[1:]) if spec.kind == "image" else spec.shape
    state = np.random.default_rng(0).integers(16, size=shape).astype(spec.dtype)
    cpu = torch.device("cpu")
    before, after = (p.place(cpu).state_values(0)(state) for p in (policy, load_policy(tmp_path / "p.ebu")))
    assert np.array_equal(before, after)


def test_the_same_policy_is_the_same_file(tmp_path):
    for name in ("a.ebu", "b.ebu"):
        save_policy(tmp_path / name, make_policy())
    assert (tmp_path / "a.ebu").read_bytes() == (tmp_path / "b.ebu").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.ebu", "b.ebu"]  # nothing is left aside


def test_a_crash_while_saving_leaves_the_old_file(saved, monkeypatch):
    before = saved.read_bytes()

    def crash(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", crash)
    with pytest.raises(RunFailure, match=r"cannot write .*policy\.ebu: No space left on device"):
        save_policy(saved, make_policy(seed=1))
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]  # and nothing half written


def test_a_policy_can_be_read_by_whom_the_folder_lets_read(saved):
    """As readable as any file the user makes: not private by accident of how it was written."""
    plain = saved.with_name("plain")
    plain.write_text("")
    assert os.stat(saved).st_mode == os.stat(plain).st_mode


@pytest.mark.parametrize("name", ["no/such/folder/p.ebu", "file/p.ebu", "", ".", "..", "/", "nul\0l.ebu", "x" * 300, "\ud800"])
def test_an_impossible_path_is_one_clear_line(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(RunFailure, match="cannot write ") as error:
        save_policy(Path(name), make_policy())
    assert "\n" not in str(error.value)
    assert os.listdir(tmp_path) == ["file"]


def test_two_processes_that_save_one_path_never_leave_a_damaged_file(saved):
    """One name aside for both would let one rename what the other is in the middle of."""
    policies, stop, faults = [make_policy(seed=seed) for seed in range(3)], threading.Event(), []

    def write(policy):
        while not stop.is_set():
            save_policy(saved, policy)

    writers = [threading.Thread(target=write, args=(policy,)) for policy in policies]
    for writer in writers:
        writer.start()
    for _ in range(60):
        try:
            load_policy(saved)
        except UserError as error:
            faults.append(str(error))
    stop.set()
    for writer in writers:
        writer.join()
    assert faults == [] and os.listdir(saved.parent) == [saved.name]


# ---------------------------------------------------------------------- its own checksum


def test_any_flipped_bit_is_refused(saved):
    content = saved.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(300):
        damaged = bytearray(content)
        damaged[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
        saved.write_bytes(bytes(damaged))
        refused(saved)
    damaged = bytearray(content)
    damaged[-3] ^= 1  # of a weight
    saved.write_bytes(bytes(damaged))
    assert refused(saved) == f"{saved}: invalid policy file: checksum mismatch"


def test_settings_that_look_like_a_checksum_do_not_matter(tmp_path):
    policy = make_policy()
    lie = '{"sha256": "' + "0" * 64 + '"}'
    config = override(policy.config, env_args=(f"a={lie}", f"b={json.dumps(lie)}"))
    save_policy(tmp_path / "p.ebu", replace(policy, config=config))
    assert load_policy(tmp_path / "p.ebu").config == config


def test_a_policy_without_a_checksum_is_one_of_an_older_version(tmp_path):
    policy = make_policy()
    save_with_header(tmp_path / "p.ebu", policy.tensors, json.dumps(header_of(policy)))
    assert load_policy(tmp_path / "p.ebu").config == policy.config
    save_with_header(tmp_path / "p.ebu", policy.tensors, json.dumps({**header_of(policy), "sha256": "0" * 64}))
    assert "checksum mismatch" in refused(tmp_path / "p.ebu")
    save_with_header(tmp_path / "p.ebu", policy.tensors, json.dumps({**header_of(policy), "sha257": "0" * 64}))
    assert "other fields" in refused(tmp_path / "p.ebu")


def test_a_link_that_the_user_names_is_followed(saved):
    saved.with_name("link.ebu").symlink_to(saved)
    assert load_policy(saved.with_name("link.ebu")).actions == 3


def test_a_sparse_file_and_a_pipe_are_refused(tmp_path):
    with (tmp_path / "hollow.ebu").open("wb") as file:
        file.truncate(3 << 30)
    assert "sparse" in refused(tmp_path / "hollow.ebu")
    os.mkfifo(tmp_path / "pipe.ebu")
    refused(tmp_path / "pipe.ebu")


# ---------------------------------------------------------------------- what is not a policy


def test_a_file_that_is_not_there():
    assert "there is no file" in refused(Path("/nowhere/policy.ebu"))


def test_a_folder_is_not_a_policy(tmp_path):
    refused(tmp_path)


@pytest.mark.parametrize("content", [b"", b"x", b"hello world", b"\x00" * 100, bytes(range(256)) * 40])
def test_arbitrary_bytes(tmp_path, content):
    (tmp_path / "p.ebu").write_bytes(content)
    refused(tmp_path / "p.ebu")


def test_a_pickle_is_refused_and_not_run(tmp_path):
    class Trap:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "trapped"),))

    (tmp_path / "p.ebu").write_bytes(pickle.dumps(Trap()))
    refused(tmp_path / "p.ebu")
    torch.save({"trap": Trap()}, tmp_path / "t.ebu")
    refused(tmp_path / "t.ebu")
    assert not (tmp_path / "trapped").exists()


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file(saved, share):
    content = saved.read_bytes()
    saved.write_bytes(content[: int(len(content) * share)])
    refused(saved)


def test_a_file_with_something_appended(saved):
    saved.write_bytes(saved.read_bytes() + b"more")
    refused(saved)


def test_tensors_without_our_header(tmp_path):
    save_file({"weight": torch.zeros(3)}, tmp_path / "p.ebu")
    assert "not a policy saved by ebu" in refused(tmp_path / "p.ebu")
    save_file({"weight": torch.zeros(3)}, tmp_path / "q.ebu", metadata={"ebu-policy-99": "{}"})
    assert "not a policy saved by ebu" in refused(tmp_path / "q.ebu")


def save_with_header(path, tensors, text):
    save_file(tensors, path, metadata={FORMAT: text})


def header_of(policy):
    observation = {"kind": "vector", "shape": [4], "dtype": "float32", "categories": [], "scale": 1.0}
    return {"config": json.loads(to_json(policy.config)), "observation": observation, "actions": 3, "stack": 1}


def test_the_header_used_below_is_a_good_one(tmp_path):
    policy = make_policy()
    save_with_header(tmp_path / "p.ebu", policy.tensors, json.dumps(header_of(policy)))
    assert load_policy(tmp_path / "p.ebu").config == policy.config


@pytest.mark.parametrize("text", ["", "not json", "[]", "3", "null", "{}"])
def test_a_header_that_is_something_else(tmp_path, text):
    save_with_header(tmp_path / "p.ebu", make_policy().tensors, text)
    refused(tmp_path / "p.ebu")


VECTOR = {"kind": "vector", "shape": [4], "dtype": "float32"}


@pytest.mark.parametrize(
    "change",
    [
        {"config": None},
        {"config": "text"},
        {"config": []},
        {"config": 3},
        {"config": {"beta": 0.5, "unheard_of": 1}},
        {"config": {"network": "unheard-of"}},
        {"config": {"network": "nature"}},
        {"config": {"hidden_sizes": [0, -3]}},
        {"config": {"hidden_sizes": []}},
        {"config": {"hidden_sizes": "wide"}},
        {"config": {"hidden_sizes": [8, 5]}},
        {"observation": None},
        {"observation": []},
        {"observation": {}},
        {"observation": VECTOR | {"shape": [5]}},
        {"observation": VECTOR | {"shape": [-4]}},
        {"observation": VECTOR | {"shape": "four"}},
        {"actions": None},
        {"actions": "many"},
        {"actions": 4},
        {"actions": -1},
        {"stack": None},
        {"stack": "x"},
        {"stack": math.inf},
        {"actions": math.inf},
        {"observation": VECTOR | {"shape": [math.inf]}},
    ],
    ids=str,
)
def test_a_header_with_one_thing_wrong(tmp_path, change):
    policy = make_policy()
    header = {key: value for key, value in (header_of(policy) | change).items() if value is not None}
    save_with_header(tmp_path / "p.ebu", policy.tensors, json.dumps(header))
    with pytest.raises(UserError) as error:
        load_policy(tmp_path / "p.ebu")
    assert "\n" not in str(error.value)


HOSTILE = [
    None, True, -1, 0, 2**31, 2**63, 10**30, 1e308, math.inf, math.nan, "", "x" * 10_000, "os:system",
    "module_of_a_stranger:X-v0", "../../etc/passwd", [], {}, [1] * 10_000, [10**9] * 3, {"$": "x"}, "\0", "image", "onehot",
]  # fmt: skip


@pytest.mark.parametrize("number", [60, pytest.param(3_000, marks=pytest.mark.slow)])
def test_any_value_in_any_place_of_the_header_is_refused_or_harmless(tmp_path, number):
    """With a checksum that is right: whoever forges a file can compute it."""
    policy, rng = make_policy(), random.Random(0)
    refusals = 0
    for _ in range(number):
        header = header_of(policy)
        part = rng.choice([header, header["config"], header["observation"]])
        part[rng.choice(list(part))] = rng.choice(HOSTILE)
        data = save(policy.tensors, metadata={FORMAT: json.dumps(header | {"sha256": "0" * 64})})
        (tmp_path / "p.ebu").write_bytes(seal.sealed(data, 8 + int.from_bytes(data[:8], "little")))
        try:
            load_policy(tmp_path / "p.ebu")
        except UserError as error:
            refusals += 1
            assert "\n" not in str(error) and len(str(error)) < 20_000
    assert refusals > number / 2
    assert "module_of_a_stranger" not in sys.modules


def test_weights_of_another_network(tmp_path):
    policy, other = make_policy(), make_policy("onehot")
    save_with_header(tmp_path / "p.ebu", other.tensors, json.dumps(header_of(policy)))
    assert "do not match the network" in refused(tmp_path / "p.ebu")


def test_any_damaged_byte_of_the_header_is_refused_or_harmless(saved):
    """Never anything but a policy or a UserError, whatever the bytes say."""
    content = saved.read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    rng = np.random.default_rng(0)
    refusals = 0
    for _ in range(200):
        damaged = bytearray(content)
        damaged[int(rng.integers(8 + size))] = int(rng.integers(256))
        saved.write_bytes(bytes(damaged))
        try:
            load_policy(saved)
        except UserError as error:
            refusals += 1
            assert "\n" not in str(error)
    assert refusals > 50
