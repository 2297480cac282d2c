"""Runs that are stopped, killed and damaged go on as if nothing had happened."""

import functools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import ebu
from ebu.cli import main
from ebu.commands.resume import prove
from ebu.envs.make import make_environment
from ebu.errors import EnvironmentFailure
from ebu.presets import configure
from ebu.storage.checkpoints import POINTS
from ebu.storage.run_folder import RunFolder
from ebu.training.environment_state import bring_back, capture, comes_back_exactly
from ebu.training.open_episode import OpenEpisode
from ebu.training.trainer import Trainer
from tests.waiting import PATIENCE, wait_for

SMALL = {"learning_starts": 100, "batch_size": 16, "log_every": 50, "hidden_sizes": (16,)}
CASES = {
    "ebu on the maze": ("ebu", "maze", {"eval_every": 150}, 400),
    "adaptive ebu": ("adaptive-ebu", "CartPole-v1", {"betas": (0.0, 1.0), "sync_interval": 120, "eval_every": 150}, 400),
    "ensemble": (
        "ensemble-q",
        "CartPole-v1",
        {"horizon_updates": 150, "gate": 0.5, "return_bound": 0.5, "eval_every": 150},
        400,
    ),
    "resets": ("ebu", "CartPole-v1", {"reset_every": 70, "eval_every": 150}, 400),
    "per with evictions": ("per", "CartPole-v1", {"buffer_size": 150, "eval_every": 0}, 400),
    "newest episodes": ("ebu", "CartPole-v1", {"episode_choice": "newest", "eval_every": 0}, 400),
    "episodes by errors": ("ebu", "CartPole-v1", {"episode_choice": "errors", "buffer_size": 150, "eval_every": 0}, 400),
    "retrace": ("retrace", "FrozenLake-v1", {"eval_every": 150}, 400),
    "redistributed rewards": (
        "peng",
        "CartPole-v1",
        {"redistribute_rewards": True, "env_args": ("reward_delay=episode",), "eval_every": 150},
        400,
    ),
    "tightening": ("optimality-tightening", "CartPole-v1", {"eval_every": 0}, 300),
    "minatar": ("ebu", "MinAtar/Breakout-v1", {"eval_every": 0, "eval_episodes": 1}, 300),
    "atari": ("ebu", "breakout", {"eval_every": 0, "eval_episodes": 1, "train_freq": 16, "batch_size": 4}, 200),
}


@pytest.mark.parametrize("case", CASES)
def test_a_run_stopped_halfway_and_resumed_equals_one_that_never_stopped(case):
    algo, env, settings, steps = CASES[case]
    assert prove(configure(algo, env, **SMALL | settings), steps) == []


# ---------------------------------------------------------------------- kill −9

KILLED = {
    "ebu": "--env maze --env-args size=5 wall_density=0.1 cap=60",
    "adaptive-ebu": "--env CartPole-v1 --betas 0 0.5 1 --sync-interval 90",
    "per": "--env CartPole-v1 --buffer-size 200",
}
COMMON = (
    "--steps 500 --checkpoint-every 60 --learning-starts 50 --batch-size 16 --log-every 40 --eval-every 110 "
    "--eval-episodes 2 --hidden-sizes 16 --quiet True --tensorboard False"
)


# Has imported everything, and forks for each command line: most kills then come while a run trains, not while it starts.
FORKS = """
import json, os, sys
import matplotlib.figure, torch
import ebu.agent, ebu.commands.resume, ebu.training.trainer
from ebu.cli import main

torch.set_num_threads(1)
for line in sys.stdin:
    arguments, kill_at = json.loads(line)
    child = os.fork()
    if child == 0:
        os.environ["EBU_KILL_AT"] = kill_at
        os.dup2(2, 1)  # what it prints is no answer
        code = 70
        try:
            code = main(arguments)
        finally:
            os._exit(code)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def run_cli():
    """A function that runs a command line, killed at a named point or after so many seconds, and returns its exit code."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", FORKS]
    process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(arguments, kill_at="", kill_after=None):
        print(json.dumps([arguments, kill_at]), file=process.stdin, flush=True)
        child = int(process.stdout.readline())
        if kill_after is not None:
            time.sleep(kill_after)
            with suppress(ProcessLookupError):  # it was faster
                os.kill(child, signal.SIGKILL)
        return int(process.stdout.readline())

    yield run
    process.communicate(timeout=PATIENCE)


def outcome(folder):
    return (folder / "policy.ebu").read_bytes(), (folder / "metrics.jsonl").read_bytes()


@functools.cache
def uninterrupted(arguments):
    """What a run without a break leaves, in this process, and how long it takes."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        assert main([*arguments, "--run", f"{folder}/straight"]) == 0
        return outcome(Path(folder, "straight")), time.perf_counter() - start


def killed_runs(run_cli, tmp_path, algo, line, kills):
    """Every kill in its own folder, resumed, compared with the run that was never interrupted."""
    arguments = ("train", "--algo", algo, *line.split(), *COMMON.split())
    expected, seconds = uninterrupted(arguments)
    for number, (kind, value) in enumerate(kills):
        folder = tmp_path / f"killed-{number}"
        options = {"kill_at": value} if kind == "point" else {"kill_after": value * seconds}
        code = run_cli([*arguments, "--run", str(folder)], **options)
        assert code in (-signal.SIGKILL, 0)
        if not (folder / "config.json").exists():
            continue  # killed before there was anything to resume
        assert main(["resume", str(folder), "--quiet", "True", "--tensorboard", "False"]) == 0
        assert outcome(folder) == expected, (kind, value)


@pytest.mark.parametrize(
    ("algo", "point"),
    [
        ("ebu", "checkpoint:before-rename:3"),
        ("adaptive-ebu", "synchronise:2"),
        ("per", "targets:40"),
        ("ebu", "evaluate:3"),
    ],
)
def test_a_run_killed_inside_a_named_point_continues_exactly(run_cli, tmp_path, algo, point):
    killed_runs(run_cli, tmp_path, algo, KILLED[algo], [("point", point)])


@pytest.mark.slow
@pytest.mark.parametrize("algo", list(KILLED))
def test_runs_killed_at_random_moments_continue_exactly(run_cli, tmp_path, algo):
    """17 kills of each of three methods: a third at named points, the rest at random times."""
    rng = random.Random(algo)
    names = [*POINTS, "targets", "evaluate", "trainer:save"] + (["synchronise"] if algo == "adaptive-ebu" else [])
    kills = [("point", f"{rng.choice(names)}:{rng.randint(1, 6)}") for _ in range(6)]
    kills += [("time", rng.random()) for _ in range(11)]
    killed_runs(run_cli, tmp_path, algo, KILLED[algo], kills)


@pytest.mark.slow
@pytest.mark.parametrize("env", ["MinAtar/Breakout-v1", "breakout"])
def test_runs_on_images_killed_at_random_moments_continue_exactly(run_cli, tmp_path, env):
    rng = random.Random(env)
    line = f"--env {env} --train-freq 16 --eval-episodes 1"
    killed_runs(run_cli, tmp_path, "ebu", line, [("time", 0.3 + 0.7 * rng.random()) for _ in range(4)])


# ---------------------------------------------------------------------- signals


def test_a_signal_stops_the_run_with_a_checkpoint_and_the_command_that_resumes(tmp_path):
    arguments = ["train", "--env", "CartPole-v1", "--steps", "100000000", "--quiet", "True", "--tensorboard", "False"]
    process = subprocess.Popen(
        [sys.executable, "-m", "ebu.cli", *arguments, "--run", str(tmp_path / "r")], stderr=subprocess.PIPE
    )
    metrics = tmp_path / "r" / "metrics.jsonl"
    wait_for(lambda: metrics.exists() and metrics.stat().st_size, "the first row")
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=PATIENCE)  # long before 100 million steps
    assert process.returncode == 130
    assert err.decode().strip().splitlines()[-1].endswith(f"continue with: ebu resume {tmp_path / 'r'}")
    assert any((tmp_path / "r" / "checkpoints").glob("generation-*"))


# ---------------------------------------------------------------------- folders and files


def session_in(folder, agent, steps, announce=lambda text: None):
    return Trainer(agent.loop, steps, folder=folder, announce=announce)


def test_a_torn_last_line_is_trimmed_to_the_checkpoint(tmp_path):
    config = configure("dqn", "CartPole-v1", steps=300, eval_every=0, **SMALL)
    folder = RunFolder.create(tmp_path / "r", config)
    agent = ebu.Agent.from_config(config)
    session_in(folder, agent, 300).run([], tensorboard=False)
    whole = folder.metrics.read_bytes()
    folder.metrics.write_bytes(whole + b'{"kind": "train", "st')
    again = ebu.Agent.from_config(config)
    session_in(folder, again, 300).resume()
    assert folder.metrics.read_bytes() == whole
    assert all(json.loads(line) for line in whole.splitlines())


@pytest.mark.parametrize(("steps", "every", "tests"), [(300, 100, 3), (300, 0, 1), (300, 200, 2)])
def test_a_run_ends_at_its_last_step_with_an_evaluation_and_a_finished_run_stays_as_it_is(tmp_path, steps, every, tests):
    config = configure("dqn", "CartPole-v1", steps=steps, eval_every=every, **SMALL)
    folder = RunFolder.create(tmp_path / "r", config)
    agent = ebu.Agent.from_config(config)
    assert session_in(folder, agent, steps).run([], tensorboard=False)
    rows = folder.rows()
    assert agent.loop.step == steps
    assert [row["step"] for row in rows if row["kind"] == "eval"][-1] == steps
    assert sum(row["kind"] == "eval" for row in rows) == tests
    again = ebu.Agent.from_config(config)
    session = session_in(folder, again, steps)
    session.resume()
    assert session.run([], tensorboard=False)
    assert (again.loop.step, folder.rows()) == (steps, rows)


def test_metrics_shorter_than_the_checkpoint_are_refused(tmp_path):
    config = configure("dqn", "CartPole-v1", steps=200, eval_every=0, **SMALL)
    folder = RunFolder.create(tmp_path / "r", config)
    session_in(folder, ebu.Agent.from_config(config), 200).run([], tensorboard=False)
    folder.metrics.write_bytes(b"")
    with pytest.raises(ebu.UserError, match=r"was changed: its first \d+ bytes"):
        session_in(folder, ebu.Agent.from_config(config), 200).resume()


def test_a_checkpoint_of_another_environment_or_method_is_refused(tmp_path):
    config = configure("dqn", "CartPole-v1", steps=200, eval_every=0, **SMALL)
    folder = RunFolder.create(tmp_path / "r", config)
    session_in(folder, ebu.Agent.from_config(config), 200).run([], tensorboard=False)
    for other in (configure("per", "CartPole-v1", **SMALL), configure("dqn", "FrozenLake-v1", **SMALL)):
        with pytest.raises(ebu.UserError):
            session_in(folder, ebu.Agent.from_config(other), 200).resume()


class Breaks(gymnasium.Env):
    """Raises at one step."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, at):
        self.left = at

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.left -= 1
        if not self.left:
            raise RuntimeError("the simulator\nfell over")
        return np.zeros(2, np.float32), 1.0, self.left % 10 == 0, False, {}


def test_an_environment_that_raises_stops_the_run_with_a_checkpoint_and_drops_its_episode(tmp_path):
    agent = ebu.DQN(Breaks(at=55), **SMALL)
    folder = RunFolder.create(tmp_path / "r", agent.config)
    with pytest.raises(EnvironmentFailure, match=r"raised RuntimeError at step 55, after action .: the simulator fell over"):
        session_in(folder, agent, 200).run([], tensorboard=False)
    again = ebu.DQN(Breaks(at=1000), **SMALL)
    session_in(folder, again, 200).resume()
    assert again.loop.step == 54
    assert again.loop.actors.open == [None]
    assert again.loop.memory.steps == agent.loop.memory.steps == 45


# ---------------------------------------------------------------------- environments


@pytest.mark.parametrize("name", ["CartPole-v1", "FrozenLake-v1", "maze", "MinAtar/Breakout-v1", "breakout"])
def test_environments_are_restored_to_the_middle_of_an_episode(name):
    rng = np.random.default_rng(0)
    env, other = make_environment(name), make_environment(name)
    assert comes_back_exactly(env)
    observation, _ = env.reset(seed=5)
    from ebu.envs.spaces import describe

    encode = describe(env.observation_space).encode
    episode = OpenEpisode(5, [encode(observation)])
    for _ in range(6):
        action = int(rng.integers(env.action_space.n))
        observation, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            break
        episode.actions.append(action)
        episode.observations.append(encode(observation))
    else:
        assert bring_back(other, capture(env), episode)
        for _ in range(20):
            action = int(rng.integers(env.action_space.n))
            ours, theirs = env.step(action), other.step(action)
            assert np.array_equal(ours[0], theirs[0]) and ours[1:4] == theirs[1:4]
            if ours[2] or ours[3]:
                break


class Restless(Breaks):
    """Observations that no seed governs."""

    def __init__(self):
        self.count = 0

    def step(self, action):
        self.count += 1
        return np.full(2, np.sin(self.count), np.float32), 0.0, False, False, {}


def test_an_environment_that_does_not_repeat_itself_is_found_out():
    assert not comes_back_exactly(Restless())
    episode = OpenEpisode(0, [np.zeros(2, np.float32), np.full(2, 0.5, np.float32)], [0])
    assert not bring_back(Restless(), None, episode)


class Kept(Breaks):
    """An environment of a user's that can be saved."""

    def snapshot(self):
        return {"left": self.left}

    def restore(self, snapshot):
        self.left = snapshot["left"]
        return np.zeros(2, np.float32)


def test_a_snapshot_counts_only_where_no_wrapper_can_hold_more():
    plain = gymnasium.wrappers.TimeLimit(gymnasium.wrappers.OrderEnforcing(Kept(at=100)), 50)
    plain.reset(seed=0)
    assert capture(plain) == {"left": 100} and comes_back_exactly(plain)
    other = gymnasium.wrappers.TimeLimit(Kept(at=7), 50)
    assert bring_back(other, {"left": 90}, OpenEpisode(0, [np.zeros(2, np.float32)] * 4, [0] * 3))
    assert (other.unwrapped.left, other._elapsed_steps) == (90, 3)
    assert capture(gymnasium.wrappers.DelayObservation(plain, 1)) is None
