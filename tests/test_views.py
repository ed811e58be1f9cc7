"""Views: some rows of a store without a copy, by every way to read them."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import dask
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamfit as sf
from streamfit.errors import InvalidDataError, InvalidParameterError, StoreCorruptError
from streamfit.feature_store import FeatureStore, open_store
from streamfit.maths.summaries.extremes import MinMax
from streamfit.store import selection
from streamfit.store.reader import open_reader
from streamfit.store.selection import Selection
from streamfit.store.stored_chunks import StoredChunks
from streamfit.store.view_chunks import MAX_JOINED

N = 1_050
rng = np.random.default_rng(1)
X = rng.normal(size=(N, 5)).astype("f4")
y = np.array(["red", "green", "blue"])[rng.integers(0, 3, N)]
y[700] = "a class of one row"
weight = rng.random(N)
ids = np.arange(N) * 3 - 7
EXTREMES = MinMax(5, np.dtype("f4"))


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return sf.ingest(X, tmp_path_factory.mktemp("views") / "a", y=y, sample_weight=weight, ids=ids, chunk_rows=100)


@pytest.fixture
def reads(monkeypatch):
    """Count how often each stored chunk is read."""
    seen = Counter()
    original = StoredChunks.read

    def read(self, name, index, out):
        seen[name, index] += 1
        return original(self, name, index, out)

    monkeypatch.setattr(StoredChunks, "read", read)
    return seen


def some_mask(share):
    return np.random.default_rng(5).random(N) < share


VIEWS = [
    pytest.param(lambda s: s[250:731], np.arange(N)[250:731], id="slice"),
    pytest.param(lambda s: s[:300], np.arange(300), id="whole chunks"),
    pytest.param(lambda s: s[1_020:], np.arange(1_020, N), id="part of the short last chunk"),
    pytest.param(lambda s: s[1_000:], np.arange(1_000, N), id="the short last chunk"),
    pytest.param(lambda s: s[-300:-5], np.arange(N)[-300:-5], id="negative slice"),
    pytest.param(lambda s: s[3:1_000:7], np.arange(N)[3:1_000:7], id="steps"),
    pytest.param(lambda s: s[::450], np.arange(N)[::450], id="steps beyond a chunk"),
    pytest.param(lambda s: s[5:5_000], np.arange(5, N), id="slice beyond the end"),
    pytest.param(lambda s: s[412:440], np.arange(412, 440), id="within one chunk"),
    pytest.param(lambda s: s[np.array([700])], np.array([700]), id="one row"),
    pytest.param(lambda s: s[[0, N - 1]], np.array([0, N - 1]), id="first and last"),
    pytest.param(lambda s: s.select(some_mask(0.8)), np.flatnonzero(some_mask(0.8)), id="most"),
    pytest.param(lambda s: s.select(some_mask(0.05)), np.flatnonzero(some_mask(0.05)), id="few"),
    pytest.param(lambda s: s[some_mask(0.5).tolist()], np.flatnonzero(some_mask(0.5)), id="mask as a list"),
    pytest.param(lambda s: s[100:900][::3][10:-5], np.arange(N)[100:900][::3][10:-5], id="view of a view"),
    pytest.param(
        lambda s: s.select(some_mask(0.5))[[1, 5, 300]],
        np.flatnonzero(some_mask(0.5))[[1, 5, 300]],
        id="rows of a view",
    ),
    pytest.param(lambda s: s[:], np.arange(N), id="all"),
    pytest.param(lambda s: s.select(np.ones(N, dtype=bool)), np.arange(N), id="all by mask"),
]


@pytest.mark.parametrize(("make", "rows"), VIEWS)
def test_every_way_to_read_gives_the_rows_of_the_view(store, make, rows):
    view = make(store)
    assert view.shape == (len(rows), 5)
    assert len(view) == len(rows)
    np.testing.assert_array_equal(view.row_numbers(), rows)
    for lazy, memory in ((view.X, X), (view.y, y), (view.sample_weight, weight), (view.ids, ids)):
        assert lazy.shape == memory[rows].shape
        assert lazy.dtype == memory.dtype
        np.testing.assert_array_equal(lazy.compute(), memory[rows])
    some = np.random.default_rng(2).integers(0, len(rows), 50)
    np.testing.assert_array_equal(view.take(some), X[rows[some]])
    np.testing.assert_array_equal(view.take_labels(some), y[rows[some]])
    np.testing.assert_array_equal(view.row_numbers(some), rows[some])
    extremes = view.reduce(EXTREMES)
    np.testing.assert_array_equal(extremes.minimum, X[rows].min(axis=0))
    np.testing.assert_array_equal(extremes.maximum, X[rows].max(axis=0))
    sums = view.map(lambda _, chunk: chunk.X.sum(axis=1) * chunk.sample_weight, model=None, dtype="f8")
    np.testing.assert_array_equal(sums.compute(), X[rows].sum(axis=1) * weight[rows])
    plan = view.plan(batch_size=min(64, len(rows)), seed=3)
    streamed = []
    for batch in view.stream(plan):
        np.testing.assert_array_equal(batch.X, X[rows[batch.rows]])
        np.testing.assert_array_equal(batch.y, y[rows[batch.rows]])
        np.testing.assert_array_equal(batch.sample_weight, weight[rows[batch.rows]])
        streamed.append(batch.rows)
    np.testing.assert_array_equal(np.sort(np.concatenate(streamed)), np.arange(len(rows)))


@pytest.mark.parametrize(("make", "rows"), VIEWS)
def test_labels_and_statistics_are_those_of_the_view(store, make, rows):
    view = make(store)
    classes, first, counts = np.unique(y[rows], return_index=True, return_counts=True)
    np.testing.assert_array_equal(view.classes, classes)
    np.testing.assert_array_equal(view.class_counts, counts)
    np.testing.assert_array_equal(view.labels.first_rows, first)
    stored = np.concatenate([view.reader.read_array("y", index) for index in range(view.layout.n_chunks)])
    np.testing.assert_array_equal(view.labels.decode(stored), y[rows])
    np.testing.assert_array_equal(view.statistics.minimum, X[rows].min(axis=0))
    np.testing.assert_allclose(view.statistics.mean, X[rows].astype("f8").mean(axis=0))
    np.testing.assert_allclose(view.statistics.variance, X[rows].astype("f8").var(axis=0), atol=1e-15)
    assert view.n_nonfinite.tolist() == [0] * 5
    assert view.has_ids
    assert view.has_sample_weight
    assert view.label_dtype == y.dtype
    assert view.label_nbytes == y.dtype.itemsize + 8


@pytest.mark.parametrize(("make", "rows"), VIEWS)
def test_each_stored_chunk_is_read_once_a_pass(store, reads, make, rows):
    view = make(store)
    chunks = np.unique(rows // 100).tolist()
    view.reduce(EXTREMES)
    expected = {(name, chunk): 1 for name in ("X", "y", "sample_weight") for chunk in chunks}
    assert reads == expected
    reads.clear()
    list(view.stream(view.plan(batch_size=min(64, len(rows)))))
    assert reads == expected
    reads.clear()
    view.take(np.arange(len(rows)))
    assert reads == {("X", chunk): 1 for chunk in chunks}
    reads.clear()
    view.take_labels(np.arange(len(rows)))
    assert reads == {("y", chunk): 1 for chunk in chunks}
    reads.clear()
    view.X.compute(scheduler="synchronous")
    assert reads == {("X", chunk): 1 for chunk in chunks}


@pytest.mark.parametrize(("make", "rows"), VIEWS)
def test_chunks_of_a_view_are_at_most_as_large_as_stored_ones(store, make, rows):
    view = make(store)
    layout = view.layout
    sizes = layout.chunk_sizes
    assert sizes.max() == layout.chunk_rows or layout.starts is None
    assert layout.chunk_rows <= 100
    stored = np.split(rows // 100, layout.chunk_edges[1:-1])
    joined = [len(np.unique(chunks)) for chunks in stored]
    assert max(joined) <= MAX_JOINED
    # Two neighbours would not have fitted into one.
    assert all(a + b > 100 or n == MAX_JOINED for (a, b), n in zip(pairwise(sizes), joined[:-1], strict=True))
    assert view.reader.read_nbytes >= layout.chunk_nbytes


@pytest.fixture(scope="module")
def sparse(tmp_path_factory):
    """One row of every third of 1,000 chunks."""
    stored = sf.ingest(np.arange(50_000.0)[:, None], tmp_path_factory.mktemp("sparse") / "a", chunk_rows=50)
    return stored[7::150]


def test_few_rows_of_many_chunks_are_not_read_by_one_task(sparse):
    assert sparse.shape == (334, 1)
    sizes = sparse.layout.chunk_sizes.tolist()
    assert sizes == [MAX_JOINED] * (334 // MAX_JOINED) + [334 % MAX_JOINED]
    assert sparse.layout.n_partitions == len(sizes)
    assert sparse.reader.read_nbytes == MAX_JOINED * 50 * 8
    scores = sparse.map(lambda _, chunk: chunk.X[:, 0], model=None, dtype=np.float64)
    assert scores.chunks == (tuple(sizes),)
    np.testing.assert_array_equal(scores.compute(), np.arange(50_000.0)[7::150])


def test_a_block_of_a_sparse_view_decodes_no_more_than_a_block_of_a_store(sparse):
    X, _ = sparse.to_dask(block_nbytes=2 * MAX_JOINED * 50 * 8)
    assert X.chunks[0] == (2 * MAX_JOINED,) * 20 + (334 - 2 * MAX_JOINED * 20,)
    X, _ = sparse.to_dask(block_nbytes=1)
    assert X.chunks[0] == tuple(sparse.layout.chunk_sizes)
    np.testing.assert_array_equal(X.compute()[:, 0], np.arange(50_000.0)[7::150])


def test_the_window_of_a_sparse_view_holds_more_of_its_chunks(sparse):
    # All 42 chunks hold fewer rows than 16 stored ones.
    assert sparse.plan(batch_size=5).window_chunks == 42
    assert sparse.plan(batch_size=5, window=3).window_chunks == 3


def test_all_rows_are_the_store_itself(store):
    for view in (store[:], store[0:N], store[-N:], store.select(np.arange(N)), store[np.full(N, True)]):
        assert view is store


def test_identity(store):
    views = [store, store[1:], store[:-1], store[::2], store[1:][1:]]
    assert len({view.digest for view in views}) == len(views)
    assert len({view.X.name for view in views}) == len(views)
    mask = np.arange(N) >= 2
    assert store[1:][1:].digest == store[2:].digest == store.select(mask).digest
    assert store[1:][1:].ref == store.select(mask).ref
    assert hash(store[2:].ref) == hash(store.select(np.flatnonzero(mask)).ref)
    assert store[2:].ref != store[3:].ref
    assert store[2:].reader is store[1:][1:].reader
    # A checkpoint of an earlier version stays one of the same data.
    assert store.digest == store.manifest.digest


def test_a_view_travels_by_its_ref(store):
    view = store.select(some_mask(0.5))
    copy = pickle.loads(pickle.dumps(view))
    assert isinstance(copy, FeatureStore)
    assert copy.ref == view.ref
    assert len(pickle.dumps(view)) < 1_000
    assert repr(view.ref.selection) == f"Selection({view.n_rows} of {N} rows)"


def test_a_task_holds_the_rows_of_a_view_by_a_node_of_the_graph(store):
    view = store.select(some_mask(0.5))
    for lazy in (view.X, view.map(lambda _, chunk: chunk.X[:, 0], model=None, dtype="f4")):
        graph = dask.base.collections_to_expr([lazy]).__dask_graph__()
        named = [key for key, task in graph.items() if getattr(task, "value", None) == view.ref]
        assert len(named) == 1


def test_what_it_says(store):
    assert repr(store[10:20]).startswith(f"<FeatureStore {store.path}, 10 of its {N} rows: 10 x 5 float32, 1 chunks,")
    assert "labels, weights" in repr(store[10:20])
    assert "4 classes" in repr(store)


def test_nothing_is_read_before_it_is_asked_for(store, reads):
    view = store.select(some_mask(0.5))[10:]
    repr(view)
    assert view.X.shape == (view.map(len, model=None, dtype="f4").shape[0], 5)
    assert view.n_nonfinite.tolist() == [0] * 5
    assert not reads
    assert view.classes is not None
    assert set(reads) == {("y", chunk) for chunk in range(11)}
    assert len(view.class_counts) == len(view.classes)
    assert reads.total() == 11


@pytest.mark.parametrize(
    ("choose", "error", "message"),
    [
        pytest.param(lambda s: s[5:5], InvalidParameterError, "None of the 1050 rows", id="empty slice"),
        pytest.param(lambda s: s[N:], InvalidParameterError, "None of the 1050 rows", id="slice behind the end"),
        pytest.param(lambda s: s[[]], InvalidParameterError, "None of the 1050 rows", id="no rows"),
        pytest.param(lambda s: s[[False] * N], InvalidParameterError, "None of the 1050 rows", id="empty mask"),
        pytest.param(lambda s: s[7], InvalidParameterError, r"take\(\[row\]\)", id="integer"),
        pytest.param(lambda s: s[np.int64(7)], InvalidParameterError, r"take\(\[row\]\)", id="NumPy integer"),
        pytest.param(lambda s: s[1:5, 2], InvalidParameterError, "sliced by rows", id="columns"),
        pytest.param(lambda s: s["y"], InvalidParameterError, "sliced by rows", id="text"),
        pytest.param(list, InvalidParameterError, "sliced by rows", id="iteration"),
        pytest.param(lambda s: s[::-1], InvalidParameterError, r"take\(rows\)", id="negative step"),
        pytest.param(lambda s: s[[True] * 5], InvalidParameterError, r"shape \(5,\)", id="short mask"),
        pytest.param(lambda s: s[:50][[True] * N], InvalidParameterError, r"shape \(1050,\)", id="mask of the store"),
        pytest.param(lambda s: s[[3, 3]], InvalidParameterError, "row 3 after row 3.*np.sort", id="duplicates"),
        pytest.param(lambda s: s[[3, 9, 8]], InvalidParameterError, "row 8 after row 9.*shuffle", id="unsorted"),
        pytest.param(
            lambda s: s[np.array([3, 2], dtype="u8")],
            InvalidParameterError,
            "row 2 after row 3",
            id="unsorted, unsigned",
        ),
        pytest.param(lambda s: s[[-1, 4]], InvalidParameterError, "Row -1", id="negative row"),
        pytest.param(lambda s: s[[4, N]], InvalidParameterError, "Row 1050.*0 to 1049", id="row behind the end"),
        pytest.param(lambda s: s[:50][[50]], InvalidParameterError, "Row 50.*0 to 49", id="row behind the view"),
        pytest.param(lambda s: s[[0.5, 1]], InvalidParameterError, "float64", id="fractions"),
        pytest.param(lambda s: s[[[1, 2]]], InvalidParameterError, r"shape \(1, 2\)", id="matrix"),
        pytest.param(lambda s: s[:9].take([9]), InvalidParameterError, "rows 0 to 8", id="take behind the view"),
        pytest.param(lambda s: s[:9].row_numbers([-1]), InvalidParameterError, "rows 0 to 8", id="negative number"),
        pytest.param(lambda s: s.split(0), InvalidParameterError, "fraction", id="fraction 0"),
        pytest.param(lambda s: s.split(1.0), InvalidParameterError, "fraction", id="fraction 1"),
        pytest.param(lambda s: s.split(float("nan")), InvalidParameterError, "fraction", id="fraction nan"),
        pytest.param(lambda s: s.split(True), InvalidParameterError, "fraction", id="fraction True"),
        pytest.param(lambda s: s.split("80%"), InvalidParameterError, "fraction", id="fraction as text"),
        pytest.param(lambda s: s.split(1e-9), InvalidParameterError, "into 0 and 1050", id="no row in the first"),
        pytest.param(lambda s: s[:1].split(0.7), InvalidParameterError, "into 1 and 0", id="one row"),
        pytest.param(lambda s: s.split(0.5, seed=-1), InvalidParameterError, "seed", id="negative seed"),
        pytest.param(lambda s: s.split(0.5, stratify=1), InvalidParameterError, "stratify", id="no flag"),
    ],
)
def test_what_is_no_view_is_refused(store, choose, error, message):
    with pytest.raises(error, match=message):
        choose(store)


@given(
    n_rows=st.integers(1, 400),
    chunk_rows=st.integers(1, 60),
    chosen=st.sets(st.integers(0, 399), min_size=1),
    seed=st.integers(0, 99),
)
@settings(max_examples=25)
def test_any_rows_of_any_chunks(tmp_path_factory, n_rows, chunk_rows, chosen, seed):
    rows = np.array(sorted({row % n_rows for row in chosen}))
    store = sf.ingest(X[:n_rows], tmp_path_factory.mktemp("any") / "a", y=y[:n_rows], chunk_rows=chunk_rows)
    view = store.select(rows)
    np.testing.assert_array_equal(view.row_numbers(), rows)
    np.testing.assert_array_equal(view.X.compute(scheduler="synchronous"), X[rows])
    np.testing.assert_array_equal(view.y.compute(scheduler="synchronous"), y[rows])
    inner = np.flatnonzero(np.random.default_rng(seed).random(len(rows)) < 0.5)
    if len(inner):
        np.testing.assert_array_equal(view[inner].take(np.arange(len(inner))), X[rows[inner]])


@given(st.data())
def test_selections_whatever_the_blocks(data):
    """With blocks of 8 rows instead of 65,536, so that edges of blocks are met."""
    n_rows = data.draw(st.integers(1, 50))
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=n_rows, max_size=n_rows)))
    start = data.draw(st.integers(-60, 60))
    chosen = range(n_rows)[slice(start, data.draw(st.integers(-60, 60)), data.draw(st.integers(1, 20)))]
    edges = np.unique([0, n_rows, *data.draw(st.lists(st.integers(0, n_rows)))])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "_BLOCK_ROWS", 8)
        whole = Selection.of_mask(n_rows, mask)
        assert whole.n_rows == mask.sum()
        np.testing.assert_array_equal(whole.mask_between(0, n_rows), mask)
        np.testing.assert_array_equal(whole.counts(edges), [mask[a:b].sum() for a, b in pairwise(edges)])
        for first, last in pairwise(edges):
            np.testing.assert_array_equal(whole.rows_between(first, last), first + np.flatnonzero(mask[first:last]))
        assert whole == Selection.of_rows(n_rows, np.flatnonzero(mask))
        np.testing.assert_array_equal(whole.complement().mask_between(0, n_rows), ~mask)
        sliced = Selection.of_slice(n_rows, chosen)
        np.testing.assert_array_equal(sliced.rows_between(0, n_rows), list(chosen))
        inner = np.array(data.draw(st.lists(st.booleans(), min_size=len(chosen), max_size=len(chosen))), dtype=bool)
        composed = sliced.compose(Selection.of_mask(len(chosen), inner))
        np.testing.assert_array_equal(composed.rows_between(0, n_rows), np.array(chosen)[inner])


def test_slices_are_small_whatever_the_store():
    assert len(pickle.dumps(Selection.of_slice(10**8, range(17, 10**8 - 5)))) < 10_000


# -- splits ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fraction", [0.001, 0.2, 0.5, 0.8, 0.999])
@pytest.mark.parametrize("stratify", [False, True])
def test_a_split_parts_the_rows_exactly(store, fraction, stratify):
    first, second = store.split(fraction, seed=4, stratify=stratify)
    assert first.n_rows == round(fraction * N)
    both = np.concatenate([first.row_numbers(), second.row_numbers()])
    np.testing.assert_array_equal(np.sort(both), np.arange(N))
    if stratify:
        counts = np.unique(y, return_counts=True)[1]
        drawn = np.array([(y[first.row_numbers()] == label).sum() for label in store.classes])
        assert (np.abs(drawn - fraction * counts) < 1).all()
    np.testing.assert_array_equal(first.X.compute(), X[first.row_numbers()])
    np.testing.assert_array_equal(second.take_labels(np.arange(second.n_rows)), y[second.row_numbers()])


@pytest.mark.parametrize("stratify", [False, True])
def test_a_split_follows_from_rows_and_seed_alone(store, tmp_path, stratify):
    other = sf.ingest(X.astype("f8"), tmp_path / "b", y=y, chunk_rows=37)
    drawn = store.split(0.7, seed=5, stratify=stratify)[0].row_numbers()
    np.testing.assert_array_equal(drawn, other.split(0.7, seed=5, stratify=stratify)[0].row_numbers())
    np.testing.assert_array_equal(drawn, store.split(0.7, seed=5, stratify=stratify)[0].row_numbers())
    assert drawn.tolist() != store.split(0.7, seed=6, stratify=stratify)[0].row_numbers().tolist()


def test_a_split_of_a_view_is_of_its_rows(store, tmp_path):
    view = store[::2]
    copied = sf.ingest(X[::2], tmp_path / "b", y=y[::2], chunk_rows=31)
    for stratify in (False, True):
        for part, expected in zip(
            view.split(0.3, seed=1, stratify=stratify), copied.split(0.3, seed=1, stratify=stratify), strict=True
        ):
            np.testing.assert_array_equal(part.row_numbers() // 2, expected.row_numbers())
            np.testing.assert_array_equal(part.row_numbers() % 2, 0)


def test_a_stratified_split_reads_labels_only(store, reads):
    store.split(0.5, stratify=True)
    assert reads == {("y", chunk): 1 for chunk in range(11)}


@pytest.mark.parametrize(
    "labels", [pytest.param(None, id="no labels"), pytest.param(np.linspace(0, 1, N), id="a target")]
)
def test_only_classes_can_be_stratified(tmp_path, labels):
    store = sf.ingest(X, tmp_path / "a", y=labels)
    with pytest.raises(InvalidDataError, match="classes"):
        store.split(0.5, stratify=True)
    assert store.split(0.5)[0].n_rows == N // 2


# -- other stores ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param(np.arange(N) % 7 - 3, id="integers"),
        pytest.param(np.arange(N) % 3 == 0, id="booleans"),
        pytest.param((np.arange(N) % 4).astype("f4"), id="whole floats"),
        pytest.param(np.array([b"x", b"yy"])[np.arange(N) // 600], id="bytes"),
        pytest.param(np.array(["first", "b", "ccc", "a"])[np.arange(N) // 300], id="texts in blocks"),
    ],
)
@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(np.arange(620, 900), id="slice"),
        pytest.param(np.arange(0, N, 50), id="steps"),
        pytest.param(np.array([0, 3]), id="two"),
    ],
)
def test_classes_of_any_kind(tmp_path, labels, rows):
    view = sf.ingest(X, tmp_path / "a", y=labels, chunk_rows=64).select(rows)
    classes, first, counts = np.unique(labels[rows], return_index=True, return_counts=True)
    assert view.classes.tolist() == classes.tolist()
    assert view.class_counts.tolist() == counts.tolist()
    assert view.labels.first_rows.tolist() == first.tolist()
    np.testing.assert_array_equal(view.y.compute(), labels[rows])


def test_a_target_stays_one(tmp_path):
    target = np.linspace(0, 1, N)
    view = sf.ingest(X, tmp_path / "a", y=target, chunk_rows=64)[[0, N - 1]]
    assert view.classes is None
    assert view.class_counts is None
    assert view.labels.kind == "target"
    np.testing.assert_array_equal(view.take_labels([1, 0]), [1, 0])
    assert "target" in repr(view)


def test_values_that_are_not_finite_are_counted_in_the_view(tmp_path):
    holes = X.copy()
    holes[5, 1] = np.nan
    holes[800:803, 2] = np.inf
    store = sf.ingest(holes, tmp_path / "a", nonfinite="keep", chunk_rows=100)
    assert store[:500].n_nonfinite.tolist() == [0, 1, 0, 0, 0]
    assert store[801:].n_nonfinite.tolist() == [0, 0, 2, 0, 0]
    assert store[10:800].statistics.n_nonfinite.tolist() == [0] * 5
    np.testing.assert_array_equal(store[3:9].X.compute(), holes[3:9])


def test_chunks_of_one_row(tmp_path):
    view = sf.ingest(X[:40], tmp_path / "a", y=y[:40], chunk_rows=1)[3:37:2]
    np.testing.assert_array_equal(view.X.compute(), X[3:37:2])
    assert view.layout.chunk_sizes.tolist() == [1] * 17
    assert view.layout.aside_rows == 0


def test_whole_chunks_are_decoded_into_the_buffer_of_the_caller(store, monkeypatch):
    view = store[100:350]
    owners = []
    original = StoredChunks.read

    def read(self, name, index, out):
        owners.append(out.base if out.base is None else out.base.shape)
        return original(self, name, index, out)

    monkeypatch.setattr(StoredChunks, "read", read)
    out = np.empty((100, 5), dtype="f4")
    assert view.reader.read_chunk(0, out=out).X.base is out
    np.testing.assert_array_equal(out, X[100:200])
    assert owners[0] == (100, 5)
    assert view.layout.aside_rows == 100
    assert store[100:300].layout.aside_rows == 0


def test_a_view_keeps_its_rows_while_others_are_appended(tmp_path):
    store = sf.ingest(X[:950], tmp_path / "a", y=y[:950], chunk_rows=100)
    view, tail = store[::3], store[940:]
    sf.append(X[950:], tmp_path / "a", y=y[950:])
    open_reader.cache_clear()  # as in a new process
    for old, rows in ((view, np.arange(0, 950, 3)), (tail, np.arange(940, 950))):
        again = pickle.loads(pickle.dumps(old))
        np.testing.assert_array_equal(again.X.compute(), X[rows])
        np.testing.assert_array_equal(again.row_numbers(), rows)
        np.testing.assert_array_equal(again.classes, np.unique(y[rows]))
    assert open_store(tmp_path / "a")[::3].n_rows == N // 3


def test_a_view_can_be_ingested(store, tmp_path):
    view = store.select(some_mask(0.3))
    copy = sf.ingest(view, tmp_path / "b", chunk_rows=40)
    rows = view.row_numbers()
    np.testing.assert_array_equal(copy.X.compute(), X[rows])
    np.testing.assert_array_equal(copy.y.compute(), y[rows])
    np.testing.assert_array_equal(copy.ids.compute(), ids[rows])
    assert copy.manifest.source["digest"] == view.digest
    # The same again is a no-op, and other rows of the same store are another source.
    assert sf.ingest(view, tmp_path / "b", chunk_rows=40).digest == copy.digest
    with pytest.raises(sf.errors.StoreExistsError):
        sf.ingest(store[:300], tmp_path / "b", chunk_rows=40)


def test_a_lazy_array_of_a_view_is_not_written_over_its_own_store(tmp_path):
    store = sf.ingest(X, tmp_path / "a", chunk_rows=100)
    with pytest.raises(sf.errors.StoreExistsError, match="lie over its source"):
        sf.ingest(store[::2].X, tmp_path / "a", if_exists="overwrite")
    np.testing.assert_array_equal(open_store(tmp_path / "a").X.compute(), X)


# -- damage ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["X", "reduce", "map", "stream", "take", "statistics"])
def test_damage_is_named_by_stored_chunk_and_rows(tmp_path, how):
    store = sf.ingest(X, tmp_path / "a", chunk_rows=100)
    file = tmp_path / "a" / "X/c/4/0"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1  # of a row that the view does not have
    file.write_bytes(content)
    view = store[:495][::2]
    ways = {
        "X": view.X.compute,
        "reduce": lambda: view.reduce(EXTREMES),
        "map": lambda: view.map(lambda _, chunk: chunk.X[:, 0], model=None, dtype="f4").compute(),
        "stream": lambda: list(view.stream(view.plan(batch_size=10))),
        "take": lambda: view.take([230]),
        "statistics": lambda: view.statistics,
    }
    with pytest.raises(StoreCorruptError, match=r"Chunk 4 of X \(rows 400 to 499\)") as caught:
        ways[how]()
    assert (caught.value.array, caught.value.chunk, caught.value.rows) == ("X", 4, (400, 500))
    np.testing.assert_array_equal(store[:400][::2].X.compute(), X[:400:2])


def test_what_a_store_has_verified_is_verified_for_its_views(tmp_path, monkeypatch):
    from streamfit.store import stored_chunks

    sf.ingest(X, tmp_path / "a", chunk_rows=100)
    store = open_store(tmp_path / "a", verify="first")
    sums = []
    original = stored_chunks.checksum
    monkeypatch.setattr(stored_chunks, "checksum", lambda values: sums.append(len(values)) or original(values))
    store[:250].X.compute()
    assert sums == [100] * 3
    store[::2].X.compute()
    store.X.compute()
    assert sum(sums) == N
    other = FeatureStore(replace(store[::2].ref, verify="always"))
    sums.clear()
    other.X.compute()
    assert sum(sums) == N


def test_what_no_row_can_be_meant_by_is_refused_in_a_line(store):
    """As scikit-learn's train_test_split asks."""
    with pytest.raises(InvalidParameterError, match=r"split\(fraction\)") as caught:
        store[np.arange(N), ...]
    assert len(str(caught.value)) < 400


def test_the_plan_of_other_rows_is_refused_with_both(store):
    plan = store[::2].plan(batch_size=10)
    with pytest.raises(InvalidParameterError, match=r"other rows or chunks: .*525.* and .*300 of its 1050 rows"):
        store[:300].stream(plan)
