"""Batches that do not agree with each other are refused by the row, and those that do are one matrix."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

import streamfit as sf
from streamfit.errors import InvalidDataError

rng = np.random.default_rng(29)
X = rng.normal(size=(237, 3)).astype("f4")
X[X < 0.5] = 0
y = rng.integers(0, 3, 237)
CUTS = [slice(0, 100), slice(100, 100), slice(100, 237)]
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])


@pytest.mark.parametrize(
    ("batches", "message"),
    [
        pytest.param([X[:100], X[100:, :2]], r"shape \(137, 2\) from row 100 on. Give 3 columns", id="width"),
        pytest.param([X[:100], X[100:].astype("f8")], "float64 from row 100 on and the store has float32", id="wider"),
        pytest.param(
            [X[:100].astype("i4"), X[100:]], "float32 from row 100 on and the store has int32", id="fractions"
        ),
        pytest.param([X[:100].astype("f8"), np.full((1, 3), 2**53 + 1)], "9007199254740993 in row 100", id="inexact"),
        pytest.param([(X[:100], y[:100]), X[100:]], "Some rows have y and some have not", id="labels-end"),
        pytest.param([X[:100], (X[100:], y[100:])], "Some rows have y and some have not", id="labels-begin"),
        pytest.param([(X[:100], y[:99])], "y has 99 rows and X has 100", id="short-labels"),
        pytest.param([(X, y, y, y)], "A batch has 4 parts", id="parts"),
        pytest.param([{"X": X, "y": y}], "A batch is a dict of 'X', 'y'", id="dict"),
        pytest.param([X[:100], {"X": X}], "A batch is a dict of 'X'", id="later-dict"),
        pytest.param([X[:100], X[100]], "A batch has 1 dimensions", id="row"),
        pytest.param(
            [X[:100], sp.csr_array(X[100:])], "X is sparse from row 100 on and the store is dense", id="sparse"
        ),
        pytest.param(
            [FRAME, FRAME[["b", "a", "c"]]], "are b, a, c from row 237 on, .*the first are a, b, c", id="order"
        ),
        pytest.param([FRAME, X], "without names from row 237 on", id="names-end"),
        pytest.param([X, FRAME], "are a, b, c from row 237 on, .*without names", id="names-begin"),
    ],
)
def test_batches_that_do_not_agree(tmp_path, batches, message):
    with pytest.raises(InvalidDataError, match=message):
        sf.ingest(iter(batches), tmp_path / "a", chunk_rows=50)


@pytest.mark.parametrize("narrow", ["f4", "f2", "i2", "?"])
def test_later_batches_may_be_narrower(tmp_path, narrow):
    rows = (X[100:] > 0).astype(narrow)
    store = sf.ingest(iter([X[:100].astype("f8"), rows]), tmp_path / "a")
    np.testing.assert_array_equal(store.X.compute(), np.concatenate([X[:100], rows]))


@pytest.mark.parametrize("first", ["f4", "i4"])
def test_the_error_of_wider_batches_names_the_type_that_holds_all(tmp_path, first):
    rows = [(X[:100] > 0).astype(first), X[100:].astype("f8")]
    with pytest.raises(InvalidDataError, match='begin a store with dtype="float64"'):
        sf.ingest(iter(rows), tmp_path / "a")
    store = sf.ingest(iter(rows), tmp_path / "b", dtype="float64")
    np.testing.assert_array_equal(store.X.compute(), np.concatenate(rows))


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix, sp.csc_array, sp.coo_matrix])
def test_sparse_batches_are_a_sparse_store(tmp_path, kind):
    store = sf.ingest(((kind(X[cut]), y[cut]) for cut in CUTS), tmp_path / "a", chunk_rows=50)
    assert store.is_sparse
    rows = np.concatenate([store.reader.read_chunk(index).X.toarray() for index in range(store.layout.n_chunks)])
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_array_equal(store.y.compute(), y)


@pytest.mark.parametrize("give", [lambda part: part, pl.from_pandas], ids=["pandas", "polars"])
def test_batches_that_are_tables_name_the_columns(tmp_path, give):
    store = sf.ingest(((give(FRAME[cut]), y[cut]) for cut in CUTS), tmp_path / "a", chunk_rows=50)
    assert store.feature_names == ("a", "b", "c")
    np.testing.assert_array_equal(store.X.compute(), X)


def test_what_raises_in_the_middle_goes_on(tmp_path):
    def batches(fail, rows=X):
        yield rows[:120], y[:120]
        if fail:
            raise RuntimeError("the network is gone")
        yield rows[120:], y[120:]

    with pytest.raises(RuntimeError, match="network"):
        sf.ingest(batches(fail=True), tmp_path / "a", chunk_rows=50)
    written = {file: file.stat().st_ino for file in (tmp_path / "a").glob("X/c/*/*")}
    assert len(written) == 2
    store = sf.ingest(batches(fail=False), tmp_path / "a", chunk_rows=50)
    np.testing.assert_array_equal(store.X.compute(), X)
    np.testing.assert_array_equal(store.y.compute(), y)
    assert {file: file.stat().st_ino for file in written} == written
