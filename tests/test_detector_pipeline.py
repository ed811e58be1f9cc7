"""StreamDetector with a pipeline: PyOD on what scikit-learn transforms in memory is the oracle."""

from __future__ import annotations

import copy
import pickle

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from pyod.models.ecod import ECOD
from pyod.models.hbos import HBOS
from pyod.models.iforest import IForest
from pyod.models.knn import KNN
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, Normalizer, StandardScaler

import streamfit as sf
from streamfit.errors import BudgetError, InvalidDataError, InvalidParameterError, StoreExistsError, UnsupportedError

N_ROWS, CHUNK_ROWS = 640, 100
X = np.random.default_rng(0).normal(3, 2, (N_ROWS, 5))
NEW = np.random.default_rng(1).normal(3, 2, (70, 5))


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return sf.ingest(X, tmp_path_factory.mktemp("detector") / "a.zarr", chunk_rows=CHUNK_ROWS)


def by_chunks(transformer, values):
    parts = [values[start : start + CHUNK_ROWS] for start in range(0, len(values), CHUNK_ROWS)]
    return np.concatenate([transformer.transform(part) for part in parts])


DETECTORS = {
    "hbos": lambda: HBOS(contamination=0.07),
    "knn": lambda: KNN(n_neighbors=4),
    "iforest": lambda: IForest(random_state=3, n_estimators=20),
}


@pytest.mark.parametrize("name", DETECTORS)
class TestEveryDetector:
    def test_it_is_the_detector_on_transformed_rows(self, store, name):
        fitted = sf.StreamDetector(make_pipeline(StandardScaler(), PCA(3).fit(X), DETECTORS[name]())).fit(store)
        inner = Pipeline(fitted.transformers_)
        straight = DETECTORS[name]().fit(by_chunks(inner, X))
        scores = fitted.decision_scores_.compute()
        if name == "knn":
            np.testing.assert_allclose(scores, straight.decision_scores_, rtol=1e-6)
        else:
            assert scores.tobytes() == straight.decision_scores_.tobytes()
            assert fitted.threshold_ == straight.threshold_
            np.testing.assert_array_equal(fitted.labels_.compute(), straight.labels_)
            assert fitted.decision_function(NEW).tobytes() == straight.decision_function(inner.transform(NEW)).tobytes()

    def test_it_is_equal_to_the_pipeline_in_memory(self, store, name):
        pipeline = make_pipeline(StandardScaler(), DETECTORS[name]())
        fitted, straight = sf.StreamDetector(pipeline).fit(store), clone(pipeline).fit(X)
        np.testing.assert_allclose(
            fitted.decision_scores_.compute(), straight[-1].decision_scores_, rtol=1e-6, atol=1e-9
        )
        np.testing.assert_allclose(fitted.decision_function(NEW), straight.decision_function(NEW), rtol=1e-6, atol=1e-9)
        np.testing.assert_array_equal(fitted.predict(NEW), straight.predict(NEW))
        np.testing.assert_allclose(fitted.predict_proba(NEW), straight.predict_proba(NEW), rtol=1e-6, atol=1e-9)
        assert (fitted.detector_ is None) == (name == "knn")
        if fitted.detector_ is not None:
            assert [step for step, _ in fitted.detector_.steps] == ["standardscaler", name]
            np.testing.assert_array_equal(fitted.detector_.decision_function(NEW), fitted.decision_function(NEW))

    @pytest.mark.parametrize("cache", [True, "path"])
    def test_a_cache_changes_no_bit(self, store, name, cache, tmp_path):
        pipeline = make_pipeline(StandardScaler(), PCA(3).fit(X), DETECTORS[name]())
        folder = True if cache is True else tmp_path / "cache.zarr"
        plain = sf.StreamDetector(pipeline).fit(store)
        for _ in range(2):
            cached = sf.StreamDetector(pipeline, cache=folder).fit(store)
            assert cached.decision_scores_.compute().tobytes() == plain.decision_scores_.compute().tobytes()
            assert cached.threshold_ == plain.threshold_
            assert cached.decision_function(NEW).tobytes() == plain.decision_function(NEW).tobytes()
        assert cache is True or sf.open_store(folder).shape == (N_ROWS, 3)


@pytest.fixture(scope="module")
def fitted(store):
    return sf.StreamDetector(make_pipeline(StandardScaler(), Normalizer(), HBOS())).fit(store)


def test_new_rows_may_come_in_any_form(store, fitted, tmp_path):
    wanted = fitted.decision_function(NEW)
    new = sf.ingest(NEW, tmp_path / "new.zarr", chunk_rows=17)
    for given in (
        new,
        new.path,
        da.from_array(NEW, chunks=(30, 3)),
        pd.DataFrame(NEW),
        NEW.tolist(),
        np.asfortranarray(NEW),
    ):
        np.testing.assert_array_equal(np.asarray(fitted.decision_function(given)), wanted)
    assert fitted.decision_function(store).compute().tobytes() == fitted.decision_scores_.compute().tobytes()


def test_the_rows_of_the_caller_stay_as_they_are():
    pipeline = make_pipeline(StandardScaler(copy=False), HBOS())
    values = X.copy()
    fitted = sf.StreamDetector(pipeline).fit(values)
    fitted.predict(values)
    np.testing.assert_array_equal(values, X)


def test_what_was_fitted_is_told(fitted):
    assert [name for name, _ in fitted.transformers_] == ["standardscaler", "normalizer"]
    assert [method.transformer for method in fitted.transformer_methods_] == ["StandardScaler", "Normalizer"]
    np.testing.assert_allclose(fitted.transformers_[0][1].mean_, X.mean(axis=0))
    assert fitted.n_features_in_ == 5
    plain = sf.StreamDetector(HBOS()).fit(X)
    assert (plain.transformers_, plain.transformer_methods_) == ([], ())


def test_the_pipeline_of_the_user_is_not_changed(store):
    pipeline = make_pipeline(StandardScaler(), HBOS())
    detector = sf.StreamDetector(pipeline).fit(store)
    assert detector.detector is pipeline
    assert not hasattr(pipeline[0], "mean_")
    assert not hasattr(pipeline[1], "threshold_")


def test_parameters_are_reached_by_name(store):
    detector = clone(sf.StreamDetector(make_pipeline(StandardScaler(), HBOS()), cache=True))
    assert (detector.get_params()["detector__hbos__n_bins"], detector.cache) == (10, True)
    detector.set_params(detector__hbos__n_bins=4, detector__standardscaler__with_std=False, cache=None)
    wanted = make_pipeline(StandardScaler(with_std=False), HBOS(n_bins=4)).fit(X)[-1].decision_scores_
    np.testing.assert_allclose(detector.fit(store).decision_scores_.compute(), wanted)


def test_copies_and_pickles_score_alike(store, fitted, tmp_path):
    kept = sf.StreamDetector(fitted.detector, scratch=tmp_path).fit(store)
    for other in (copy.deepcopy(fitted), pickle.loads(pickle.dumps(kept))):
        np.testing.assert_array_equal(other.decision_function(NEW), fitted.decision_function(NEW))


def test_pipelines_within_and_without_transformers(store):
    inner = make_pipeline(StandardScaler(), make_pipeline("passthrough", Normalizer(), HBOS()))
    flat = make_pipeline(StandardScaler(), Normalizer(), HBOS())
    one, other = (sf.StreamDetector(pipeline).fit(store) for pipeline in (inner, flat))
    np.testing.assert_array_equal(one.decision_scores_.compute(), other.decision_scores_.compute())
    alone = sf.StreamDetector(make_pipeline(HBOS()), cache=True).fit(store)
    assert isinstance(alone.detector_, Pipeline)
    np.testing.assert_array_equal(alone.decision_scores_.compute(), HBOS().fit(X).decision_scores_)


def test_gaps_are_filled_by_the_pipeline_and_refused_without(tmp_path):
    values = X.copy()
    values[::9, 2] = np.nan
    pipeline = make_pipeline(SimpleImputer(), HBOS())
    straight = make_pipeline(SimpleImputer(), HBOS()).fit(values)
    store = sf.ingest(values, tmp_path / "a.zarr", nonfinite="keep", chunk_rows=CHUNK_ROWS)
    for source in (values, store):
        fitted = sf.StreamDetector(pipeline).fit(source)
        np.testing.assert_allclose(np.asarray(fitted.decision_scores_), straight[-1].decision_scores_)
        np.testing.assert_allclose(np.asarray(fitted.decision_function(source)), straight.decision_function(values))
    for left in (StandardScaler(), FunctionTransformer()):
        with pytest.raises(InvalidDataError, match="finite"):
            sf.StreamDetector(make_pipeline(left, HBOS())).fit(store)


def test_transformed_stores_are_transformed_further(store):
    scaler = StandardScaler().fit(X)
    scaled = store.transformed(scaler)
    one = sf.StreamDetector(make_pipeline(Normalizer(), HBOS())).fit(scaled)
    other = sf.StreamDetector(make_pipeline(scaler, Normalizer(), HBOS())).fit(store)
    np.testing.assert_allclose(one.decision_scores_.compute(), other.decision_scores_.compute(), rtol=1e-9)
    np.testing.assert_array_equal(one.decision_function(scaled).compute(), one.decision_scores_.compute())
    # The scaler was fitted anew, exactly: its last bits are others.
    np.testing.assert_allclose(one.decision_function(scaler.transform(NEW)), other.decision_function(NEW), rtol=1e-9)


def test_transformers_of_tables_find_their_columns(tmp_path):
    frame = pd.DataFrame(X, columns=list("abcde"))
    pca = PCA(2).fit(frame[list("edcba")])
    store = sf.ingest(frame, tmp_path / "a.zarr", chunk_rows=CHUNK_ROWS)
    fitted = sf.StreamDetector(make_pipeline(pca, HBOS())).fit(store)
    straight = HBOS().fit(pca.transform(frame[list("edcba")]))
    np.testing.assert_allclose(fitted.decision_scores_.compute(), straight.decision_scores_)
    new = pd.DataFrame(NEW, columns=list("abcde"))
    wanted = straight.decision_function(pca.transform(new[list("edcba")]))
    for order in ("abcde", "edcba", "cabde"):
        np.testing.assert_allclose(fitted.decision_function(new[list(order)]), wanted)


def test_the_method_is_that_of_the_last_step(store):
    exact = sf.StreamDetector(make_pipeline(StandardScaler(), HBOS()), method=sf.Exact()).fit(store)
    assert exact.method_.name == "exact"
    together = sf.StreamDetector(make_pipeline(StandardScaler(), ECOD())).fit(store)
    assert together.method_.name == "in_memory"
    with pytest.raises(UnsupportedError, match="ECOD scores rows among each other"):
        together.decision_function(NEW)
    with pytest.raises(UnsupportedError, match="IForest cannot be fitted exactly"):
        sf.StreamDetector(make_pipeline(StandardScaler(), IForest()), method=sf.Exact()).fit(store)


def test_batch_wise_members_see_transformed_rows(store):
    scaler, method = StandardScaler().fit(X), sf.BatchWise(batch_size=200)
    kept = FrozenEstimator(scaler)
    fitted = sf.StreamDetector(make_pipeline(kept, IForest(random_state=1)), method=method).fit(store)
    straight = sf.StreamDetector(IForest(random_state=1), method=method).fit(store.transformed(scaler))
    assert fitted.method_.name == straight.method_.name == "batch_wise"
    np.testing.assert_array_equal(fitted.decision_scores_.compute(), straight.decision_scores_.compute())
    np.testing.assert_array_equal(fitted.decision_function(NEW), straight.decision_function(scaler.transform(NEW)))


@pytest.mark.parametrize("detector", [HBOS(n_bins=7), KNN(n_neighbors=3, method="mean")], ids=["hbos", "knn"])
@pytest.mark.parametrize("before", [[StandardScaler(), PCA(2)], [PCA(3, whiten=True)], [MinMaxScaler()]], ids=len)
def test_transformers_are_fitted_as_in_memory(store, before, detector):
    pipeline = make_pipeline(*before, detector)
    frame = pd.DataFrame(X, columns=list("vwxyz"))
    straight = clone(pipeline).fit(X)
    for rows, new in ((store, NEW), (frame, pd.DataFrame(NEW, columns=list("vwxyz"))[list("zxvwy")])):
        fitted = sf.StreamDetector(pipeline, memory_limit="300MB").fit(rows)
        assert {method.method for method in fitted.transformer_methods_} == {"exact"}
        assert isinstance(fitted.decision_scores_, np.ndarray) == (rows is frame)
        np.testing.assert_allclose(np.asarray(fitted.decision_scores_), straight[-1].decision_scores_, rtol=1e-6)
        np.testing.assert_allclose(fitted.decision_function(new), straight.decision_function(NEW), rtol=1e-6)
        np.testing.assert_array_equal(fitted.predict(new), straight.predict(NEW))


def test_the_limit_covers_the_transformers(store):
    pipeline = make_pipeline(StandardScaler(), PCA(2), HBOS())
    with pytest.raises(BudgetError, match="memory_limit"):
        sf.StreamDetector(pipeline, memory_limit="1MB").fit(store)


@pytest.mark.parametrize(
    "detector", [make_pipeline(StandardScaler(), PCA()), make_pipeline(HBOS(), SGDClassifier()), StandardScaler(), HBOS]
)
def test_what_is_no_detector_is_refused(store, detector):
    with pytest.raises(InvalidParameterError, match="a pipeline that ends in one"):
        sf.StreamDetector(detector).fit(store)


def test_what_cannot_be_fitted_is_refused(store):
    with pytest.raises(UnsupportedError, match="SelectKBest"):
        sf.StreamDetector(make_pipeline(SelectKBest(), HBOS())).fit(store)


@pytest.mark.parametrize("method", ["auto", sf.BatchWise(batch_size=200)], ids=["auto", "batch-wise"])
@pytest.mark.parametrize("name", DETECTORS)
def test_cached_rows_stay_on_scratch_only_where_they_are_read(store, tmp_path, name, method):
    pipeline = make_pipeline(StandardScaler(), DETECTORS[name]())
    fitted = sf.StreamDetector(pipeline, method=method, cache=True, scratch=tmp_path).fit(store)
    assert len(list(tmp_path.glob("*/cache-*"))) == (name == "knn" and method == "auto")
    straight = sf.StreamDetector(pipeline, method=method).fit(store)
    np.testing.assert_array_equal(fitted.decision_scores_.compute(), straight.decision_scores_.compute())
    np.testing.assert_array_equal(fitted.decision_function(NEW), straight.decision_function(NEW))


def test_a_cache_of_other_rows_is_refused(store, tmp_path):
    sf.StreamDetector(make_pipeline(StandardScaler(), HBOS()), cache=tmp_path / "c").fit(store)
    for again in (
        lambda: sf.StreamDetector(make_pipeline(StandardScaler(with_std=False), HBOS()), cache=tmp_path / "c").fit(
            store
        ),
        lambda: sf.StreamDetector(make_pipeline(StandardScaler(), HBOS()), cache=tmp_path / "c").fit(store[1:]),
    ):
        with pytest.raises(StoreExistsError, match="does not hold these rows"):
            again()
    for cache in (3, ["c"], 0.5):
        with pytest.raises(InvalidParameterError, match="cache must be"):
            sf.StreamDetector(HBOS(), cache=cache).fit(store)
