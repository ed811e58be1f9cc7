"""Sparse stores: CSR parts on disk, the same rows on every way, and every damage met."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array, csc_matrix, csr_array, random_array, vstack

import streamfit as sf
from streamfit.errors import InvalidDataError, InvalidParameterError, StoreExistsError
from streamfit.maths.csr_rows import CsrBuilder, canonical_rows
from streamfit.store.statistics import Statistics
from streamfit.store.writer import StoreWriter


def random_rows(n_rows, n_columns=40, *, density=0.1, seed=0, dtype="f8"):
    rows = random_array((n_rows, n_columns), density=density, format="csr", rng=np.random.default_rng(seed))
    rows.data = np.round(rows.data * 100).astype(dtype)
    return rows


def same(found, expected):
    """Whether two matrices are equal to the bit, stored zeros included."""
    found, expected = (canonical_rows(rows, rows.dtype) for rows in (found, expected))
    return (
        found.shape == expected.shape
        and found.dtype == expected.dtype
        and all(np.array_equal(getattr(found, name), getattr(expected, name)) for name in ("data", "indices", "indptr"))
    )


@pytest.fixture(scope="module", name="X")
def rows_of_the_store():
    rows = random_rows(1_003)
    rows.data[::50] = 0.0  # stored zeros
    rows = rows.tolil()
    rows[200:300] = 0  # a whole chunk without values
    return csr_array(rows)


@pytest.fixture
def store(tmp_path, X):
    return sf.ingest(
        X,
        tmp_path / "a.zarr",
        y=np.arange(1_003) % 3,
        ids=np.arange(1_003) + 7,
        sample_weight=np.ones(1_003),
        chunk_rows=100,
    )


# -- the same rows on every way ----------------------------------------------------------------------------


def test_every_way_gives_the_rows(store, X):
    assert store.is_sparse
    assert store.shape == X.shape
    assert same(store.X.compute(), X)
    assert same(store.X[150:420].compute(), X[150:420])
    assert same(store.take([5, 1_002, 5, 77, 250]), X[[5, 1_002, 5, 77, 250]])
    assert store.take([]).shape == (0, 40)
    assert store.y.compute().tolist() == (np.arange(1_003) % 3).tolist()
    sums = store.map(lambda _, chunk: np.asarray(chunk.X.sum(axis=1)).ravel(), model=None, dtype="f8").compute()
    assert np.array_equal(sums, np.asarray(X.sum(axis=1)).ravel())


@pytest.mark.parametrize("shuffle", ["window", "none"])
@pytest.mark.parametrize("prefetch", [0, 1])
def test_batches_hold_the_rows_they_name_and_own_their_memory(store, X, shuffle, prefetch):
    plan = store.plan(batch_size=64, seed=3, shuffle=shuffle, window=3)
    batches = list(store.stream(plan, prefetch=prefetch))
    assert np.array_equal(np.sort(np.concatenate([batch.rows for batch in batches])), np.arange(1_003))
    for batch in batches:
        assert same(batch.X, X[batch.rows])
        assert np.array_equal(batch.y, batch.rows % 3)
    kept = batches[0].X.copy()
    batches[1].X.data[:] = -1
    assert same(batches[0].X, kept)
    later = list(store.stream(plan, start_step=5))
    assert [batch.rows.tolist() for batch in later] == [batch.rows.tolist() for batch in batches[5:]]


def test_views_give_their_rows(store, X):
    rows = np.flatnonzero(np.random.default_rng(1).random(1_003) < 0.2)
    view = store[rows]
    assert same(view.X.compute(), X[rows])
    assert same(view.take([3, 0]), X[rows[[3, 0]]])
    assert same(view[::2].X.compute(), X[rows[::2]])
    for batch in view.stream(view.plan(batch_size=20)):
        assert same(batch.X, X[rows[batch.rows]])
    train, test = store.split(0.8, stratify=True)
    assert train.n_rows + test.n_rows == 1_003
    assert same(vstack([train.X.compute(), test.X.compute()], format="csr"), X[_rows_of(train, test)])


def _rows_of(*views):
    return np.concatenate([view.row_numbers() for view in views])


def test_statistics_count_the_zeros_that_are_not_stored(store, X):
    expected = Statistics.of(X.toarray())
    for name in ("n_finite", "n_nonfinite", "minimum", "maximum"):
        assert np.array_equal(getattr(store.statistics, name), getattr(expected, name))
    np.testing.assert_allclose(store.statistics.mean, expected.mean, rtol=1e-12)
    np.testing.assert_allclose(store.statistics.variance, expected.variance, rtol=1e-12)
    assert not store.n_nonfinite.any()


def test_statistics_of_values_that_are_not_finite(tmp_path):
    dense = np.array([[0.0, np.nan, 1.0, np.inf], [2.0, np.nan, 0.0, -3.0], [0.0, np.nan, -1.0, 0.0]])
    store = sf.ingest(csr_array(dense), tmp_path / "a.zarr", chunk_rows=2, nonfinite="keep")
    expected = Statistics.of(dense)
    for name in ("n_finite", "n_nonfinite", "minimum", "maximum", "mean", "variance"):
        np.testing.assert_allclose(getattr(store.statistics, name), getattr(expected, name), rtol=1e-12)
    assert store.n_nonfinite.tolist() == [0, 3, 0, 1]


@settings(max_examples=40)
@given(
    n_rows=st.integers(1, 60),
    n_columns=st.integers(1, 9),
    density=st.sampled_from([0.0, 0.1, 1.0]),
    chunk_rows=st.integers(1, 25),
    cuts=st.lists(st.integers(0, 60), max_size=4),
    dtype=st.sampled_from(["f4", "f8", "i1", "i8", "u8", "?"]),
    seed=st.integers(0, 5),
)
@pytest.mark.slow
def test_any_cut_and_any_chunks_give_the_same_store(
    tmp_path_factory, n_rows, n_columns, density, chunk_rows, cuts, dtype, seed
):
    X = random_rows(n_rows, n_columns, density=density, seed=seed, dtype=dtype)
    folder = tmp_path_factory.mktemp("cuts")
    whole = sf.ingest(X, folder / "whole.zarr", chunk_rows=chunk_rows)
    edges = sorted({0, n_rows, *(min(cut, n_rows) for cut in cuts)})
    with StoreWriter.create(
        folder / "cut.zarr",
        n_features=n_columns,
        dtype=X.dtype,
        chunk_rows=chunk_rows,
        feature_names=None,
        nonfinite="error",
        source={},
        if_exists="error",
        continues=False,
        sparse=True,
    ) as writer:
        for start, stop in itertools.pairwise(edges):
            writer.append(X[start:stop])
    cut = sf.open_store(folder / "cut.zarr")
    assert cut.manifest.checksums == whole.manifest.checksums
    assert same(cut.X.compute(), X.astype(whole.dtype))
    assert whole.verify().ok
    shutil.rmtree(folder)


@pytest.mark.parametrize("kind", [csc_matrix, coo_array, lambda rows: rows.todok(), lambda rows: rows.tolil()])
def test_every_form_of_a_sparse_matrix_is_the_same_rows(tmp_path, kind):
    X = random_rows(50)
    store = sf.ingest(kind(X), tmp_path / "a.zarr")
    assert same(store.X.compute(), X)
    assert sf.ingest(kind(X), tmp_path / "a.zarr").digest == store.digest


def test_entries_of_one_place_are_added_and_the_callers_matrix_stays(tmp_path):
    X = csr_array((np.array([1.0, 2.0, 4.0]), np.array([3, 3, 0]), np.array([0, 3])), shape=(1, 5))
    store = sf.ingest(X, tmp_path / "a.zarr")
    assert store.X.compute().toarray().tolist() == [[4.0, 0.0, 0.0, 3.0, 0.0]]
    assert X.data.tolist() == [1.0, 2.0, 4.0]


def test_builder_needs_no_room_for_what_did_not_come():
    X = random_rows(30)
    builder = CsrBuilder(n_rows=40, nnz=10 * X.nnz, n_columns=40, dtype=X.dtype)
    for start in range(0, 30, 7):
        builder.add(X[start : start + 7])
    assert same(builder.build(), X)


# -- what lies on disk -------------------------------------------------------------------------------------


def test_zarr_and_scipy_read_the_parts(store, X):
    group = zarr.open_group(store.path, mode="r")["X"]
    assert dict(group.attrs) == {"shape": [1_003, 40], "part_rows": 100}
    parts = []
    for name in [*map(str, range(10)), "10-3"]:
        part = group[name]
        assert part.attrs["encoding-type"] == "csr_matrix"
        parts.append(csr_array((part["data"][:], part["indices"][:], part["indptr"][:]), shape=part.attrs["shape"]))
    assert same(vstack(parts, format="csr"), X)


def test_a_dense_store_has_format_1_and_a_sparse_one_format_2(tmp_path, store):
    dense = sf.ingest(np.eye(3), tmp_path / "dense.zarr")
    assert (dense.manifest.format_version, store.manifest.format_version) == (1, 2)
    text = json.loads(Path(dense.path, "streamfit/manifest.json").read_text())
    assert "sparse" not in text["manifest"]


def test_info_tells_of_the_stored_values(store, X):
    info = store.info(memory_limit="10kB")
    assert info.nnz == X.nnz
    assert info.columns == ()
    assert 0 < info.rows_that_fit("10kB") < 1_003
    assert f"{X.nnz:,} stored values" in str(info)
    assert info.to_json()["arrays"]["X"]["disk_nbytes"] == sum(
        file.stat().st_size for file in Path(store.path, "X").rglob("*") if file.is_file() and file.name == "0"
    )


def test_chunks_of_a_default_store_take_about_8_mib(tmp_path):
    X = random_rows(300_000, 1_000, density=0.01)
    layout = sf.ingest(X, tmp_path / "a.zarr").layout
    assert layout.n_chunks == 5
    assert 7 * 2**20 < layout.chunk_nbytes < 9 * 2**20
    assert layout.nbytes == 12 * X.nnz + 4 * (300_000 + 5)


# -- begun, gone on with, appended to ----------------------------------------------------------------------


class StoppedError(Exception):
    pass


def write_part_of(batches, path, source):
    with StoreWriter.create(
        path,
        n_features=40,
        dtype=np.dtype("f8"),
        chunk_rows=100,
        feature_names=None,
        nonfinite="error",
        source=source,
        if_exists="resume",
        continues=True,
        n_rows_expected=1_003,
        sparse=True,
    ) as writer:
        for batch in batches:
            writer.append(batch)


@pytest.mark.parametrize("as_batches", [True, False])
def test_a_stopped_ingest_goes_on_and_gives_the_same_bytes(tmp_path, X, as_batches):
    def batches(most):
        for start in range(0, 1_003, 70):
            if start >= most:
                raise StoppedError
            yield X[start : start + 70]

    whole = sf.ingest(X, tmp_path / "whole.zarr", chunk_rows=100)
    if not as_batches:
        with pytest.raises(StoppedError):
            write_part_of(batches(500), tmp_path / "a.zarr", whole.manifest.source)
        store = sf.ingest(X, tmp_path / "a.zarr", chunk_rows=100)
        assert store.digest == whole.digest
    else:
        with pytest.raises(StoppedError):
            sf.ingest(lambda: batches(500), tmp_path / "a.zarr", chunk_rows=100)
        store = sf.ingest(lambda: batches(2_000), tmp_path / "a.zarr", chunk_rows=100)
        assert store.manifest.checksums == whole.manifest.checksums
    assert same(store.X.compute(), X)
    assert store.verify().ok


def test_a_source_that_changed_is_refused(tmp_path, X):
    sf.ingest(iter([X]), tmp_path / "a.zarr", chunk_rows=100)
    other = X.copy()
    other.data[-1] += 1
    with pytest.raises(StoreExistsError, match="source changed"):
        sf.ingest(iter([other]), tmp_path / "a.zarr", chunk_rows=100)


def test_appends_add_rows_and_open_stores_keep_theirs(tmp_path, X):
    store = before = sf.ingest(X[:150], tmp_path / "a.zarr", chunk_rows=100)
    for stop in (160, 199, 200, 431):
        store = sf.append(X[store.n_rows : stop], store)
        assert same(store.X.compute(), X[:stop])
    assert same(before.X.compute(), X[:150])
    assert before.verify().ok
    assert store.verify().ok
    dense = X[431:440].toarray()
    assert np.array_equal(sf.append(dense, store).X.compute()[431:].toarray(), dense)


def test_short_last_parts_go_with_the_versions_that_know_them(tmp_path, X):
    store = sf.ingest(X[:10], tmp_path / "a.zarr", chunk_rows=100)
    for stop in range(11, 50):
        store = sf.append(X[stop - 1 : stop], store)
    names = {path.name for path in Path(store.path, "X").iterdir() if path.is_dir()}
    assert "0-49" in names
    assert "0-10" not in names
    assert len(names) <= 34
    assert same(store.X.compute(), X[:49])


def test_an_append_that_stops_leaves_the_store_and_goes_on(tmp_path, X):
    store = sf.ingest(X[:150], tmp_path / "a.zarr", chunk_rows=100)

    def more(fails):
        yield X[150:400]
        if fails:
            raise StoppedError
        yield X[400:]

    with pytest.raises(StoppedError):
        sf.append(lambda: more(fails=True), store)
    again = sf.open_store(store.path)
    assert again.digest == store.digest
    assert same(again.X.compute(), X[:150])
    assert again.verify().ok
    assert same(sf.append(lambda: more(fails=False), store).X.compute(), X)


def test_other_rows_than_the_store_holds_are_refused(tmp_path, store, X):
    dense = sf.ingest(np.eye(3), tmp_path / "dense.zarr")
    with pytest.raises(InvalidDataError, match="sparse"):
        sf.append(csr_array(np.eye(3)), dense)
    with pytest.raises(InvalidDataError):
        sf.append(random_rows(5, 41), store.path, y=np.zeros(5), ids=np.zeros(5, int), sample_weight=np.ones(5))
    with pytest.raises(InvalidDataError, match=r"NaN in row 1, column 2"):
        sf.ingest(csr_array([[0.0, 1.0, 0.0], [0.0, 0.0, np.nan]]), tmp_path / "nan.zarr")
    assert not (tmp_path / "nan.zarr").exists()
    with pytest.raises(InvalidDataError, match="0 rows"):
        sf.ingest(csr_array((0, 3)), tmp_path / "none.zarr")
    with pytest.raises(InvalidDataError, match="complex"):
        sf.ingest(csr_array(np.eye(2, dtype=complex)), tmp_path / "complex.zarr")
    with pytest.raises(InvalidParameterError, match="n_features"):
        sf.ingest(coo_array(([1.0], ([0], [2**33])), shape=(1, 2**33 + 1)), tmp_path / "wide.zarr")


@pytest.mark.parametrize(("dtype", "stored"), [(">f8", "<f8"), (">i4", "<i4"), ("f2", "<f4")])
def test_values_that_scipy_lets_in_and_does_not_cut(tmp_path, dtype, stored):
    X = random_rows(50)
    X.data = X.data.astype(dtype)
    store = sf.ingest(X, tmp_path / "a.zarr", chunk_rows=20)
    assert store.dtype == stored
    assert same(store.X.compute(), random_rows(50, dtype=stored))


def test_whole_numbers_above_2_to_the_53_stay(tmp_path):
    X = csr_array(np.array([[0, 2**63 + 1, 0], [2**53 + 1, 0, 1]], dtype=np.uint64))
    store = sf.ingest(X, tmp_path / "a.zarr")
    assert store.X.compute().toarray().tolist() == [[0, 2**63 + 1, 0], [2**53 + 1, 0, 1]]


@pytest.mark.parametrize("passes", ["full", 1, 2])
def test_shuffles_move_whole_rows(tmp_path, store, X, passes):
    shuffled = store.shuffle(tmp_path / "s.zarr", seed=5, passes=passes)
    rows = shuffled.ids.compute() - 7
    assert np.array_equal(np.sort(rows), np.arange(1_003))
    assert not np.array_equal(rows, np.arange(1_003))
    assert same(shuffled.X.compute(), X[rows])
    assert np.array_equal(shuffled.y.compute(), rows % 3)
    assert shuffled.verify().ok


def test_a_shuffle_on_disk_gives_the_bytes_of_one_in_memory(tmp_path, store, monkeypatch):
    whole = store.shuffle(tmp_path / "whole.zarr", seed=5)
    monkeypatch.setattr("streamfit.run.shuffle._most_rows", lambda *_: 130)
    assert store.shuffle(tmp_path / "parts.zarr", seed=5).manifest.checksums == whole.manifest.checksums


def test_a_store_is_ingested_again_with_other_chunks(tmp_path, store, X):
    again = sf.ingest(store, tmp_path / "again.zarr", chunk_rows=333)
    assert again.is_sparse
    assert same(again.X.compute(), X)
    default = sf.ingest(store, tmp_path / "default.zarr")
    assert default.layout.chunk_rows == sf.ingest(X, tmp_path / "direct.zarr").layout.chunk_rows
