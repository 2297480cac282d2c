"""Runs Stable-Baselines3's own tests with ``ebu.sb3.EBU`` (or PengQ) in the place of its DQN.

    pip download --no-binary :all: --no-deps stable_baselines3==2.9.2
    python scripts/sb3_tests.py stable_baselines3-2.9.2.tar.gz [EBU|PengQ] [arguments of pytest]

Only tests that use DQN are run. Those that cannot apply are named below, with the reason.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

FILES = (
    *("buffers", "callbacks", "cnn", "custom_policy", "deterministic", "dict_env", "identity", "logger", "n_step_replay"),
    *("predict", "run", "save_load", "spaces", "train_eval_mode", "vec_normalize"),
)
NOT_APPLICABLE = {
    "test_n_step_replay.py::test_run": "n_steps is refused: whole episodes look ahead to their end",
    "test_callbacks.py::test_callbacks": "trains DQN on hindsight replay (HerReplayBuffer) as a part",
    "test_callbacks.py::test_eval_success_logging": "trains DQN on hindsight replay",
    "test_callbacks.py::test_eval_callback_logs_are_written_with_the_correct_timestep": "expects the folder name DQN_1",
    "test_run.py::test_offpolicy_multi_env": "asks for optimize_memory_usage, which is refused",
    "test_save_load.py::test_warn_buffer": "asks for optimize_memory_usage, which is refused",
    "test_save_load.py::test_save_load_replay_buffer": "trains DQN on hindsight replay",
}
CONFTEST = """
import inspect, stable_baselines3, ebu.sb3
from stable_baselines3.common.base_class import BaseAlgorithm

stable_baselines3.DQN = getattr(ebu.sb3, {name!r})


def is_ours(item):
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else []
    classes = [value for value in parameters if isinstance(value, type) and issubclass(value, BaseAlgorithm)]
    return stable_baselines3.DQN in classes if classes else "DQN" in inspect.getsource(item.function)


def pytest_collection_modifyitems(items):
    items[:] = [item for item in items if is_ours(item)]
"""


def main(arguments: list[str]) -> int:
    archive, *rest = arguments
    name = rest.pop(0) if rest and rest[0] in ("EBU", "PengQ") else "EBU"
    with tempfile.TemporaryDirectory() as folder, tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
        tests = next(Path(folder).glob("stable_baselines3-*/tests"))
        (tests / "conftest.py").write_text(CONFTEST.format(name=name))
        left_out = [f"--deselect={tests.name}/{test}" for test in NOT_APPLICABLE]
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            f"--rootdir={tests.parent}",
            *left_out,
            *rest,
        ]
        return subprocess.call([*command, *(f"{tests.name}/test_{file}.py" for file in FILES)], cwd=tests.parent)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
