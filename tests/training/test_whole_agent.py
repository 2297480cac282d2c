"""``agent.save(path, memory=True)``: a loaded agent learns on as if it had never stopped."""

from __future__ import annotations

import zipfile

import pytest

import ebu
from tests.conftest import Corridor, one_line

SMALL = {"learning_starts": 30, "batch_size": 8, "hidden_sizes": (8,), "eval_every": 0, "log_every": 50, "seed": 4}


def weights(agent):
    return agent.loop.learner.state_dict()["online"]["parameters"].numpy(force=True).tobytes()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An agent in the middle of an episode, saved with its memory."""
    path = tmp_path_factory.mktemp("whole") / "agent.ebu"
    agent = ebu.EBU("CartPole-v1", **SMALL).learn(75)
    assert agent.loop.actors.open != [None]
    agent.save(path, memory=True)
    return path


@pytest.mark.parametrize(
    "make",
    [
        lambda: ebu.EBU("CartPole-v1", **SMALL),
        lambda: ebu.PrioritizedDQN("CartPole-v1", **SMALL),
        lambda: ebu.DQN("CartPole-v1", n_envs=3, **SMALL),
        lambda: ebu.AdaptiveEBU("CartPole-v1", betas=(0.0, 1.0), sync_interval=40, **SMALL),
    ],
)
def test_a_loaded_agent_learns_on_bit_for_bit(make, tmp_path):
    straight, halved = make().learn(75), make().learn(75)
    halved.save(tmp_path / "agent.ebu", memory=True)
    loaded = ebu.load(tmp_path / "agent.ebu", device="cpu")
    assert loaded.num_timesteps == 75 and loaded.loop.memory.steps == straight.loop.memory.steps
    rows = {}
    for name, agent in (("straight", straight), ("loaded", loaded)):
        rows[name] = []
        agent.learn(75, callback=rows[name].append, reset_num_timesteps=False)
    assert rows["loaded"] == rows["straight"]
    assert weights(loaded) == weights(straight)


def test_an_agent_on_an_object_without_an_id_is_loaded_with_one(tmp_path):
    agent = ebu.EBU(Corridor(), **SMALL).learn(50)
    agent.save(tmp_path / "agent.ebu", memory=True)
    with pytest.raises(ebu.UserError, match="Corridor"):
        ebu.load(tmp_path / "agent.ebu")
    loaded = ebu.load(tmp_path / "agent.ebu", env=Corridor())
    assert weights(loaded.learn(50)) == weights(agent.learn(50))


def test_it_acts_like_the_saved_one_and_is_saved_again_as_it_is(whole, tmp_path):
    loaded = ebu.load(whole)
    loaded.save(tmp_path / "again.ebu", memory=True)
    assert weights(ebu.load(tmp_path / "again.ebu").learn(20)) == weights(ebu.load(whole).learn(20))
    loaded.save(tmp_path / "policy.ebu")
    assert (tmp_path / "policy.ebu").stat().st_size < whole.stat().st_size


def test_any_damage_is_refused_in_one_line(whole, tmp_path):
    data, path = whole.read_bytes(), tmp_path / "agent.ebu"
    for place in range(0, len(data), len(data) // 25):
        path.write_bytes(data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :])
        try:
            loaded = ebu.load(path)
        except ebu.UserError as error:
            assert "\n" not in str(error)
        else:  # in what the archive says of dates and the like
            assert weights(loaded) == weights(ebu.load(whole))
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(ebu.UserError, match="invalid agent file") as error:
        ebu.load(path)
    one_line(error)


@pytest.mark.parametrize("name", ["../outside", "/tmp/outside", "checkpoints/../../outside", "checkpoints/own.py"])
def test_nothing_is_written_outside(whole, tmp_path, name):
    path = tmp_path / "inside" / "agent.ebu"
    path.parent.mkdir()
    path.write_bytes(whole.read_bytes())
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(name, b"text")
    with pytest.raises(ebu.UserError, match="no part of an agent"):
        ebu.load(path)
    assert not (tmp_path / "outside").exists()


def test_a_compressed_bomb_is_not_unpacked(tmp_path):
    path = tmp_path / "agent.ebu"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("policy.ebu", bytes(10_000_000))
    with pytest.raises(ebu.UserError, match="larger than the file"):
        ebu.load(path)


@pytest.mark.parametrize("place", ["missing/agent.ebu", "."])
def test_a_place_that_cannot_be_written_is_one_line(whole, tmp_path, place):
    with pytest.raises(ebu.RunFailure) as error:
        ebu.load(whole).save(tmp_path / place, memory=True)
    one_line(error)
