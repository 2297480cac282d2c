"""All randomness of a run, from one seed, in named independent streams that can be saved and restored."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ebu.errors import EnvironmentFailure, Interrupted

if TYPE_CHECKING:
    import torch

# The position of a name is its identity: append, never reorder, or every seed changes its meaning.
STREAMS = ("initialisation", "episodes", "exploration", "sampling", "evaluation")


class Streams:
    """One generator for each use of randomness, so that no part can disturb another's draws."""

    initialisation: np.random.Generator
    episodes: np.random.Generator
    exploration: np.random.Generator
    sampling: np.random.Generator
    evaluation: np.random.Generator

    def __init__(self, seed: int) -> None:
        for name, child in zip(STREAMS, np.random.SeedSequence(seed).spawn(len(STREAMS))):
            setattr(self, name, np.random.Generator(np.random.PCG64(child)))

    def state_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name).bit_generator.state for name in STREAMS}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name in STREAMS:
            getattr(self, name).bit_generator.state = state[name]


def draw_seed(generator: np.random.Generator) -> int:
    """A seed for something seeded by a number: an environment's reset, a PyTorch generator."""
    return int(generator.integers(2**31 - 1))


def torch_generator(generator: np.random.Generator) -> torch.Generator:
    import torch

    return torch.Generator("cpu").manual_seed(draw_seed(generator))


@contextmanager
def unchanged_if_interrupted(rng: np.random.Generator) -> Iterator[None]:
    """Work that is abandoned gives its random numbers back, so that doing it again gives the same result."""
    before = rng.bit_generator.state
    try:
        yield
    except (Interrupted, EnvironmentFailure):
        rng.bit_generator.state = before
        raise
