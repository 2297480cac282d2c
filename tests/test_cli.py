"""The command line: what each command writes and prints, and one line with exit code 2 for every misuse."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from PIL import Image

import ebu
from ebu.cli import COMMANDS, main
from ebu.commands.train import _free_folder
from ebu.config import STAGES, Config, field_names, from_json, override
from ebu.presets import configure
from tests.conftest import Corridor, Script, ebu_
from tests.waiting import PATIENCE

SMALL = "--learning-starts 50 --eval-every 100 --eval-episodes 2 --log-every 50 --hidden-sizes 16 --batch-size 16"
CARTPOLE = f"train --env CartPole-v1 --steps 250 {SMALL}"
MAZE = f"train --steps 200 {SMALL} --env-args size=4 cap=40 redraw_digits=false"


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cartpole") / "run"
    assert ebu_(CARTPOLE, "--run", folder) == 0
    return folder


@pytest.fixture(scope="module")
def maze(tmp_path_factory):
    folder = tmp_path_factory.mktemp("maze") / "run"
    assert ebu_(MAZE, "--run", folder, "--no-tensorboard") == 0
    return folder


# ---------------------------------------------------------------------- train


def test_a_run_folder_holds_everything(cartpole):
    names = {path.name for path in cartpole.iterdir()}
    assert {"config.json", "metrics.jsonl", "timing.jsonl", "policy.ebu", "summary.json", "curve.png"} <= names
    assert any(name.startswith("events.out.tfevents") for name in names)
    config = from_json((cartpole / "config.json").read_text())
    assert (config.steps, config.environment.env, config.learner.batch_size) == (250, "CartPole-v1", 16)
    rows = [json.loads(line) for line in (cartpole / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows if row["kind"] == "train"] == [50, 100, 150, 200, 250]
    assert [row["step"] for row in rows if row["kind"] == "eval"] == [100, 200, 250]  # and one at the end
    summary = json.loads((cartpole / "summary.json").read_text())
    assert summary["steps"] == 250 and summary["final_mean_reward"] == rows[-1]["mean_reward"]
    assert "seconds" not in (cartpole / "metrics.jsonl").read_text()
    assert "seconds" in (cartpole / "timing.jsonl").read_text()
    with Image.open(cartpole / "curve.png") as picture:
        assert picture.size[0] > 500


def test_no_line_of_the_summary_is_folded(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    folder = tmp_path / "a folder with a name that is longer than a narrow terminal"
    assert ebu_(CARTPOLE, "--run", folder) == 0
    lines = [line.removeprefix("next").strip() for line in capsys.readouterr().out.splitlines()]
    assert f"ebu eval '{folder}'" in lines and f"ebu play '{folder}'" in lines
    assert main(["eval", str(folder), "--episodes", "1"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["ebu", "score", "length", "value"]


def test_the_folder_of_a_run_has_a_name_that_every_system_takes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = override(configure("ebu", "CartPole-v1"), env="mymodule:Own/Corridor-v0")
    assert _free_folder(config) == Path("runs/ebu-mymodule-Own-Corridor-v0-0")


def test_training_says_what_it_did(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert ebu_(CARTPOLE, "--run", tmp_path / "run", "--algo", "DQN", "--seed", 4) == 0
    shown = capsys.readouterr()
    assert "dqn on CartPole-v1" in shown.err
    assert "preset quick: double Q-learning, soft target updates (τ = 0.02 every step)" in shown.err
    assert "memory: up to 250 steps in " in shown.err
    for words in ("steps", "250 now", "final score", "curve.png", "ebu eval", "ebu play"):
        assert words in shown.out
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["seed"] == 4


def test_the_maze_s_run_ends_with_the_relative_length_and_a_picture(tmp_path, capsys):
    assert ebu_(MAZE, "--run", tmp_path / "run", "--no-tensorboard") == 0
    shown = capsys.readouterr().out
    assert "greedy path / shortest path =" in shown
    assert (tmp_path / "run" / "maze.png").is_file()
    assert "greedy_relative_length" in json.loads((tmp_path / "run" / "summary.json").read_text())


def test_runs_without_a_folder_are_numbered(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert ebu_(f"{CARTPOLE} --steps 60 --no-tensorboard --seed 5") == 0
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["ebu-CartPole-v1-5", "ebu-CartPole-v1-5-2"]


@pytest.mark.parametrize("flag", ["--env=CartPole-v1", "CartPole-v1", "--lr 0.01 CartPole-v1"])
def test_flags_may_be_written_either_way(tmp_path, flag):
    line = f"train {flag} --steps=60 --learning-starts 10 --eval-episodes 1 --tensorboard=False --hidden_sizes 8 4"
    assert ebu_(line, "--run", tmp_path / "run") == 0
    config = from_json((tmp_path / "run" / "config.json").read_text())
    assert (config.environment.env, config.network.hidden_sizes, config.steps) == ("CartPole-v1", (8, 4), 60)


def test_a_preset_sets_the_defaults_and_flags_stand_above_it(tmp_path):
    line = "train --preset paper --steps 60 --eval-every 0 --batch-size 8 --env-args size=3 cap=20"
    assert ebu_(line, "--run", tmp_path / "run", "--no-tensorboard") == 0
    config = from_json((tmp_path / "run" / "config.json").read_text())
    assert (config.preset, config.learner.optimizer, config.learner.batch_size) == ("paper", "rmsprop", 8)


def test_a_damaged_environment_is_a_failure_with_one_line(tmp_path, capsys):
    gymnasium.register("NaNReward-v0", entry_point=lambda: Script([0.0, float("nan"), 0.0]))
    try:
        code = ebu_("train --env NaNReward-v0 --quiet --no-tensorboard", "--run", tmp_path / "run")
    finally:
        gymnasium.registry.pop("NaNReward-v0")
    errors = capsys.readouterr().err
    assert code == 1
    assert "reward nan at step 2, after action" in errors.splitlines()[-1] and "Traceback" not in errors
    assert (tmp_path / "run" / "metrics.jsonl").read_text() == ""


def test_a_broken_environment_is_one_line_too(tmp_path, capsys):
    class Broken(Corridor):
        def step(self, action):
            raise ZeroDivisionError("the world\nended")

    gymnasium.register("Broken-v0", entry_point=Broken)
    try:
        code = ebu_("train --env Broken-v0 --no-tensorboard", "--run", tmp_path / "run")
        with pytest.raises(ebu.RunFailure) as error:
            ebu_("train --env Broken-v0 --no-tensorboard --debug", "--run", tmp_path / "again")
    finally:
        gymnasium.registry.pop("Broken-v0")
    last = capsys.readouterr().err.splitlines()
    assert code == 1
    assert any("the environment Broken-v0 raised ZeroDivisionError at step 1, after action" in line for line in last)
    assert isinstance(error.value.__cause__, ZeroDivisionError)


# ---------------------------------------------------------------------- eval, play, list, help


def test_eval_prints_scores(cartpole, capsys):
    assert ebu_(f"eval {cartpole} --episodes 3 --epsilon 0 --seed 2") == 0
    shown = capsys.readouterr().out
    expected = ebu.evaluate(ebu.load(cartpole / "policy.ebu"), episodes=3, epsilon=0.0, seed=2)
    assert "ebu on CartPole-v1, 3 episodes, ε = 0" in shown
    assert f"mean {expected.mean:.4g}" in shown and f"max {max(expected.returns):.4g}" in shown


def test_eval_takes_a_policy_file_too(maze, capsys):
    assert ebu_(f"eval {maze / 'policy.ebu'} --episodes 1") == 0
    assert "path / shortest path" in capsys.readouterr().out


def test_play_shows_the_maze_as_text(maze, capsys):
    assert ebu_(f"play {maze} --max-steps 30") == 0
    shown = capsys.readouterr().out
    assert "episode 1: score" in shown
    assert len(shown.splitlines()) > 5


def pictures(path):
    if path.suffix == ".gif":
        with Image.open(path) as film:
            return film.n_frames, film.size
    import imageio_ffmpeg

    count, _ = imageio_ffmpeg.count_frames_and_secs(str(path))
    reader = imageio_ffmpeg.read_frames(str(path))
    size = next(reader)["size"]
    reader.close()
    return count, size


@pytest.mark.parametrize("suffix", [".gif", ".mp4"])
@pytest.mark.parametrize("which", ["cartpole", "maze"])
def test_play_records_a_film(which, suffix, request, tmp_path, capsys):
    folder = request.getfixturevalue(which)
    capsys.readouterr()  # what training said, where this test is the first to need the run
    film = tmp_path / f"film{suffix}"
    assert ebu_(f"play {folder} --max-steps 12 --seed 1 --epsilon 1 --record", film) == 0
    shown = capsys.readouterr().out
    assert f"wrote {film}" in shown.replace("\n", "")
    steps = int(shown.split(" in ")[1].split(" steps")[0])
    count, size = pictures(film)
    assert size[0] > 100 and size[1] > 100
    if suffix == ".mp4":
        assert count == steps + 1
        assert size[0] % 2 == size[1] % 2 == 0
    else:
        assert 1 <= count <= steps + 1  # equal pictures in a row are one


def test_list_names_what_there_is(capsys):
    assert ebu_("list") == 0
    shown = capsys.readouterr().out
    for name in ("ebu", "dqn", "maze", "CartPole-v1", "MinAtar/Breakout-v1", "quick", "paper"):
        assert name in shown
    plain = " ".join(shown.split())
    assert "other: quick double Q-learning, soft target updates (τ = 0.02 every step)" in plain


@pytest.mark.parametrize("line", ["", "--help", "-h", "help"])
def test_help_names_the_commands(line, capsys):
    assert ebu_(line) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("usage: ebu COMMAND")
    assert all(name in shown for name in COMMANDS)


def test_the_version(capsys):
    assert ebu_("--version") == 0
    assert capsys.readouterr().out.strip() == ebu.__version__


def test_the_help_of_training_is_short(capsys):
    assert ebu_("train CartPole-v1 --algo DQN --help") == 0
    shown = capsys.readouterr().out
    flags = [line.split()[0] for line in shown.splitlines() if line.startswith("  --")]
    assert len(flags) <= 18 and {"--env", "--algo", "--steps", "--seed", "--run"} <= set(flags)
    assert "--learning-rate, --lr X" in shown and "[0.001]" in shown  # the preset's
    assert "dqn on CartPole-v1, preset quick: double Q-learning, soft target updates" in " ".join(shown.split())
    assert f"--help-all` lists all {len(field_names()) + 3} options" in shown


def test_the_long_help_of_training_explains_every_setting(capsys):
    assert ebu_("train --help-all") == 0
    shown = capsys.readouterr().out
    for name in field_names():
        flag = name.replace("_", "-")
        assert f"--{flag}" in shown or f"--[no-]{flag}" in shown, name
    assert "EBU on the embedded MNIST maze" in shown
    assert "--settings." not in shown
    from ebu.commands.help import field_docs

    for cls in (Config, *(type(getattr(Config(), stage)) for stage in STAGES)):
        undocumented = set(cls.__annotations__) - field_docs(cls).keys() - set(STAGES)
        assert not undocumented, "a flag without a word of help"


@pytest.mark.parametrize("command", ["eval", "play", "list"])
def test_every_command_has_help(command, capsys):
    try:
        code = ebu_(f"{command} --help")
    except SystemExit as stop:
        code = stop.code
    assert code in (0, None)
    assert f"usage: ebu {command}" in capsys.readouterr().out


# ---------------------------------------------------------------------- misuse

MISUSES = {
    "tarin": "there is no command 'tarin'; did you mean train?",
    "conquer": "there is no command 'conquer'; choose from train, resume",
    "list everything": "takes no arguments",
    "train --env CartPol-v1": "did you mean CartPole-v1",
    "train --env MiniGrid-Emty-5x5-v0": "did you mean MiniGrid-Empty-5x5-v0",
    "train --env MinAtar/Brakout-v1": "did you mean MinAtar/Breakout-v1",
    "train --env Pendulum-v1": "continuous action space",
    "train --algo sarsa": "there is no algorithm 'sarsa'; choose from ebu",
    "train --preset fast": "there is no preset 'fast'",
    "train --steps 0": "steps must be a whole number of at least 1, got 0",
    "train --steps many": "--steps takes a whole number (20000, 20k, 2e4), got 'many'",
    "train --steps 1.5": "--steps takes a whole number (20000, 20k, 2e4), got '1.5'",
    "train --steps 1e-3": "--steps takes a whole number",
    "train --steps": "--steps takes a value",
    "train --lr fast": "--learning-rate takes a number, got 'fast'",
    "train --learning-rte 0.1": "there is no option --learning-rte; perhaps you meant --learning-rate",
    "train --no-doubel-q": "there is no option --no-doubel-q; perhaps you meant --double-q",
    "train --quite": "perhaps you meant --quiet",
    "train --beta 1.5": "beta must be between 0 and 1, got 1.5",
    "train --gamma nan": "gamma must be between 0 and 1",
    "train --seed -1": "seed must be",
    "train --optimizer sgd": "optimizer",
    "train --loss l1": "loss",
    "train --device banana": "there is no device 'banana'",
    "train --device mps": "mps",
    "train --env-args wall_density": "takes key=value",
    "train --env-args wall_density=3": "wall_density",
    "train --env-args unheard_of=3": "maze has no argument 'unheard_of'; it takes size, wall_density, slip,",
    "train maze --env-args wall_densty=0.3": "maze has no argument 'wall_densty'; did you mean wall_density? it takes size, ",
    "train CartPole-v1 --env-args sutton=true": "CartPole-v1 has no argument 'sutton'; it takes sutton_barto_reward,",
    "train --env FrozenLake-v1 --env-args map_name=9x9": "9x9",
    "train --env CartPole-v1 --network nature": "reads images",
    "train --network minatar --env FrozenLake-v1": "reads images",
    "train --buffer-size 10 --batch-size 20": "must hold at least one minibatch",
    "train --hidden-sizes 0": "hidden_sizes",
    "train extra words": "unexpected arguments: words (the environment is extra)",
    "train CartPole-v1 --env maze": "the environment is named twice: CartPole-v1 and maze",
    "train CartPol-v1": "did you mean CartPole-v1",
    "eval": "ebu: ebu eval needs PATH; see `ebu eval --help`",
    "rescue": "ebu: ebu rescue needs PATH and --out PATH; see `ebu rescue --help`",
    "rescue RUN": "ebu: ebu rescue needs --out PATH; see `ebu rescue --help`",
    "reproduce": "ebu: ebu reproduce needs ITEM; see `ebu reproduce --help`",
    "theory bound": "ebu: ebu theory bound needs MDP; see `ebu theory bound --help`",
    "presets show": "ebu: ebu presets show needs PRESET; see `ebu presets show --help`",
    "eval /nowhere": "there is no file /nowhere",
    "eval . --episodes 1": "is not a run folder",
    "eval RUN --episodes 0": "--episodes must be at least 1, got 0",
    "eval RUN --episodes some": "--episodes",
    "eval RUN --epsilon 2": "--epsilon must be between 0 and 1, got 2",
    "eval RUN --device banana": "banana",
    "play": "see `ebu play --help`",
    "play /nowhere": "there is no file /nowhere",
    "play RUN": "CartPole-v1 cannot be shown as",
    "play RUN --record film.avi": "a recording is a file ending in .mp4 or .gif, got film.avi",
    "play RUN --record /nowhere/film.gif": "there is no folder /nowhere",
    "play RUN --record film.gif --episodes 0": "--episodes must be at least 1, got 0",
    "play RUN --record film.gif --epsilon 7": "--epsilon must be between 0 and 1, got 7",
    "play RUN --record film.gif --fps -3": "--fps must be",
    "play RUN --record film.gif --max-steps 0": "--max-steps must be at least 1, got 0",
    "play DAMAGED": "invalid policy file",
    "eval UNFINISHED": "the run has not finished; if it was cut off, `ebu resume unfinished` continues it",
}


@pytest.mark.parametrize("line", MISUSES)
def test_a_misuse_is_one_line_and_exit_code_2(line, cartpole, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "damaged.ebu").write_bytes((cartpole / "policy.ebu").read_bytes()[:100])
    (tmp_path / "unfinished").mkdir()
    (tmp_path / "unfinished" / "config.json").write_bytes((cartpole / "config.json").read_bytes())
    before = sorted(tmp_path.rglob("*"))
    places = {"RUN": str(cartpole), "DAMAGED": "damaged.ebu", "UNFINISHED": "unfinished"}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        code = main([places.get(word, word) for word in line.split()])
    shown = capsys.readouterr()
    assert (code, shown.out) == (2, "")
    lines = shown.err.splitlines()
    assert len(lines) == 1, shown.err
    assert lines[0].startswith("ebu: ") and MISUSES[line] in lines[0]
    loud = [str(w.message)[:100] for w in said if issubclass(w.category, UserWarning)]
    assert loud == []  # outside of a test these are lines on the terminal, too
    assert sorted(tmp_path.rglob("*")) == before, "a refused command leaves nothing behind"


def test_a_folder_that_holds_a_run_is_refused(cartpole, capsys):
    before = {path: path.read_bytes() for path in cartpole.rglob("*") if path.is_file()}
    assert ebu_(CARTPOLE, "--run", cartpole) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"already holds a run; continue it with `ebu resume {cartpole}`" in line
    assert {path: path.read_bytes() for path in cartpole.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    "line, library, extra",
    [
        ("train --env MinAtar/Breakout-v1", "minatar", "minatar"),
        ("play /nowhere --record film.gif", "imageio", "video"),  # before the run is opened and played
        ("play /nowhere --record film.mp4", "imageio_ffmpeg", "video"),
    ],
)
def test_a_missing_extra_is_one_line(line, library, extra, monkeypatch, capsys):
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda n, *rest: None if n == library else real(n, *rest))
    assert ebu_(line) == 2
    (told,) = capsys.readouterr().err.splitlines()
    assert f"pip install 'episodic-backward-update[{extra}]'" in told


def test_debug_shows_the_traceback(capsys):
    with pytest.raises(ebu.UserError, match="there is no command"):
        ebu_("tarin --debug")


@pytest.mark.parametrize("name", ["x" * 400, "y" * 400 + "/run", "a\0b"], ids=["long", "long folder", "null"])
@pytest.mark.parametrize("command", ["eval", "play", "resume", "verify", "report"])
def test_a_name_that_no_file_can_have_is_refused_in_one_line(command, name, capsys):
    assert main([command, name]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("ebu: ") and "traceback" not in line


def test_an_interruption_is_one_line(monkeypatch, capsys):
    def interrupted(arguments):
        raise KeyboardInterrupt

    monkeypatch.setitem(COMMANDS, "list", ("", interrupted))
    assert ebu_("list") == 130
    assert capsys.readouterr().err == "ebu: interrupted\n"


def test_the_process_itself_exits_with_2_and_one_line(tmp_path):
    """What a shell sees: text that a test's capture might have hidden included."""
    result = subprocess.run(
        [sys.executable, "-m", "ebu.cli", "train", "--env", "MiniGrid-Emty-5x5-v0"],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert (result.returncode, result.stdout) == (2, "")
    lines = result.stderr.splitlines()
    assert lines[-1] == "ebu: there is no environment 'MiniGrid-Emty-5x5-v0'; did you mean MiniGrid-Empty-5x5-v0?"
    assert len(lines) == 1
    assert list(tmp_path.iterdir()) == []


def test_the_console_script_is_the_same_program():
    from importlib.metadata import entry_points

    (script,) = entry_points(group="console_scripts", name="ebu")
    assert script.load() is main
    assert np.all([callable(command) for _, command in COMMANDS.values()])
