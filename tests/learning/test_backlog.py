"""The queue between targets and learner: from the end backward, topped up, with values that stay what they were."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from ebu.learning.backlog import Backlog
from ebu.memory.episodes import EpisodeMemory
from ebu.memory.samplers import steps_with_followers, whole_episodes
from ebu.types import Episode, Targets

CPU = torch.device("cpu")


def filled(lengths, capacity=10**6, stack=1):
    """Frames and actions that tell the step's number."""
    shape = (1, 2, 2) if stack > 1 else (1,)
    memory = EpisodeMemory(capacity, shape, np.float32, gamma=0.9, stack=stack)
    step = 0
    for length in lengths:
        add(memory, step, length)
        step += length
    return memory


def add(memory, step, length):
    frames = np.arange(step, step + length + 1, dtype=np.float32)
    memory.add(
        Episode(
            observations=np.broadcast_to(
                frames.reshape(-1, *[1] * len(memory.frame_shape)), (length + 1, *memory.frame_shape)
            ),
            actions=np.arange(step, step + length) % 7,
            rewards=np.zeros(length, np.float32),
            behaviour=np.ones(length, np.float32),
            terminated=True,
        )
    )


def targets_of(span, learners=2, scale=1.0, **columns):
    """y = the step's number, times 10ᵏ for learner k."""
    steps = torch.from_numpy(span.steps).float() * scale
    return Targets(torch.stack([steps * 10**k for k in range(learners)]), columns)


def test_an_episode_is_handed_out_from_its_end_backward_in_minibatches():
    memory, backlog = filled([3, 7]), Backlog(CPU)
    span = whole_episodes(memory, np.array([1]))
    backlog.push(span, targets_of(span))
    assert len(backlog) == 7
    assert backlog.pop(3).steps.tolist() == [9, 8, 7]
    assert backlog.pop(3).steps.tolist() == [6, 5, 4]
    assert len(backlog) == 1
    assert backlog.pop(1).steps.tolist() == [3]
    assert len(backlog) == 0


def test_a_minibatch_is_topped_up_from_the_next_span():
    memory, backlog = filled([3, 4, 2]), Backlog(CPU)
    for episodes in ([0], [1, 2]):
        span = whole_episodes(memory, np.array(episodes))
        backlog.push(span, targets_of(span))
    assert backlog.pop(5).steps.tolist() == [2, 1, 0, 6, 5]
    assert backlog.pop(4).steps.tolist() == [4, 3, 8, 7]


def test_every_row_carries_its_own_state_action_and_targets():
    memory, backlog = filled([3, 4, 2]), Backlog(CPU)
    for episode in (2, 0, 1):
        span = whole_episodes(memory, np.array([episode]))
        backlog.push(span, targets_of(span))
    for size in (4, 5):
        batch = backlog.pop(size)
        assert batch.states.reshape(-1).tolist() == batch.steps.tolist()
        assert batch.actions.tolist() == (batch.steps % 7).tolist()
        assert batch.targets.tolist() == [batch.steps.tolist(), (batch.steps * 10).tolist()]
        assert batch.states.shape == (size, 1) and batch.targets.shape == (2, size)


def test_targets_keep_the_value_they_had_when_they_were_made():
    """The target network may be copied meanwhile; what is queued is not computed anew, as in the authors' code."""
    memory, backlog = filled([6]), Backlog(CPU)
    span = whole_episodes(memory, np.array([0]))
    backlog.push(span, targets_of(span, scale=1.0))
    backlog.pop(2)
    backlog.push(span, targets_of(span, scale=100.0))
    batch = backlog.pop(6)
    assert batch.targets[0].tolist() == [3, 2, 1, 0, 500, 400]


def test_what_is_queued_survives_the_episode_s_eviction():
    memory, backlog = filled([6], capacity=6), Backlog(CPU)
    span = whole_episodes(memory, np.array([0]))
    backlog.push(span, targets_of(span))
    for n in range(300):  # rewrites the memory's storage more than once
        add(memory, 1000 + 6 * n, 6)
    assert memory.first_episode == 300
    batch = backlog.pop(6)
    assert batch.steps.tolist() == [5, 4, 3, 2, 1, 0]
    assert batch.states.reshape(-1).tolist() == [5, 4, 3, 2, 1, 0]
    assert batch.actions.tolist() == [5, 4, 3, 2, 1, 0]


def test_only_trained_positions_are_handed_out():
    memory, backlog = filled([5, 5]), Backlog(CPU)
    span = steps_with_followers(memory, np.array([7, 3]), 3)
    backlog.push(span, targets_of(span))
    assert len(backlog) == 2
    batch = backlog.pop(2)
    assert batch.steps.tolist() == [7, 3]
    assert batch.targets[0].tolist() == [7, 3]


def test_states_are_stacked_as_the_memory_says():
    memory, backlog = filled([4], stack=3), Backlog(CPU)
    span = whole_episodes(memory, np.array([0]))
    backlog.push(span, targets_of(span))
    states = backlog.pop(4).states
    assert states.shape == (4, 3, 2, 2)
    assert states[:, :, 0, 0].tolist() == [[1, 2, 3], [0, 1, 2], [0, 0, 1], [0, 0, 0]]


def test_bounds_and_weights_travel_with_their_steps():
    memory, backlog = filled([3, 4]), Backlog(CPU)
    for episode in (0, 1):
        span = whole_episodes(memory, np.array([episode]))
        span = dataclasses.replace(span, weights=(span.steps / 10).astype(np.float32))
        steps = torch.from_numpy(span.steps).float()
        backlog.push(span, targets_of(span, lower=steps.expand(2, -1) - 1, upper=steps.expand(2, -1) + 1))
    batch = backlog.pop(5)
    assert batch.steps.tolist() == [2, 1, 0, 6, 5]
    assert batch.columns["lower"][1].tolist() == [1, 0, -1, 5, 4]
    assert batch.columns["upper"][0].tolist() == [3, 2, 1, 7, 6]
    assert batch.weights.tolist() == pytest.approx([0.2, 0.1, 0.0, 0.6, 0.5])


def test_without_bounds_there_are_none():
    memory, backlog = filled([3]), Backlog(CPU)
    span = whole_episodes(memory, np.array([0]))
    backlog.push(span, targets_of(span))
    batch = backlog.pop(3)
    assert (dict(batch.columns), batch.weights) == ({}, None)


def test_everything_that_comes_out_is_on_the_device_given():
    meta = torch.device("meta")
    memory, backlog = filled([3, 4]), Backlog(meta)
    for episode in (0, 1):
        span = whole_episodes(memory, np.array([episode]))
        span = dataclasses.replace(span, weights=np.ones(len(span), np.float32))
        values = torch.zeros(2, len(span), device=meta)
        backlog.push(span, Targets(values, {"lower": values, "upper": values}))
    batch = backlog.pop(5)
    tensors = (batch.states, batch.actions, batch.targets, batch.columns["lower"], batch.columns["upper"], batch.weights)
    assert {x.device.type for x in tensors} == {"meta"}
