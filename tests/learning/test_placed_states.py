"""Frames cross to the device once, and states are stacked there as the memory stacks them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch.utils._python_dispatch import TorchDispatchMode

from ebu.learning.placed_states import PlacedStates
from ebu.memory.episodes import EpisodeMemory
from ebu.memory.samplers import whole_episodes
from ebu.types import Episode
from tests.conftest import Script, random_pictures
from tests.training.test_loop import make_loop, run


@pytest.mark.parametrize("stack", [1, 3])
def test_states_stacked_on_the_device_are_those_of_the_span(stack):
    memory = EpisodeMemory(100, (2, 8, 8), np.uint8, gamma=0.9, stack=stack)
    rng = np.random.default_rng(0)
    for length in (5, 7):
        steps = (np.zeros(length, np.int64), np.zeros(length, np.float32), np.ones(length, np.float32))
        memory.add(Episode(random_pictures(rng, length + 1, (8, 8), 2), *steps, True))
    span = whole_episodes(memory, np.array([1, 0]))
    placed = PlacedStates(span, torch.device("cpu"))
    for rows in (span.rows, span.rows[3:4], span.rows + 1):
        assert torch.equal(placed._stacked(torch.from_numpy(rows)), torch.from_numpy(span.states(rows)))
        assert torch.equal(placed(rows), torch.from_numpy(span.states(rows)))


class Crossings(TorchDispatchMode):
    """Counts what is copied from the CPU to the device, by its size, and what is asked back."""

    def __init__(self):
        super().__init__()
        self.sizes = []

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        result = function(*arguments, **(options or {}))
        if function is torch.ops.aten._to_copy.default and arguments[0].device != result.device:
            assert result.device.type == "meta", "the loop waits for the device"
            self.sizes.append(arguments[0].numel() * arguments[0].element_size())
        assert function is not torch.ops.aten._local_scalar_dense.default, "the loop waits for the device"
        return result


def test_frames_cross_once_for_targets_and_all_minibatches():
    """An episode of 64 pictures is learned from in 8 minibatches; besides its frames only small arrays cross."""
    rng = np.random.default_rng(0)
    frames = rng.integers(256, size=(65, 16, 16, 1)).astype(np.uint8)
    env = Script([0.0] * 64, frames, space=spaces.Box(0, 255, (16, 16, 1), np.uint8))
    random = {"exploration_initial_eps": 1.0, "exploration_final_eps": 1.0}  # acting asks the device for values
    loop = make_loop(env, device="meta", stack=4, learning_starts=10**6, compress="never", **random)
    run(loop, 64)
    for _ in range(8):  # what the networks keep for themselves crosses here
        loop._learn()
    with Crossings() as crossings:
        for _ in range(8):
            loop._learn()
    assert len(loop.backlog) == 0 and loop.updates == 16
    frames_of_all, index_of_stacks = 65 * 16 * 16, 65 * 4 * 8
    large = [size for size in crossings.sizes if size > 64 * 8]  # more than a number for each step
    assert sorted(large) == [index_of_stacks, frames_of_all], crossings.sizes
