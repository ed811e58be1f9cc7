"""Transformed rows that are written once: the same bits as at each read, after any interruption."""

from __future__ import annotations

import hashlib

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import streamfit as sf
from streamfit.errors import (
    BudgetError,
    InvalidDataError,
    InvalidParameterError,
    StoreCorruptError,
    StoreExistsError,
    StoreIncompleteError,
)
from streamfit.store import committing

N_ROWS, CHUNK_ROWS = 1_234, 100
X = np.random.default_rng(0).normal(5, 2, (N_ROWS, 4))
Y = np.where(np.arange(N_ROWS) % 3, "ham", "spam")
PIPELINE = make_pipeline(StandardScaler(), PCA(3, svd_solver="full")).fit(X)


@pytest.fixture
def store(tmp_path):
    frame = pd.DataFrame(X, columns=list("abcd"))
    sides = {"y": Y, "sample_weight": np.arange(N_ROWS) + 1.0, "ids": np.arange(N_ROWS)[::-1]}
    return sf.ingest(frame, tmp_path / "raw.zarr", **sides, chunk_rows=CHUNK_ROWS)


def content_of(path):
    return {
        str(file.relative_to(path)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in path.rglob("*")
        if file.is_file() and file.name != "lock"
    }


@pytest.mark.parametrize("chunk_rows", [None, 100, 130, 5_000])
def test_rows_are_those_of_the_lazy_store(store, tmp_path, chunk_rows):
    written = store.transform(PIPELINE, tmp_path / "a.zarr", chunk_rows=chunk_rows)
    lazy = store.transformed(PIPELINE)
    for name in ("X", "y", "sample_weight", "ids"):
        assert getattr(written, name).compute().tobytes() == getattr(lazy, name).compute().tobytes()
    assert written.feature_names == ("pca0", "pca1", "pca2")
    assert written.classes.tolist() == ["ham", "spam"]
    assert written.verify().ok
    assert written.ref.mapping is None
    np.testing.assert_allclose(written.statistics.mean, lazy.statistics.mean, atol=1e-12)


def test_views_and_transformed_stores_are_transformed(store, tmp_path):
    view = store[100:1_000:3]
    written = view.transform(PIPELINE, tmp_path / "a.zarr")
    assert written.X.compute().tobytes() == view.transformed(PIPELINE).X.compute().tobytes()
    assert written.ids.compute().tolist() == np.arange(N_ROWS)[::-1][100:1_000:3].tolist()
    scaler = StandardScaler().fit(X)
    pca = PCA(2).fit(scaler.transform(X))
    twice = store.transformed(scaler).transform(pca, tmp_path / "b.zarr")
    assert twice.X.compute().tobytes() == store.transformed(make_pipeline(scaler, pca)).X.compute().tobytes()


def test_a_store_that_keeps_gaps_may_be_filled(tmp_path):
    values = X.copy()
    values[::7, 1] = np.nan
    store = sf.ingest(values, tmp_path / "raw.zarr", nonfinite="keep", chunk_rows=CHUNK_ROWS)
    filled = store.transform(SimpleImputer().fit(values), tmp_path / "a.zarr")
    assert not filled.n_nonfinite.any()
    np.testing.assert_array_equal(filled.X.compute(), SimpleImputer().fit_transform(values))


class Stopping(TransformerMixin, BaseEstimator):
    """Doubles rows until it shall stop, which is none of its parameters."""

    calls_left = 10**9

    __sklearn_is_fitted__ = staticmethod(lambda: True)

    def transform(self, X):
        Stopping.calls_left -= 1
        if Stopping.calls_left < 0:
            raise RuntimeError("stopped")
        return X * 2


@pytest.mark.parametrize("chunk_rows", [100, 70, 230])
def test_an_interrupted_one_goes_on_to_the_same_bytes(store, tmp_path, monkeypatch, chunk_rows):
    monkeypatch.setattr(committing, "_COMMIT_SECONDS", 0.0)
    target = tmp_path / "a.zarr"
    monkeypatch.setattr(Stopping, "calls_left", 10**9)
    store.transform(Stopping(), tmp_path / "whole.zarr", chunk_rows=chunk_rows)
    for calls_left in (4, 6, 5):
        monkeypatch.setattr(Stopping, "calls_left", calls_left)
        with pytest.raises(RuntimeError, match="stopped"):
            store.transform(Stopping(), target, chunk_rows=chunk_rows)
        with pytest.raises(StoreIncompleteError):
            sf.open_store(target)
    # One for the probe: the others are the chunks that are left.
    monkeypatch.setattr(Stopping, "calls_left", 1 + 4)
    store.transform(Stopping(), target, chunk_rows=chunk_rows)
    assert content_of(target) == content_of(tmp_path / "whole.zarr")


def test_a_complete_one_is_known_again(store, tmp_path, monkeypatch):
    monkeypatch.setattr(Stopping, "calls_left", 10**9)
    store.transform(Stopping(), tmp_path / "a.zarr")
    before = content_of(tmp_path / "a.zarr")
    monkeypatch.setattr(Stopping, "calls_left", 1)  # the probe
    store.transform(Stopping(), tmp_path / "a.zarr")
    assert content_of(tmp_path / "a.zarr") == before


def test_other_rows_or_transformers_are_refused_or_written_over(store, tmp_path):
    target = tmp_path / "a.zarr"
    store.transform(PIPELINE, target)
    other = make_pipeline(StandardScaler(), PCA(3, svd_solver="full")).fit(X * [1, 2, 3, 4])
    for again in (lambda: store.transform(other, target), lambda: store[1:].transform(PIPELINE, target)):
        with pytest.raises(StoreExistsError):
            again()
    with pytest.raises(StoreExistsError):
        store.transform(PIPELINE, target, if_exists="error")
    written = store.transform(other, target, if_exists="overwrite")
    assert written.X.compute().tobytes() == store.transformed(other).X.compute().tobytes()


def test_refusals(store, tmp_path):
    target = tmp_path / "a.zarr"
    for path in (store.path, f"{store.path}/inside.zarr", tmp_path):
        with pytest.raises(StoreExistsError):
            store.transform(PIPELINE, path)
    with pytest.raises(InvalidParameterError, match="not fitted"):
        store.transform(StandardScaler(), target)
    with pytest.raises(InvalidParameterError, match="chunk_rows"):
        store.transform(PIPELINE, target, chunk_rows=0)
    with pytest.raises(InvalidParameterError, match="if_exists"):
        store.transform(PIPELINE, target, if_exists="maybe")
    with pytest.raises(BudgetError, match="2 chunks that are transformed"):
        store.transform(PolynomialFeatures(3).fit(X), target, memory_limit="1MB")
    with pytest.raises(InvalidDataError, match="refuses the first row"):
        store.transform(StandardScaler().fit(X[:, :2]), target)
    assert not target.exists()


def test_damage_below_is_refused_however_the_store_was_opened(store, tmp_path):
    file = store.manifest.arrays["X"].chunk_file(tmp_path / "raw.zarr", 3)
    content = bytearray(file.read_bytes())
    content[-9] ^= 4
    file.write_bytes(content)
    trusting = sf.open_store(store.path, verify="never")
    with pytest.raises(StoreCorruptError):
        trusting.transform(PIPELINE, tmp_path / "a.zarr")
