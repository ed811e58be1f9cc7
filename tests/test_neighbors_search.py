"""Neighbours over chunks are those of float64 brute force, to the bit, however the work is cut."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from dataclasses import dataclass
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import NearestNeighbors

from streamfit import neighbor_search
from streamfit.batch import Chunk
from streamfit.errors import BudgetError, InvalidDataError, InvalidParameterError
from streamfit.maths.compiled import compiled
from streamfit.maths.neighbors.kernels import squared_distance
from streamfit.maths.neighbors.memory import SearchPlan, plan_search, points_dtype
from streamfit.neighbor_search import (
    _joined,
    _Search,
    neighbors_of_new_rows,
    neighbors_of_rows,
    search_block,
)
from streamfit.plan.budget import Budget
from streamfit.plan.layout import StoreLayout


@dataclass
class ArraySource:
    X: np.ndarray
    chunk_rows: int
    n_reads: int = 0

    @property
    def layout(self):
        n_rows, n_features = self.X.shape
        return StoreLayout(n_rows, n_features, self.chunk_rows, self.X.dtype.itemsize)

    @property
    def dtype(self):
        return self.X.dtype

    def read_chunk(self, index, *, out=None, features=True):
        assert features
        self.n_reads += 1
        start, stop = self.layout.chunk_bounds(index)
        X = self.X[start:stop]
        if out is not None:
            out[: len(X)] = X
            X = out[: len(X)]
        return Chunk(index, start, X)


@compiled
def _all_squared_distances(A, B):
    out = np.empty((len(A), len(B)))
    for i in range(len(A)):
        for j in range(len(B)):
            out[i, j] = squared_distance(A, i, B, j)
    return out


def brute_force(queries, X, k, *, first_query=None):
    """Measure all pairs; `first_query` is the row number of the first query where queries are rows of X."""
    D = _all_squared_distances(np.ascontiguousarray(queries, np.float64), np.ascontiguousarray(X, np.float64))
    if first_query is not None:
        D[np.arange(len(queries)), first_query + np.arange(len(queries))] = np.inf
    neighbors = np.argsort(D, axis=1, kind="stable")[:, :k]
    return np.sqrt(np.take_along_axis(D, neighbors, axis=1)), neighbors


def search(X, *, k=5, chunk_rows=100, n_workers=1, rows=None, cut=None):
    """Search in one block, or in blocks and windows of the sizes in `cut`."""
    source, rows = ArraySource(X, chunk_rows), range(len(X)) if rows is None else rows
    if cut is None:
        return search_block(source, rows, n_neighbors=k, memory_limit=None, n_workers=n_workers)
    plan = SearchPlan(*cut, budget=Budget(()))
    blocks = list(_Search(source, plan, points_dtype(X.dtype), k, n_workers).blocks_of_rows(rows))
    assert [block.start for block in blocks] == list(rows[:: cut[0]])
    return _joined(blocks)


def assert_exact(X, **options):
    block = search(X, **options)
    distances, neighbors = brute_force(X, X, options.get("k", 5), first_query=0)
    np.testing.assert_array_equal(block.neighbors, neighbors)
    np.testing.assert_array_equal(block.distances, distances)
    return block


normal = np.random.default_rng(0).standard_normal
integers = np.random.default_rng(0).integers


def _clusters(n, d, spread):
    rng = np.random.default_rng(1)
    return 1e3 * rng.standard_normal((12, d))[rng.integers(0, 12, n)] + spread * rng.standard_normal((n, d))


EDGES = [
    pytest.param(normal((700, 1)), id="one column"),
    pytest.param(normal((700, 2)).astype(np.float32), id="two columns float32"),
    pytest.param(normal((700, 3)), id="three columns"),
    pytest.param(normal((1100, 20)), id="three tiles"),
    pytest.param(normal((150, 3000)).astype(np.float32), id="3,000 columns"),
    pytest.param(normal((6, 4)), id="k + 1 rows"),
    pytest.param(np.repeat(normal((30, 8)), 20, axis=0), id="20 copies of 30 rows"),
    pytest.param(np.tile(normal((30, 8)), (20, 1)), id="20 copies of 30 rows, dealt"),
    pytest.param(np.repeat(normal((300, 8)), 2, axis=0), id="fewer copies than k"),
    pytest.param(np.zeros((600, 4)), id="all rows equal"),
    pytest.param(np.full((600, 4), -1e30), id="all rows equal and large"),
    pytest.param(1e6 + normal((700, 10)), id="offset 1e6"),
    pytest.param(1e12 + normal((700, 10)), id="offset 1e12"),
    pytest.param((1e6 + normal((700, 10))).astype(np.float32), id="offset 1e6 float32"),
    pytest.param(integers(0, 4, (900, 6)), id="integer grid"),
    pytest.param(integers(0, 2, (900, 12)).astype(np.uint8), id="bits"),
    pytest.param(np.stack(np.meshgrid(*[np.arange(9)] * 3), -1).reshape(-1, 3), id="lattice, all ties"),
    pytest.param(integers(-5, 5, (500, 5)).astype(np.int16), id="int16"),
    pytest.param(np.r_[normal((500, 5)), [[1e39, 0, 0, 0, 0]]], id="a value above float32"),
    pytest.param(np.r_[normal((500, 5)), [[-1e140, 0, 0, 0, 1e140]]], id="a value of 1e140"),
    pytest.param(np.r_[normal((500, 5)), [[3e38] * 5]].astype(np.float32), id="float32 near its largest"),
    pytest.param(1e-40 * normal((500, 5)), id="float32 would underflow"),
    pytest.param(np.c_[normal(500), np.zeros((500, 3))], id="constant columns"),
    pytest.param(np.where(normal((600, 9)) > 1, normal((600, 9)), -0.0), id="zeros of both signs"),
    pytest.param(np.cumsum(normal((900, 6)), axis=0), id="a walk: each row nearer than all before"),
    pytest.param(np.sort(normal((900, 1)), axis=0), id="sorted"),
    pytest.param(_clusters(1200, 15, 1e-3), id="tight clusters far apart"),
    pytest.param(_clusters(600, 15, 1e-9), id="tighter than float64 norms"),
]


@pytest.fixture(params=[pytest.param(0, id="arranged"), pytest.param(10**9, id="as they come")])
def many_queries(request, monkeypatch):
    """Put candidates in order for any number of queries, or for none."""
    monkeypatch.setattr(neighbor_search, "_MANY_QUERIES", request.param)


@pytest.mark.usefixtures("many_queries")
@pytest.mark.parametrize("X", EDGES)
def test_neighbors_are_those_of_brute_force(X):
    block = assert_exact(X, chunk_rows=128)
    assert block.distances.dtype == np.float64
    assert block.neighbors.dtype == np.int64
    assert np.isfinite(block.distances).all()
    assert block.report.n_rows == len(X)


@pytest.mark.usefixtures("many_queries")
@pytest.mark.parametrize("X", EDGES)
def test_cutting_changes_no_bit(X):
    whole = search(X, chunk_rows=len(X))
    cut = search(X, chunk_rows=37, cut=(150, 111), n_workers=2)
    np.testing.assert_array_equal(cut.neighbors, whole.neighbors)
    np.testing.assert_array_equal(cut.distances, whole.distances)


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(7, 400),
    d=st.integers(1, 12),
    k=st.integers(1, 6),
    kind=st.sampled_from(["normal", "grid", "clusters", "offset"]),
    dtype=st.sampled_from(["float32", "float64", "int16"]),
    chunk_rows=st.integers(1, 400),
    block_rows=st.integers(1, 400),
    window_rows=st.integers(1, 400),
    start=st.floats(0, 0.9),
    n_workers=st.integers(1, 3),
    arrange=st.booleans(),
)
@settings(max_examples=80, deadline=None)
def test_any_chunks_blocks_windows_and_threads_give_the_same_bits(
    seed, n, d, k, kind, dtype, chunk_rows, block_rows, window_rows, start, n_workers, arrange
):
    rng = np.random.default_rng(seed)
    X = {
        "normal": lambda: 10 * rng.standard_normal((n, d)),
        "grid": lambda: rng.integers(0, 3, (n, d)),
        "clusters": lambda: rng.integers(-9, 9, (5, d))[rng.integers(0, 5, n)] * 100 + rng.integers(0, 2, (n, d)),
        "offset": lambda: 1e4 + rng.standard_normal((n, d)),
    }[kind]().astype(dtype)
    distances, neighbors = brute_force(X, X, k, first_query=0)
    rows = range(int(start * n), n)
    cut = (max(block_rows, n // 8), window_rows)
    with mock.patch.object(neighbor_search, "_MANY_QUERIES", 0 if arrange else n):
        block = search(X, k=k, chunk_rows=max(chunk_rows, n // 8), rows=rows, cut=cut, n_workers=n_workers)
    np.testing.assert_array_equal(block.neighbors, neighbors[rows.start :])
    np.testing.assert_array_equal(block.distances, distances[rows.start :])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_distances_are_those_of_scikit_learn(dtype):
    X = np.random.default_rng(3).standard_normal((1500, 30)).astype(dtype)
    expected = NearestNeighbors(n_neighbors=10, algorithm="kd_tree").fit(X.astype(np.float64)).kneighbors()
    block = search(X, k=10)
    np.testing.assert_allclose(block.distances, expected[0], rtol=1e-13)
    np.testing.assert_array_equal(block.neighbors, expected[1])


def test_the_data_are_read_once_where_they_fit():
    source = ArraySource(normal((3000, 4)), 100)
    block = next(neighbors_of_rows(source, n_neighbors=3, memory_limit=None, n_workers=1))
    assert (block.start, block.stop) == (0, 3000)
    assert source.n_reads == 30


@pytest.mark.parametrize("queries_are_rows", [True, False])
def test_a_plan_fills_its_limit_and_never_exceeds_it(queries_are_rows):
    layout, dtype = StoreLayout(200_000, 50, 1000, 4), np.dtype(np.float32)
    options = {"n_queries": 200_000, "n_neighbors": 5, "n_workers": 2, "queries_are_rows": queries_are_rows}
    whole = plan_search(layout, dtype, memory_limit=None, **options)
    assert whole.block_rows == 200_000
    assert whole.window_rows == (0 if queries_are_rows else 200_000)
    assert plan_search(layout, dtype, memory_limit=whole.budget.nbytes, **options) == whole
    for limit in range(80_000_000, whole.budget.nbytes, 10_000_000):
        plan = plan_search(layout, dtype, memory_limit=limit, **options)
        assert limit - 10_000 < plan.budget.nbytes <= limit
        assert plan.block_rows >= 512
        assert plan.window_rows >= 1000


def test_a_limit_changes_no_bit():
    X = normal((20_000, 3))
    source = ArraySource(X, 500)
    blocks = list(neighbors_of_rows(source, n_neighbors=5, memory_limit=54 * 2**20, n_workers=2))
    assert len(blocks) > 2
    whole, cut = search(X), _joined(blocks)
    np.testing.assert_array_equal(cut.neighbors, whole.neighbors)
    np.testing.assert_array_equal(cut.distances, whole.distances)


# -- where float32 would be wrong ------------------------------------------------------------------------


def near_ties():
    """Rows on two far, tight clusters, so that all differences inside one are below float32's resolution."""
    rng = np.random.default_rng(5)
    return np.repeat([[0.0] * 8, [1e5] * 8], 400, axis=0) + 1e-4 * rng.standard_normal((800, 8))


def test_pairs_that_float32_cannot_tell_apart_are_screened_by_float64():
    X = near_ties()
    X32 = (X - X.mean(axis=0)).astype(np.float32)
    D32 = (X32**2).sum(axis=1)[:, None] - 2 * X32 @ X32.T + (X32**2).sum(axis=1)
    np.fill_diagonal(D32, np.inf)
    _, neighbors = brute_force(X, X, 1, first_query=0)
    assert (D32.argmin(axis=1) != neighbors[:, 0]).mean() > 0.5  # what plain float32 tiles would answer
    block = assert_exact(X, k=1)
    assert block.report.float64_share > 0


def test_pairs_that_float64_products_cannot_tell_apart_are_measured():
    # Within each tile the values are 1e9 apart, and neighbours differ by 1e-6.
    rng = np.random.default_rng(6)
    X = 1e9 * rng.standard_normal((40, 6)).repeat(12, axis=0) + 1e-6 * rng.integers(0, 50, (480, 6))
    block = assert_exact(X, k=4)
    assert block.report.float64_share > 0


def test_most_pairs_are_neither_measured_nor_screened_twice_on_ordinary_data():
    report = search(normal((4000, 30))).report
    assert report.n_float64 == 0
    assert report.measured_share < 0.05


def test_far_tiles_are_skipped():
    X = 30 * normal((12, 20)).repeat(512, axis=0) + normal((12 * 512, 20))
    report = search(X[np.random.default_rng(0).permutation(len(X))]).report
    # About a tile for each cluster, which meets itself and perhaps one that holds a part of it.
    assert 12 * 512**2 <= report.n_float32 <= 20 * 512**2
    assert report.n_float32 + report.n_skipped == 78 * 512**2


def test_massive_ties_cost_no_more_than_their_different_rows():
    # 20,000 rows, 81 of them different.
    report = search(integers(0, 3, (20_000, 4)), chunk_rows=5000).report
    assert report.n_float32 <= 81**2


# -- new rows --------------------------------------------------------------------------------------------


def search_new(X, new, *, k=5, chunk_rows=100, memory_limit=None, n_workers=1):
    source = ArraySource(X, chunk_rows)
    blocks = list(neighbors_of_new_rows(source, new, n_neighbors=k, memory_limit=memory_limit, n_workers=n_workers))
    assert [b.start for b in blocks] == [0, *(b.stop for b in blocks[:-1])]
    return np.concatenate([b.distances for b in blocks]), np.concatenate([b.neighbors for b in blocks])


@pytest.mark.usefixtures("many_queries")
@pytest.mark.parametrize("X", EDGES)
def test_new_rows_find_the_training_rows_themselves_included(X):
    new = np.r_[X[:200], (X[:50] + 1).astype(X.dtype)]
    distances, neighbors = search_new(X, new, chunk_rows=128)
    expected = brute_force(new, X, 5)
    np.testing.assert_array_equal(neighbors, expected[1])
    np.testing.assert_array_equal(distances, expected[0])


@pytest.mark.parametrize(("dtype", "new_dtype"), [("float32", "float64"), ("float64", "float32"), ("uint8", "float32")])
def test_new_rows_may_have_another_dtype(dtype, new_dtype):
    X, new = (10 * normal((300, 4)) ** 2).astype(dtype), (10 * normal((40, 4)) ** 2).astype(new_dtype)
    distances, neighbors = search_new(X, new)
    expected = brute_force(new, X, 5)
    np.testing.assert_array_equal(neighbors, expected[1])
    np.testing.assert_array_equal(distances, expected[0])


def test_a_new_row_does_not_depend_on_its_batch_mates():
    X, new = normal((900, 7)), normal((1300, 7))
    distances, neighbors = search_new(X, new)
    for start, stop in ((0, 1), (17, 18), (5, 700), (1290, 1300)):
        alone = search_new(X, new[start:stop], n_workers=2)
        np.testing.assert_array_equal(alone[0], distances[start:stop])
        np.testing.assert_array_equal(alone[1], neighbors[start:stop])
    cut = search_new(X, new, chunk_rows=64, memory_limit=54 * 2**20)
    np.testing.assert_array_equal(cut[0], distances)
    np.testing.assert_array_equal(cut[1], neighbors)


def test_no_new_rows_give_no_blocks():
    source, new = ArraySource(normal((9, 2)), 3), np.empty((0, 2))
    assert list(neighbors_of_new_rows(source, new, n_neighbors=2, memory_limit=None, n_workers=1)) == []


# -- errors ----------------------------------------------------------------------------------------------


def test_too_few_rows_are_refused_with_numbers():
    with pytest.raises(InvalidDataError, match=r"n_neighbors is 5 and a row has 4 candidates \(5 training rows\)"):
        search(normal((5, 3)), k=5)
    assert search_new(normal((5, 3)), normal((2, 3)), k=5)[0].shape == (2, 5)
    with pytest.raises(InvalidDataError, match="n_neighbors is 6 and a row has 5 candidates"):
        search_new(normal((5, 3)), normal((2, 3)), k=6)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e200])
def test_a_value_without_distances_is_refused_with_its_row(value):
    X = normal((500, 3))
    X[321, 1] = value
    with pytest.raises(InvalidDataError, match="row 321, column 1") as caught:
        search(X)
    assert caught.value.row == 321
    with pytest.raises(InvalidDataError, match="new row 1, column 1"):
        search_new(normal((50, 3)), X[320:325])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"k": 0}, "n_neighbors must be at least 1, got 0", id="no neighbours"),
        pytest.param({"n_workers": 0}, "n_workers must be at least 1, got 0", id="no threads"),
        pytest.param({"rows": range(5, 5)}, "rows must be a range", id="no rows"),
        pytest.param({"rows": range(51)}, "rows must be a range", id="past the end"),
        pytest.param({"rows": range(0, 50, 2)}, "rows must be a range", id="a step"),
    ],
)
def test_a_wrong_call_is_refused(options, message):
    with pytest.raises(InvalidParameterError, match=message):
        search(normal((50, 3)), **options)


def test_other_columns_are_refused():
    with pytest.raises(InvalidDataError, match=r"shape \(4, 2\) and the training rows have 3 columns"):
        search_new(normal((50, 3)), normal((4, 2)))


def test_a_limit_that_holds_no_tile_is_refused_before_anything_is_read():
    source = ArraySource(normal((5000, 40)), 1000)
    with pytest.raises(BudgetError, match="Raise memory_limit, or write the store with a smaller chunk_rows"):
        neighbors_of_rows(source, n_neighbors=5, memory_limit=10_000_000, n_workers=1)
    assert source.n_reads == 0


# -- memory ----------------------------------------------------------------------------------------------

GROWTH = """
    import numpy as np
    from pathlib import Path
    from streamfit.batch import Chunk
    from streamfit.neighbor_search import neighbors_of_new_rows, neighbors_of_rows
    from streamfit.plan.layout import StoreLayout

    BASE = np.random.default_rng(0).standard_normal((1000, 150))

    class Source:  # rows are made when they are read: nothing is held. Far apart, so that tiles are skipped
        def __init__(self, n_rows, dtype):
            self.layout = StoreLayout(n_rows, 150, 1000, np.dtype(dtype).itemsize)
            self.dtype = np.dtype(dtype)

        def read_chunk(self, index, *, out=None, features=True):
            start, stop = self.layout.chunk_bounds(index)
            np.add(BASE, 30 * index, out=out)
            return Chunk(index, start, out)

    def peak():
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if "VmHWM" in line)

    def run(source, limit):
        options = {"n_neighbors": 5, "memory_limit": limit, "n_workers": 2}
        new = source.read_chunk(0, out=np.empty((1000, 150), source.dtype)).X
        list(neighbors_of_new_rows(source, new, **options))
        return sum(1 for _ in neighbors_of_rows(source, **options))

    run(Source(2000, DTYPE), None)
    Path("/proc/self/clear_refs").write_text("5")
    before = peak()
    n_blocks = run(Source(N_ROWS, DTYPE), LIMIT)
    assert n_blocks > 1
    assert peak() - before <= LIMIT, peak() - before
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is reset through /proc")
@pytest.mark.slow
def test_resident_memory_grows_by_less_than_the_limit():
    code = (
        textwrap.dedent(GROWTH)
        .replace("N_ROWS", "60000")
        .replace("LIMIT", str(90 * 2**20))
        .replace("DTYPE", "np.float32")
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
