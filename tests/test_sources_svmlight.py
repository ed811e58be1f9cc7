"""Text files of sparse rows, against scikit-learn's reader of whole files."""

from __future__ import annotations

import bz2
import gzip

import numpy as np
import pytest
from scipy.sparse import random_array, vstack
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

import streamfit as sf
from streamfit.errors import InvalidDataError, InvalidParameterError, SourceNotFoundError


def written(file, X, y, *, zero_based):
    dump_svmlight_file(X, y, str(file), zero_based=zero_based)
    return file


@pytest.fixture(name="X")
def some_rows():
    rows = random_array((1_003, 30), density=0.1, format="lil", rng=np.random.default_rng(0))
    rows[7, 0] = rows[9, 29] = 0.5  # the first and the last column are there
    rows = rows.tocsr()
    rows.data = np.round(rows.data, 3)
    return rows


@pytest.fixture(name="y")
def some_labels():
    return np.where(np.arange(1_003) % 3, 1, -1)


@pytest.mark.parametrize("zero_based", [True, False])
@pytest.mark.parametrize("text_nbytes", [200, 2**22])
def test_rows_and_labels_are_those_of_the_file(tmp_path, monkeypatch, X, y, zero_based, text_nbytes):
    monkeypatch.setattr("streamfit.sources.svmlight._TEXT_NBYTES", text_nbytes)
    file = written(tmp_path / "a.svm", X, y, zero_based=zero_based)
    store = sf.ingest(file, tmp_path / "a.zarr", chunk_rows=100)
    expected, labels = load_svmlight_file(str(file), zero_based=zero_based, n_features=30)
    assert (store.X.compute() != expected).nnz == 0
    assert store.is_sparse
    assert np.array_equal(store.y.compute(), labels)
    assert store.classes.tolist() == [-1, 1]
    assert sf.ingest(file, tmp_path / "a.zarr", chunk_rows=100).digest == store.digest


@pytest.mark.parametrize(("opened", "suffix"), [(gzip.open, ".gz"), (bz2.open, ".bz2")])
def test_compressed_files(tmp_path, X, y, opened, suffix):
    plain = written(tmp_path / "a.libsvm", X, y, zero_based=False)
    packed = tmp_path / f"b.libsvm{suffix}"
    with opened(packed, "wb") as file:
        file.write(plain.read_bytes())
    assert (sf.ingest(packed, tmp_path / "b.zarr").X.compute() != X).nnz == 0


def test_several_files_have_the_columns_of_all(tmp_path, X, y):
    left = X.tolil()
    left[:, 29] = 0
    left = left.tocsr()
    written(tmp_path / "a.svmlight", left[:500], y[:500], zero_based=False)
    written(tmp_path / "b.svmlight", X[500:], y[500:], zero_based=False)
    store = sf.ingest(tmp_path / "*.svmlight", tmp_path / "ab.zarr")
    assert store.n_features == 30
    assert (store.X.compute() != vstack([left[:500], X[500:]]).tocsr()).nnz == 0


def test_other_labels_take_the_place_of_those_in_the_file(tmp_path, X, y):
    file = written(tmp_path / "a.svm", X, y, zero_based=False)
    store = sf.ingest(file, tmp_path / "a.zarr", y=["a", "b"] * 501 + ["c"])
    assert store.classes.tolist() == ["a", "b", "c"]


def test_comments_and_rows_without_values(tmp_path):
    (tmp_path / "a.svm").write_text("# about\n1 2:0.5 4:1 # a comment\n0\n1 1:-3\n")
    store = sf.ingest(tmp_path / "a.svm", tmp_path / "a.zarr")
    assert store.X.compute().toarray().tolist() == [[0, 0.5, 0, 1], [0, 0, 0, 0], [-3, 0, 0, 0]]
    assert store.y.compute().tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 1:2\n0 2:x\n", "Line 2 of a.svm"),
        ("1 1:2\n0 3:1 2:1\n", "Line 2 of a.svm"),
        ("1 1:2\nspam 2:1\n", "Line 2 of a.svm"),
        ("1 1:2\n0 2:", "Line 2 of a.svm"),
        ("", "0 rows"),
        ("1\n0\n", "0 columns"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, text, message):
    (tmp_path / "a.svm").write_text(text)
    with pytest.raises(InvalidDataError, match=message):
        sf.ingest(tmp_path / "a.svm", tmp_path / "a.zarr")
    assert not (tmp_path / "a.zarr").exists()


def test_names_and_missing_files_are_refused(tmp_path, X, y):
    file = written(tmp_path / "a.svm", X, y, zero_based=False)
    with pytest.raises(InvalidParameterError, match="no named columns"):
        sf.ingest(file, tmp_path / "a.zarr", y="label")
    with pytest.raises(SourceNotFoundError):
        sf.ingest(tmp_path / "b.svm", tmp_path / "a.zarr")
    packed = tmp_path / "c.svm.gz"
    packed.write_bytes(gzip.compress(file.read_bytes())[:-20])
    with pytest.raises(InvalidDataError, match=r"c\.svm\.gz"):
        sf.ingest(packed, tmp_path / "a.zarr")
