"""What cannot fit into the machine is refused before any of it is taken."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import ebu
from ebu.training import footprint
from ebu.training.footprint import machine_bytes, require_room

GIB = 2**30


def network(width):
    with torch.device("meta"):
        return nn.Linear(width, width, bias=False)


def test_what_fits_is_let_through_up_to_the_last_byte():
    needed = 4 * (6 * 3 * 100 + 2 * 32 * 5)
    require_room(network(10), learners=3, state_values=5, batch_size=32, room=needed)
    with pytest.raises(ebu.UserError, match=r"3 × 100 weights, 32 × 5 numbers a minibatch; make hidden_sizes, betas or"):
        require_room(network(10), learners=3, state_values=5, batch_size=32, room=needed - 1)


def test_the_line_tells_how_much_and_how_much_there_is():
    with pytest.raises(ebu.UserError, match=r"need 2,400\.0 GiB and the machine has 16\.0"):
        require_room(network(2**15), learners=100, state_values=1, batch_size=1, room=16 * GIB)


def test_a_model_of_rewards_is_one_network_more(monkeypatch):
    monkeypatch.setattr(footprint, "machine_bytes", lambda: 150_000.0)
    settings = {"hidden_sizes": (64, 64), "batch_size": 32}
    ebu.EBU("CartPole-v1", **settings)
    with pytest.raises(ebu.UserError, match=r"2 × 4,610 weights"):
        ebu.EBU("CartPole-v1", redistribute_rewards=True, **settings)


def test_the_machine_tells_its_memory():
    assert machine_bytes() > GIB / 4


@pytest.mark.parametrize("settings", [{"hidden_sizes": (10**6, 10**6)}, {"hidden_sizes": (10**6,) * 64}])
def test_a_network_beyond_any_machine_is_refused_at_once(settings):
    with pytest.raises(ebu.UserError, match="GiB and the machine has"):
        ebu.DQN("CartPole-v1", **settings)


def test_a_minibatch_beyond_the_machine_is_refused_at_once():
    with pytest.raises(ebu.UserError, match="1,000,000 × 28,224 numbers a minibatch"):
        require_room(network(8), learners=1, state_values=28_224, batch_size=10**6, room=64 * GIB)
