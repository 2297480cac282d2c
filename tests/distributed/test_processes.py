"""The beginning and the end of a group of ranks."""

import faulthandler
import weakref
from contextlib import suppress

import pytest
import torch
import torch.distributed as dist

from ebu.distributed.processes import ProcessGroup
from tests.distributed.test_learner import surroundings
from tests.waiting import PATIENCE

RELEASE = tuple(map(int, torch.__version__.split(".")[:2]))
pytestmark = pytest.mark.xdist_group("ranks")  # a process is in one group at a time


@pytest.fixture
def alone(monkeypatch):
    """What torchrun tells the only process of a group."""
    for name, value in surroundings(0, WORLD_SIZE="1").items():
        monkeypatch.setenv(name, value)


def test_the_group_is_gone_before_its_backend(alone, monkeypatch):
    """With any PyTorch, so that the order holds where it matters: see the test below."""
    destroy, still_there = dist.destroy_process_group, []
    monkeypatch.setattr(dist, "destroy_process_group", lambda: (destroy(), still_there.append(world() is not None)))
    with ProcessGroup(0, 1, 0, 1):
        world = weakref.ref(dist.group.WORLD)
    assert still_there == [False]


@pytest.mark.skipif(RELEASE >= (2, 8), reason="PyTorch has no such wait since 2.8")
def test_a_group_ends_while_its_threads_still_let_go_of_tensors(alone):
    """One in some dozens of groups never did: its threads and it waited for each other."""
    faulthandler.dump_traceback_later(PATIENCE, exit=True)  # such a wait ends no other way
    for _ in range(200):
        with suppress(KeyError), ProcessGroup(0, 1, 0, 1) as group, group.together("a call"):
            group.broadcast(torch.zeros(512))
            raise KeyError("a call that fails, so that nothing else is said before the end")
    faulthandler.cancel_dump_traceback_later()
