"""Networks as users write them, for tests and by name: ``tests.networks.own:normalised``."""

from __future__ import annotations

import torch
from torch import nn


class Attention(nn.Module):
    """A state of n numbers as n tokens with learned places; weights that appear twice; one that is never used."""

    def __init__(self, spec, actions):
        super().__init__()
        size = spec.shape[0]
        self.inwards = nn.Linear(1, 8)
        self.place = nn.Embedding(size, 8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm = nn.LayerNorm(8)
        self.first = nn.Linear(8, 8)
        self.again = nn.Linear(8, 8)
        self.again.weight = self.first.weight
        self.outwards = nn.Linear(8, actions)
        self.unused = nn.Parameter(torch.ones(3))
        self.register_buffer("places", torch.arange(size))

    def forward(self, x):
        x = self.inwards(x.unsqueeze(-1)) + self.place(self.places)
        x = self.norm(x + self.attention(x, x, x, need_weights=False)[0])
        return self.outwards(self.again(self.first(x).relu()).relu().mean(1))


def normalised(spec, actions):
    return nn.Sequential(nn.Linear(spec.shape[0], 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, actions, bias=False))


def without_linear_layers(spec, actions):
    return nn.Sequential(nn.Unflatten(1, (1, spec.shape[0])), nn.Conv1d(1, actions, spec.shape[0]), nn.Flatten())


class Pictures(nn.Module):
    """Reads bytes and the scale from the specification."""

    def __init__(self, spec, actions):
        super().__init__()
        self.scale = spec.scale
        self.layers = nn.Sequential(nn.Conv2d(spec.shape[0], 4, 3), nn.Mish(), nn.Flatten(), nn.LazyLinear(actions))

    def forward(self, x):
        return self.layers(x.float() * self.scale)


not_a_function = 3
