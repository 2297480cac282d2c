"""Rows of training metrics: means over the updates since the last row."""

from __future__ import annotations

import weakref
from dataclasses import dataclass

import numpy as np
import torch

from ebu.learning.learner import Update
from ebu.learning.small_learner import SmallUpdate
from ebu.training.statistics import TrainingStatistics

CPU = torch.device("cpu")


def some_updates(kind, convert):
    rng = np.random.default_rng(0)
    columns = rng.normal(size=(50, 1, 8)).astype(np.float32)
    return [kind(*[convert(column)] * 3) for column in columns]


def rows_of(updates):
    statistics = TrainingStatistics(CPU)
    for update in updates:
        statistics.updated(update)
    return statistics


def test_a_row_is_the_same_whether_updates_are_kept_as_numbers_or_after_resuming_as_tensors():
    updates = some_updates(SmallUpdate, lambda column: column)
    whole, early, later = rows_of(updates), rows_of(updates[:20]), TrainingStatistics(CPU)
    later.load_state_dict(early.state_dict())
    for update in updates[20:]:
        later.updated(update)
    assert later.take_updates(1) == whole.take_updates(1)


def test_means_are_over_the_updates():
    updates = some_updates(Update, torch.from_numpy)
    row = rows_of(updates).take_updates(1)
    losses = torch.stack([update.loss.sum() for update in updates])
    assert row == {"loss": float(losses.mean()), "q_mean": float(torch.stack([u.values.mean() for u in updates]).mean())}


def test_an_update_leaves_no_tensor_behind_on_the_cpu():
    """Thousands of small tensors between large ones that come and go would keep the memory of those from being used again."""

    @dataclass
    class Watched:
        total_loss: torch.Tensor
        mean_value: torch.Tensor

    statistics, update = TrainingStatistics(CPU), Watched(torch.tensor(3.0), torch.tensor(4.0))
    tensors = [weakref.ref(update.total_loss), weakref.ref(update.mean_value)]
    statistics.updated(update)
    del update
    assert [tensor() for tensor in tensors] == [None, None]
    assert statistics.take_updates(1) == {"loss": 3.0, "q_mean": 4.0}
