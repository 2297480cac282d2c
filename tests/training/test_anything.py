"""Random settings and random command lines: each runs a few steps or is refused in one line; nothing ever shows a
traceback. The default run takes a sample; the ten thousand of the same strategies are marked slow.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import io
import itertools
import math
import shutil
import signal
import time
import warnings
from typing import Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ebu
from ebu.cli import COMMANDS, main
from ebu.config import Config, field_names, flat
from ebu.config_check import RANGES
from ebu.envs.families import family
from ebu.errors import Interrupted, RunFailure, UserError
from ebu.presets import configure, preset_names
from ebu.registry import methods
from ebu.storage.verify import verify_checkpoints as verify
from ebu.training.loop_state import state_of

STEPS = 30  # of a run that is not refused
POLLS = 500  # steps of evaluation after which it is asked to stop, whatever its settings say
SECONDS = 0.5  # of computing after which a command is interrupted, as by Ctrl-C

# ---------------------------------------------------------------------- what is drawn

HINTS = {
    name: hint
    for stage in dataclasses.fields(Config)
    for name, hint in (
        get_type_hints(stage.default_factory) if dataclasses.is_dataclass(stage.default_factory) else {}
    ).items()
} | {"algo": str, "preset": str, "steps": int}
DRAWN = [name for name in field_names() if name not in ("env", "algo", "preset")]  # these three are drawn first

WORDS = [
    "", " ", "nan", "inf", "-inf", "None", "true", "0", "-1", "1e9", "β", "日本", "🎲", "a b", "a\nb", "\x00", "\x1b[2J",
    "[/x]", "[bold]", "--", "-", "---", "--------", "'", '"', "%s", "{}", "\\", "../..", "/dev/null", "x" * 300,
    "\udcff",
]  # fmt: skip
WHOLE = [0, 1, 2, 3, 7, -1, 64, 2**31, 2**53, 2**63, 2**64, 10**12, 10**15, 10**400, 10**5000]
REAL = [
    0.0, 1.0, 0.5, 1e-3, -0.0, -1.0, 1.0000001, 2.0, 1e-300, 5e-324, 1e-30, 1e30, 1e308, math.nan, math.inf, -math.inf,
]  # fmt: skip
STRANGE = [
    None, True, False, "", "text", b"bytes", 1 + 2j, [], (), {}, [1], {"a": 1}, object, np.float32(0.5), np.int64(3),
    np.bool_(True), np.array([1, 2]), np.array(3), np.float64("nan"), torch.tensor(2), torch.ones(3), 10**5000, math.nan,
]  # fmt: skip
WORLDS = [  # small ones that can be learned from, the cheapest most often
    *["CartPole-v1"] * 8, *["FrozenLake-v1"] * 4, *["maze"] * 4, *["MinAtar/Breakout-v1"] * 2, "Acrobot-v1", "breakout",
    "ebu/MNISTMaze-v0", "MiniGrid-Empty-5x5-v0", "Taxi-v3", "Blackjack-v1",
]  # fmt: skip
NO_WORLDS = [  # continuous actions, names that are none, names that are half of one
    "Pendulum-v1", "MountainCarContinuous-v0", "CartPole", "CartPole-v9", "cartpole-v1", "maze-v0", "ALE/",
    "ALE/Nope-v5", "MinAtar/", "MinAtar/Nope-v1", "MiniGrid", "MiniGrid-Nope-v0", "no.such.module:Env-v0",
    "math:Env-v0", ":", "a/b/c", "-v1", "Env-v", "Env-v-1", "Env-v99999999999999999999", "../etc/passwd", *WORDS,
]  # fmt: skip
ARGUMENTS = {  # of the environment, by its kind
    "maze": ["slip=0.1", "size=3", "wall_density=0", "cap=5", "redraw_digits=true", 'layout=["..", ".."]', "maze_seed=7"],
    "atari": ["protocol=released", "frame_skip=1", "screen_size=40", "sticky=0.25", "noop_max=1", "full_action_space=true"],
}
NO_ARGUMENTS = {
    "maze": [
        "size=1", "size=99", "size=-1", "size=x", "size=null", "size=2.5", "size=1e400", "slip=9", "cap=0", "slip=NaN",
        "cap=x", "cap=2.5", "wall_density=1", "wall_density=x", "goal_reward=1e999", "goal_reward=x", "layout=x",
        'layout=["."]', "layout=[]", 'layout=["##", "##"]', "layout=[1, 2]", "layout=7", "maze_seed=-1", "maze_seed=x",
        "digits=/nowhere", "digits=7", "redraw_digits=7", "render_mode=7", "size=" + "[" * 5000, "size=" + "9" * 5000,
    ],
    "atari": [
        "protocol=x", "protocol=7", "frame_skip=0", "frame_skip=x", "frame_skip=2.5", "screen_size=0", "screen_size=x",
        "screen_size=2.5", "screen_size=100000000", "sticky=2", "sticky=x", "noop_max=-1", "noop_max=x", "noop_max=1e400",
        "noop_min=2.5", "life_loss_ends_episode=x", "max_episode_steps=-1", "game=pong", "training=true", "settings=1",
        "screen_merge=x", "screen_resize=7", "name=x",
    ],
    "other": [
        "map_name=z", "map_name=8x8", "desc=[]", "desc=x", "desc=7", 'desc=["SX"]', 'desc=["S"]', "natural=x", "sab=x",
        "render_mode=nope", "render_mode=rgb_array", "max_episode_steps=0", "max_episode_steps=-3", "max_episode_steps=x",
        "max_episode_steps=2", "id=CartPole-v1", "disable_env_checker=false", "is_slippery=false", "is_rainy=x", "nonsense=1",
        "=", "=3", "a", "a=", "a==b", "1=2", "class=1", "self=1", "a-b=1", "=" * 50, *WORDS,
    ],
}  # fmt: skip
DEVICES = ["cuda", "cuda:99", "cpu:3", "meta", "mps", "tpu", ":", "cuda:x", "cpu:-1", *WORDS]


def sensible(name, env):
    """A value that may be given to a setting, its smallest and largest included."""
    hint, default = HINTS[name], flat(Config())[name]
    if name == "env_args":
        return st.lists(st.sampled_from(ARGUMENTS.get(family(env).name, ["max_episode_steps=5"])), max_size=2).map(tuple)
    if name == "env_wrappers":
        return st.sampled_from([(), ('ClipReward {"max_reward": 1}',)])
    if name == "hidden_sizes":
        return st.lists(st.integers(1, 12), min_size=1, max_size=3).map(tuple)
    if hint == tuple[float, ...]:  # one number for each learner
        return st.lists(st.floats(0, 1), min_size=1, max_size=4).map(tuple)
    if name == "device":
        return st.sampled_from(["cpu", "auto"])
    if name == "network":
        return st.sampled_from(["auto", "mlp", "nature"])
    if name == "threads":  # a thousand that spin would keep everything else on the machine waiting
        return st.integers(0, 3)
    if get_origin(hint) is Literal:
        return st.sampled_from(get_args(hint))
    if hint is bool:
        return st.booleans()
    low, high, _ = RANGES[name]
    if isinstance(default, float):
        return st.one_of(st.floats(low, min(high, 1.0)), st.sampled_from([low, high, min(high, 1.0)]))
    counts = st.one_of(st.integers(low, 64), st.integers(low, 64), st.sampled_from([low, high]))
    return st.one_of(counts, st.just("episode")) if name == "n_steps" else counts


def absurd(name, env):
    """A value that is seldom or never right: too large, too small, damaged, or of another kind altogether."""
    default = flat(Config())[name]
    if name == "env_args":
        pairs = NO_ARGUMENTS.get(family(env).name, []) + NO_ARGUMENTS["other"]
        return st.one_of(st.lists(st.sampled_from(pairs), max_size=2).map(tuple), st.sampled_from(STRANGE))
    if HINTS[name] in (tuple[int, ...], tuple[float, ...]):
        items = st.lists(st.sampled_from([*WHOLE, *REAL, *STRANGE]), max_size=3).map(tuple)
        return st.one_of(items, st.just((1,) * 300), st.just((0.5,) * 10**5), st.sampled_from(STRANGE))
    numbers = REAL if isinstance(default, float) else WHOLE
    return st.sampled_from([*(DEVICES if name == "device" else WORDS if isinstance(default, str) else numbers), *STRANGE])


@st.composite
def runs(draw):
    """Method, environment, preset and settings. Half of them make sense throughout, and are small unless a setting that
    was drawn says otherwise.
    """
    is_sane = draw(st.booleans())
    env = draw(st.sampled_from(WORLDS if is_sane else [*WORLDS * 3, *NO_WORLDS]))
    algo = draw(st.sampled_from(list(methods()) if is_sane else [*list(methods()) * 9, "EBU", *WORDS]))
    preset = draw(st.sampled_from(preset_names(env) if is_sane else [*["quick"] * 99, "paper", "released", *WORDS]))
    small = {
        "steps": draw(st.integers(1, STEPS)),
        "learning_starts": draw(st.integers(0, 20)),
        "batch_size": draw(st.integers(1, 8)),
        "hidden_sizes": (8,),
        "eval_episodes": 1,
        "checkpoint_every": draw(st.integers(5, 50)),
        "betas": (0.0, 1.0),
        "log_every": draw(st.integers(1, 20)),
        "target_update_interval": draw(st.integers(1, 20)),
    }
    chosen = draw(st.lists(st.sampled_from(DRAWN), max_size=9, unique=True))
    wrong = [] if is_sane else draw(st.lists(st.sampled_from([*DRAWN, *["env_args"] * 9]), max_size=2, unique=True))
    values = {name: draw(sensible(name, env)) for name in chosen} | {name: draw(absurd(name, env)) for name in wrong}
    return algo, env, preset, small | values


@st.composite
def command_lines(draw):
    """Words for ``ebu``: the flags of a run, in either spelling, then damaged in some ways."""
    algo, env, preset, chosen = draw(runs())
    parts = [["train"], ["--algo", algo], ["--env", env], ["--preset", preset]]
    for name, value in chosen.items():
        flag = f"--{name.replace('_', '-')}" if draw(st.booleans()) else f"--{name}"
        words = [_word(v) for v in value] if isinstance(value, list | tuple) else [_word(value)]
        parts.append([f"{flag}={words[0]}"] if len(words) == 1 and draw(st.booleans()) else [flag, *words])
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 1, 2]))):
        _damage(draw, parts)
    return [word for part in parts for word in part], draw(st.sampled_from([*["run"] * 80, *FOLDERS]))


def _word(value):
    try:
        return str(value)
    except ValueError:  # an integer too long for Python to write
        return "1" + "0" * 5000


def _damage(draw, parts):
    """Lose a value or a flag, say something twice, or say something that is not there to be said."""
    place = draw(st.integers(1, len(parts) - 1)) if len(parts) > 1 else 0
    match draw(st.integers(0, 6)):
        case 0:
            parts[place] = parts[place][:1]
        case 1:
            parts[place] = parts[place][1:]
        case 2:
            parts.append(list(parts[place]))
        case 3:
            parts.insert(draw(st.integers(0, len(parts))), [draw(st.sampled_from([*WORDS, *COMMANDS, *FLAGS]))])
        case 4:
            parts.append([draw(st.text(max_size=20))])
        case 5:
            parts[place] = [*parts[place], draw(st.sampled_from(WORDS))]
        case 6:
            parts[place] = [draw(st.sampled_from(FLAGS)), draw(st.sampled_from([*WORDS, "5", "0.5"]))]


FLAGS = [
    "--unheard-of", "--learning-rat", "--Steps", "--steps=", "--=", "-s", "-h5", "--no-quiet", "--settings", "--run",
    "--quiet", "--environment.env", "--tensorboard", "--env=CartPole-v1", "--env=maze", "--algo=dqn", "--env-args",
    "--n-steps", "--seed",
]  # fmt: skip
FOLDERS = ["β 日本 🎲", "[/x]", "[bold]", "a\nb", "\x1b[2J", "\udcff", "\x00", "x" * 300, "taken", "taken/run", "-", "--help"]
READING = {  # commands about a run, with what can be said to them
    "resume": {"quiet": "True", "tensorboard": "False"},
    "verify": {"prove": "True", "steps": "20"},
    "eval": {"episodes": "2", "epsilon": "0.5", "seed": "3", "device": "cpu"},
    "play": {"episodes": "1", "epsilon": "0", "seed": "3", "fps": "5", "max-steps": "9", "record": "film.gif"},
    "report": {"out": "page.html", "title": "β"},
}
NOT_READING = ["list", "theory", "reproduce", "explain", "version", "help", "", "trian", *WORDS]


@st.composite
def other_command_lines(draw, folder):
    """Words for the commands that read: about a real run, a file, or nothing at all."""
    is_sane = draw(st.booleans())
    name = draw(st.sampled_from([*READING] if is_sane else [*list(READING) * 9, *NOT_READING]))
    places = [folder, folder / "policy.ebu", folder / "config.json", folder.parent, "nowhere", *WORDS]
    words = [name, str(draw(st.sampled_from(places[:2] if is_sane else places)))]
    known = READING.get(name, {"seed": "1"})
    numbers = [_word(value) for value in (*WHOLE, *REAL)]
    for flag in draw(st.lists(st.sampled_from(list(known)), max_size=3)):
        words += [f"--{flag}", known[flag] if is_sane else draw(st.sampled_from([known[flag], *numbers, *WORDS]))]
    return words if is_sane else [*words, *draw(st.lists(st.sampled_from([*FLAGS, *WORDS]), max_size=1))]


# ---------------------------------------------------------------------- what is done with it


def assert_one_line(text):
    assert text and len(text.splitlines()) == 1 and len(text) < 1000, text


def try_settings(algo, env, preset, chosen):
    """Train through the Python interface; returns what became of it."""
    polls = itertools.count()
    try:
        agent = ebu.Agent.from_config(configure(algo, env, preset, **chosen))
        loop = agent.loop
        loop.should_stop = lambda: next(polls) > POLLS
        loop.plan(agent.config.steps)
        with agent.threads():
            while loop.step < min(agent.config.steps, STEPS):
                for _ in loop.advance():
                    pass
            state_of(loop)
    except Interrupted:
        return "stopped"
    except UserError as error:
        assert_one_line(str(error))
        return "refused"
    except RunFailure as error:
        assert_one_line(str(error))
        return "failed"
    return "ran"


class Clock:
    """Presses Ctrl-C after some seconds of computing, unless the work is over by then."""

    def __enter__(self):
        self.works = True
        self.before = signal.signal(signal.SIGPROF, self.ring)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)

    def ring(self, *_):
        if self.works:
            signal.raise_signal(signal.SIGINT)

    def __exit__(self, *_):
        self.works = False
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, self.before)


def call(words):
    """(exit code, standard error) of a command line.

    Without garbage collection, as in a process of its own there would be no garbage of earlier examples: a finaliser
    whose error pytest reports while the options' docstrings are being parsed is a SystemError in Python 3.11.
    """
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")  # as Python's own
    code = None
    gc.disable()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), Clock():
            code = main(words)
    except SystemExit as end:
        code = end.code or 0
    except KeyboardInterrupt:  # rung just before or after the command itself
        code = 130
    finally:
        gc.enable()
    err.flush()
    return code, err.buffer.getvalue().decode()


def assert_clean(words, code, errors):
    assert code in (0, 1, 2, 130), (words, code, errors)
    assert "Traceback" not in errors and "--debug for the traceback" not in errors, (words, errors)
    if code == 2:
        (line,) = errors.splitlines()
        assert line.startswith("ebu: ") and len(line) < 1000 and line.isprintable(), (words, line)
    if code == 1:
        assert errors.splitlines()[-1].startswith("ebu: "), (words, errors)


def try_command(words, place, name):
    """Call ``ebu train`` with these words, in a fresh folder; a run that was made is whole."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    (place / "taken").write_text("a file")
    code, errors = call([*words, "--tensorboard", "False", "--run", f"{place}/{name}"])
    assert_clean([*words, name], code, errors)
    made = [path.parent for path in place.rglob("config.json")]
    assert not (made and code == 2), (words, errors)
    for folder in made:
        assert verify(folder / "checkpoints") == []
    return {0: "ran", 1: "failed", 2: "refused", 130: "stopped"}[code]


def examples(number):
    return settings(max_examples=number, suppress_health_check=list(HealthCheck), report_multiple_bugs=True)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Whatever is written without being asked where to is written here."""
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "run"
    line = "train --env CartPole-v1 --steps 40 --learning-starts 10 --hidden-sizes 8 --eval-episodes 1 --tensorboard False"
    assert main([*line.split(), "--run", str(folder)]) == 0
    return folder


def explore(number, strategy, attempt):
    """Each example once; returns how many of them ended in which way."""
    ends = dict.fromkeys(("ran", "stopped", "failed", "refused"), 0)

    @examples(number)
    @given(strategy)
    def one(drawn):
        ends[attempt(drawn)] += 1

    start = time.perf_counter()
    one()
    print(f"{sum(ends.values()):,} examples in {time.perf_counter() - start:.0f} s: {ends}", flush=True)
    return ends


def explore_settings(number):
    return explore(number, runs(), lambda drawn: try_settings(*drawn))


def explore_commands(number, tmp_path):
    return explore(number, command_lines(), lambda drawn: try_command(drawn[0], tmp_path / "place", drawn[1]))


def explore_others(number, trained, tmp_path):
    def attempt(words):
        folder = tmp_path / "copy"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(trained, folder)
        code, errors = call(words)
        assert_clean(words, code, errors)
        return {0: "ran", 1: "failed", 2: "refused", 130: "stopped"}[code]

    return explore(number, other_command_lines(tmp_path / "copy"), attempt)


# ---------------------------------------------------------------------- the tests


@pytest.mark.parametrize("env", ["CartPole-v1", "maze", "breakout"])
def test_every_setting_can_be_drawn(env):
    """Also one that no sample of the default run happens to choose."""
    for name in DRAWN:
        assert not sensible(name, env).is_empty and not absurd(name, env).is_empty, name


def test_random_settings_train_or_are_refused_in_one_line():
    ends = explore_settings(80)
    assert ends["ran"] > 8 and ends["refused"] > 8


def test_random_command_lines_train_or_are_refused_in_one_line(tmp_path):
    ends = explore_commands(20, tmp_path)
    assert ends["ran"] + ends["stopped"] > 1 and ends["refused"] > 4  # a slow processor stops more of them


def test_random_command_lines_about_runs_work_or_are_refused_in_one_line(trained, tmp_path):
    ends = explore_others(25, trained, tmp_path)
    assert ends["ran"] + ends["stopped"] > 1 and ends["refused"] > 5


# Ten thousand in all.


@pytest.mark.slow
def test_five_thousand_random_settings_train_or_are_refused_in_one_line():
    explore_settings(5_000)


@pytest.mark.slow
def test_four_thousand_random_command_lines_train_or_are_refused_in_one_line(tmp_path):
    explore_commands(4_000, tmp_path)


@pytest.mark.slow
def test_a_thousand_random_command_lines_about_runs_work_or_are_refused_in_one_line(trained, tmp_path):
    explore_others(1_000, trained, tmp_path)


def test_every_setting_is_drawn():
    assert HINTS.keys() == field_names().keys()
