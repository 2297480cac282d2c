"""Learners whose networks give a histogram for each action: the gradient step is one of classification."""

from __future__ import annotations

from typing import cast

import torch

from ebu.learning.learner import LocalLearner, Update
from ebu.learning.losses import cross_entropy
from ebu.networks.ensemble_histogram import EnsembleHistogram
from ebu.networks.histogram import histogram_of, value_of
from ebu.types import Batch


class HistogramLearner(LocalLearner):
    """``LocalLearner`` with the cross-entropy to the targets' histograms in place of a loss on values."""

    def update(self, batch: Batch) -> Update:
        every, pullback = cast(EnsembleHistogram, self.online).differentiate_logits(batch.states)  # [K, B, A, bins]
        taken = batch.actions.view(1, -1, 1, 1).expand(len(every), -1, 1, every.shape[-1])
        logits = every.gather(2, taken).squeeze(2)
        values = value_of(logits)
        targets = self._targets(batch, values)
        loss, slope = cross_entropy(logits, histogram_of(targets))
        if batch.weights is not None:
            loss, slope = loss * batch.weights, slope * batch.weights.unsqueeze(-1)
        pullback(torch.zeros_like(every).scatter_(2, taken, slope.unsqueeze(2)))
        self._descend()
        return Update(loss, values, targets - values)
