"""Every snippet of the documentation runs: the shell lines and Python blocks of a page, in order, in one folder.

In small: a training takes some steps and an evaluation one episode, whatever the page says. Of ``ebu reproduce``, whose
items have tests of their own, the options are checked; installing, TensorBoard and Ray's own commands are left out.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import ebu
from ebu.agent import Agent
from ebu.cli import main
from ebu.commands.parsing import parse
from ebu.commands.reports import ReproduceArguments
from ebu.envs import families
from ebu.experiments.items import find_item
from ebu.experiments.sweeps import engine
from ebu.experiments.sweeps import trials as sweep_trials
from tests.conftest import Corridor
from tests.registries import registries_restored

DOCS = Path(__file__).parent.parent / "docs"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHOWN = {"text", "toml", "json", "sh"}  # outputs, files, and what installs
OTHERS = {"pip", "tensorboard", "torchrun", "ray", "python", "test"}
STEPS, MORE = 60, 90
SMALL = (
    f"--steps {STEPS} --learning-starts 20 --batch-size 8 --eval-episodes 1 --eval-every 0 --buffer-size 1k --quiet".split()
)
ONE_TRIAL = [*SMALL[:-1], "--eval-every", "30", "--trials", "1", "--confirm", "0", "--workers", "1"]
ENDINGS = {"train": SMALL, "tune": ONE_TRIAL, "eval": ["--episodes", "1"], "play": ["--max-steps", "5"], "resume": ["--quiet"]}


def blocks(page):
    return [(kind, text) for kind, text in BLOCK.findall(page.read_text(encoding="utf-8")) if kind not in SHOWN]


PAGES = [page for page in sorted(DOCS.glob("*.md")) if blocks(page)]
# Emulators, trials in processes of their own, a proof of exact resume, Stable-Baselines3.
SLOW = {"tuning.md", "sb3.md", "atari.md", "sweeps.md", "experiments.md", "own-method.md", "checkpoints.md"}
# Packages of extras without which a page is passed over.
NEEDS = {
    "tuning.md": "optuna",
    "sb3.md": "stable_baselines3",
    "from-stable-baselines3.md": "stable_baselines3",
    "atari.md": "ale_py",
}
# Modules that a page names, and what tells the block that is their code.
FILES = {"own_method": "ebu.register(", "mynetworks": "def normalised("}


def pages():
    return [pytest.param(p, id=p.name, marks=[pytest.mark.slow] * (p.name in SLOW)) for p in PAGES]


@pytest.fixture
def in_small(monkeypatch, tmp_path):
    """The folder of a reader for whom everything takes few steps."""
    learn, resume, trial, run_trials = Agent.learn, ebu.resume, sweep_trials.trial, engine.run_trials

    def small_trial(algo, env, seed, **settings):
        small = {"steps": STEPS, "learning_starts": 20, "batch_size": 8, "eval_episodes": 1, "eval_every": 0}
        return trial(algo, env, seed, **settings | small)

    def small_resume(run, **more):
        return resume(run, **more | {"steps": MORE} if "steps" in more else more, announce=lambda text: None)

    monkeypatch.setattr(Agent, "learn", lambda self, n, *rest, **more: learn(self, min(n, STEPS), *rest, **more))
    monkeypatch.setattr(ebu, "resume", small_resume)
    monkeypatch.setattr(sweep_trials, "trial", small_trial)
    monkeypatch.setattr(engine, "run_trials", lambda trials, *rest: run_trials(trials[::5], *rest))
    monkeypatch.setattr(families, "_REGISTERED", list(families._REGISTERED))
    monkeypatch.delenv("EBU_PLUGINS", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with registries_restored(*FILES):
        yield tmp_path


@pytest.mark.parametrize("page", pages())
def test_the_snippets_of_a_page_run(page, in_small):
    if page.name in NEEDS:
        pytest.importorskip(NEEDS[page.name])
    known: dict[str, Any] = {"ebu": ebu, "Any": Any, "Corridor": Corridor, "__name__": "a page"}
    for kind, text in blocks(page):
        if kind == "python":
            for module, sign in FILES.items():
                if sign in text:
                    (in_small / f"{module}.py").write_text(text.partition("\nagent =")[0])
            if "ebu.register(" in text:  # once, by its import
                known["Half"] = __import__("own_method").Half
            else:
                exec(compile(text, page.name, "exec"), known)
        else:
            for line in text.splitlines():
                run_line(line)


def run_line(line):
    """The commands of one shell line: the first turn of a loop, and what follows ``||`` where nothing is there yet."""
    line = re.sub(r"^for (\w+) in (\S+).*?; do (.*?); done", lambda m: m[3].replace(f"${m[1]}", m[2]), line)
    words = shlex.split(line.rpartition("||")[2], comments=True)
    if not words or words[0] in OTHERS or not re.match(r"[a-z]", line):
        return
    assert words[0] == "ebu", f"no test knows how to run {line!r}"
    words, redirected = (words[: words.index(">")], words[-1]) if ">" in words else (words, None)
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        assert run_command(words[1], words[2:]) == 0, line
    if redirected:
        Path(redirected).write_text(shown.getvalue())


def run_command(command, rest):
    if command == "reproduce":
        return 0 if find_item(parse(ReproduceArguments, rest, "ebu reproduce").item) else 1
    if "--steps" in rest and command != "train":
        rest[rest.index("--steps") + 1] = str(MORE)
    return main([command, *rest, *([] if "--help" in rest else ENDINGS.get(command, []))])


def test_every_command_has_a_page_that_runs_it():
    lines = "\n".join(text for page in PAGES for kind, text in blocks(page) if kind != "python")
    assert {"train", "resume", "verify", "rescue", "eval", "play", "report", "list", "presets"} <= set(
        re.findall(r"^ebu (\w+)", lines, re.MULTILINE)
    )
