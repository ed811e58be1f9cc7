"""Transformers over sparse stores, and those that make sparse rows of dense ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pyod.models.hbos import HBOS
from scipy.sparse import csr_array, random_array
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder, StandardScaler
from sklearn.random_projection import SparseRandomProjection

import streamfit as sf
from streamfit.errors import InvalidDataError, StoreCorruptError


@pytest.fixture(scope="module", name="X")
def rows():
    return random_array((1_003, 300), density=0.05, format="csr", rng=np.random.default_rng(0))


@pytest.fixture(name="store")
def stored(tmp_path, X):
    return sf.ingest(X, tmp_path / "a.zarr", y=np.arange(1_003) % 2, ids=np.arange(1_003), chunk_rows=100)


def same(found, expected):
    return (found != expected).nnz == 0


def test_rows_that_are_transformed_at_each_read_are_those_of_memory(store, X):
    tfidf = TfidfTransformer().fit(X)
    expected = tfidf.transform(X)
    lazy = store.transformed(tfidf)
    assert lazy.is_sparse
    assert lazy.shape == X.shape
    assert same(lazy.X.compute(), expected)
    assert same(lazy.take([700, 3]), expected[[700, 3]])
    assert same(lazy[5:300:3].X.compute(), expected[5:300:3])
    for batch in lazy.stream(lazy.plan(batch_size=64)):
        assert same(batch.X, expected[batch.rows])
    assert same(lazy.transformed(MaxAbsScaler().fit(expected)).X.compute(), MaxAbsScaler().fit_transform(expected))
    np.testing.assert_allclose(lazy.statistics.mean, expected.toarray().mean(axis=0), rtol=1e-12)


def test_rows_that_are_transformed_once_are_stored_with_their_labels(tmp_path, store, X):
    tfidf = TfidfTransformer().fit(X)
    written = store.transform(tfidf, tmp_path / "t.zarr", chunk_rows=70)
    assert written.is_sparse
    assert same(written.X.compute(), tfidf.transform(X))
    assert written.ids.compute().tolist() == list(range(1_003))
    assert written.verify().ok
    stamp = Path(written.path, "streamfit/manifest.json").stat().st_mtime_ns
    assert store.transform(tfidf, tmp_path / "t.zarr", chunk_rows=70).digest == written.digest
    assert Path(written.path, "streamfit/manifest.json").stat().st_mtime_ns == stamp


def test_one_hot_rows_of_a_dense_store_are_sparse(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 50, (2_003, 3))
    encoder = OneHotEncoder(handle_unknown="ignore").fit(X)
    store = sf.ingest(X, tmp_path / "a.zarr", y=(X[:, 0] > 25).astype(int), chunk_rows=300)
    lazy = store.transformed(encoder)
    assert lazy.is_sparse
    assert same(lazy.X.compute(), encoder.transform(X))
    assert lazy.feature_names is None or len(lazy.feature_names) == lazy.n_features
    assert lazy.layout.nbytes == pytest.approx(2_003 * (3 * 12 + 4), rel=0.01)
    trainer = sf.StreamTrainer(make_pipeline(encoder, SGDClassifier(random_state=0)), batch_size=100, epochs=3)
    plain = trainer.fit(store).estimator_[-1].coef_
    trainer.set_params(cache=True)
    assert np.array_equal(trainer.fit(store).estimator_[-1].coef_, plain)
    assert trainer.score(store) > 0.99


def test_more_values_than_the_first_rows_promise(tmp_path):
    dense = np.zeros((2_000, 40))
    dense[300:] = np.random.default_rng(0).random((1_700, 40))
    store = sf.ingest(csr_array(dense), tmp_path / "a.zarr", chunk_rows=100)
    scaler = MaxAbsScaler().fit(dense)
    lazy = store.transformed(scaler)
    for batch in lazy.stream(lazy.plan(batch_size=500)):
        assert same(batch.X, scaler.transform(csr_array(dense[batch.rows])))


def test_pipelines_fit_their_transformers_exactly(store, X):
    pipeline = make_pipeline(TfidfTransformer(), StandardScaler(with_mean=False), SGDClassifier(random_state=0))
    fitted = sf.StreamTrainer(pipeline, batch_size=100).fit(store).estimator_
    expected = TfidfTransformer().fit(X)
    np.testing.assert_array_equal(fitted[0].idf_, expected.idf_)
    scaler = StandardScaler(with_mean=False).fit(expected.transform(X))
    np.testing.assert_allclose(fitted[1].var_, scaler.var_, rtol=1e-10)
    np.testing.assert_allclose(fitted[1].scale_, scaler.scale_, rtol=1e-10)
    with pytest.raises(InvalidDataError, match=r"with_mean=False"):
        sf.StreamTrainer(make_pipeline(StandardScaler(), SGDClassifier())).fit(store)


def test_detectors_take_what_a_projection_makes_dense(store, X):
    projection = SparseRandomProjection(10, dense_output=True, random_state=0)
    detector = sf.StreamDetector(make_pipeline(projection, HBOS())).fit(store)
    expected = HBOS().fit(projection.fit(X).transform(X))
    scores = detector.decision_scores_.compute()
    np.testing.assert_allclose(scores, expected.decision_scores_, rtol=1e-6)
    np.testing.assert_array_equal(detector.decision_function(X[:30]), detector.decision_function(store).compute()[:30])
    dense = sf.StreamDetector(HBOS()).fit(np.random.default_rng(0).random((50, 300)))
    with pytest.raises(InvalidDataError, match="sparse"):
        dense.decision_function(X[:3])


class Broken(TransformerMixin, BaseEstimator):
    """Makes of one value what no estimator takes."""

    def __sklearn_is_fitted__(self):
        return True

    def transform(self, X):
        X = X.copy()
        X.data[X.data > 0.9999] = np.nan
        return X


def test_values_that_are_not_finite_are_named(store, X):
    place = int(np.argmax(X.data > 0.9999))
    row = int(np.searchsorted(X.indptr, place, side="right")) - 1
    with pytest.raises(InvalidDataError, match=rf"nan in row {row}, column '{X.indices[place]}'") as error:
        store.transformed(Broken()).X.compute()
    assert error.value.row == row


def test_damage_below_is_met(store):
    lazy = store.transformed(MaxAbsScaler().fit(store.X.compute()))
    Path(store.path, "X/3/data/c/0").unlink()
    for read in (
        lazy.X.compute,
        lambda: lazy.take([310]),
        lambda: list(lazy.stream(lazy.plan(batch_size=50))),
    ):
        with pytest.raises(StoreCorruptError, match="Chunk 3 of X"):
            read()
