"""``dask_ml.preprocessing`` and splitting, as they are, on the lazy arrays of a store."""

from __future__ import annotations

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask_ml import preprocessing as dask_preprocessing
from dask_ml.model_selection import train_test_split
from sklearn import preprocessing
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import make_pipeline

import streamfit as sf
from streamfit.errors import UnsupportedError


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(3_000, 4)) * [1, 5, 0.1, 2] + [0, 3, 0, 1]
    return X, (X[:, 0] + 0.1 * X[:, 1] > 0).astype(int)


@pytest.fixture(scope="module")
def store(tmp_path_factory, data):
    X, y = data
    return sf.ingest(X, tmp_path_factory.mktemp("dask_ml") / "store", y=y, chunk_rows=300)


def in_blocks(store):
    """The rows in several blocks, as they are where a store is large."""
    return store.X.rechunk((700, -1))


EXACT = [
    ("StandardScaler", {}, ("mean_", "var_", "scale_")),
    ("StandardScaler", {"with_mean": False}, ("var_", "scale_")),
    ("MinMaxScaler", {}, ("data_min_", "data_max_", "scale_", "min_")),
    ("PolynomialFeatures", {"degree": 2}, ("powers_",)),
]
# Quantiles of blocks are merged by interpolation: of several blocks they are approximate.
APPROXIMATE = [("RobustScaler", {}, ("center_", "scale_")), ("QuantileTransformer", {"n_quantiles": 50}, ())]


@pytest.mark.parametrize(("name", "options", "learnt"), EXACT, ids=str)
def test_transformers_that_are_exact(store, data, name, options, learnt):
    X, _ = data
    ours = getattr(dask_preprocessing, name)(**options).fit(in_blocks(store))
    theirs = getattr(preprocessing, name)(**options).fit(X)
    for attribute in learnt:
        np.testing.assert_allclose(getattr(ours, attribute), getattr(theirs, attribute), rtol=1e-9)
    np.testing.assert_allclose(ours.transform(in_blocks(store)).compute(), theirs.transform(X), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("name", "options", "learnt"), APPROXIMATE, ids=str)
@pytest.mark.parametrize(("rows", "tolerance"), [("one block", 1e-9), ("blocks", 0.1)])
def test_transformers_that_are_exact_in_one_block_and_near_in_several(
    store, data, name, options, learnt, rows, tolerance
):
    X, _ = data
    lazy = store.X if rows == "one block" else in_blocks(store)
    ours = getattr(dask_preprocessing, name)(**options).fit(lazy)
    theirs = getattr(preprocessing, name)(**options).fit(X)
    for attribute in learnt:
        np.testing.assert_allclose(getattr(ours, attribute), getattr(theirs, attribute), rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(ours.transform(lazy).compute(), theirs.transform(X), rtol=tolerance, atol=tolerance)


@pytest.fixture(scope="module")
def codes(tmp_path_factory):
    values = np.random.default_rng(0).integers(0, 4, size=(500, 2))
    return values, sf.ingest(values, tmp_path_factory.mktemp("codes") / "store", chunk_rows=100)


def categories_of(store):
    known = pd.CategoricalDtype(range(4))
    return dd.from_dask_array(store.X.rechunk((200, -1)), columns=["a", "b"]).astype({"a": known, "b": known})


def test_encoders_of_a_table_made_of_a_store(codes):
    values, store = codes
    one_hot = preprocessing.OneHotEncoder(sparse_output=False).fit_transform(values)
    table = categories_of(store)
    encoder = dask_preprocessing.OneHotEncoder(sparse_output=False).fit(table)
    np.testing.assert_array_equal(encoder.transform(table).compute(), one_hot)
    lazy = store.X.rechunk((200, -1))
    encoder = dask_preprocessing.OneHotEncoder(sparse_output=False).fit(lazy)
    np.testing.assert_array_equal(encoder.transform(lazy).compute(), one_hot)
    np.testing.assert_array_equal(dask_preprocessing.OrdinalEncoder().fit_transform(table).compute(), values)


def test_a_split_of_lazy_rows_and_labels(store, data):
    X, y = data
    # Without shuffle=True it warns of several blocks.
    parts = train_test_split(in_blocks(store), store.y.rechunk(700), test_size=0.25, random_state=0, shuffle=True)
    train, test, y_train, y_test = (part.compute() for part in parts)
    assert (len(train), len(test)) == (len(y_train), len(y_test))
    assert len(test) == pytest.approx(750, abs=4)
    order = np.argsort(np.concatenate([train, test])[:, 0])
    np.testing.assert_array_equal(np.concatenate([train, test])[order], X[np.argsort(X[:, 0])])
    np.testing.assert_array_equal(np.concatenate([y_train, y_test])[order], y[np.argsort(X[:, 0])])


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("StandardScaler", {}),
        ("MinMaxScaler", {}),
        ("RobustScaler", {}),
        ("QuantileTransformer", {"n_quantiles": 50}),
    ],
)
def test_one_that_is_fitted_stands_in_a_pipeline(store, data, tmp_path, name, options):
    X, _ = data
    fitted = getattr(dask_preprocessing, name)(**options).fit(store.X)
    trainer = sf.StreamTrainer(
        make_pipeline(fitted, SGDClassifier(random_state=0)), batch_size=500, checkpoint=tmp_path / "run"
    ).fit(store)
    assert [method.method for method in trainer.transformer_methods_] == ["kept"]
    kept = trainer.estimator_[0]
    assert type(kept) is getattr(preprocessing, name)
    expected = fitted.transform(store.X).compute()
    np.testing.assert_allclose(kept.transform(X.copy()), expected, rtol=1e-12, atol=1e-12)
    # dask-ml's own would write into the rows.
    before = X.copy()
    np.testing.assert_array_equal(trainer.predict(X), trainer.predict(store).compute())
    np.testing.assert_array_equal(X, before)


def test_one_that_is_no_scaler_is_kept_as_it_is(store, data):
    X, _ = data
    fitted = dask_preprocessing.PolynomialFeatures(2).fit(store.X)
    trainer = sf.StreamTrainer(make_pipeline(fitted, SGDClassifier(random_state=0)), batch_size=500).fit(store)
    assert type(trainer.estimator_[0]) is dask_preprocessing.PolynomialFeatures
    np.testing.assert_array_equal(trainer.predict(X), trainer.predict(store).compute())


def test_one_that_is_not_fitted_is_refused(store):
    pipeline = make_pipeline(dask_preprocessing.StandardScaler(), SGDClassifier())
    with pytest.raises(UnsupportedError, match="Fit it beforehand"):
        sf.StreamTrainer(pipeline).fit(store)
