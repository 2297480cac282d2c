"""The tests under each setting in which a verdict could change: instructions, threads, order, a busy machine, a slow disk.

``python scripts/matrix.py [setting ...] [-- arguments for pytest]``; ``make test-matrix`` runs all of them. Files and tests
are shuffled (``tests/shuffle.py``) by a seed that is printed; ``SHUFFLE=7 python scripts/matrix.py avx2`` repeats such a run.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
CPUINFO = Path("/proc/cpuinfo")
NEEDED = {"default": set(), "avx2": {"avx2", "fma"}, "avx512": {"avx512f", "avx512bw", "avx512dq", "avx512vl"}}


@dataclass(frozen=True)
class Setting:
    instructions: str
    """Of PyTorch's own kernels, which take the word of the variable: without them in the processor, the run would crash."""
    isa: str
    """Of oneDNN's."""
    threads: int
    around: str = ""
    """What else goes on: ``busy`` processes, or a slow ``disk``."""


SETTINGS = {
    "default": Setting("default", "SSE41", 1),
    "avx2": Setting("avx2", "AVX2", 2),
    "avx512": Setting("avx512", "AVX512_CORE", 4),
    "busy": Setting("avx2", "AVX2", 1, "busy"),
    "disk": Setting("avx2", "AVX2", 1, "disk"),
}


@contextmanager
def busy_cores() -> Iterator[None]:
    """A process for each core that does nothing, all the time."""
    spin = [sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(spin) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def slow_disk(folder: str) -> dict[str, str]:
    """The variable that makes the disk of a process and its children slow."""
    library = f"{folder}/slow_disk.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, str(ROOT / "tests" / "slow_disk.c"), "-ldl"], check=True)
    return {"LD_PRELOAD": library}


def run(setting: Setting, seed: int, arguments: list[str]) -> tuple[int, float]:
    """The exit code of pytest, and how many seconds it and what it started were computing."""
    environment = {
        **os.environ,
        "ATEN_CPU_CAPABILITY": setting.instructions,
        "ONEDNN_MAX_CPU_ISA": setting.isa,
        "OMP_NUM_THREADS": str(setting.threads),
        "OMP_WAIT_POLICY": "passive",  # more threads than cores would spend their time waiting for each other
        "SHUFFLE": str(seed),
    }
    with ExitStack() as stack:
        if setting.around == "busy":
            stack.enter_context(busy_cores())
        elif setting.around == "disk":
            environment |= slow_disk(stack.enter_context(tempfile.TemporaryDirectory()))
        command = [sys.executable, "-m", "pytest", "-p", "tests.shuffle", *arguments]
        before = computing()
        code = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
        return code, computing() - before


def computing() -> float:
    """Seconds, of the processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def obstacle(setting: Setting) -> str:
    """Why this setting cannot be had here, by what Linux says of the processor; nothing if it can."""
    flags = set(CPUINFO.read_text().split()) if CPUINFO.exists() else set()
    if not NEEDED[setting.instructions] <= flags:
        return f"this processor lacks {setting.instructions}"
    if setting.around == "disk" and shutil.which("cc") is None:
        return "there is no C compiler"
    return ""


def measured(setting: Setting, seed: int, arguments: list[str]) -> tuple[int, str]:
    """The exit code, and the result in words."""
    begin = time.monotonic()
    code, cpu = run(setting, seed, arguments)
    verdict = "passed" if code == 0 else f"failed with exit code {code}"
    return code, f"{verdict} in {time.monotonic() - begin:.0f} s, {cpu:.0f} s of computing, SHUFFLE={seed}"


def main() -> int:
    words = [*sys.argv[1:], "--"]
    chosen, arguments = words[: words.index("--")] or list(SETTINGS), words[words.index("--") + 1 : -1]
    if unknown := set(chosen) - SETTINGS.keys():
        print(f"no setting {', '.join(sorted(unknown))}; there are {', '.join(SETTINGS)}", file=sys.stderr)
        return 2
    seed = int(os.environ.get("SHUFFLE", time.time_ns() % 10_000))
    told, worst = [], 0
    for name in chosen:
        words_of_it = f"not run, {reason}" if (reason := obstacle(SETTINGS[name])) else ""
        if not words_of_it:
            print(f"--- {name}: {SETTINGS[name]}, SHUFFLE={seed}", flush=True)
            code, words_of_it = measured(SETTINGS[name], seed, arguments or ["-n", "2", "--dist", "loadgroup"])
            worst = max(worst, code)
        told.append(f"{name}: {words_of_it}")
    print(*told, sep="\n")
    return worst


if __name__ == "__main__":
    sys.exit(main())
