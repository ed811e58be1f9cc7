"""``sf.predict``: models that were fitted in memory, over rows that are not."""

from __future__ import annotations

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from pyod.models.copod import COPOD
from pyod.models.hbos import HBOS
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import streamfit as sf
from streamfit.errors import InvalidDataError, InvalidParameterError, UnsupportedError

NAMES = ["a", "b", "c"]


@pytest.fixture(scope="module")
def data():
    X = np.random.default_rng(4).normal(size=(500, 3))
    return X, np.where(X[:, 0] > 0, "up", "down")


@pytest.fixture(scope="module")
def store(tmp_path_factory, data):
    frame = pd.DataFrame(data[0], columns=NAMES)
    return sf.ingest(frame, tmp_path_factory.mktemp("prediction") / "store", y=data[1], chunk_rows=70)


@pytest.mark.parametrize(
    ("model", "method"),
    [
        (RandomForestClassifier(5, random_state=0), "predict"),
        (LogisticRegression(), "predict_log_proba"),
        (make_pipeline(StandardScaler(), LogisticRegression()), "predict_proba"),
        (make_pipeline(StandardScaler(), LogisticRegression()), "decision_function"),
        (PCA(2), "transform"),
        (GaussianMixture(2, random_state=0), "score_samples"),
        (HBOS(), "decision_function"),
        (RandomForestClassifier(5, random_state=0), "apply"),
    ],
    ids=str,
)
def test_what_memory_gives_whatever_holds_the_rows(store, data, model, method):
    X, y = data
    fitted = model.fit(X) if isinstance(model, HBOS | PCA | GaussianMixture) else model.fit(X, y)
    expected = getattr(fitted, method)(X)
    held = {
        "store": store,
        "path": store.path,
        "array": da.from_array(X, chunks=(120, 2)),
        "frame": dd.from_pandas(pd.DataFrame(X, columns=NAMES), npartitions=3),
    }
    for kind, rows in held.items():
        lazy = sf.predict(fitted, rows, method=method)
        assert isinstance(lazy, da.Array), kind
        assert lazy.dtype == expected.dtype
        got = lazy.compute()
        if expected.dtype.kind == "f":  # BLAS adds blocks of rows in another order
            np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)
        else:
            np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(sf.predict(fitted, X, method=method), expected)


def test_nothing_runs_before_it_is_computed(data):
    model = LogisticRegression().fit(*data)
    asked = []

    def block(rows):
        asked.append(len(rows))
        return rows

    rows = da.from_array(data[0], chunks=(100, 3)).map_blocks(block, meta=np.empty((0, 3)))
    lazy = sf.predict(model, rows)
    assert asked == []
    lazy.blocks[2].compute()
    assert asked == [100]


def test_columns_are_found_by_name(store, data):
    X, y = data
    model = LogisticRegression().fit(pd.DataFrame(X, columns=NAMES)[["c", "a", "b"]], y)
    expected = model.decision_function(pd.DataFrame(X, columns=NAMES)[["c", "a", "b"]])
    for rows in (store, dd.from_pandas(pd.DataFrame(X, columns=NAMES), npartitions=2)):
        np.testing.assert_allclose(sf.predict(model, rows, method="decision_function").compute(), expected, rtol=1e-9)
    with pytest.raises(InvalidDataError, match="d"):
        sf.predict(model, pd.DataFrame(X, columns=["a", "b", "d"]))


def test_trainers_and_detectors_answer_as_they_do_themselves(store):
    trainer = sf.StreamTrainer(SGDClassifier(), batch_size=100).fit(store)
    np.testing.assert_array_equal(
        sf.predict(trainer, store, method="decision_function").compute(), trainer.decision_function(store).compute()
    )
    detector = sf.StreamDetector(HBOS()).fit(store)
    np.testing.assert_array_equal(
        sf.predict(detector, store, method="decision_function").compute(), detector.decision_function(store).compute()
    )


def test_what_cannot_be_asked_is_refused(store, data):
    X, y = data
    for model in (LogisticRegression(), HBOS()):
        with pytest.raises(NotFittedError):
            sf.predict(model, store)
    with pytest.raises(UnsupportedError, match=r"SVC gives no predict_proba: .*probability"):
        sf.predict(SVC().fit(X, y), store, method="predict_proba")
    with pytest.raises(UnsupportedError, match="Ridge gives no predict_proba"):
        sf.predict(Ridge().fit(X, y == "up"), X, method="predict_proba")
    with pytest.raises(InvalidParameterError, match="method must be the name of a method"):
        sf.predict(Ridge().fit(X, y == "up"), X, method=3)
    with pytest.raises(InvalidDataError, match="has 3 features and the model was fitted on 2"):
        sf.predict(LogisticRegression().fit(X[:, :2], y), store)
    with pytest.raises(InvalidDataError, match=r"LogisticRegression\.predict refuses X"):
        sf.predict(LogisticRegression().fit(X[:, :2], y), X)
    with pytest.raises(UnsupportedError, match="sparse matrix"):
        sf.predict(TfidfTransformer().fit(np.abs(X)), store.X.clip(0), method="transform")
    with pytest.raises(UnsupportedError, match="COPOD scores rows by those around them"):
        sf.predict(COPOD().fit(X), store, method="decision_function")
    np.testing.assert_allclose(
        sf.predict(COPOD().fit(X), X, method="decision_function"), COPOD().fit(X).decision_function(X)
    )


def test_a_method_that_gives_no_row_a_row_is_refused(store, data):
    neighbors = NearestNeighbors(n_neighbors=2).fit(data[0])
    with pytest.raises(UnsupportedError, match="gives no value, or row of values, for each row"):
        sf.predict(neighbors, store, method="kneighbors")
