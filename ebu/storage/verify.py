"""What ``ebu verify`` checks: checkpoints, settings, rows, the policy, and every file of a finished run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ebu.config import Config, from_json, is_extension
from ebu.errors import UserError
from ebu.storage import finished, seal
from ebu.storage.checkpoints import CheckpointStore
from ebu.storage.files import (
    MAX_JSON_FILE,
    MAX_POLICY,
    MAX_ROWS_FILE,
    Damaged,
    Missing,
    digest_of,
    open_file,
    read_file,
    read_text,
    require_not_sparse,
)
from ebu.storage.run_folder import RunFolder

MAX_ROW_BYTES = 64 << 20  # a longer line is no row
MAX_PROBLEMS = 20  # of one kind that are listed


def verify_run(folder: RunFolder) -> list[str]:
    """What is wrong with a run folder, a line each; an empty list means that all is good. Nothing is changed."""
    problems = verify_checkpoints(folder.checkpoints)
    settings, found = _settings(folder)
    problems += found + _problems_of_rows(folder) + _problems_of_objects(folder) + _problems_of_policies(folder)
    if not problems:
        problems = _problems_between(folder, settings)
    told = "\n".join(problems)
    return problems + [line for name, line in _problems_of_finished(folder).items() if name not in told]


def is_unlisted(folder: RunFolder) -> bool:
    """Whether the run is finished and has no list of its files, as older versions left it: little of it can be checked."""
    return folder.is_finished and not os.path.lexists(folder.path / finished.MANIFEST)


def verify_checkpoints(folder: Path) -> list[str]:
    """What is wrong with the checkpoints in a folder, a line each."""
    return CheckpointStore(folder).problems()


def _settings(folder: RunFolder) -> tuple[Config | None, list[str]]:
    try:
        return folder.read_config(), []
    except UserError as error:
        return None, [str(error)]


def _problems_of_rows(folder: RunFolder) -> list[str]:
    """Rows that cannot be read, or whose steps go back. A torn last line belongs to a run that is going or was killed."""
    problems, last, number, line = [], 0, 0, b"\n"
    try:
        with open_file(folder.metrics, MAX_ROWS_FILE) as (file, status):
            require_not_sparse(folder.metrics.name, status)
            while (line := file.readline(MAX_ROW_BYTES)).endswith(b"\n"):
                number += 1
                step = _step_of(line)
                if step is None:
                    problems.append(f"{folder.metrics} line {number} is not a row of metrics")
                elif step < last:
                    problems.append(f"{folder.metrics} line {number}: step {step} after step {last}")
                last = last if step is None else step
                if len(problems) == MAX_PROBLEMS:
                    return [*problems, f"{folder.metrics}: later lines were not checked"]
    except Missing:
        return [f"{folder.metrics} is missing"]
    except Damaged as error:
        return [f"{folder.path}: {error}"]
    if line and folder.is_finished:
        problems.append(f"{folder.metrics} ends in the middle of a line")
    return problems


def _step_of(line: bytes) -> int | None:
    try:
        step = json.loads(line)["step"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return step if isinstance(step, int) else None


def _problems_of_objects(folder: RunFolder) -> list[str]:
    """Small files that are there and do not hold a JSON object."""
    problems = []
    for path in (folder.versions, folder.failure, folder.summary):
        try:
            if not isinstance(json.loads(read_text(path, MAX_JSON_FILE)), dict):
                problems.append(f"{path} is damaged: it is not a JSON object")
        except Missing:
            pass
        except (Damaged, ValueError, RecursionError) as error:
            problems.append(f"{path} is damaged: {error}")
    return problems


def _problems_of_policies(folder: RunFolder) -> list[str]:
    """A policy that is there and carries another checksum than its own; those of older versions carry none."""
    return [line for path in (folder.policy, folder.best) for line in _problems_of_policy(folder, path)]


def _problems_of_policy(folder: RunFolder, path: Path) -> list[str]:
    try:
        data = read_file(path, MAX_POLICY)
    except Missing:
        return []
    except Damaged as error:
        return [f"{folder.path}: {error}"]
    end = 8 + int.from_bytes(data[:8], "little")
    if len(data) < 8 or end > len(data):
        return [f"{path}: invalid policy file: the header is longer than the file"]
    if seal.is_intact(data, end) or seal.is_older(data, end):
        return []
    return [f"{path}: invalid policy file: checksum mismatch"]


def _problems_between(folder: RunFolder, settings: Config | None) -> list[str]:
    """Whether settings, versions and rows are those of the newest checkpoint."""
    loaded = CheckpointStore(folder.checkpoints).load(announce=lambda text: None)
    if loaded is None:
        return []
    tree: dict[str, Any] = loaded.tree if isinstance(loaded.tree, dict) else {}
    try:
        its_settings = from_json(tree["config"])
        versions = str(tree.get("versions", folder.recorded_versions()))
        rows = [(folder.metrics, int(tree["metrics_bytes"]), str(tree.get("metrics_sha256", "")))]
        if "timing" in tree:
            size, sha256 = tree["timing"]
            rows.append((folder.timing, int(size), str(sha256)))
        if min(size for _, size, _ in rows) < 0:
            raise ValueError("a size is negative")
    except (UserError, KeyError, TypeError, ValueError, ArithmeticError, RuntimeError):
        return [f"the checkpoint of step {loaded.step} is not that of a run"]
    problems = []
    if settings is None or not is_extension(settings, its_settings):
        problems.append(f"{folder.settings} holds other settings than the checkpoint of step {loaded.step}")
    if versions != folder.recorded_versions():
        problems.append(f"{folder.versions} holds other versions than the checkpoint of step {loaded.step}")
    for path, size, sha256 in rows:  # checkpoints of earlier versions have no hashes of them
        found, digest = digest_of(path, size)
        if found < size:
            problems.append(f"{path} has {found} bytes, and had {size} when the checkpoint of step {loaded.step} was written")
        elif sha256 and digest.hexdigest() != sha256:
            problems.append(f"{path} was changed since the checkpoint of step {loaded.step} was written")
    return problems


def _problems_of_finished(folder: RunFolder) -> dict[str, str]:
    """Files that are not as they were when the run ended; runs of older versions have no list of them."""
    try:
        with open_file(folder.summary), open_file(folder.path / finished.MANIFEST):
            pass
    except Missing:
        return {}
    except Damaged:
        pass
    return {name: f"{folder.path}: {line}" for name, line in finished.problems(folder.path).items()}
