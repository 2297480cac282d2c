"""Backward scans along the time axis, shared by the target rules: the associative form of a recursion from the end."""

from __future__ import annotations

from array import array

import torch
from torch import Tensor

# Stands for "no such alternative". Finite, because 0 · (−∞) is NaN and slopes underflow to 0 on long episodes. Every map
# below is monotone and any real value is larger, so an alternative this low is never the maximum.
ABSENT = -1e30

# Below this many elements a loop over Python floats beats ⌈log₂ T⌉ rounds of tensor operations (measured in bench/).
SCALAR_LOOP_ELEMENTS = 512


def next_along_time(x: Tensor) -> Tensor:
    """x shifted so that index t holds x[t + 1]; the last index repeats itself."""
    return torch.cat([x[..., 1:], x[..., -1:]], dim=-1)


def piece_ends(continues: Tensor | None, shape: torch.Size, device: torch.device) -> Tensor:
    """Where the recursion stops: the last step of each piece and, always, the last step of all. Shape ``shape``."""
    ends = torch.zeros(shape[-1], dtype=torch.bool, device=device) if continues is None else ~continues
    ends[..., -1] = True
    return ends.expand(shape)


def scan_max_affine(stop: Tensor, go_on: Tensor, slope: Tensor) -> Tensor:
    """y_t = max(stop_t, go_on_t + slope_t · y_{t+1}), from the last t, whose slope must be 0, to the first.

    (c₁, e₁, m₁) ∘ (c₂, e₂, m₂) = (max(c₁, e₁ + m₁ c₂), e₁ + m₁ e₂, m₁ m₂), for slopes m ≥ 0.
    """
    stop, go_on, slope = torch.broadcast_tensors(stop, go_on, slope)
    if stop.numel() <= SCALAR_LOOP_ELEMENTS and stop.device.type == "cpu":
        return _scan_by_loop(stop, go_on, slope)
    length = stop.shape[-1]
    c, e, m = (x.movedim(-1, 0).clone(memory_format=torch.contiguous_format) for x in (stop, go_on, slope))  # time first
    reach = 1
    while reach < length:  # afterwards each step holds the map of its next 2 · reach steps; the last ones are complete
        near, far = slice(0, length - reach), slice(reach, length)
        through_c = torch.addcmul(e[near], m[near], c[far])
        through_e = torch.addcmul(e[near], m[near], e[far])
        through_m = m[near] * m[far]
        torch.maximum(c[near], through_c, out=c[near])
        e[near], m[near] = through_e, through_m
        reach *= 2
    return torch.maximum(c, e).movedim(0, -1)


def scan_affine(constant: Tensor, slope: Tensor) -> Tensor:
    """y_t = constant_t + slope_t · y_{t+1}; the last slope must be 0."""
    return scan_max_affine(torch.full_like(constant, ABSENT), constant, slope)


def _scan_by_loop(stop: Tensor, go_on: Tensor, slope: Tensor) -> Tensor:
    """The same recursion, one Python float at a time."""
    results = array("d")  # from which a tensor is made several times faster than from a list
    for cs, es, ms in zip(*(x.reshape(-1, stop.shape[-1]).tolist() for x in (stop, go_on, slope))):
        y = 0.0
        ys = []
        for c, e, m in zip(reversed(cs), reversed(es), reversed(ms)):
            through = e + m * y
            y = c if c > through else through if through >= c else c + through  # the last is NaN, and stays so
            ys.append(y)
        results.fromlist(ys[::-1])
    return torch.frombuffer(results, dtype=torch.float64).to(stop.dtype, copy=True).view(stop.shape)
