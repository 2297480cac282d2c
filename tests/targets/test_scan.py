"""The backward scans by both of their paths, against the recursion written out."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ebu.targets import scan
from ebu.targets.scan import ABSENT, next_along_time, piece_ends, scan_affine, scan_max_affine

PATHS = {"loop": 10**9, "vector": 0}


@pytest.fixture(params=PATHS, ids=str)
def path(request, monkeypatch):
    monkeypatch.setattr(scan, "SCALAR_LOOP_ELEMENTS", PATHS[request.param])
    return request.param


def by_definition(stop, go_on, slope):
    y = np.zeros(stop.shape)
    following = np.zeros(stop.shape[:-1])
    for t in range(stop.shape[-1] - 1, -1, -1):
        following = np.maximum(stop[..., t], go_on[..., t] + slope[..., t] * following)
        y[..., t] = following
    return y


def random_maps(rng, shape):
    stop, go_on = rng.normal(size=(2, *shape))
    slope = rng.uniform(0, 1, shape) * (rng.random(shape) < 0.9)
    slope[..., -1] = 0.0
    return stop, go_on, slope


@pytest.mark.parametrize("length", [*range(1, 34), 63, 64, 65, 127, 128, 129, 200])
def test_every_length_gives_the_recursion(path, length):
    maps = random_maps(np.random.default_rng(length), (3, length))
    got = scan_max_affine(*map(torch.from_numpy, maps))
    np.testing.assert_allclose(got.numpy(), by_definition(*maps), rtol=1e-12, atol=1e-12)


def test_leading_axes_are_independent_streams(path):
    maps = random_maps(np.random.default_rng(0), (2, 3, 4, 17))
    together = scan_max_affine(*map(torch.from_numpy, maps))
    assert together.shape == (2, 3, 4, 17)
    alone = scan_max_affine(*(torch.from_numpy(x[1, 2, 3]) for x in maps))
    assert torch.equal(together[1, 2, 3], alone)


def test_the_arguments_are_broadcast_against_each_other(path):
    rng = np.random.default_rng(1)
    stop, go_on, slope = random_maps(rng, (3, 9))
    stop = stop[:1]  # one row for all
    got = scan_max_affine(*(torch.from_numpy(x) for x in (stop[0], go_on, slope)))
    expected = by_definition(np.broadcast_to(stop, go_on.shape), go_on, slope)
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-12, atol=1e-12)


def test_both_paths_agree_on_the_same_maps(monkeypatch):
    maps = [torch.from_numpy(x) for x in random_maps(np.random.default_rng(2), (4, 100))]
    monkeypatch.setattr(scan, "SCALAR_LOOP_ELEMENTS", 10**9)
    looped = scan_max_affine(*maps)
    monkeypatch.setattr(scan, "SCALAR_LOOP_ELEMENTS", 0)
    assert torch.allclose(looped, scan_max_affine(*maps), rtol=1e-13, atol=1e-13)


def test_the_affine_scan_is_the_weighted_sum(path):
    constant = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64)
    slope = torch.tensor([0.5, 0.5, 0.0, 0.0], dtype=torch.float64)
    assert scan_affine(constant, slope).tolist() == [1 + 0.5 * (2 + 0.5 * 3), 2 + 0.5 * 3, 3.0, 4.0]


def test_an_absent_alternative_never_wins_even_far_below_zero(path):
    constant = torch.full((300,), -1e6, dtype=torch.float64)
    slope = torch.ones(300, dtype=torch.float64)
    slope[-1] = 0.0
    got = scan_affine(constant, slope)
    np.testing.assert_allclose(got.numpy(), -1e6 * np.arange(300, 0, -1), rtol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_slopes_that_underflow_leave_finite_numbers(path, dtype):
    length = 5000
    constant = torch.ones(length, dtype=dtype)
    slope = torch.full((length,), 1e-3, dtype=dtype)  # the product over the stream is 10⁻¹⁵⁰⁰⁰
    slope[-1] = 0.0
    y = scan_affine(constant, slope)
    assert torch.isfinite(y).all()
    assert torch.allclose(y[:-10], torch.tensor(1 / (1 - 1e-3), dtype=dtype))


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.floats(0, 1)), min_size=1, max_size=40))
def test_any_maps_compose_to_the_recursion(maps):
    stop, go_on, slope = (np.array(column) for column in zip(*maps))
    slope[-1] = 0.0
    expected = by_definition(stop, go_on, slope)
    tensors = [torch.from_numpy(x) for x in (stop, go_on, slope)]
    assert np.allclose(scan_max_affine(*tensors).numpy(), expected, rtol=1e-12, atol=1e-6)
    before, scan.SCALAR_LOOP_ELEMENTS = scan.SCALAR_LOOP_ELEMENTS, 0
    try:
        assert np.allclose(scan_max_affine(*tensors).numpy(), expected, rtol=1e-12, atol=1e-6)
    finally:
        scan.SCALAR_LOOP_ELEMENTS = before


def test_next_along_time_repeats_the_last_entry():
    x = torch.tensor([[1, 2, 3], [4, 5, 6]])
    assert next_along_time(x).tolist() == [[2, 3, 3], [5, 6, 6]]
    assert next_along_time(torch.tensor([7])).tolist() == [7]


def test_the_last_step_of_all_always_ends_a_piece():
    shape, device = torch.Size([2, 3]), torch.device("cpu")
    assert piece_ends(None, shape, device).tolist() == [[False, False, True]] * 2
    continues = torch.tensor([True, False, True])
    assert piece_ends(continues, shape, device).tolist() == [[False, True, True]] * 2


def test_absent_is_finite_in_every_precision_the_rules_run_in():
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        assert torch.isfinite(torch.tensor(ABSENT, dtype=dtype))
