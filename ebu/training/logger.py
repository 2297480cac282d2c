"""Values of a user's own among the rows of training metrics."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ebu.errors import UserError


class Logger:
    """Keeps what is recorded until the next row of training metrics, which includes it; under one name, the last counts."""

    def __init__(self) -> None:
        self._values: dict[str, float] = {}

    def record(self, key: str, value: float) -> None:
        """A number under a name, such as ``"rollout/success"``: in the next row under ``recorded``, and in TensorBoard."""
        if not isinstance(key, str) or not key.strip():
            raise UserError(f"logger.record takes a name and a number, got the name {key!r}")
        self._values[key] = _number(key, value)

    def take(self) -> dict[str, float]:
        """What was recorded since the last row."""
        taken, self._values = self._values, {}
        return taken

    def state_dict(self) -> list[list[Any]]:
        return [[key, value] for key, value in self._values.items()]

    def load_state_dict(self, state: list[list[Any]]) -> None:
        self._values = {}
        for key, value in state:
            self.record(key, value)


def _number(key: str, value: Any) -> float:
    number = value.item() if hasattr(value, "item") and getattr(value, "size", 1) in (1, ()) else value
    if isinstance(number, bool) or not isinstance(number, int | float | np.number) or not math.isfinite(number):
        raise UserError(f"logger.record takes a finite number, got {value!r} for {key!r}")
    return float(number)
