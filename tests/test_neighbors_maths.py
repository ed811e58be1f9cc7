"""The proofs behind the neighbour search: bounds are below, gaps are below, order and groups lose nothing."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamfit.maths.compiled import compiled
from streamfit.maths.neighbors.bounds import candidate_operand, frame_of, query_operand
from streamfit.maths.neighbors.duplicates import group_equal_rows
from streamfit.maths.neighbors.kernels import offer, squared_distance
from streamfit.maths.neighbors.order import spatial_order
from streamfit.maths.neighbors.regions import any_row_reaches, empty_regions, gaps, set_region


def exact_squared_distance(a, b):
    return sum((Fraction(float(x)) - Fraction(float(y))) ** 2 for x, y in zip(a, b, strict=True))


def lower_bounds(X, frame):
    operand = candidate_operand(X, frame)
    return query_operand(operand) @ operand.T


def _matrix(seed, n, d, dtype, offset, spread, outlier):
    rng = np.random.default_rng(seed)
    X = offset + spread * rng.standard_normal((n, d)) * rng.choice([1.0, 1e-3, 1e3], d)
    if outlier is not None:
        X[rng.integers(n), rng.integers(d)] = outlier
    return X.astype(dtype)


matrices = st.builds(
    _matrix,
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 12),
    d=st.integers(1, 24),
    dtype=st.sampled_from(["float32", "float64"]),
    offset=st.sampled_from([0.0, 1.0, 1e6, -1e12]),
    spread=st.sampled_from([0.0, 1e-30, 1e-7, 1.0, 1e8, 1e18]),
    outlier=st.sampled_from([None, 1e25, 1e37]),
)


@given(matrices, st.sampled_from([np.float32, np.float64]))
@settings(max_examples=150, deadline=None)
def test_no_bound_exceeds_the_exact_squared_distance(X, dtype):
    frame = frame_of(X, dtype=dtype)
    bounds = lower_bounds(X, frame)
    assert bounds.dtype == dtype
    assert np.isfinite(bounds).all()
    unit = Fraction(2) ** (2 * frame.exponent)
    for i, a in enumerate(X):
        for j, b in enumerate(X):
            assert Fraction(float(bounds[i, j])) * unit <= exact_squared_distance(a, b)


@pytest.mark.parametrize(
    ("dtype", "slack"), [pytest.param(np.float32, 2e-4, id="float32"), pytest.param(np.float64, 1e-12, id="float64")]
)
@pytest.mark.parametrize("outlier", [None, 1e39, -1e120])
def test_bounds_are_sharp_for_typical_rows_whatever_one_row_holds(dtype, slack, outlier):
    X = 1e6 + np.random.default_rng(0).standard_normal((200, 60))
    if outlier is not None:
        X[7, 3] = outlier
    frame = frame_of(X, dtype=dtype)
    typical = np.delete(X, 7, axis=0)
    bounds = np.ldexp(lower_bounds(X, frame).astype(np.float64), 2 * frame.exponent)
    bounds = np.delete(np.delete(bounds, 7, axis=0), 7, axis=1)
    true = ((typical[:, None] - typical) ** 2).sum(axis=-1)
    norms = ((typical - 1e6) ** 2).sum(axis=1)
    assert (true - bounds <= slack * (norms[:, None] + norms)).all()


@given(matrices)
@settings(max_examples=60, deadline=None)
def test_measured_distance_is_symmetric_and_right_to_its_rounding(X):
    a, b = X[:1], X[-1:]
    got = squared_distance(a, 0, b, 0)
    assert got == squared_distance(b, 0, a, 0)
    exact = exact_squared_distance(a[0], b[0])
    assert abs(Fraction(got) - exact) <= exact * Fraction(X.shape[1] + 3, 2**52)


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 12)), max_size=40, unique=True),
    st.integers(1, 6),
    st.booleans(),
)
@settings(max_examples=100, deadline=None)
def test_a_list_keeps_the_first_by_distance_then_row(entries, k, twice):
    distances, neighbors = np.full((1, k), np.inf), np.full((1, k), np.iinfo(np.int64).max)
    for distance, row in entries * (2 if twice else 1):
        offer(distances, neighbors, 0, float(distance), row)
    best = sorted(entries)[:k]
    kept = [(d, r) for d, r in zip(distances[0], neighbors[0], strict=True) if np.isfinite(d)]
    assert kept == best


@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(1, 5), st.sampled_from(["float32", "float64"]))
@settings(max_examples=60, deadline=None)
def test_groups_are_those_of_unique(seed, n, d, dtype):
    X = np.random.default_rng(seed).integers(0, 3, (n, d)).astype(dtype)
    groups = group_equal_rows(X)
    inverse = np.unique(X, axis=0, return_inverse=True)[1].reshape(-1)
    expected = {tuple(np.flatnonzero(inverse == g)) for g in np.unique(inverse)}
    got = {tuple(groups.members[a:b].tolist()) for a, b in zip(groups.start[:-1], groups.start[1:], strict=True)}
    assert got == expected


@pytest.mark.parametrize("tile_rows", [1, 4, 64])
@pytest.mark.parametrize(
    "X",
    [
        pytest.param(np.zeros((30, 3)), id="all equal"),
        pytest.param(np.random.default_rng(0).standard_normal((130, 2)), id="normal"),
        pytest.param(np.r_[np.random.default_rng(0).standard_normal((29, 2)), [[1e140, 0]]], id="one huge"),
    ],
)
def test_order_is_a_permutation(X, tile_rows):
    rows = np.arange(len(X) - 1, -1, -2)
    order = spatial_order(X, rows, tile_rows)
    np.testing.assert_array_equal(np.sort(order), np.sort(rows))


def test_order_parts_clusters():
    rng = np.random.default_rng(0)
    cluster = np.repeat(np.arange(8), 32)
    rng.shuffle(cluster)
    X = 100 * rng.standard_normal((8, 20))[cluster] + rng.standard_normal((256, 20))
    tiles = cluster[spatial_order(X, np.arange(256), 32)].reshape(8, 32)
    assert (tiles == tiles[:, :1]).all()


@given(matrices, matrices)
@settings(max_examples=60, deadline=None)
def test_no_gap_exceeds_the_smallest_squared_distance_of_two_tiles(X, Y):
    d = min(X.shape[1], Y.shape[1])
    X, Y = X[:, :d], Y[:, :d]
    regions = empty_regions(2, d)
    set_region(regions, 0, X)
    set_region(regions, 1, Y)
    gap = Fraction(float(gaps(regions, 0, regions)[1]))
    assert gap <= min(exact_squared_distance(x, y) for x in X for y in Y)


def test_gaps_see_boxes_and_balls():
    rng = np.random.default_rng(0)
    regions = empty_regions(2, 50)
    X, Y = rng.standard_normal((20, 50)), 10 + rng.standard_normal((20, 50))
    set_region(regions, 0, X)
    set_region(regions, 1, Y)
    assert gaps(regions, 0, regions)[1] > 50 * 4**2


def reaches(X, Y, squared_reach):
    regions = empty_regions(1, X.shape[1])
    set_region(regions, 0, Y)
    rows = np.arange(len(X))
    distances = np.broadcast_to(squared_reach, len(X)).reshape(-1, 1).astype(np.float64)
    tile = regions.low[0], regions.high[0], regions.middle[0], regions.radius[0]
    return any_row_reaches(X, rows, distances, *tile)


@given(matrices, matrices)
@settings(max_examples=60, deadline=None)
def test_a_row_reaches_each_tile_that_holds_a_row_in_its_reach(X, Y):
    d = min(X.shape[1], Y.shape[1])
    X, Y = np.ascontiguousarray(X[:, :d]), np.ascontiguousarray(Y[:, :d])
    assert reaches(X, Y, min(squared_distance(X, i, Y, j) for i in range(len(X)) for j in range(len(Y))))


@pytest.mark.parametrize("d", [2, 50])
def test_only_a_row_near_enough_reaches_a_tile(d):
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((20, d)), 10 + rng.standard_normal((20, d))
    assert not reaches(X, Y, d * 3.0**2)
    assert reaches(X, Y, np.where(np.arange(20) == 13, d * 12.0**2, 0))


def test_a_kernel_is_compiled_without_a_cache_where_no_folder_is_writable(monkeypatch):
    njit = numba.njit

    def without_locator(function, *, cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return njit(function, **options)

    monkeypatch.setattr(numba, "njit", without_locator)
    assert compiled(lambda x: x + 1)(2) == 3


def test_importing_compiles_nothing():
    code = (
        "import streamfit.neighbor_search\n"
        "from streamfit.maths.neighbors import duplicates, kernels, order, regions\n"
        "kernels = [kernels.screen, kernels.offer, duplicates.hash_rows, order.project, regions.any_row_reaches]\n"
        "assert not any(kernel.signatures for kernel in kernels)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
