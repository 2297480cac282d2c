"""Callbacks: small classes for what people do while an agent learns; a plain function still works."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import ebu
from ebu.callbacks import Callback, Checkpoint, EpisodeEnded, Evaluated, KeepBest, Record, StopOnReward
from tests.conftest import Corridor, one_line

SMALL = {"learning_starts": 20, "batch_size": 8, "hidden_sizes": (8,), "log_every": 50, "seed": 0}
SMALL |= {"eval_every": 40, "eval_episodes": 2}


def agent(**settings):
    return ebu.EBU("CartPole-v1", **{**SMALL, **settings})


def test_a_run_stops_at_the_first_evaluation_that_is_good_enough():
    events = []
    own = agent().learn(400, callback=[events.append, StopOnReward(1.0)])
    assert own.loop.step == 40 and isinstance(events[-1], Evaluated)
    assert agent().learn(100, callback=StopOnReward(1e6)).loop.step == 100


def test_a_run_stops_at_the_mean_of_its_latest_episodes():
    events = []
    own = agent(eval_every=0).learn(2_000, callback=[events.append, StopOnReward(1.0, episodes=5)])
    ends = [event for event in events if isinstance(event, EpisodeEnded)]
    assert len(ends) == 5 and own.loop.step == ends[-1].step
    assert np.mean([end.score for end in ends]) >= 1.0


def test_without_a_copy_to_evaluate_on_a_run_says_so_instead_of_never_stopping():
    with pytest.raises(ebu.UserError, match="pass episodes=") as error:
        ebu.EBU(Corridor(), **SMALL).learn(100, callback=StopOnReward(1.0))
    one_line(error)


@pytest.mark.parametrize("every", [0, 200])
def test_who_waits_for_an_evaluation_that_never_comes_is_told(every, tmp_path):
    own = agent(eval_every=every)
    for name, callback in {"KeepBest": KeepBest(tmp_path / "best.ebu"), "StopOnReward": StopOnReward(1.0)}.items():
        words = f"{name} has nothing to do: no evaluation is due in these 50 steps, as eval_every is {every}"
        with pytest.warns(UserWarning, match=words):
            own.learn(50, callback=callback)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        own.learn(50, callback=StopOnReward(1e6, episodes=5))
        agent().learn(50, callback=KeepBest(tmp_path / "best.ebu"))
        agent(eval_every=every).learn(50, run=tmp_path / "run", callback=KeepBest(tmp_path / "last.ebu"))  # one at its end
    assert (tmp_path / "last.ebu").exists()


def test_the_policy_of_the_best_evaluation_is_kept(tmp_path):
    scores, weights = [], []
    own = agent()
    keep = KeepBest(tmp_path / "best.ebu")

    def look(event):
        if isinstance(event, Evaluated):
            scores.append(event.evaluation.mean)
            weights.append({name: t.clone() for name, t in own.loop.learner.online.named_tensors(0).items()})

    own.learn(200, callback=[look, keep])
    best = weights[int(np.argmax(scores))]
    assert keep.score == max(scores)
    loaded = ebu.load(tmp_path / "best.ebu")
    assert all((loaded._restored.tensors[name] == tensor).all() for name, tensor in best.items())


def test_agents_are_saved_every_so_many_steps(tmp_path):
    own = agent(eval_every=0)
    own.learn(100, callback=[Checkpoint(tmp_path / "saved", every=40), Checkpoint(tmp_path / "whole", 50, memory=True)])
    assert sorted(path.name for path in (tmp_path / "saved").iterdir()) == ["agent-40.ebu", "agent-80.ebu"]
    halfway = ebu.load(tmp_path / "whole" / "agent-50.ebu")
    halfway.learn(50)
    assert halfway.loop.step == 100


def test_videos_are_recorded_and_training_is_not_disturbed(tmp_path):
    pytest.importorskip("imageio_ffmpeg")
    watched, alone = agent(eval_every=0), agent(eval_every=0)
    watched.learn(90, callback=Record(tmp_path / "films", every=40, suffix=".gif"))
    alone.learn(90)
    assert sorted(path.name for path in (tmp_path / "films").iterdir()) == ["step-40.gif", "step-80.gif"]
    assert all(path.stat().st_size > 1_000 for path in (tmp_path / "films").iterdir())
    online = [own.loop.learner.state_dict()["online"]["parameters"].numpy().tobytes() for own in (watched, alone)]
    assert online[0] == online[1]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: Record(path, every=10, suffix=".avi"), "ending in .mp4 or .gif"),
        (lambda path: Record(path, every=0), "every must be at least 1"),
        (lambda path: Checkpoint(path / "file" / "folder", every=10), "choose another folder"),
        (lambda path: StopOnReward(1.0, episodes=0), "episodes must be at least 1"),
        (lambda path: StopOnReward(1.0, episodes="5"), "episodes must be at least 1, got '5'"),
        (lambda path: StopOnReward("475"), "StopOnReward takes a finite number, got '475'"),
        (lambda path: StopOnReward(float("nan")), "StopOnReward takes a finite number, got nan"),
        (lambda path: KeepBest(3), "KeepBest takes a path first, got 3"),
        (lambda path: Checkpoint(path, every="1k"), "every must be at least 1 step, a whole number, got '1k'"),
        (lambda path: Checkpoint(10, path), "every must be at least 1 step"),
    ],
)
def test_what_cannot_be_done_is_refused_before_training(make, words, tmp_path):
    (tmp_path / "file").write_text("")
    own = agent()
    with pytest.raises(ebu.UserError, match=words) as error:
        own.learn(100, callback=make(tmp_path))
    one_line(error)
    assert own.loop.step == 0


def test_what_cannot_be_drawn_is_not_recorded(tmp_path):
    with pytest.raises(ebu.UserError, match="Corridor cannot be recorded"):
        ebu.EBU(Corridor(), **SMALL).learn(100, callback=Record(tmp_path, every=10))


def test_one_s_own_callback_has_the_agent_and_every_step(tmp_path):
    class Steps(Callback):
        def __init__(self):
            self.steps, self.events = [], 0

        def __call__(self, event):
            self.events += 1

        def advance(self, step):
            self.steps.append((step, self.agent.loop.step))

    own, steps = agent(), Steps()
    own.learn(60, callback=steps, run=tmp_path / "run")
    assert steps.agent is own and steps.events > 0
    assert steps.steps[-1] == (60, 60) and [step for step, _ in steps.steps][:3] == [1, 2, 3]
    resumed = Steps()
    ebu.resume(tmp_path / "run", callback=resumed, announce=lambda text: None)
    assert resumed.agent.loop.step == 60


def test_a_callback_written_for_stable_baselines3_is_refused_when_it_is_defined():
    with pytest.raises(ebu.UserError, match=r"Mine\._on_step is a method of Stable-Baselines3's callbacks.*advance\(step\)"):
        type("Mine", (Callback,), {"_on_step": lambda self: True})
