from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamfit.errors import BudgetError, InvalidDataError, InvalidParameterError
from streamfit.feature_store import open_store
from streamfit.plan.budget import stream_budget
from streamfit.sources.ingest import ingest
from streamfit.store import stored_matrix
from streamfit.store.reader import Reader

rng = np.random.default_rng(1)
X = rng.normal(size=(1_050, 5)).astype("f4")
y = np.array(["red", "green", "blue"])[rng.integers(0, 3, 1_050)]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "a"
    return ingest(X, path, y=y, sample_weight=np.arange(1_050.0), chunk_rows=100)


@pytest.fixture
def reads(monkeypatch):
    """Record each chunk that is read."""
    seen = []
    original = Reader.read_array

    def read_array(self, name, index, *, out=None):
        seen.append((name, index))
        return original(self, name, index, out=out)

    monkeypatch.setattr(Reader, "read_array", read_array)
    return seen


def test_what_it_tells(store):
    assert store.shape == (1_050, 5)
    assert len(store) == store.n_rows == 1_050
    assert store.dtype == np.dtype("f4")
    assert store.feature_names is None
    assert store.classes.tolist() == ["blue", "green", "red"]
    np.testing.assert_array_equal(store.class_counts, np.unique(y, return_counts=True)[1])
    np.testing.assert_allclose(store.statistics.mean, X.astype("f8").mean(axis=0))
    np.testing.assert_allclose(store.statistics.variance, X.astype("f8").var(axis=0))
    assert "1050 x 5 float32, 11 chunks" in repr(store)
    assert "3 classes" in repr(store)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        pytest.param({}, 0, id="none"),
        pytest.param({"y": y}, 20, id="text"),
        pytest.param({"y": np.arange(1_050) % 3, "sample_weight": np.arange(1_050.0)}, 16, id="both"),
    ],
)
def test_bytes_of_a_rows_label_and_weight(tmp_path, columns, expected):
    manifest = ingest(X, tmp_path / "a", **columns).manifest
    assert manifest.label_nbytes == expected


def test_nothing_is_turned_into_one_array_by_accident(store):
    with pytest.raises(TypeError, match=r"store\.X .* or store.take"):
        np.asarray(store)
    with pytest.raises(TypeError, match=r"store\.X"):
        np.mean(store)


@pytest.mark.parametrize("block_chunks", [1, 2, 3, 11, 100])
def test_lazy_arrays_are_the_rows_in_blocks_of_whole_chunks(store, monkeypatch, block_chunks):
    monkeypatch.setattr(stored_matrix, "_BLOCK_NBYTES", block_chunks * 100 * 5 * 4)
    lazy_X, lazy_y, lazy_w = store.X, store.y, store.sample_weight
    assert lazy_X.chunks[0] == lazy_y.chunks[0] == lazy_w.chunks[0]
    assert all(size == block_chunks * 100 for size in lazy_X.chunks[0][:-1])
    assert lazy_X.chunks[1] == (5,)
    for lazy, expected in ((lazy_X, X), (lazy_y, y), (lazy_w, np.arange(1_050.0))):
        computed = lazy.compute()
        np.testing.assert_array_equal(computed, expected)
        assert computed.dtype == lazy.dtype
        assert lazy._meta.dtype == lazy.dtype
        assert lazy.shape == expected.shape


def test_building_reads_nothing_and_tasks_carry_no_rows(store, reads):
    lazy = (store.X * 2 + 1)[:100]
    assert reads == []
    assert len(str(dict(store.X.__dask_graph__()))) < 20_000
    np.testing.assert_array_equal(lazy.compute(), X[:100] * 2 + 1)


def test_blocks_are_at_most_64_mib_and_the_same_rows_have_the_same_name(store):
    assert store.X.chunksize == (1_050, 5)
    assert store.X.name == open_store(store.path).X.name
    assert store.X.name != open_store(store.path, verify="never").X.name
    assert store.X.name != store.y.name


@settings(max_examples=60)
@given(rows=st.lists(st.integers(0, 1_049), max_size=40))
def test_take_gives_rows_in_the_order_asked(store, rows):
    taken = store.take(rows)
    np.testing.assert_array_equal(taken, X[rows])
    assert taken.dtype == store.dtype
    assert taken.shape == (len(rows), 5)
    np.testing.assert_array_equal(store.take_labels(rows), y[rows])


def test_take_reads_each_chunk_once(store, reads):
    store.take([1_049, 5, 250, 5, 0, 251, 1_000])
    assert reads == [("X", 0), ("X", 2), ("X", 10)]
    reads.clear()
    store.take_labels([5, 250])
    assert reads == [("y", 0), ("y", 2)]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        pytest.param([0, -1], "holds -1; the store has the rows 0 to 1049", id="negative"),
        pytest.param([1_050], "holds 1050", id="too-large"),
        pytest.param([0.0, 1.0], "float64", id="floats"),
        pytest.param(np.ones(1_050, dtype=bool), "bool", id="mask"),
        pytest.param([[0, 1]], r"shape \(1, 2\)", id="matrix"),
        pytest.param(7, r"shape \(\)", id="scalar"),
    ],
)
def test_rows_that_do_not_exist_are_named(store, rows, message):
    with pytest.raises(InvalidParameterError, match=message):
        store.take(rows)


def test_a_store_without_labels(tmp_path):
    store = ingest(X[:10], tmp_path / "a")
    assert store.y is store.sample_weight is store.ids is store.classes is store.class_counts is None
    with pytest.raises(InvalidDataError, match="no labels"):
        store.take_labels([0])
    assert "classes" not in repr(store)


def test_a_target_has_no_classes(tmp_path):
    store = ingest(X[:10], tmp_path / "a", y=X[:10, 0])
    assert store.classes is None
    assert "target" in repr(store)
    np.testing.assert_array_equal(store.y.compute(), X[:10, 0])


def test_plan_resolves_the_window_from_the_store_and_the_limit(store):
    plan = store.plan(batch_size=64, seed=3, epoch=2, window=4, drop_last=True)
    assert (plan.window_chunks, plan.seed, plan.epoch, plan.drop_last) == (4, 3, 2, True)
    assert store.plan(batch_size=64).window_chunks == 11
    with pytest.raises(BudgetError):
        store.plan(batch_size=64, memory_limit="1kB")


@pytest.mark.parametrize(
    ("n_rows", "chunk_rows"),
    [
        pytest.param(1_049, 100, id="fewer-rows"),
        pytest.param(1_050, 105, id="other-chunks"),
        pytest.param(1_051, 100, id="more-rows"),
    ],
)
def test_the_plan_of_another_store_is_refused(store, tmp_path, n_rows, chunk_rows):
    other = ingest(np.resize(X, (n_rows, 5)), tmp_path / "a", chunk_rows=chunk_rows)
    with pytest.raises(InvalidParameterError, match=rf"plan is of .*n_rows={n_rows}"):
        store.stream(other.plan(batch_size=64))


def test_a_stream_needs_no_negative_prefetch(store):
    with pytest.raises(InvalidParameterError, match="prefetch"):
        store.stream(store.plan(batch_size=64), prefetch=-1)


def test_a_stream_reads_nothing_ahead_where_only_one_window_fits(store):
    plan = store.plan(batch_size=64, window=4)
    limit = stream_budget(
        store.layout,
        batch_size=64,
        window_chunks=4,
        prefetch=0,
        label_nbytes=store.label_nbytes,
        n_epochs=1,
        sampling=None,
    ).nbytes
    with pytest.raises(BudgetError, match="The largest prefetch that fits is 0"):
        store.stream(plan, memory_limit=limit, prefetch=1)
    batches = list(store.stream(plan, memory_limit=limit))
    assert len(batches) == len(plan)
    for batch, planned in zip(batches, plan, strict=True):
        np.testing.assert_array_equal(batch.rows, planned.rows)


def test_a_plan_streams_every_row_once(store):
    batches = list(store.stream(store.plan(batch_size=64, seed=3, window=4)))
    rows = np.concatenate([batch.rows for batch in batches])
    assert sorted(rows) == list(range(1_050))
    np.testing.assert_array_equal(np.concatenate([batch.X for batch in batches]), X[rows])
    np.testing.assert_array_equal(np.concatenate([batch.y for batch in batches]), y[rows])
    np.testing.assert_array_equal(np.concatenate([batch.sample_weight for batch in batches]), rows)
