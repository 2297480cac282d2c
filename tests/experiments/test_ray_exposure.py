"""What a Ray cluster started here exposes: nothing beyond this machine, and nothing without a token."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

from ebu.errors import UserError
from ebu.experiments.sweeps import ray_engine
from tests.waiting import PATIENCE

SCRIPT = """
import ipaddress, json, os, sys
from pathlib import Path
import ray  # before the engine: as a program that uses Ray itself
from ebu.experiments.sweeps.ray_engine import RayEngine

def children(pid):
    found = [pid]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    return found

def inodes(pid):
    for file in Path(f"/proc/{pid}/fd").iterdir():
        try:
            name = os.readlink(file)
        except OSError:
            continue
        if name.startswith("socket:["):
            yield name[8:-1]

def address(text):
    words = [bytes.fromhex(text[i : i + 8])[::-1] for i in range(0, len(text), 8)]
    found = ipaddress.ip_address(b"".join(words))
    return getattr(found, "ipv4_mapped", None) or found

RayEngine(workers=1)._connect(ray)
assert ray.get(ray.remote(lambda: 1).remote()) == 1  # so that a worker is running
ours = {inode for pid in children(os.getpid()) for inode in inodes(pid)}
listening = []
for table in ("tcp", "tcp6"):
    for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and fields[9] in ours:
            listening.append(address(fields[1].split(":")[0]))
from ray._private.authentication.authentication_utils import is_token_auth_enabled
print(json.dumps({
    "open": [str(a) for a in listening if not a.is_loopback],
    "sockets": len(listening),
    "asks": is_token_auth_enabled(),
    "token": len(os.environ["RAY_AUTH_TOKEN"]),
    "files": [str(p) for p in Path.home().rglob("auth_token")],
}))
ray.shutdown()
"""


@pytest.mark.xdist_group("sweeps")
@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="reads the sockets from /proc")
def test_a_cluster_started_here_listens_on_this_machine_only_and_asks_for_a_token(tmp_path):
    pytest.importorskip("ray", reason="needs Ray: pip install 'episodic-backward-update[ray]'")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**environment, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found.pop("sockets") >= 4  # driver, control store, raylet, worker
    assert found == {"open": [], "asks": True, "token": 64, "files": []}


def test_a_ray_without_tokens_is_refused_in_one_line():
    with pytest.raises(UserError, match=r"Ray 2\.58\.0 starts clusters without authentication; install Ray 2\.59 or newer"):
        ray_engine._require_tokens(types.SimpleNamespace(__version__="2.58.0"))


def test_the_extra_asks_for_a_ray_with_tokens():
    import tomllib

    extras = tomllib.loads(Path("pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert f"ray>={'.'.join(map(str, ray_engine.RAY_WITH_TOKENS))}" in extras["ray"]


def test_a_token_of_the_user_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("RAY_AUTH_TOKEN", "mine")
    ray_engine._require_tokens(types.SimpleNamespace(__version__="2.60.0"))
    assert os.environ["RAY_AUTH_TOKEN"] == "mine"
    monkeypatch.delenv("RAY_AUTH_TOKEN")
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("mine")
    ray_engine._require_tokens(types.SimpleNamespace(__version__="2.60.0"))
    assert "RAY_AUTH_TOKEN" not in os.environ
